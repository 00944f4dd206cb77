// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "cannot be a condition or a loop bound" value_as_condition switch_value.cpp:@here
// fix: Write `select(x == 0, a, b)`, or `cond` for a rank-0 predicate.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  switch (x) { // here
    case 0: return x;
    default: return x + 1.0f;
  }
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
