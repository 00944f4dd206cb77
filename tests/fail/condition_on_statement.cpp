// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a statement computes nothing before it is assigned" statement_as_number condition_on_statement.cpp:@here
// fix: Assign it first: `Number s(sum(x)); if (s.item() > 0.5f) ...`
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Number = cleave::tensor<float, mesh()>;

int exit_code(const Number& s) {
  if (s > 0.5f) return 1; // here
  return 0;
}

int main() {}
