// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "wraps a block-cyclic array has six dims" cyclic_dims cyclic_dims.cpp:@here
// fix: Declare a tensor with the dims of the blocks: `mesh(J, q_part / q, j, I, p_part / p, i)`, the columns first. To
// fix: have the matrix with two dims, copy it with `from_block_cyclic`.
#include "names.hpp"

#include <cleave/cleave.hpp>
#include <cleave/redistribute/distributions.hpp>

using namespace fail_test;

using Matrix = cleave::tensor<double, mesh(batch / data, embed)>;
void wrap(const cleave::grid& grid, std::vector<double>& local) {
  const cleave::block_cyclic c{{2, 2}, {64, 64}};
  auto a = cleave::wrap_block_cyclic<Matrix>(grid, {1024, 1024}, c, local); // here
}

int main() {}
