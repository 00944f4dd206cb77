// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: bacth name_unknown.cpp:@here
// of: the compiler
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x - max(x, bacth); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
