// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a tensor of rank 0 is no condition" tensor_as_condition condition_on_tensor.cpp:@here
// fix: Ask for the element, `if (flag.item())`, or whether the tensor has data, `if (flag.has_data())`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Flag = cleave::tensor<bool, mesh()>;

int exit_code(const Flag& flag) {
  if (flag) return 1; // here
  return 0;
}

int main() {}
