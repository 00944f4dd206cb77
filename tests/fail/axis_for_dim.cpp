// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "these arguments do not fit this function" wrong_arguments axis_for_dim.cpp:@here op=sum
// fix: Reduce over the dim, `sum(x, batch)`, whatever axis shards it.
#include "names.hpp"

using namespace fail_test;

using R = cleave::abstract<float, mesh(embed)>;
constexpr cleave::function f([](auto x) {
  return sum(x, data); // here
});
constexpr auto plan = cleave::plan<R(X)>(f);
static_assert(plan.collectives() == 0);

int main() {}
