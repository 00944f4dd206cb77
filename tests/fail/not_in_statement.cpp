// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "write a number that shapes the plan as constant<1>" not_in_statement not_in_statement.cpp:@here
// fix: A plain number in a statement is known only at run time. Write `shift(x, batch, cleave::constant<1>{})`, or put the line into a `cleave::function`.
// lines-clang: 28 clang adds three lines on how the list of faults is expanded
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Batch = cleave::tensor<float, mesh(batch / data, embed)>;
void step(const Batch& x, Batch& y) {
  y = shift(x, batch, 1); // here
}

int main() {}
