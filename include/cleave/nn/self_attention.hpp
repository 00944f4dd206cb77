// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/nn/attention.hpp>
#include <cleave/nn/rotary.hpp>

namespace cleave::nn {

/// The weights of an attention layer: from `embed` to heads, and back.
template <class Query, class Key, class Out>
struct attention_weights {
  Query query;
  Key key, value;
  Out out;
};
template <class Q, class K, class O>
attention_weights(Q, K, K, O) -> attention_weights<Q, K, O>;

/// Options of `self_attention`.
struct self_attention_options {
  /// The base of rotary position embedding; 0: no rotation.
  double rotary_base = 0;
};

/// Attention of a sequence to itself (Vaswani et al. 2017). x [position, embed, ...] is mapped to queries, keys and
/// values, and the attention result is mapped back to `embed`. `heads` are the dims that the weights have beside
/// `embed` and `head`: heads, or, for grouped queries, heads of keys and a dim that only queries have. `source` is the
/// name of `position` for keys and values. `How` is all_scores, in_blocks or around_ring. `pin` constrains queries,
/// keys, values and the attention result. If they are sharded along heads as the weights are, only the last product
/// communicates: it leaves one partial sum (Shoeybi et al. 2019).
template <class How, class Mask, class Pin, class Q, class K, class O, std::convertible_to<dim_ref>... Heads>
constexpr value self_attention(operand x, const attention_weights<Q, K, O>& w, dim_ref embed, const attention_dims& d, const How&, const self_attention_options& options,
                               const Mask& mask, const Pin& pin, const Heads&... heads) {
  const called_at user(x);
  if (!x.from.ok()) return x.from;
  using cleave::value;
  const auto turned = [&](const value& v, dim_ref along) {
    if (options.rotary_base == 0) return v;
    value at = iota(x, along);
    if constexpr (requires { How::ring; }) at = broadcast(iota(x, How::ring), How::ring, along) * cast<std::int32_t>(count(v, along)) + at;
    return rotary(v, at, d.head, options.rotary_base);
  };
  const value other = rename(x, d.position, d.source);
  const value q = turned(pin(dot(x, w.query, embed)), d.position), k = turned(pin(dot(other, w.key, embed)), d.source), v = pin(dot(other, w.value, embed));
  const value mixed = [&] {
    if constexpr (requires { How::ring; }) return ring_attention(q, k, v, d, How::ring, mask);
    else if constexpr (requires { How::block; }) return blocked_attention(q, k, v, d, How::block, mask);
    else return attention(q, k, v, d, mask);
  }();
  return dot(pin(mixed), w.out, heads..., d.head);
}

} // namespace cleave::nn
