// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a mesh consists of axes" not_a_layout dim_over_number.cpp:@here
// fix: Name the axis, `batch / data`; its size is given with the grid or in its type, `axis<"data", 4>`.
#include "names.hpp"

using namespace fail_test;

using Bad = cleave::abstract<float, mesh(batch / 4, embed)>; // here

int main() {}
