// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "are not changed in place" changed_in_place increment.cpp:@here
// fix: Write `n = n + 1`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x, auto n) {
  ++n; // here
  return x * n;
});
constexpr auto plan = cleave::plan<X(X, int)>(f);
static_assert(plan.collectives() == 0);

int main() {}
