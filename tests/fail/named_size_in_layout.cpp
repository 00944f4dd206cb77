// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a mesh consists of axes" not_a_layout named_size_in_layout.cpp:@here
// fix: Fix the extent in the type of the dim, `dim<"batch", 1024>`, or give it when a tensor is constructed.
#include "names.hpp"

using namespace fail_test;

using Bad = cleave::abstract<float, mesh(batch = 1024)>; // here

int main() {}
