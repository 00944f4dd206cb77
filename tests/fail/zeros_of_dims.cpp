// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a value or a tensor as its first operand" names_alone op=zeros_like zeros_of_dims.cpp:@here
// fix: Write `zeros_like(x)` of a value that has these dims.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto) {
  return zeros_like(batch, embed); // here
});
constexpr auto plan = cleave::plan<X(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
