// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this cannot be an operand here" not_an_operand op=self_attention attention_of_tuple.cpp:@here
// fix: A weight of attention is a tensor, or `linear_weights{kernel, bias}`.
#include "names.hpp"

#include <cleave/nn/self_attention.hpp>

using namespace fail_test;

inline constexpr cleave::dim<"sources"> sources;
using Weight = cleave::abstract<float, mesh(embed, hidden)>;
using Out = cleave::abstract<float, mesh(hidden, embed)>;
constexpr cleave::function f([](auto x, auto w, auto bias, auto out) {
  const cleave::nn::attention_weights all{std::tuple(w, bias), w, w, out};
  const cleave::nn::attention_dims dims{batch, sources, hidden};
  return cleave::nn::self_attention(x, all, embed, dims, cleave::nn::self_attention_options<>{}); // here
});
constexpr auto plan = cleave::plan<X(X, Weight, Weight, Out)>(f);
static_assert(plan.collectives() == 0);

int main() {}
