// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "a different number of tensors than is expected of it" result_count into_too_few.cpp:@here
// fix: Give `into` one tensor for each result: `both(x).into(a, b)`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Matrix = cleave::tensor<float, mesh(batch / data, embed)>;
constexpr cleave::function both([](auto x) { return std::tuple(x + 1, 2 * x); });
void run(Matrix& x, Matrix& a) {
  both(x).into(a); // here
}

int main() {}
