// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A decoder like Llama (Touvron et al. 2023) with the order of dims of published files, and its weights from them. Keys
// and values of earlier positions are in a cache.
#pragma once

#include <cleave/cleave.hpp>
#include <cleave/io/arrays.hpp>
#include <cleave/nn/blocks.hpp>
#include <cleave/nn/decoding.hpp>
#include <cleave/nn/embedding.hpp>
#include <cleave/nn/feed_forward.hpp>
#include <cleave/nn/normalization.hpp>
#include <cleave/nn/parameters.hpp>
#include <cleave/nn/self_attention.hpp>

#include <cstdint>
#include <string>
#include <tuple>

namespace llama {

namespace nn = cleave::nn;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};

inline constexpr cleave::dim<"sequence"> sequence;
inline constexpr cleave::dim<"position"> position; // of the tokens of a call
/// Of the cache: those of the first layer, of the second and so on.
inline constexpr cleave::dim<"source"> source;
inline constexpr cleave::dim<"span", 64> span; // of the cache, at which a token looks at once
inline constexpr cleave::dim<"layer"> layer;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"heads"> heads; // of keys and values
inline constexpr cleave::dim<"group"> group; // queries for each of them
inline constexpr cleave::dim<"head"> head;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr cleave::dim<"vocabulary"> vocabulary;

/// Heads, hidden units and words are sharded over `model`, sequences over `data`.
inline constexpr nn::model_layout layout{nn::layout_rules{mesh, heads / model, hidden / model, vocabulary / model},
                                         nn::layout_rules{mesh, sequence / data, heads / model, hidden / model,
                                                          vocabulary / model}};

template <template <class, auto> class Tensor>
struct layers {
  template <auto... D>
  using parameter = Tensor<float, layout.parameters(layer, D...)>;
  parameter<embed> before_attention;
  nn::attention_weights<parameter<heads, group, head, embed>, parameter<heads, head, embed>,
                        parameter<embed, heads, group, head>>
      attention;
  parameter<embed> before_feed_forward;
  parameter<hidden, embed> gate, up;
  parameter<embed, hidden> down;
};
template <template <class, auto> class Tensor>
struct parameters {
  template <auto... D>
  using parameter = Tensor<float, layout.parameters(D...)>;
  parameter<vocabulary, embed> words;
  layers<Tensor> stack;
  parameter<embed> at_the_end;
  /// The embedding table again if a file has none.
  parameter<vocabulary, embed> scores;
};
using weights = parameters<cleave::tensor>;

template <class T, auto... D>
using activation = cleave::tensor<T, layout.activations(D...)>;
using cache = nn::kv_cache<activation<float, sequence, source, heads, head>>;
using tokens = activation<std::int32_t, sequence, position>;
using places = activation<std::int32_t, sequence>;
using all_scores = activation<float, sequence, position, vocabulary>;
using last_scores = activation<float, sequence, vocabulary>;

/// The numbers of a configuration.
template <class Number>
struct numbers {
  Number epsilon, base, factor, low, high, context;
};

/// Reads tokens from index `start` of the cache on, where a sequence begins at index `begin`, and each layer has `room`
/// of them: the scores of all words after each of them, or after the last one alone, and the cache.
template <bool All>
struct step_body {
  template <class Weights, class Cache, class Tokens, class Places, class Whole, class Numbers>
  constexpr auto operator()(const Weights& p, const Cache& so_far, const Tokens& ids, const Places& begin,
                            const Whole& start, const Whole& room, const Numbers& n) const {
    constexpr auto pin = [](const auto& v) { return constrain(v, layout.activations); };
    constexpr auto activate = [](const auto& h) { return nn::silu(h); };
    const auto index = iota<std::int32_t>(ids, position) + start;
    const auto at = cleave::maximum(broadcast(index, sequence, position) - begin, 0);
    const auto begun = [&](const auto&, const auto& from) { return from >= begin; };
    const nn::rotation turns{.base = n.base, .factor = n.factor, .low = n.low, .high = n.high, .context = n.context};
    const auto layer_of = [&](const auto& carry, const auto& stacked) {
      const auto& [x, so_far_of_all] = carry;
      const auto& [w, number] = stacked;
      const nn::self_attention_options o{nn::in_spans{span, number * room}, begun, pin, turns, at};
      const auto [mixed, cached] = nn::self_attention(nn::rms_norm(x, w.before_attention, embed, n.epsilon),
                                                      w.attention, embed, {position, source, head}, o, so_far_of_all,
                                                      start, heads, group);
      const auto middle = pin(x + mixed);
      const auto f = nn::rms_norm(middle, w.before_feed_forward, embed, n.epsilon);
      const auto more = nn::gated_feed_forward(f, w.gate, w.up, w.down, embed, hidden, activate, pin);
      return std::pair(cleave::value(pin(middle + more)), cached);
    };
    const cleave::value first = pin(nn::embedding(p.words, ids, vocabulary));
    const nn::kv_cache<cleave::value> empty{so_far.keys, so_far.values};
    const auto [end, filled] = scan(layer, std::pair(first, empty), std::pair(p.stack, iota(first, layer)), layer_of);
    const auto scores = [&](const auto& h) {
      return constrain(nn::unembedding(nn::rms_norm(h, p.at_the_end, embed, n.epsilon), p.scores, embed),
                       layout.activations);
    };
    if constexpr (All) {
      return std::tuple(scores(end), filled);
    } else {
      constexpr cleave::dim<"last position"> last;
      return std::tuple(scores(sum(slice(end, position, last, -1), last)), filled);
    }
  }
};
template <bool All>
inline constexpr auto step =
    cleave::with(cleave::function{step_body<All>{}}, cleave::expect<sequence, 8>{}, cleave::expect<position, 1>{},
                 cleave::expect<source, 1024>{}, cleave::expect<layer, 32>{}, cleave::expect<embed, 4096>{},
                 cleave::expect<heads, 8>{}, cleave::expect<group, 4>{}, cleave::expect<head, 128>{},
                 cleave::expect<hidden, 14336>{}, cleave::expect<vocabulary, 128256>{});

/// The cache for sequences in another order.
inline constexpr cleave::function reordered([](const auto& so_far, const auto& from) {
  return nn::reordered(so_far, sequence, from);
});

} // namespace llama
