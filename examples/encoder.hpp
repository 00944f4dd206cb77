// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An encoder of text (Devlin et al. 2019) whose tensors have the order of dims of published files: normalization after
// each part, learned positions, and the mean over the tokens of a sentence as its embedding (Reimers and Gurevych
// 2019).
#pragma once

#include <cleave/cleave.hpp>
#include <cleave/io/arrays.hpp>
#include <cleave/nn/blocks.hpp>
#include <cleave/nn/embedding.hpp>
#include <cleave/nn/feed_forward.hpp>
#include <cleave/nn/normalization.hpp>
#include <cleave/nn/parameters.hpp>
#include <cleave/nn/self_attention.hpp>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace encoder {

namespace nn = cleave::nn;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};

inline constexpr cleave::dim<"sentence"> sentence;
inline constexpr cleave::dim<"position"> position;
inline constexpr cleave::dim<"source"> source; // a position that is looked at
inline constexpr cleave::dim<"layer"> layer;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"heads"> heads;
inline constexpr cleave::dim<"head"> head;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr cleave::dim<"vocabulary"> vocabulary;
inline constexpr cleave::dim<"place"> place; // a position that has an embedding
inline constexpr cleave::dim<"segment"> segment; // the first or the second text; here always the first

/// Heads, hidden units and words are sharded over `model`, sentences over `data`.
inline constexpr nn::model_layout layout{nn::layout_rules{mesh, heads / model, hidden / model, vocabulary / model},
                                         nn::layout_rules{mesh, sentence / data, heads / model, hidden / model}};

template <template <class, auto> class Tensor>
struct layers_in {
  template <auto... D>
  using parameter = Tensor<float, layout.parameters(layer, D...)>;
  using to_heads = nn::linear_weights<parameter<heads, head, embed>, parameter<heads, head>>;
  using from_heads = nn::linear_weights<parameter<embed, heads, head>, parameter<embed>>;
  nn::attention_weights<to_heads, to_heads, from_heads> attention;
  nn::norm_weights<parameter<embed>> after_attention;
  nn::linear_weights<parameter<hidden, embed>, parameter<hidden>> up;
  nn::linear_weights<parameter<embed, hidden>, parameter<embed>> down;
  nn::norm_weights<parameter<embed>> after_feed_forward;
};
template <template <class, auto> class Tensor>
struct weights_in {
  template <auto... D>
  using parameter = Tensor<float, layout.parameters(D...)>;
  parameter<vocabulary, embed> words;
  parameter<place, embed> places;
  parameter<segment, embed> segments;
  nn::norm_weights<parameter<embed>> norm;
  layers_in<Tensor> layers;
};
using weights = weights_in<cleave::tensor>;

template <class T, auto... D>
using activation = cleave::tensor<T, layout.activations(D...)>;
using tokens = activation<std::int32_t, sentence, position>;
using states = activation<float, sentence, position, embed>;
using embeddings = activation<float, sentence, embed>;

/// The state of each token after the last layer, and the embedding of each sentence, of length 1. `mask` is 0 at the
/// tokens that only fill a sentence up.
constexpr auto body = [](const auto& p, const auto& ids, const auto& mask, const auto& epsilon) {
  constexpr auto pin = [](const auto& v) { return constrain(v, layout.activations); };
  constexpr auto activate = [](const auto& h) { return nn::gelu_exact(h); };
  constexpr cleave::dim<"first segment"> first;
  const auto norm = [&](const auto& x, const auto& w) { return nn::layer_norm(x, w, embed, epsilon); };
  const auto segment_0 = sum(slice(p.segments, segment, first, 0, 1), first);
  const auto at_places = gather(p.places, place, iota<std::int32_t>(ids, position));
  const auto start = pin(norm(nn::embedding(p.words, ids, vocabulary) + at_places + segment_0, p.norm));
  const auto seen = rename(mask, position, source) != 0;
  const auto sees = [&](const auto&, const auto&) { return seen; };
  const auto end = nn::blocks(layout, layer, start, p.layers, [&](const auto& x, const auto& w) {
    const auto mixed = nn::self_attention(x, w.attention, embed, {position, source, head},
                                          nn::self_attention_options{nn::all_scores{}, sees, pin}, heads);
    const auto middle = pin(norm(x + mixed, w.after_attention));
    const auto more = nn::feed_forward(middle, w.up, w.down, embed, hidden, activate, pin);
    return pin(norm(middle + more, w.after_feed_forward));
  });
  const auto counts = cast<float>(mask);
  const auto mean = sum(end * counts, position) / maximum(sum(counts, position), 1e-9);
  return std::tuple(end, mean * rsqrt(maximum(sum(mean * mean, embed), 1e-24)));
};
inline constexpr auto encode = cleave::with(cleave::function{body}, cleave::expect<sentence, 32>{},
                                            cleave::expect<position, 64>{}, cleave::expect<source, 64>{},
                                            cleave::expect<layer, 6>{}, cleave::expect<embed, 384>{},
                                            cleave::expect<hidden, 1536>{}, cleave::expect<heads, 12>{},
                                            cleave::expect<head, 32>{}, cleave::expect<vocabulary, 30522>{},
                                            cleave::expect<place, 512>{}, cleave::expect<segment, 2>{});

