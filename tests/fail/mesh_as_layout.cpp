// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a layout of dims with the axes that shard them" not_a_layout mesh_as_layout.cpp:@here
// fix: Write the dims with the mesh: `abstract<float, mesh(batch / data, embed)>`.
#include "names.hpp"

using namespace fail_test;

using Y = cleave::abstract<float, mesh>;
constexpr cleave::function f([](auto x) { return x; });
constexpr auto plan = cleave::plan<Y(Y)>(f); // here
static_assert(plan.collectives() == 0);

int main() {}
