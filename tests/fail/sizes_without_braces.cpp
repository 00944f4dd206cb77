// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "the sizes of a grid are a list" sizes_without_braces sizes_without_braces.cpp:@here
// fix: Write the sizes in braces, `cleave::grid grid(mesh, comm, {2, 2})`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

void divide(MPI_Comm comm) {
  const cleave::grid grid(mesh, comm, 2, 2); // here
}

int main() {}
