// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A decoder of text (Radford et al. 2019): normalization before each part, learned positions, the embedding table also
// as the output. Written once; how it is sharded is one of the tables below.
#pragma once

#include "transformer.hpp"

#include <cleave/expr/gradient.hpp>
#include <cleave/nn/embedding.hpp>

namespace decoder {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};

using namespace transformer;
inline constexpr cleave::dim<"ring"> ring; // chunks of a sequence
inline constexpr cleave::dim<"stage"> stage; // of a pipeline: some layers
inline constexpr cleave::dim<"microbatch"> microbatch; // and the parts of a batch that go through it

// The layout of the whole model, of its parameters and of what is computed, as tables from dims to mesh axes. Batches
// are sharded over `data`.
/// Megatron: heads, hidden units and words are sharded over `model`.
inline constexpr nn::model_layout tensor_parallel{nn::layout_rules{mesh, heads / model, hidden / model,
                                                                   vocabulary / model},
                                                  nn::layout_rules{mesh, batch / data, heads / model, hidden / model,
                                                                   vocabulary / model}};
/// The same, and between layers each device has some of the positions.
inline constexpr nn::model_layout sequence_parallel{nn::layout_rules{mesh, heads / model, hidden / model,
                                                                     vocabulary / model},
                                                    nn::layout_rules{mesh, batch / data, heads / model, hidden / model,
                                                                     vocabulary / model, position / model}};
/// GSPMD's 2-D layout that is called finalized: weights and activations over both axes (Xu et al. 2021).
inline constexpr nn::model_layout finalized{nn::layout_rules{mesh, heads / model, hidden / model, embed / data},
                                            nn::layout_rules{mesh, batch / data, heads / model, hidden / model,
                                                             vocabulary / model, embed / model}};
/// FSDP, ZeRO-3: the batch over all devices, and so is every parameter.
inline constexpr nn::model_layout fully_sharded{nn::layout_rules{mesh, embed / data / model, hidden / data / model},
                                                nn::layout_rules{mesh, batch / data / model}};
/// ZeRO-1: parameters are replicated, the state of the optimizer is sharded.
inline constexpr nn::model_layout zero1{nn::layout_rules{mesh}, nn::layout_rules{mesh, batch / data / model},
                                        nn::layout_rules{mesh, embed / data / model, hidden / data / model}};

/// A pipeline: each device of `model` has some of the layers.
inline constexpr auto pipeline_parallel = nn::model_layout{
    nn::layout_rules{mesh, nn::after(layer, stage / model), vocabulary / model},
    nn::layout_rules{mesh, stage / model, nn::before(batch, microbatch), batch / data,
                     vocabulary / model}}.scheduled(nn::pipelined{stage, microbatch});

/// Long sequences: each device has a chunk of the positions, and keys and values go around.
inline constexpr auto ring_attention = nn::model_layout{nn::layout_rules{mesh, nn::before(position, ring / model)},
                                                        nn::layout_rules{mesh, batch / data,
                                                                         nn::before(position, ring / model)}}
                                           .attending(nn::around_ring{ring});

/// Whether a layout has layers follow one another in the stages of a pipeline.
template <auto Layout>
inline constexpr bool staged = requires { Layout.schedule.stage; };
/// Whether its positions are chunks of a ring.
template <auto Layout>
inline constexpr bool rings = requires { Layout.attention.ring; };

/// Parameters with the layouts of some rules: `parameters<Rules>::in<cleave::tensor>`.
template <auto Rules, class T = float>
struct parameters {
  template <template <class, auto> class Tensor>
  using blocks = typename weights<Rules, T>::template biased<Tensor>;
  template <template <class, auto> class Tensor>
  struct in {
    Tensor<T, Rules(vocabulary, embed)> embedding;
    Tensor<T, Rules(position, embed)> positions;
    blocks<Tensor> layers;
    nn::norm_weights<Tensor<T, Rules(embed)>> at_the_end;
  };
};

/// The scores of all words at each position: [batch, position, vocabulary].
template <auto Layout>
struct scores_body {
  template <class Parameters, class Words>
  constexpr auto operator()(const Parameters& p, const Words& words) const {
    const auto start = constrain(nn::embedding(p.embedding, words, vocabulary) + p.positions, Layout.activations);
    const auto end = nn::layer_norm(layers<Layout>(start, p.layers), p.at_the_end, embed);
    return constrain(nn::unembedding(end, p.embedding, embed), Layout.activations);
  }
};
template <auto Layout>
inline constexpr cleave::function scores{scores_body<Layout>{}};

/// The mean over all positions of -log of the probability of the next word; of scores in 16 bits a float.
template <auto Layout>
struct loss_body {
  template <class Parameters, class Words>
  constexpr auto operator()(const Parameters& p, const Words& words, const Words& next) const {
    return mean(nn::cross_entropy(widened(scores<Layout>(p, words)), next, vocabulary));
  }
};
template <auto Layout>
inline constexpr cleave::function loss{loss_body<Layout>{}};

} // namespace decoder
