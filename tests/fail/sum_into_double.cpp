// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "are not changed in place" changed_in_place sum_into_double.cpp:@here
// fix: Start with a value: `auto s = sum(x);`, then `s = s + ...`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  double s = 0;
  s += sum(x); // here
  return x;
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
