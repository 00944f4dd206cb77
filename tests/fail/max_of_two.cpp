// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "max and min reduce over dims" larger_of_two max_of_two.cpp:@here
// fix: Write `maximum(x, y)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return max(x, 2.0f * x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
