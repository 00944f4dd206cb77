// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a mesh consists of axes" not_a_layout unreduced_dim.cpp:@here
// fix: A value is partial over axes: `unreduced(model)`.
#include "names.hpp"

using namespace fail_test;

using Bad = cleave::abstract<float, mesh(batch, cleave::unreduced(embed))>; // here

int main() {}
