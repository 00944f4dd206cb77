// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a mesh consists of axes" not_a_layout dim_over_dim.cpp:@here
// fix: Divide by axes, `batch / data`; axes have types `axis<...>`.
#include "names.hpp"

using namespace fail_test;

using Bad = cleave::abstract<float, mesh(batch / embed)>; // here

int main() {}
