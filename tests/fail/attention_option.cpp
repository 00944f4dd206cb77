// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: "this kind of attention does not have this option" attention_option line<@here> op=self_attention
// fix: Use `all_scores` to drop weights, and give `in_spans` a `kv_cache`.
#include "names.hpp"

#include <cleave/nn/self_attention.hpp>

using namespace fail_test;
namespace nn = cleave::nn;

inline constexpr cleave::dim<"sources", 64> sources;
inline constexpr cleave::dim<"block", 16> block;
using Weight = cleave::abstract<float, mesh(embed, hidden)>;
using Out = cleave::abstract<float, mesh(hidden, embed)>;
constexpr cleave::function f([](auto x, auto w, auto out) {
  const nn::attention_weights all{w, w, w, out};
  const nn::attention_dims dims{batch, sources, hidden};
  const auto drop = [](const auto& weights) { return weights * 0.5; };
  const nn::self_attention_options options{nn::in_blocks{block}, nn::no_mask{},   std::identity{},
                                           nn::rotation{0},      cleave::value{}, drop};
  return nn::self_attention(x, all, embed, dims, options); // here
});
constexpr auto plan = cleave::plan<X(X, Weight, Out)>(f);
static_assert(plan.collectives() == 0);

int main() {}
