// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "compute this function of one matrix together" not_a_matrix line<@here> op=grid_cholesky dim=batch
// fix: A batch of matrices is factored by `cholesky`, whose batch dims may be sharded.
// needs: runtime
#include "names.hpp"

#include <cleave/linalg/grid_factor.hpp>

using namespace fail_test;

constexpr cleave::dim<"row"> row;
constexpr cleave::dim<"col"> col;
using A = cleave::abstract<float, mesh(batch, row / data, col / model)>;
using L = cleave::abstract<float, mesh(row / data, col / model)>;
constexpr cleave::function f([](auto a) {
  return cleave::linalg::grid_cholesky(a, mesh(row / data, col / model)); // here
});
constexpr auto plan = cleave::plan<L(A)>(f);

int main() {}
