// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// flags: -Werror=unused-result -Werror=unused-value
// expect: "a statement computes nothing before it is assigned" statement_not_assigned.cpp:@here
// of: the compiler
// fix: Write `y = f(x)`, or `f(x).into(y)`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Matrix = cleave::tensor<float, mesh(batch / data, embed)>;
constexpr cleave::function f([](auto x) { return x + 1; });
void run(const Matrix& x, Matrix& y) {
  f(x).into(y);
  f(x); // here
}

int main() {}
