// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "fill_by a function of the array of a global index" not_a_fill fill_by_of_two.cpp:@here
// fix: The function takes one array of indices: `x.fill_by([](const auto& at) { return at[0] + at[1]; })`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Tensor = cleave::tensor<float, mesh(batch / data, embed)>;

void filled(Tensor& x) {
  x.fill_by([](int i, int j) { return i + j; }); // here
}

int main() {}
