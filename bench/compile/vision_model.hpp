// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A small vision transformer on images of 8 x 8. Patches come from windows, layers are a loop, heads and hidden units
// are sharded over one axis and the batch over the other. The training step clips its gradients and uses Adam.
#pragma once

#include <cleave/expr/gradient.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/nn/blocks.hpp>
#include <cleave/nn/embedding.hpp>
#include <cleave/nn/feed_forward.hpp>
#include <cleave/nn/layout_rules.hpp>
#include <cleave/nn/normalization.hpp>
#include <cleave/nn/self_attention.hpp>
#include <cleave/optim/adam.hpp>
#include <cleave/optim/clip.hpp>

#include <tuple>

namespace vision {

namespace nn = cleave::nn;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"row", 8> row;
inline constexpr cleave::dim<"col", 8> col;
inline constexpr cleave::dim<"patch row", 4> patch_row;
inline constexpr cleave::dim<"patch col", 4> patch_col;
inline constexpr cleave::dim<"row in patch", 2> row_in_patch;
inline constexpr cleave::dim<"col in patch", 2> col_in_patch;
inline constexpr cleave::dim<"patch", 16> patch;
inline constexpr cleave::dim<"source", 16> source;
inline constexpr cleave::dim<"layer"> layer;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"heads"> heads;
inline constexpr cleave::dim<"head"> head;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr cleave::dim<"digit", 10> digit;
inline constexpr nn::model_layout layout{nn::layout_rules{mesh, heads / model, hidden / model},
                                         nn::layout_rules{mesh, batch / data, heads / model, hidden / model}};

template <template <class, auto> class Tensor>
struct block_weights {
  nn::norm_weights<Tensor<float, layout.parameters(layer, embed)>, Tensor<float, layout.parameters(layer, embed)>>
      before_attention;
  nn::attention_weights<Tensor<float, layout.parameters(layer, embed, heads, head)>,
                        Tensor<float, layout.parameters(layer, embed, heads, head)>,
                        Tensor<float, layout.parameters(layer, heads, head, embed)>>
      attention;
  nn::norm_weights<Tensor<float, layout.parameters(layer, embed)>, Tensor<float, layout.parameters(layer, embed)>>
      before_feed_forward;
  nn::linear_weights<Tensor<float, layout.parameters(layer, embed, hidden)>,
                     Tensor<float, layout.parameters(layer, hidden)>>
      up;
  nn::linear_weights<Tensor<float, layout.parameters(layer, hidden, embed)>,
                     Tensor<float, layout.parameters(layer, embed)>>
      down;
};
template <template <class, auto> class Tensor>
struct network {
  Tensor<float, mesh(row_in_patch, col_in_patch, embed)> patches;
  Tensor<float, mesh(patch, embed)> positions;
  block_weights<Tensor> layers;
  nn::norm_weights<Tensor<float, mesh(embed)>, Tensor<float, mesh(embed)>> end;
  nn::linear_weights<Tensor<float, mesh(embed, digit)>, Tensor<float, mesh(digit)>> classes;
};
/// The types of a training step, of tensors or of abstract ones.
template <template <class, auto> class Tensor>
struct types {
  using Network = network<Tensor>;
  using Images = Tensor<float, mesh(batch / data, row, col)>;
  using Labels = Tensor<int, mesh(batch / data)>;
  using Number = Tensor<float, mesh()>;
  using State = cleave::optim::adam_state<Network, Number>;
};

constexpr auto patched = [](auto images) {
  const auto seen = windows(images, cleave::window{row, patch_row, row_in_patch, 2},
                            cleave::window{col, patch_col, col_in_patch, 2});
  return merge(seen, patch_row, patch_col, patch);
};
constexpr cleave::function scores([](auto p, auto images) {
  constexpr auto pin = [](const auto& v) { return constrain(v, layout.activations); };
  const auto x = dot(patched(images), p.patches, row_in_patch, col_in_patch) + p.positions;
  const auto y = nn::blocks(layout, layer, x, p.layers, [=](const auto& h, const auto& w) {
    const auto normed = nn::layer_norm(h, w.before_attention, embed);
    const auto m = h + nn::self_attention(normed, w.attention, embed, {patch, source, head}, layout.attention, {},
                                          nn::no_mask{}, pin, heads);
    return m + nn::feed_forward(
                   nn::layer_norm(m, w.before_feed_forward, embed), w.up, w.down, embed, hidden,
                   [](const auto& v) { return gelu(v); }, pin);
  });
  return nn::linear(mean(nn::layer_norm(y, p.end, embed), patch), p.classes, embed);
});
constexpr cleave::function loss([](auto p, auto images, auto labels) {
  return mean(nn::cross_entropy(scores(p, images), labels, digit));
});
constexpr cleave::function step([](auto p, auto s, auto images, auto labels, auto rate) {
  const auto [value, slope] = cleave::value_and_grad(loss)(p, images, labels);
  return std::tuple_cat(cleave::optim::adam(p, s, cleave::optim::clip_by_global_norm(slope, 1.0), rate),
                        std::tuple(value));
});

} // namespace vision
