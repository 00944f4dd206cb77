// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a statement computes nothing before it is assigned" statement_as_number not_of_tensor.cpp:@here
// fix: Ask for the element, `if (!flag.item())`, or whether the tensor has data, `if (!x.has_data())`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Flags = cleave::tensor<bool, mesh(batch / data)>;

int exit_code(const Flags& flags) {
  if (!flags) return 1; // here
  return 0;
}

int main() {}
