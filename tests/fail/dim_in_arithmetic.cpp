// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "has no number" dim_as_number dim_in_arithmetic.cpp:@here
// fix: The extent of a dim is `count(x, batch)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x * (batch * 2); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);

int main() {}
