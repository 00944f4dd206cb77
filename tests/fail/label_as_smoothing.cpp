// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "a label that counts for nothing is ignore{-100}" not_a_probability line<@here> op=cross_entropy
// fix: The label that counts for nothing is an option of its own: `cross_entropy(x, labels, embed, ignore{-100})`. A number
// fix: there is the smoothing of the labels, from 0 to 1.
#include "names.hpp"

#include <cleave/nn/embedding.hpp>

using namespace fail_test;

using Labels = cleave::abstract<int, mesh(batch / data)>;
using Number = cleave::abstract<float, mesh()>;
constexpr cleave::function f([](auto x, auto labels) {
  return mean(cleave::nn::cross_entropy(x, labels, embed, -100)); // here
});
constexpr auto plan = cleave::plan<Number(X, Labels)>(f);
static_assert(plan.collectives() == 0);

int main() {}
