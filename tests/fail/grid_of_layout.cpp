// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "the sizes of a grid are a list" sizes_without_braces grid_of_layout.cpp:@here
// fix: Give the mesh: `grid(mesh, comm, {4})`. Layouts belong to tensors.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

cleave::grid made() { return cleave::grid(mesh(batch / data), MPI_COMM_WORLD, {4}); } // here

int main() {}
