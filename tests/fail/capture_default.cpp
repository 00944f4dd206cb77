// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a function must not capture" captures capture_default.cpp:@here
// fix: Write `[]`; a closure with `[&]` or `[=]` counts as one that captures, even if it captures nothing.
#include "names.hpp"

using namespace fail_test;

void step() {
  constexpr auto twice = [=](auto x) { return 2 * x; };
  constexpr auto plan = cleave::plan<X(X)>(cleave::function(twice)); // here
  static_assert(plan.collectives() == 0);
}

int main() {}
