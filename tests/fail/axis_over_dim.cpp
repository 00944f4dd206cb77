// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a mesh consists of axes" not_a_layout axis_over_dim.cpp:@here
// fix: The dim comes first: `batch / data`.
#include "names.hpp"

using namespace fail_test;

using Bad = cleave::abstract<float, mesh(data / batch)>; // here

int main() {}
