// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a mesh consists of axes" not_a_layout mesh_of_dims.cpp:@here
// fix: Declare axes, `axis<"data">`, and make the mesh of them.
#include "names.hpp"

using namespace fail_test;

constexpr cleave::mesh bad{batch, data}; // here

int main() {}
