// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a mesh consists of axes" not_a_layout sizes_in_layout.cpp:@here
// fix: Name the dims; extents are given when a tensor is constructed.
#include "names.hpp"

using namespace fail_test;

using Bad = cleave::abstract<float, mesh(1024, 512)>; // here

int main() {}
