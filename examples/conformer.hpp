// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A layer of a Conformer (Gulati et al. 2020): a half feed-forward part, attention, a depthwise convolution along time,
// and another half feed-forward part. A layer norm takes the place of the batch norm, so that parts of a batch need
// nothing from each other. The example and the published models of scale/ have this layer.
#pragma once

#include "transformer.hpp"

#include <cleave/nn/convolution.hpp>

namespace conformers {

using namespace transformer;

inline constexpr cleave::dim<"stage"> stage; // of a pipeline: some layers
inline constexpr cleave::dim<"microbatch"> microbatch; // and the parts of a batch that go through it
inline constexpr cleave::dim<"inner"> inner; // of a convolution
inline constexpr cleave::dim<"kernel", 5> kernel;

/// The weights of all layers, stacked, with the layouts of some rules: `conformer<Rules>::in<cleave::tensor>`.
template <auto Rules>
struct conformer {
  template <template <class, auto> class Tensor>
  struct half_part {
    typename weights<Rules>::template scales_and_biases<Tensor> before;
    Tensor<float, Rules(layer, embed, hidden)> up;
    Tensor<float, Rules(layer, hidden, embed)> down;
  };
  template <template <class, auto> class Tensor>
  struct in {
    half_part<Tensor> first, last;
    typename weights<Rules>::template scales_and_biases<Tensor> before_attention, before_convolution, at_the_end;
    typename weights<Rules>::template attending<Tensor> attention;
    Tensor<float, Rules(layer, embed, inner)> gate, pointwise;
    Tensor<float, Rules(layer, kernel, inner)> depthwise;
    nn::norm_weights<Tensor<float, Rules(layer, inner)>> after_depthwise;
    Tensor<float, Rules(layer, inner, embed)> out;
  };
};

template <auto Layout>
inline constexpr auto pinned = [](const auto& v) { return constrain(v, Layout.activations); };
template <auto Layout, class X, class W>
constexpr auto with_half(const X& x, const W& w) {
  constexpr auto pin = pinned<Layout>;
  return pin(x + 0.5 * dot(pin(nn::silu(dot(normed(x, w.before), w.up, embed))), w.down, hidden));
}
template <auto Layout, class X, class W>
constexpr auto with_convolution(const X& x, const W& w) {
  constexpr auto pin = pinned<Layout>;
  const auto a = normed(x, w.before_convolution);
  const auto gated = pin(dot(a, w.pointwise, embed)) * sigmoid(pin(dot(a, w.gate, embed)));
  const auto seen = windows(gated, nn::centred(position, kernel));
  const auto mixed = sum(seen * w.depthwise, kernel); // of each channel by itself
  return pin(x + dot(pin(nn::silu(nn::layer_norm(mixed, w.after_depthwise, inner))), w.out, inner));
}
/// All layers, in the schedule of the layout: x [batch, position, embed].
template <auto Layout, class X, class W>
constexpr auto encoded(const X& x, const W& weights) {
  return nn::blocks(Layout, layer, x, weights, [](const auto& h, const auto& w) {
    const auto attended = with_attention<Layout, nn::no_mask>(with_half<Layout>(h, w.first), w);
    const auto mixed = with_convolution<Layout>(attended, w);
    return pinned<Layout>(normed(with_half<Layout>(mixed, w.last), w.at_the_end));
  });
}

} // namespace conformers
