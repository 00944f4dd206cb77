// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "these arguments do not fit this function" wrong_arguments cast_to_number.cpp:@here op=sin
// fix: The sine has one operand.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return sin(x, x); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
