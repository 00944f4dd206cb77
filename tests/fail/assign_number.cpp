// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "are not changed in place" changed_in_place assign_number.cpp:@here
// fix: Write `x = zeros_like(x)`, or `x = zeros_like(x) + 3`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  x = 0.0f; // here
  return x;
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
