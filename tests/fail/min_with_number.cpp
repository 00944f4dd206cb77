// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "max and min reduce over dims" larger_of_two min_with_number.cpp:@here
// fix: Write `minimum(x, 1)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return min(x, 1.0f); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
