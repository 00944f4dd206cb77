// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "the sizes of a grid are a list" sizes_without_braces grid_without_communicator.cpp:@here
// needs: runtime
// fix: Give the communicator after the mesh: `grid(mesh, comm, {2, 2})`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

void make() {
  cleave::grid g(mesh, {2, 2}); // here
}

int main() {}
