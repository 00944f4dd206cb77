// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "its element type is a template argument" type_of_cast cast_value.cpp:@here
// fix: A number takes the element type of the other operand: `x * n`. Otherwise write `cast<float>(n)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x, auto n) {
  return x * static_cast<float>(n); // here
});
constexpr auto plan = cleave::plan<X(X, int)>(f);
static_assert(plan.collectives() == 0);

int main() {}
