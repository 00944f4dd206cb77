// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "the element types do not match" element_types_differ statement_of_two_types.cpp:@here
// fix: Convert one of them: `x = x + cast<float>(y)`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Matrix = cleave::tensor<float, mesh(batch / data, embed)>;
using Wide = cleave::tensor<double, mesh(batch / data, embed)>;
void run(Matrix& x, Wide& y) {
  x = x + y; // here
}

int main() {}