/// What a file of weights has. Heads are not in it: they divide the rows of the queries.
struct sizes {
  std::int64_t layers = 0, embed = 0, hidden = 0, vocabulary = 0, places = 0, segments = 0;
  /// Before all names: `bert.` in files that have further parts.
  std::string prefix{};
};
inline sizes sizes_in(const cleave::grid& grid, const std::string& path) {
  const std::vector<cleave::io::array_info> all = cleave::io::arrays_in(grid, path);
  const std::string words = "embeddings.word_embeddings.weight";
  sizes s;
  for (const auto& a : all)
    if (a.name.ends_with("." + words)) s.prefix = a.name.substr(0, a.name.size() - words.size());
  const auto extent = [&](const std::string& name, std::size_t axis) {
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& a) { return a.name == s.prefix + name; });
    if (found == all.end() || found->extents.size() != 2)
      throw std::runtime_error("encoder: " + path + " has no matrix '" + s.prefix + name + "'");
    return found->extents[axis];
  };
  s.vocabulary = extent(words, 0);
  s.embed = extent(words, 1);
  s.places = extent("embeddings.position_embeddings.weight", 0);
  s.segments = extent("embeddings.token_type_embeddings.weight", 0);
  s.hidden = extent("encoder.layer.0.intermediate.dense.weight", 0);
  const auto has_layer = [&](std::int64_t l) {
    const std::string begin = s.prefix + "encoder.layer." + std::to_string(l) + ".";
    return std::any_of(all.begin(), all.end(), [&](const auto& a) { return a.name.starts_with(begin); });
  };
  while (has_layer(s.layers)) ++s.layers;
  return s;
}

/// All weights, each rank its shards.
inline weights load(const cleave::grid& grid, const std::string& path, const sizes& s, std::int64_t number_of_heads) {
  auto all = nn::make_parameters<weights>(grid, {layer = s.layers, embed = s.embed, heads = number_of_heads,
                                                 head = s.embed / number_of_heads, hidden = s.hidden,
                                                 vocabulary = s.vocabulary, place = s.places, segment = s.segments});
  const std::string start = s.prefix + "embeddings.", in = s.prefix + "encoder.layer.{i}.";
  cleave::io::name_table names{{"words", start + "word_embeddings.weight"},
                               {"places", start + "position_embeddings.weight"},
                               {"segments", start + "token_type_embeddings.weight"},
                               {"layers.attention.out.kernel", in + "attention.output.dense.weight",
                                "embed (heads head)"},
                               {"layers.attention.out.bias", in + "attention.output.dense.bias"},
                               {"layers.attention.*.kernel", in + "attention.self.*.weight", "(heads head) embed"},
                               {"layers.attention.*.bias", in + "attention.self.*.bias", "(heads head)"},
                               {"layers.up.kernel", in + "intermediate.dense.weight"},
                               {"layers.up.bias", in + "intermediate.dense.bias"},
                               {"layers.down.kernel", in + "output.dense.weight"},
                               {"layers.down.bias", in + "output.dense.bias"}};
  for (const auto& [member, array] :
       {std::pair{"norm", start}, std::pair{"layers.after_attention", in + "attention.output."},
        std::pair{"layers.after_feed_forward", in + "output."}}) {
    names.push_back({std::string(member) + ".scale", array + "LayerNorm.weight"});
    names.push_back({std::string(member) + ".bias", array + "LayerNorm.bias"});
  }
  // A pooler, heads for other tasks, the numbers of the positions.
  cleave::io::load(grid, path, all, {.names = names, .ignore = {"*"}});
  return all;
}

} // namespace encoder
