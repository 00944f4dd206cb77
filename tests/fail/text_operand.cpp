// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this cannot be an operand here" not_an_operand text_operand.cpp:@here
// fix: Pass the parameter itself as an argument of the function: `x + w.bias`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x + "bias"; // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
