// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a tensor is constructed with a grid" wrong_construction tensor_with_value.cpp:@here
// fix: Fill the tensor in a second statement: `X x(grid, {4, 2}); x.fill(1.0f);`
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Tensor = cleave::tensor<float, mesh(batch / data, embed)>;

Tensor made(const cleave::grid& g) { return Tensor(g, {4, 2}, 1.0f); } // here

int main() {}
