// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a tensor is constructed with a grid" wrong_construction tensor_without_grid.cpp:@here
// fix: Make a grid of the communicator first: `const cleave::grid grid(mesh, comm, {4}); X x(grid, {4, 2});`
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Tensor = cleave::tensor<float, mesh(batch / data, embed)>;

Tensor made() { return Tensor(MPI_COMM_WORLD, {4, 2}); } // here

int main() {}
