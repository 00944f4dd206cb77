// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: wrong_arguments select_of_two.cpp:@here op=select "do not fit this function"
// fix: Give the value where the predicate is false: `select(x > 0, x, 0)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return select(x > 0, x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
