// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "cannot be indexed" value_indexed assign_element.cpp:@here
// fix: Write `select(iota(x, embed) == 0, 1.0f, x)`, or `dynamic_update` for a slice.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  auto y = x;
  y(0, 0) = 1.0f; // here
  return y;
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
