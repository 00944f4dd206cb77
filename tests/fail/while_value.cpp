// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "cannot be a condition or a loop bound" value_as_condition while_value.cpp:@here
// fix: Write `repeat_until(x, body, done, most)`. The devices agree on the number of iterations.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  while (sum(x) > 1.0f) x = 0.5f * x; // here
  return x;
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
