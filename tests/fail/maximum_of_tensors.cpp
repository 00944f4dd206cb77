// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "max and min reduce over dims" larger_of_two maximum_of_tensors.cpp:@here op=max
// fix: Write `y = maximum(x, y)`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Matrix = cleave::tensor<float, mesh(batch / data, embed)>;
void run(const Matrix& x, Matrix& y) {
  y = max(x, y); // here
}

int main() {}
