// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/nn/attention.hpp>
#include <cleave/nn/rotary.hpp>

namespace cleave::nn {

/// The maps of an attention layer: from `embed` to heads, and back.
template <class Query, class Key, class Out>
struct attention_weights {
  Query query;
  Key key, value;
  Out out;
};
template <class Q, class K, class O>
attention_weights(Q, K, K, O) -> attention_weights<Q, K, O>;

struct self_attention_options {
  /// Turns queries and keys by their positions, with this base; 0: no.
  double rotary_base = 0;
};

/// Attention of a sequence to itself (Vaswani et al. 2017): x [position, embed, ...] is mapped to queries, keys and values, and what they
/// attend to back to `embed`. `heads` are the dims that the maps have beside `embed` and `head`: heads, or, grouped, heads of
/// keys and a dim that only queries have. `source` is what `position` is called where it is looked at. `How` is all_scores, in_blocks or
/// around_ring. `pin` lays out queries, keys, values and what they mix: divided along heads as the maps are, all but the last product move
/// nothing, and that one leaves one partial sum (Shoeybi et al. 2019).
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
