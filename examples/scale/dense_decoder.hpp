// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The dense decoders of GSPMD (Xu et al. 2021, "GSPMD: General and Scalable Parallelization for ML Computation Graphs",
// section 5.1) as their public configurations train them: 16-bit products of 32-bit weights, gated or plain
// feed-forward layers, Adafactor or Adam, each layer computed again for its gradient.
#pragma once

#include <cleave/expr/gradient.hpp>
#include <cleave/nn/blocks.hpp>
#include <cleave/nn/embedding.hpp>
#include <cleave/nn/feed_forward.hpp>
#include <cleave/nn/normalization.hpp>
#include <cleave/nn/self_attention.hpp>
#include <cleave/optim/adafactor.hpp>
#include <cleave/optim/adam.hpp>
#include <cleave/optim/mixed.hpp>

namespace dense_decoder {

namespace nn = cleave::nn;

inline constexpr cleave::axis<"X"> X;
inline constexpr cleave::axis<"Y"> Y;
inline constexpr cleave::mesh mesh{X, Y};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"position"> position;
inline constexpr cleave::dim<"source"> source; // a position that is looked at
inline constexpr cleave::dim<"layer"> layer;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"heads"> heads;
inline constexpr cleave::dim<"head"> head;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr cleave::dim<"vocabulary"> vocabulary;

/// The 2-D layout that the paper calls finalized: weights over both axes, activations between layers too.
inline constexpr auto finalized = nn::model_layout{
    nn::layout_rules{mesh, heads / Y, hidden / Y, embed / X},
    nn::layout_rules{mesh, batch / X, heads / Y, hidden / Y, vocabulary / Y,
                     embed / Y}}.scheduled(nn::layer_by_layer<true>{});
inline constexpr auto& rules = finalized.parameters;

template <template <class, auto> class Tensor>
struct gated_block {
  Tensor<float, rules(layer, embed)> before_attention;
  nn::attention_weights<Tensor<float, rules(layer, embed, heads, head)>,
                        Tensor<float, rules(layer, embed, heads, head)>,
                        Tensor<float, rules(layer, heads, head, embed)>>
      attention;
  Tensor<float, rules(layer, embed)> before_feed_forward;
  Tensor<float, rules(layer, embed, hidden)> gate, up;
  Tensor<float, rules(layer, hidden, embed)> down;
};
template <template <class, auto> class Tensor>
struct plain_block {
  Tensor<float, rules(layer, embed)> before_attention;
  nn::attention_weights<Tensor<float, rules(layer, embed, heads, head)>,
                        Tensor<float, rules(layer, embed, heads, head)>,
                        Tensor<float, rules(layer, heads, head, embed)>>
      attention;
  Tensor<float, rules(layer, embed)> before_feed_forward;
  Tensor<float, rules(layer, embed, hidden)> up;
  Tensor<float, rules(layer, hidden, embed)> down;
};
template <template <template <class, auto> class> class Block>
struct parameters {
  template <template <class, auto> class Tensor>
  struct in {
    Tensor<float, mesh(vocabulary, embed / Y)> embedding;
    Block<Tensor> layers;
    Tensor<float, rules(embed)> at_the_end;
  };
};

/// Pins a value as activations are laid out.
inline constexpr auto pin = [](const auto& v) { return constrain(v, finalized.activations); };
inline constexpr auto feed_forward = [](const auto& x, const auto& w) {
  if constexpr (requires { w.gate; })
    return nn::gated_feed_forward(x, w.gate, w.up, w.down, embed, hidden, [](const auto& h) { return gelu(h); }, pin);
  else return dot(gelu(pin(dot(x, w.up, embed))), w.down, hidden);
};
inline constexpr auto block = [](const auto& x, const auto& w) {
  const auto a = nn::rms_norm(x, w.before_attention, embed);
  const auto mixed = pin(x + nn::self_attention(a, w.attention, embed, {position, source, head},
                                                nn::self_attention_options{nn::all_scores{}, nn::causal{}, pin},
                                                heads));
  return pin(mixed + feed_forward(nn::rms_norm(mixed, w.before_feed_forward, embed), w));
};
inline constexpr cleave::function loss([](const auto& p, const auto& words, const auto& next) {
  const auto begin = pin(nn::embedding(p.embedding, words, vocabulary));
  const auto end = nn::rms_norm(nn::blocks(finalized, layer, begin, p.layers, block), p.at_the_end, embed);
  const auto scores = pin(nn::unembedding(end, p.embedding, embed));
  return mean(nn::cross_entropy(cleave::cast<float>(scores), next, vocabulary));
});

inline constexpr cleave::function step_adafactor([](const auto& p, const auto& state, const auto& words,
                                                    const auto& next) {
  auto [value, slope] = cleave::optim::mixed_value_and_grad<cleave::bfloat16>(loss, 1.0, p, words, next);
  auto [updated, after] = cleave::optim::adafactor(p, state, slope);
  return std::tuple(updated, after, value);
});
inline constexpr cleave::function step_adam([](const auto& p, const auto& state, const auto& words, const auto& next) {
  auto [value, slope] = cleave::optim::mixed_value_and_grad<cleave::bfloat16>(loss, 1.0, p, words, next);
  auto [updated, after] = cleave::optim::adam(p, state, slope, 0.001);
  return std::tuple(updated, after, value);
});

using number = cleave::abstract<float, mesh()>;
using words = cleave::abstract<int, mesh(batch / X, position)>;
template <template <template <class, auto> class> class Block>
using model = typename parameters<Block>::template in<cleave::abstract>;
template <class Model, class State>
using training = std::tuple<Model, State, number>(Model, State, words, words);
template <template <template <class, auto> class> class Block>
using adafactor_training = training<model<Block>, cleave::optim::adafactor_state<model<Block>, number>>;
template <template <template <class, auto> class> class Block>
using adam_training = training<model<Block>, cleave::optim::adam_state<model<Block>, number>>;

} // namespace dense_decoder
