// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "the library has no function of this name" written_otherwise op=matmul product_in_sum.cpp:@here
// fix: Write `y = dot(x, w, embed) + y`.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Left = cleave::tensor<float, mesh(batch / data, embed)>;
using Right = cleave::tensor<float, mesh(embed, hidden / model)>;
using Result = cleave::tensor<float, mesh(batch / data, hidden / model)>;

void layer(const Left& x, const Right& w, Result& y) {
  y = tanh(2.0f * matmul(x, w) + y); // here
}

int main() {}
