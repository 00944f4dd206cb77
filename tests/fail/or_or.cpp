// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "have no && and ||" short_circuit or_or.cpp:@here
// fix: Write `(x < 0) | (x > 1)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return select(x < 0.0f || x > 1.0f, 0.0f * x, x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
