// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "these arguments do not fit this function" wrong_arguments op=layer_norm dim_of_norm_missing.cpp:@here
// fix: Name the dim, and put scale and bias together: `layer_norm(x, norm_weights{scale, bias}, embed)`.
#include "names.hpp"

#include <cleave/nn/normalization.hpp>

using namespace fail_test;

using Scale = cleave::abstract<float, mesh(embed)>;
constexpr cleave::function f([](auto x, auto scale, auto bias) {
  return cleave::nn::layer_norm(x, scale, bias); // here
});
constexpr auto plan = cleave::plan<X(X, Scale, Scale)>(f);
static_assert(plan.collectives() == 0);

int main() {}
