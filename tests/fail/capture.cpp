// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a function must not capture" captures capture.cpp:@here
// fix: Pass the number as an argument: `[](auto x, auto rate) { return rate * x; }`. Constants of C++ at namespace scope need no capture.
#include "names.hpp"

using namespace fail_test;

void step(float rate) {
  cleave::function f([rate](auto x) { return rate * x; });
  constexpr auto plan = cleave::plan<X(X)>(f); // here
}

int main() {}
