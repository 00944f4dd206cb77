// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a tensor is constructed with a grid" wrong_construction tensor_by_label.cpp:@here
// fix: A tensor has no label. Write the grid first, and the extents in braces: `X x(grid, {4, 2})`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Tensor = cleave::tensor<float, mesh(batch / data, embed)>;

Tensor made() { return Tensor("x", 4, 2); } // here

int main() {}
