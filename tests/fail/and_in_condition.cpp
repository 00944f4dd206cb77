// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "values and tensors have no && and ||" short_circuit and_in_condition.cpp:@here
// fix: Compare the element: `if (loss.item() > 0 && loss.item() < 1)`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Number = cleave::tensor<float, mesh()>;

int exit_code(const Number& loss) {
  if (loss > 0 && loss < 1) return 1; // here
  return 0;
}

int main() {}
