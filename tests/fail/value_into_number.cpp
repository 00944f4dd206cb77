// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: value float value_into_number.cpp:@here
// of: the compiler
// errors-clang: 2 the second says that the function is not constexpr
// lines-clang: 43 of both
// fix: Write `auto s = sum(x)`: a value has no number until the plan runs.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  float s = sum(x); // here
  return x * s;
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
