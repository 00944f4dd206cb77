// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// needs: runtime
// expect: "use into()" not_for_make not_for_make.cpp:@here
// fix: Construct the tensors yourself and write `value_and_grad(loss)(w, x).into(value, weighted, gradient)`. The
// fix: library does not know the type of the second result of the function.
#include "names.hpp"

#include <cleave/cleave.hpp>

using namespace fail_test;

using Weights = cleave::tensor<float, mesh(embed)>;
using Batch = cleave::tensor<float, mesh(batch / data, embed)>;
constexpr cleave::function loss([](auto w, auto x) {
  auto weighted = dot(x, w, embed);
  return std::tuple(sum(weighted), weighted);
});
void step(const Weights& w, const Batch& x) {
  auto both = value_and_grad(loss)(w, x).make(); // here
}

int main() {}
