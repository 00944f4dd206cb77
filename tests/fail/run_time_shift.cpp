// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "these arguments do not fit this function" wrong_arguments run_time_shift.cpp:@here op=shift
// fix: A shift is part of the plan. Where it is known only at run time, use `dynamic_slice` with a start index.
#include "names.hpp"

#include <cleave/expr/movement.hpp>

using namespace fail_test;

constexpr cleave::function f([](auto x, auto n) {
  return shift(x, batch, n); // here
});
constexpr auto plan = cleave::plan<X(X, int)>(f);
static_assert(plan.collectives() == 0);

int main() {}
