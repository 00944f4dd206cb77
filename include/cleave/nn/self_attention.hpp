// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/nn/attention.hpp>
#include <cleave/nn/feed_forward.hpp>
#include <cleave/nn/rotary.hpp>

#include <functional>

namespace cleave { inline namespace v0 { namespace nn {

namespace detail {
/// A kernel, or a kernel with a bias.
template <class W>
concept LinearMap = std::convertible_to<const W&, operand> || requires(const W& w) { operand(w.bias); };
template <LinearMap W, class... D>
constexpr value projected(const value& x, const W& w, const D&... over) {
  if constexpr (requires { w.bias; }) return linear(x, w, over...);
  else return dot(x, w, over...);
}
} // namespace detail

/// The weights of an attention layer: from `embed` to heads, and back. Each is a tensor or `linear_weights`.
template <class Query, class Key, class Out>
struct attention_weights {
  Query query;
  Key key, value;
  Out out;
};
template <class Q, class K, class O>
attention_weights(Q, K, K, O) -> attention_weights<Q, K, O>;

/// Options of `self_attention`: `{}`, `self_attention_options{nn::all_scores{}, nn::causal{}, pin}`.
template <class How = all_scores, class Mask = no_mask, class Pin = std::identity>
struct self_attention_options {
  /// all_scores, in_blocks or around_ring.
  How how{};
  /// no_mask, causal, or a function of two indices.
  Mask mask{};
  /// Constrains queries, keys, values and the attention result.
  Pin pin{};
  /// The base of rotary position embedding; 0: no rotation.
  double rotary_base = 0;
};
template <class H>
self_attention_options(H) -> self_attention_options<H>;
template <class H, class M>
self_attention_options(H, M) -> self_attention_options<H, M>;
template <class H, class M, class P>
self_attention_options(H, M, P) -> self_attention_options<H, M, P>;
template <class H, class M, class P>
self_attention_options(H, M, P, double) -> self_attention_options<H, M, P>;

/// Attention of a sequence to itself (Vaswani et al. 2017). x [position, embed, ...] is mapped to queries, keys and
/// values, and the attention result is mapped back to `embed`. `heads` are the dims of the weights other than `embed`
/// and `head`: heads, or, for grouped queries, heads of keys and a dim that only queries have. `source` is the name of
/// `position` for keys and values. If queries, keys and values are sharded along heads as the weights are, only the
/// last product communicates: it leaves one partial sum (Shoeybi et al. 2019).
template <detail::LinearMap Q, detail::LinearMap K, detail::LinearMap O, class How = all_scores, class Mask = no_mask,
          class Pin = std::identity, std::convertible_to<dim_ref>... Heads>
constexpr value self_attention(operand x, const attention_weights<Q, K, O>& w, dim_ref embed, const attention_dims& d,
                               const self_attention_options<How, Mask, Pin>& o, const Heads&... heads) {
  const called_at user(x, "self_attention");
  if (!x.from.ok()) return x.from;
  using cleave::value;
  const auto turned = [&](const value& v, dim_ref along) {
    if (o.rotary_base == 0) return v;
    value at = iota(x, along);
    if constexpr (requires { How::ring; })
      at = broadcast(iota(x, How::ring), How::ring, along) * cast<std::int32_t>(count(v, along)) + at;
    return rotary(v, at, d.head, o.rotary_base);
  };
  const value other = rename(x, d.position, d.source);
  const value q = turned(o.pin(detail::projected(x.from, w.query, embed)), d.position),
              k = turned(o.pin(detail::projected(other, w.key, embed)), d.source),
              v = o.pin(detail::projected(other, w.value, embed));
  const value mixed = [&] {
    if constexpr (requires { How::ring; }) return ring_attention(q, k, v, d, How::ring, o.mask);
    else if constexpr (requires { How::block; }) return blocked_attention(q, k, v, d, How::block, o.mask);
    else return attention(q, k, v, d, o.mask);
  }();
  return detail::projected(o.pin(mixed), w.out, heads..., d.head);
}

/// A mistake: weights that are neither tensors nor linear maps. Fault: not_an_operand.
template <class Q, class K, class O, class... Rest>
  requires(!(detail::LinearMap<Q> && detail::LinearMap<K> && detail::LinearMap<O>))
constexpr auto self_attention(operand x, const attention_weights<Q, K, O>&, dim_ref, const attention_dims&,
                              const Rest&...) {
  return say(rejection<fault::not_an_operand, op_named<"self_attention">, Q, K, O>), x.from;
}

/// The base of rotary position embedding; 0: no rotation.
struct attention_rotation {
  double rotary_base = 0;
};
/// The same with each option as an argument of its own, as it was written before there was `self_attention_options`.
template <class Q, class K, class O, class How, class Mask, class Pin, std::convertible_to<dim_ref>... Heads>
constexpr value self_attention(operand x, const attention_weights<Q, K, O>& w, dim_ref embed, const attention_dims& d,
                               const How& how, const attention_rotation& rotation, const Mask& mask, const Pin& pin,
                               const Heads&... heads) {
  return self_attention(x, w, embed, d, self_attention_options<How, Mask, Pin>{how, mask, pin, rotation.rotary_base},
                        heads...);
}

}}} // namespace cleave::v0::nn
