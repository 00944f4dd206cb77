// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a tensor is constructed with a grid" wrong_construction tensor_extents_without_braces.cpp:@here
// needs: runtime
// fix: Write the extents in braces: `Matrix a(grid, {4, 2})`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Matrix = cleave::tensor<float, mesh(batch / data, embed)>;
void make(const cleave::grid& g) {
  Matrix a(g, 4, 2); // here
}

int main() {}
