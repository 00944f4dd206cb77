// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "has no elements yet" value_indexed range_for.cpp:@here
// fix: Use `sum(x, batch)`, or `scan(batch, init, x, body)` where the order matters.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  auto s = zeros_like(x);
  for (auto row : x) s = s + row; // here
  return s;
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
