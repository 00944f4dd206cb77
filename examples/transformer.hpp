// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A layer of a transformer (Vaswani et al. 2017) with the normalization before each part. What it consists of follows
// from its weights: norms with or without a bias, linear maps with or without one, a feed-forward part with or without
// a gate. How it is sharded follows from a layout, a table of rules. The decoder of the examples and the published
// models of scale/ have this layer.
#pragma once

#include <cleave/nn/blocks.hpp>
#include <cleave/nn/feed_forward.hpp>
#include <cleave/nn/normalization.hpp>
#include <cleave/nn/self_attention.hpp>

namespace transformer {

namespace nn = cleave::nn;

inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"position"> position;
inline constexpr cleave::dim<"source"> source; // a position that is looked at
inline constexpr cleave::dim<"layer"> layer;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"heads"> heads;
inline constexpr cleave::dim<"head"> head;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr cleave::dim<"vocabulary"> vocabulary;

/// The weights of all layers, stacked, with the layouts of some rules: `weights<Rules>::gated<cleave::tensor>`.
template <auto Rules, class T = float>
struct weights {
  template <template <class, auto> class Tensor>
  using scale = Tensor<T, Rules(embed)>;
  template <template <class, auto> class Tensor>
  using scale_and_bias = nn::norm_weights<Tensor<T, Rules(embed)>>;
  template <template <class, auto> class Tensor>
  using scales = Tensor<T, Rules(layer, embed)>;
  template <template <class, auto> class Tensor>
  using scales_and_biases = nn::norm_weights<Tensor<T, Rules(layer, embed)>>;
  template <template <class, auto> class Tensor>
  using attending =
      nn::attention_weights<Tensor<T, Rules(layer, embed, heads, head)>, Tensor<T, Rules(layer, embed, heads, head)>,
                            Tensor<T, Rules(layer, heads, head, embed)>>;

  /// Norms and the linear maps of the feed-forward part have biases (Radford et al. 2019).
  template <template <class, auto> class Tensor>
  struct biased {
    scales_and_biases<Tensor> before_attention;
    attending<Tensor> attention;
    scales_and_biases<Tensor> before_feed_forward;
    nn::linear_weights<Tensor<T, Rules(layer, embed, hidden)>, Tensor<T, Rules(layer, hidden)>> up;
    nn::linear_weights<Tensor<T, Rules(layer, hidden, embed)>, Tensor<T, Rules(layer, embed)>> down;
  };
  template <template <class, auto> class Tensor>
  struct plain {
    scales<Tensor> before_attention;
    attending<Tensor> attention;
    scales<Tensor> before_feed_forward;
    Tensor<T, Rules(layer, embed, hidden)> up;
    Tensor<T, Rules(layer, hidden, embed)> down;
  };
  template <template <class, auto> class Tensor>
  struct gated {
    scales<Tensor> before_attention;
    attending<Tensor> attention;
    scales<Tensor> before_feed_forward;
    Tensor<T, Rules(layer, embed, hidden)> gate, up;
    Tensor<T, Rules(layer, hidden, embed)> down;
  };
};

template <class X, class W>
constexpr auto normed(const X& x, const W& w) {
  if constexpr (requires { w.bias; }) return nn::layer_norm(x, w, embed);
  else return nn::rms_norm(x, w, embed);
}
/// x [batch, position, embed] and the attention to itself, after a normalization.
template <auto Layout, class Mask = nn::causal, class X, class W>
constexpr auto with_attention(const X& x, const W& w) {
  constexpr auto pin = [](const auto& v) { return constrain(v, Layout.activations); };
  return pin(x + nn::self_attention(normed(x, w.before_attention), w.attention, embed, {position, source, head},
                                    nn::self_attention_options{Layout.attention, Mask{}, pin}, heads));
}
/// x and its feed-forward part, after a normalization.
template <auto Layout, class X, class W>
constexpr auto with_feed_forward(const X& x, const W& w) {
  constexpr auto pin = [](const auto& v) { return constrain(v, Layout.activations); };
  constexpr auto activation = [](const auto& h) { return gelu(h); };
  const auto a = normed(x, w.before_feed_forward);
  if constexpr (requires { w.gate; })
    return pin(x + nn::gated_feed_forward(a, w.gate, w.up, w.down, embed, hidden, activation, pin));
  else if constexpr (requires { w.up.bias; })
    return pin(x + nn::feed_forward(a, w.up, w.down, embed, hidden, activation, pin));
  else return pin(x + dot(activation(pin(dot(a, w.up, embed))), w.down, hidden));
}
/// One layer.
template <auto Layout, class Mask = nn::causal, class X, class W>
constexpr auto layer_of(const X& x, const W& w) {
  return with_feed_forward<Layout>(with_attention<Layout, Mask>(x, w), w);
}
/// All layers, in the schedule of the layout.
template <auto Layout, class Mask = nn::causal, class X, class W>
constexpr auto layers(const X& x, const W& w) {
  return nn::blocks(Layout, layer, x, w, [](const auto& h, const auto& v) { return layer_of<Layout, Mask>(h, v); });
}

} // namespace transformer
