// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a mesh consists of axes" not_a_layout axis_as_dim.cpp:@here
// fix: Write dims, and after each the axes that shard it: `mesh(batch / data, embed)`.
#include "names.hpp"

using namespace fail_test;

using Bad = cleave::abstract<float, mesh(data, embed)>; // here

int main() {}
