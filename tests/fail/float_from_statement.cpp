// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: float_from_statement.cpp:@here float
// of: the compiler
// fix: Assign it first: `Number s(sum(x)); return s.item();`
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Tensor = cleave::tensor<float, mesh(batch / data, embed)>;

float total(const Tensor& x) {
  const float s = sum(x); // here
  return s;
}

int main() {}
