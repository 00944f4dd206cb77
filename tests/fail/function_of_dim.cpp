// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a value or a tensor as its first operand" names_alone op=exp function_of_dim.cpp:@here
// fix: Write `exp(iota<float>(x, embed))` for the indices of a dim.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return x * exp(embed); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
