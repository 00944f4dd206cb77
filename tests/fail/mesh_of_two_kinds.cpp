// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "two different meshes" meshes_differ mesh_of_two_kinds.cpp:@here
// fix: Declare the result with the mesh of the arguments. To move a tensor to another mesh use `copy(from, to)`.
#include "names.hpp"

using namespace fail_test;

using There = cleave::abstract<float, other_mesh(batch / data, embed)>;
constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<There(X)>(f); // here

int main() {}
