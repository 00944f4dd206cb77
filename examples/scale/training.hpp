// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A training step of a model of language at its published size: an embedding table that is also the output, the layers
// of transformer.hpp, products of 16-bit copies of 32-bit weights unless something else is said, and Adafactor or Adam.
#pragma once

#include "../transformer.hpp"

#include <cleave/expr/gradient.hpp>
#include <cleave/nn/embedding.hpp>
#include <cleave/optim/adafactor.hpp>
#include <cleave/optim/adam.hpp>
#include <cleave/optim/mixed.hpp>

namespace training {

using namespace transformer;

/// `Layers` are the weights of the layers, `Norm` those of the last normalization; `Table` says how the embedding table
/// is sharded.
template <template <template <class, auto> class> class Layers, template <template <class, auto> class> class Norm,
          auto Table>
struct model {
  template <template <class, auto> class Tensor>
  struct in {
    Tensor<float, Table(vocabulary, embed)> embedding;
    Layers<Tensor> layers;
    Norm<Tensor> at_the_end;
  };
};

/// The mean over all positions of -log of the probability of the word there.
template <auto Layout, class Mask>
inline constexpr cleave::function loss([](const auto& p, const auto& words, const auto& next) {
  constexpr auto pin = [](const auto& v) { return constrain(v, Layout.activations); };
  const auto begin = pin(nn::embedding(p.embedding, words, vocabulary));
  const auto end = normed(layers<Layout, Mask>(begin, p.layers), p.at_the_end);
  const auto scores = pin(nn::unembedding(end, p.embedding, embed));
  return mean(nn::cross_entropy(cleave::cast<float>(scores), next, vocabulary));
});

/// x [batch, position, embed] and attention to another sequence, seen [batch, memory, embed].
template <class Pin, class X, class Norm, class W>
constexpr auto with_memory(const Pin& pin, const X& x, const X& seen, cleave::dim_ref memory, const Norm& norm,
                           const W& w) {
  const auto q = pin(dot(normed(x, norm), w.query, embed));
  const auto k = pin(dot(seen, w.key, embed)), v = pin(dot(seen, w.value, embed));
  return pin(x + dot(pin(nn::attention(q, k, v, {position, memory, head})), w.out, heads, head));
}

/// A step of training with a loss of the weights and some data, which is computed in `T`.
template <const auto& Loss, class T = cleave::bfloat16>
inline constexpr cleave::function with_adafactor([](const auto& p, const auto& state, const auto&... given) {
  auto [value, slope] = cleave::optim::mixed_value_and_grad<T>(Loss, 1.0, p, given...);
  auto [updated, after] = cleave::optim::adafactor(p, state, slope);
  return std::tuple(updated, after, value);
});
template <const auto& Loss, class T = cleave::bfloat16>
inline constexpr cleave::function with_adam([](const auto& p, const auto& state, const auto&... given) {
  auto [value, slope] = cleave::optim::mixed_value_and_grad<T>(Loss, 1.0, p, given...);
  auto [updated, after] = cleave::optim::adam(p, state, slope, 0.001);
  return std::tuple(updated, after, value);
});

/// The signatures of these steps. `Number` is a replicated number of the mesh.
template <class Model, class State, class Number, class... Given>
using step_of = std::tuple<Model, State, Number>(Model, State, Given...);
template <class Model, class Number, class... Given>
using adafactor_step = step_of<Model, cleave::optim::adafactor_state<Model, Number>, Number, Given...>;
template <class Model, class Number, class... Given>
using adam_step = step_of<Model, cleave::optim::adam_state<Model, Number>, Number, Given...>;

} // namespace training
