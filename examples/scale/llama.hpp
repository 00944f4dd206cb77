// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers of Llama 3 as Megatron-LM trains them: grouped heads, gated feed-forward parts, Adam, gradients over
// microbatches. Between layers positions are sharded over the devices for tensors, and those of long sequences over
// those of an axis of their own.
#pragma once

#include "training.hpp"

#include <cleave/study/study.hpp>

namespace llama {

using namespace training;

constexpr cleave::axis<"pipe"> pipe_axis;
constexpr cleave::axis<"data"> data;
constexpr cleave::axis<"context"> context; // parts of long sequences
constexpr cleave::axis<"tensor"> tensor_axis;
constexpr cleave::mesh mesh{pipe_axis, data, context, tensor_axis};
constexpr cleave::dim<"microbatch"> microbatch;
constexpr cleave::dim<"stage"> stage;
constexpr cleave::dim<"group"> group; // the heads of queries that share keys

/// How runs are made.
struct technique {
  /// Above 1 the stages are interleaved.
  int rounds = 1;
  /// Whether the weights too are sharded over the devices for batches.
  bool sharded = false;
  /// Within attention each device has all positions of some heads: an all-to-all over `context` in each direction.
  /// Otherwise it has some positions of the queries, and the keys and values of all.
  bool exchanges_heads = true;
};
template <bool ExchangesHeads>
constexpr nn::layout_rules activations{mesh,
                                       stage / pipe_axis,
                                       nn::before(batch, microbatch),
                                       batch / data,
                                       heads / tensor_axis / context,
                                       hidden / tensor_axis,
                                       vocabulary / tensor_axis,
                                       position / context / tensor_axis,
                                       source / context};
template <>
constexpr nn::layout_rules activations<false>{mesh,
                                              stage / pipe_axis,
                                              nn::before(batch, microbatch),
                                              batch / data,
                                              heads / tensor_axis,
                                              hidden / tensor_axis,
                                              vocabulary / tensor_axis,
                                              position / context / tensor_axis};
template <int Rounds>
constexpr cleave::dim<"round", Rounds> round_of;
template <int Rounds, bool Sharded>
constexpr nn::layout_rules parameters{mesh,
                                      nn::before(layer, round_of<Rounds>),
                                      nn::after(layer, stage / pipe_axis),
                                      heads / tensor_axis,
                                      hidden / tensor_axis,
                                      vocabulary / tensor_axis};
template <>
constexpr nn::layout_rules parameters<1, false>{mesh, nn::after(layer, stage / pipe_axis), heads / tensor_axis,
                                                hidden / tensor_axis, vocabulary / tensor_axis};
template <>
constexpr nn::layout_rules parameters<1, true>{mesh,
                                               nn::after(layer, stage / pipe_axis),
                                               heads / tensor_axis,
                                               hidden / tensor_axis,
                                               vocabulary / tensor_axis,
                                               embed / data};
template <technique How>
constexpr auto layout =
    nn::model_layout{parameters<How.rounds, How.sharded>, activations<How.exchanges_heads>}.scheduled(
        nn::pipelined<cleave::dim<"stage">, cleave::dim<"microbatch">, How.rounds, cleave::dim<"round", How.rounds>>{});

template <auto rules>
struct weights_of {
  template <template <class, auto> class Tensor>
  struct in {
    struct layers {
      Tensor<float, rules(layer, embed)> before_attention;
      nn::attention_weights<Tensor<float, rules(layer, embed, heads, group, head)>,
                            Tensor<float, rules(layer, embed, heads, head)>,
                            Tensor<float, rules(layer, heads, group, head, embed)>>
          attention;
      Tensor<float, rules(layer, embed)> before_feed_forward;
      Tensor<float, rules(layer, embed, hidden)> gate, up;
      Tensor<float, rules(layer, hidden, embed)> down;
    };
    Tensor<float, rules(vocabulary, embed)> embedding;
    layers blocks;
    Tensor<float, rules(embed)> at_the_end;
    Tensor<float, rules(vocabulary, embed)> output;
  };
};

// Each of these is one kernel, which keeps its arguments for the gradient.
constexpr cleave::function kernel_of_norm([](const auto& x, const auto& w) { return nn::rms_norm(x, w, embed); });
constexpr cleave::function kernel_of_gate([](const auto& gate, const auto& up) {
  return gate / (1.0 + exp(-gate)) * up;
});
template <technique How>
constexpr auto one_layer = [](const auto& x, const auto& w) {
  constexpr auto pin = [](const auto& v) { return constrain(v, activations<How.exchanges_heads>); };
  const nn::self_attention_options how{nn::all_scores{}, nn::causal{}, pin};
  const auto a = pin(x + nn::self_attention(remat(kernel_of_norm)(x, w.before_attention), w.attention, embed,
                                            {position, source, head}, how, heads, group));
  const auto b = remat(kernel_of_norm)(a, w.before_feed_forward);
  const auto gate = pin(dot(b, w.gate, embed)), up = pin(dot(b, w.up, embed));
  return pin(a + dot(pin(remat(kernel_of_gate)(gate, up)), w.down, hidden));
};
template <technique How>
constexpr cleave::function of_text([](const auto& p, const auto& words, const auto& next) {
  constexpr auto pin = [](const auto& v) { return constrain(v, activations<How.exchanges_heads>); };
  const auto begin = pin(nn::embedding(p.embedding, words, vocabulary));
  const auto end = normed(nn::blocks(layout<How>, layer, begin, p.blocks, one_layer<How>), p.at_the_end);
  const auto scores = pin(nn::unembedding(end, p.output, embed));
  return mean(nn::cross_entropy(cleave::cast<float>(scores), next, vocabulary));
});

using number = cleave::abstract<float, mesh()>;
using words = cleave::abstract<int, activations<true>(batch, position)>;
template <technique How>
const cleave::study& training_step() {
  using model = typename weights_of<parameters<How.rounds, How.sharded>>::template in<cleave::abstract>;
  static const auto recorded = cleave::study::of<adam_step<model, number, words, words>>(with_adam<of_text<How>>,
                                                                                         {"model", "state"});
  return recorded;
}

} // namespace llama
