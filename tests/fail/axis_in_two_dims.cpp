// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this axis is used twice" axis_used_twice axis_in_two_dims.cpp:@here axis=data
// fix: An axis shards one dim: `mesh(embed / data, hidden)`.
#include "names.hpp"

using namespace fail_test;

using Bad = cleave::abstract<float, mesh(embed / data, hidden / data)>; // here
constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<Bad(Bad)>(f);
static_assert(plan.collectives() == 0);

int main() {}
