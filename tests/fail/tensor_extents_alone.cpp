// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a tensor is constructed with a grid" wrong_construction tensor_extents_alone.cpp:@here
// needs: runtime
// fix: Give the grid too: `Matrix b(a.get_grid(), a.extents())`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Matrix = cleave::tensor<float, mesh(batch / data, embed)>;
void like(const Matrix& a) {
  Matrix b(a.extents()); // here
}

int main() {}
