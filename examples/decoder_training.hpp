// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What programs that train the decoder share: its sizes, the numbers it starts with, and one step of training as one
// plan.
#pragma once

#include "decoder.hpp"

#include <cleave/cleave.hpp>
#include <cleave/nn/parameters.hpp>
#include <cleave/optim/adam.hpp>
#include <cleave/optim/clip.hpp>
#include <cleave/optim/mixed.hpp>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>

namespace decoder {

struct sizes {
  std::int64_t batch = 16, positions = 64, layers = 2, embed = 64, heads = 4, hidden = 256, vocabulary = 256;
  /// Two for pipelines, one for rings; otherwise 1.
  std::int64_t stages = 1, microbatches = 1, chunks = 1;

  // The dims `batch`, `position` and `layer` have the extents of one microbatch, chunk and stage.
  std::int64_t sentences_of_a_microbatch() const { return batch / microbatches; }
  std::int64_t positions_of_a_chunk() const { return positions / chunks; }
  std::int64_t layers_of_a_stage() const { return cleave::nn::layers_of_a_stage(layers, stages); }
};

/// Throws, on every rank alike, where the sizes do not fit each other. Without this, the quotients above would round
/// down: a smaller model than was asked for.
inline void check(const sizes& s) {
  const auto divides = [](std::int64_t whole, const std::string& of, std::int64_t parts, const std::string& into) {
    if (whole % parts == 0) return;
    throw std::runtime_error(std::to_string(whole) + " " + of + " cannot be divided into " + std::to_string(parts) +
                             " " + into + " of equal length");
  };
  divides(s.embed, "numbers of a position", s.heads, "heads");
  divides(s.batch, "sentences of a batch", s.microbatches, "microbatches");
  divides(s.positions, "positions of a window", s.chunks, "chunks");
  s.layers_of_a_stage();
}

/// A function planned for a small decoder on a few processes. Its plans are right for all sizes; which one is the
/// cheapest depends on them: where batches are large and weights small, weights move instead of what is computed.
template <class Body>
constexpr auto planned(Body) {
  using cleave::expect;
  return cleave::with(cleave::function{Body{}}, expect<batch, 16>{}, expect<microbatch, 4>{}, expect<ring, 2>{},
                      expect<position, 64>{}, expect<layer, 2>{}, expect<stage, 2>{}, expect<embed, 64>{},
                      expect<heads, 4>{}, expect<head, 16>{}, expect<hidden, 256>{}, expect<vocabulary, 256>{},
                      expect<data, 2>{}, expect<model, 2>{});
}

/// The types of what a layout trains.
template <auto Layout>
struct of {
  using Parameters = typename parameters<Layout.parameters>::template in<cleave::tensor>;
  using Averages = typename parameters<Layout.state>::template in<cleave::tensor>;
  using Scalar = cleave::tensor<float, mesh()>;
  using State = cleave::optim::adam_state<Averages, Scalar>;
  using Words = cleave::tensor<std::int32_t, Layout.activations(batch, position)>;
};

/// Tensors of zeros, or aggregates of them, with the extents that the sizes give their dims.
template <class A>
A made(const cleave::grid& grid, const sizes& s) {
  return cleave::nn::make_parameters<A>(grid, {batch = s.sentences_of_a_microbatch(), microbatch = s.microbatches,
                                               ring = s.chunks, position = s.positions_of_a_chunk(),
                                               layer = s.layers_of_a_stage(), stage = s.stages, embed = s.embed,
                                               heads = s.heads, head = s.embed / s.heads, hidden = s.hidden,
                                               vocabulary = s.vocabulary});
}

/// The parameters that are drawn (Radford et al. 2019): deviation 0.02, times `residual` for maps that add to the
/// residual stream. A number follows from the key and its global place, where stages and chunks come first: layer by
/// layer the same in a pipeline, position by position in a ring.
template <auto Layout>
struct drawn_body {
  template <class Seed, class Number>
  constexpr auto operator()(const Seed& seed, const Number& residual) const {
    constexpr auto once = [](const auto& key, int use, const auto&... dims) {
      return 0.02 * normal(fold_in(key, use), dims...);
    };
    constexpr auto stacked = [once](const auto& key, int use, const auto&... dims) {
      if constexpr (staged<Layout>) return once(key, use, stage, layer, dims...);
      else return once(key, use, layer, dims...);
    };
    constexpr auto placed = [once](const auto& key, int use, const auto&... dims) {
      if constexpr (rings<Layout>) return once(key, use, ring, position, dims...);
      else return once(key, use, position, dims...);
    };
    return std::tuple(once(seed, 0, vocabulary, embed), placed(seed, 1, embed),
                      // Queries, keys, values, and the way back from heads.
                      stacked(seed, 2, embed, heads, head), stacked(seed, 3, embed, heads, head),
                      stacked(seed, 4, embed, heads, head), residual * stacked(seed, 5, heads, head, embed),
                      // Up to the hidden units and down again.
                      stacked(seed, 6, embed, hidden), residual * stacked(seed, 7, hidden, embed));
  }
};
template <auto Layout>
inline constexpr cleave::function drawn{drawn_body<Layout>{}};

/// New parameters: those above, scales of 1, all others 0.
template <auto Layout>
typename of<Layout>::Parameters initial(const cleave::grid& grid, const sizes& s, std::uint32_t seed) {
  auto p = made<typename of<Layout>::Parameters>(grid, s);
  const float residual = 1 / std::sqrt(2 * static_cast<float>(s.layers));
  auto& attention = p.layers.attention;
  drawn<Layout>(seed, residual)
      .into(p.embedding, p.positions, attention.query, attention.key, attention.value, attention.out,
            p.layers.up.kernel, p.layers.down.kernel);
  p.layers.before_attention.scale.fill(1);
  p.layers.before_feed_forward.scale.fill(1);
  p.at_the_end.scale.fill(1);
  return p;
}

/// One step of Adam, with gradients whose norm is at most `limit`: new parameters, new state, and the loss before. All
/// of it is one plan, so gradients go where the state lies, and parameters return to their layout, by whatever
/// collectives are the cheapest. Products are those of copies of the parameters in T; parameters and state stay float.
template <auto Layout, class T = float>
struct step_body {
  template <class Parameters, class State, class Words, class Rate, class Numbers>
  constexpr auto operator()(const Parameters& p, const State& state, const Words& words, const Words& next,
                            const Rate& rate, const Rate& limit, const Numbers& numbers) const {
    const auto [value, slope] = [&] {
      if constexpr (std::same_as<T, float>) return cleave::value_and_grad(loss<Layout>)(p, words, next);
      else return cleave::optim::mixed_value_and_grad<T>(loss<Layout>, 1, p, words, next);
    }();
    return std::tuple_cat(cleave::optim::adam(p, state, cleave::optim::clip_by_global_norm(slope, limit), rate,
                                              numbers),
                          std::tuple(value));
  }
};
template <auto Layout, class T = float>
inline constexpr auto step = planned(step_body<Layout, T>{});

/// The step as a call that gives its parameters and state new values, and `loss` that before. Programs that share the
/// objects of train_lm/ need not compile its plan.
template <auto Layout, class T = float>
struct trainer {
  using types = of<Layout>;
  static void step(typename types::Parameters& p, typename types::State& state, const typename types::Words& words,
                   const typename types::Words& next, float rate, float limit,
                   const cleave::optim::adam_numbers<float>& numbers, typename types::Scalar& loss);
};
// Not inline: g++ would make the plan for each program that might inline the call.
template <auto Layout, class T>
void trainer<Layout, T>::step(typename types::Parameters& p, typename types::State& state,
                              const typename types::Words& words, const typename types::Words& next, float rate,
                              float limit, const cleave::optim::adam_numbers<float>& numbers,
                              typename types::Scalar& loss) {
  decoder::step<Layout, T>(p, state, words, next, rate, limit, numbers).into(p, state, loss);
}

/// The loss of a batch, and the scores of what may follow position `at`, summed over its sentences: of a single one,
/// its scores. One plan for judging and for generating, since each costs many seconds of compilation, and what either
/// does not need costs little to run.
template <auto Layout>
struct forward_body {
  template <class Parameters, class Words, class At>
  constexpr auto operator()(const Parameters& p, const Words& words, const Words& next, const At& at) const {
    const auto all = scores<Layout>(p, words);
    const auto value = mean(nn::cross_entropy(all, next, vocabulary));
    if constexpr (staged<Layout>) {
      return std::tuple(value, sum(gather(all, position, at), microbatch, batch));
    } else if constexpr (rings<Layout>) {
      const auto length = cast<std::int32_t>(count(all, position)), chunk = at / length;
      return std::tuple(value, sum(gather(gather(all, ring, chunk), position, at - chunk * length), batch));
    } else {
      return std::tuple(value, sum(gather(all, position, at), batch));
    }
  }
};
template <auto Layout>
inline constexpr auto forward = planned(forward_body<Layout>{});

} // namespace decoder
