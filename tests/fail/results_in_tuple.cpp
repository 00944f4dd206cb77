// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "f(x).into(a, b) in place of std::tie(a, b) = f(x)" results_in_tuple results_in_tuple.cpp:@here
// alone: clang warns of a null pointer in a header and names no file of the user
// fix: Write `both(x).into(a, b)`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Matrix = cleave::tensor<float, mesh(batch / data, embed)>;
constexpr cleave::function both([](auto x) { return std::tuple(x + 1, 2 * x); });
void run(const Matrix& x, Matrix& a, Matrix& b) {
  std::tie(a, b) = both(x); // here
}

int main() {}
