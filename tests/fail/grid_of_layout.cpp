// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "the sizes of a grid are a list" sizes_without_braces grid_of_layout.cpp:@here
// mend: Give the mesh: `grid(mesh, comm, {4})`. Layouts belong to tensors.
#include <cleave/cleave.hpp>

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::mesh mesh{data};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using X = cleave::tensor<float, mesh(row / data, col)>;

cleave::grid made() { return cleave::grid(mesh(row / data), MPI_COMM_WORLD, {4}); } // here

int main() {}
