// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "have no such operator" no_operator print_statement.cpp:@here
// fix: Assign the statement, and print its element: `Number s(sum(x)); std::cout << s.item() << std::endl;`
#include "names.hpp"

#include <cleave/cleave.hpp>

#include <iostream>

using namespace fail_test;

using Tensor = cleave::tensor<float, mesh(batch / data, embed)>;

void report(const Tensor& x) {
  std::cout << "sum " << sum(x) << std::endl; // here
}

int main() {}
