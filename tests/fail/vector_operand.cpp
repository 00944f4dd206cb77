// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this cannot be an operand here" not_an_operand vector_operand.cpp:@here
// fix: Put the numbers into a tensor and pass it as an argument of the function.
#include "names.hpp"

#include <vector>

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x * std::vector<float>{1, 2}; // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
