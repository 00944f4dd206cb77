// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "these arguments do not fit this function" wrong_arguments axis_by_number.cpp:@here op=sum
// fix: Dims have names: `sum(x, embed)`.
#include "names.hpp"

using namespace fail_test;

using R = cleave::abstract<float, mesh(batch / data)>;
constexpr cleave::function f([](auto x) {
  return sum(x, 1); // here
});
constexpr auto plan = cleave::plan<R(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
