// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "libraries.hpp"

#include <cleave/cleave.hpp>

namespace first {

namespace {
inline constexpr cleave::axis<"ranks"> ranks;
inline constexpr cleave::mesh mesh{ranks};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using matrix = cleave::tensor<double, mesh(row / ranks, col)>;
using number = cleave::tensor<double, mesh()>;
constexpr cleave::function compute([](auto x) { return sum(x * x); });
static_assert(cleave::plan<number(matrix)>(compute).collectives() == 1);
} // namespace

double squares(MPI_Comm comm) {
  int n = 0;
  MPI_Comm_size(comm, &n);
  const cleave::grid grid(mesh, comm, {n});
  matrix x(grid, {5, 3});
  x.fill_by([](const auto& at) { return static_cast<double>(10 * at[0] + at[1]); });
  number all(grid, {});
  all = compute(x);
  return all.item();
}

} // namespace first
