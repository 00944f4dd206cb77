// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "have different dims" assignment_to_other_dims dim=embed construct_from_other_dims.cpp:@here
// needs: runtime
// fix: Give the tensor the dims of the statement.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Matrix = cleave::tensor<float, mesh(batch / data, embed)>;
using Row = cleave::tensor<float, mesh(batch / data)>;
void double_it(const Matrix& a) {
  Row b = a + a; // here
}

int main() {}
