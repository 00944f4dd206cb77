// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "functions of namespace std take numbers" standard_function standard_sine_of_tensor.cpp:@here op=sin
// fix: Write `y = sin(x)`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Matrix = cleave::tensor<float, mesh(batch / data, embed)>;
void run(const Matrix& x, Matrix& y) {
  y = std::sin(x); // here
}

int main() {}
