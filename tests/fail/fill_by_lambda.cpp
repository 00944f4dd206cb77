// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "fill_by a function of the array of a global index" not_a_fill fill_by_lambda.cpp:@here
// fix: Write `x.fill_by(f)` for a function of the indices.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Tensor = cleave::tensor<float, mesh(batch / data, embed)>;

void filled(Tensor& x) {
  x.fill([](const auto&) { return 1.0f; }); // here
}

int main() {}
