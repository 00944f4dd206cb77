// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "these arguments do not fit this function" wrong_arguments sum_over_number.cpp:@here op=sum
// fix: Dims have names: `sum(x, batch)`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::function f([](auto x) {
  return sum(x, 0); // here
});
constexpr auto plan = cleave::plan<cleave::abstract<float, mesh(embed)>(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
