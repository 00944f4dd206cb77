// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "cannot be a condition or a loop bound" value_as_condition assert_value.cpp:@here
// fix: Return the value of the comparison as another result, and test it outside.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  if (!(sum(x) == 0.0f)) x = 2.0f * x; // here
  return x;
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
