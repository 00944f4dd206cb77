// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "two different meshes" meshes_differ meshes_differ.cpp:@here op=input
// fix: Declare one mesh with all axes, `mesh{data, model, expert}`, and write every layout with it. A tensor need not
// fix: be sharded over all of them.
#include "names.hpp"

using namespace fail_test;

using Y = cleave::abstract<float, other_mesh(batch / data, embed)>;
constexpr cleave::function f([](auto x, auto y) { return x + y; });
constexpr auto plan = cleave::plan<X(X, Y)>(f); // here

int main() {}
