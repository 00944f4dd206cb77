// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "cannot be a condition or a loop bound" value_as_condition if_value.cpp:@here
// fix: Choose each element with `select(x > 0, x, -x)`, or run one of two bodies with `cond`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  if (x > 0.0f) return x; // here
  return -x;
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
