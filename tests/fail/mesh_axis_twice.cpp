// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a mesh has each axis once" axis_used_twice mesh_axis_twice.cpp:@here op=mesh axis=data
// fix: Axes are distinguished by name. Name each axis once, `mesh{data, model}`, and give a second axis another name,
// fix: `axis<"other_data">`.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::mesh bad{data, data}; // here
using Y = cleave::abstract<float, bad(batch / data, embed)>;
constexpr cleave::function f([](auto x) { return x + 1; });
constexpr auto plan = cleave::plan<Y(Y)>(f);

int main() {}
