// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "functions of namespace std take numbers" standard_function standard_maximum_of_tensors.cpp:@here op=max
// fix: Write `y = maximum(x, y)`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Matrix = cleave::tensor<float, mesh(batch / data, embed)>;
void run(const Matrix& x, Matrix& y) {
  y = std::max(x, y); // here
}

int main() {}
