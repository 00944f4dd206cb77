// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "these arguments do not fit this function" wrong_arguments line<@here> op=attention
// fix: A mask is an object: `causal{}`, `sliding_window{128}`, or a function of two indices.
#include "names.hpp"

#include <cleave/nn/attention.hpp>

using namespace fail_test;

using Y = cleave::abstract<float, mesh(hidden, embed)>;
constexpr cleave::function f([](auto x, auto y) {
  return cleave::nn::attention(x, y, y, {batch, hidden, embed}, true); // here
});
constexpr auto plan = cleave::plan<X(X, Y)>(f);
static_assert(plan.collectives() == 0);

int main() {}
