// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a different number of tensors than is expected of it" result_count into_too_many.cpp:@here
// fix: Give `into` one tensor for each result: `twice(x).into(a)`, or `a = twice(x)`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Matrix = cleave::tensor<float, mesh(batch / data, embed)>;
constexpr cleave::function twice([](auto x) { return 2 * x; });
void run(Matrix& x, Matrix& a, Matrix& b) {
  twice(x).into(a, b); // here
}

int main() {}
