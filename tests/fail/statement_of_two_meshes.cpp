// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "two different meshes" meshes_differ statement_of_two_meshes.cpp:@here
// fix: Declare one mesh with all axes and write all layouts with it. `copy(from, to)` moves a tensor to another mesh.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Matrix = cleave::tensor<float, mesh(batch / data, embed)>;
using There = cleave::tensor<float, other_mesh(batch / data, embed)>;
void run(Matrix& x, There& y) {
  x = x + y; // here
}

int main() {}
