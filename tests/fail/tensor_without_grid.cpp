// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a tensor is constructed with a grid" wrong_construction tensor_without_grid.cpp:@here
// mend: Make a grid of the communicator first: `const cleave::grid grid(mesh, comm, {4}); X x(grid, {4, 2});`
#include <cleave/cleave.hpp>

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::mesh mesh{data};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using X = cleave::tensor<float, mesh(row / data, col)>;

X made() { return X(MPI_COMM_WORLD, {4, 2}); } // here

int main() {}
