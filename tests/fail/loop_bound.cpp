// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "cannot be a condition or a loop bound" value_as_condition loop_bound.cpp:@here
// fix: Write `repeat_times(n, x, body)`. A bound that is a constant of C++ needs no loop of the library.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x, auto n) {
  for (int i = 0; i < n; ++i) x = 0.5f * x; // here
  return x;
});
constexpr auto plan = cleave::plan<X(X, int)>(f);
static_assert(plan.collectives() == 0);

int main() {}
