// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this axis is not in the mesh" axis_not_in_mesh axis_not_in_mesh.cpp:@here op=layout dim=batch axis=expert
// fix: Add the axis to the mesh, `mesh{data, model, expert}`, or shard the dim over an axis that the mesh has: `batch
// fix: / data`.
#include "names.hpp"

using namespace fail_test;

using Bad = cleave::abstract<float, mesh(batch / expert, embed)>; // here
constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<Bad(Bad)>(f);
static_assert(plan.collectives() == 0);

int main() {}
