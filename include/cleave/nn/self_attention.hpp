// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/nn/attention.hpp>
#include <cleave/nn/feed_forward.hpp>
#include <cleave/nn/rotary.hpp>

#include <concepts>
#include <functional>
#include <utility>

namespace cleave { inline namespace v0 { namespace nn {

/// The weights of an attention layer: from `embed` to heads, and back. Each is a tensor or `linear_weights`.
template <class Query, class Key, class Out, class Value = Key>
struct attention_weights {
  Query query;
  Key key;
  Value value;
  Out out;
};
template <class Q, class K, class V, class O>
attention_weights(Q, K, V, O) -> attention_weights<Q, K, O, V>;

/// Options of `self_attention`: `{}`, `self_attention_options{nn::all_scores{}, nn::causal{}, pin}`.
template <class How = all_scores, class Mask = no_mask, class Pin = std::identity, class Drop = std::identity>
struct self_attention_options {
  /// all_scores, in_blocks or around_ring.
  How how{};
  /// no_mask, causal, a function of two indices, or a `scoring`.
  Mask mask{};
  /// Constrains queries, keys, values and the attention result.
  Pin pin{};
  /// Rotary position embedding; with base 0 no rotation. A number stands for its base.
  rotation rotary = {.base = 0};
  /// The positions by which queries and keys are rotated, integers with dim `position` and perhaps further dims of x,
  /// as those of sequences that begin elsewhere; by default 0, 1, 2 and so on.
  value at{};
  /// Applied to the weights; only of all_scores.
  Drop drop{};
};
template <class H>
self_attention_options(H) -> self_attention_options<H>;
template <class H, class M>
self_attention_options(H, M) -> self_attention_options<H, M>;
template <class H, class M, class P>
self_attention_options(H, M, P) -> self_attention_options<H, M, P>;
template <class H, class M, class P>
self_attention_options(H, M, P, double) -> self_attention_options<H, M, P>;
template <class H, class M, class P>
self_attention_options(H, M, P, rotation) -> self_attention_options<H, M, P>;
template <class H, class M, class P>
self_attention_options(H, M, P, rotation, value) -> self_attention_options<H, M, P>;
template <class H, class M, class P, class D>
self_attention_options(H, M, P, rotation, value, D) -> self_attention_options<H, M, P, D>;

namespace detail {
/// Whether a kind of attention has the options that are given. Fault: attention_option.
template <class How, class Drop, bool HasCache>
constexpr bool accepts_options(const operand& x) {
  constexpr bool fits = (std::same_as<Drop, std::identity> || std::same_as<How, all_scores>) &&
                        (HasCache || !requires { How::span; });
  if (!fits) x.from.in->refuse(fault::attention_option, "self_attention", x.where);
  return fits;
}

/// Attention of the kind that the options name, and the map back.
template <class W, class O, class S, class... Heads>
constexpr value attended_with(const value& q, const value& k, const value& v, const W& w, const attention_dims& d,
                              const O& o, const S& how, const Heads&... heads) {
  using kind = decltype(o.how);
  const value mixed = [&] {
    if constexpr (requires { kind::ring; }) return ring_attention(q, k, v, d, kind::ring, how);
    else if constexpr (requires { kind::block; }) return blocked_attention(q, k, v, d, kind::block, how);
    else return attention(q, k, v, d, how, o.drop);
  }();
  return projected(o.pin(mixed), w.out, heads..., d.head);
}
} // namespace detail

/// Keys and values of positions: [source, head, ...]; of a cache, with room for those that come.
template <class Keys, class Values = Keys>
struct kv_cache {
  Keys keys;
  Values values;
};
template <class K, class V>
kv_cache(K, V) -> kv_cache<K, V>;

/// The keys and values by which `cross_attention` sees `memory` [source, embed, ...]. They are the same for every
/// position that looks at them, so a decoder computes them once for all of its steps: of all layers together, if the
/// weights of layers are stacked. `pin` constrains both.
template <class Q, detail::LinearMap K, class O, detail::LinearMap V, class Pin = std::identity>
constexpr kv_cache<value> keys_and_values(operand memory, const attention_weights<Q, K, O, V>& w, dim_ref embed,
                                          const Pin& pin = {}) {
  const called_at user(memory, "keys_and_values");
  return {pin(detail::projected(memory.from, w.key, embed)), pin(detail::projected(memory.from, w.value, embed))};
}

/// Attention of a sequence to another one (Vaswani et al. 2017), whose keys and values are `seen`. x [position, embed,
/// ...] is mapped to queries, and the attention result is mapped back to `embed`. Nothing is rotated. Otherwise as
/// `self_attention`.
template <class Keys, class Values, detail::LinearMap Q, class K, detail::LinearMap O, class V, class How, class Mask,
          class Pin, class Drop, std::convertible_to<dim_ref>... Heads>
constexpr value cross_attention(operand x, const kv_cache<Keys, Values>& seen, const attention_weights<Q, K, O, V>& w,
                                dim_ref embed, const attention_dims& d,
                                const self_attention_options<How, Mask, Pin, Drop>& o, const Heads&... heads) {
  const called_at user(x, "cross_attention");
  const operand keys = seen.keys, values = seen.values;
  for (const operand& each : {x, keys, values})
    if (!each.from.ok()) return each.from;
  if (!detail::accepts_options<How, Drop, false>(x)) return {x.from.in, no_node};
  const value q = o.pin(detail::projected(x.from, w.query, embed));
  return detail::attended_with(q, keys.from, values.from, w, d, o, o.mask, heads...);
}
/// The same with the keys and values of `memory` [source, embed, ...].
template <detail::LinearMap Q, detail::LinearMap K, detail::LinearMap O, detail::LinearMap V, class How = all_scores,
          class Mask = no_mask, class Pin = std::identity, class Drop = std::identity,
          std::convertible_to<dim_ref>... Heads>
constexpr value cross_attention(operand x, operand memory, const attention_weights<Q, K, O, V>& w, dim_ref embed,
                                const attention_dims& d, const self_attention_options<How, Mask, Pin, Drop>& o,
                                const Heads&... heads) {
  const called_at user(x, "cross_attention");
  if (!memory.from.ok()) return memory.from;
  return cross_attention(x, keys_and_values(memory, w, embed, o.pin), w, embed, d, o, heads...);
}

/// Attention of a sequence to itself (Vaswani et al. 2017). x [position, embed, ...] is mapped to queries, keys and
/// values, and the attention result is mapped back to `embed`. `heads` are the dims of the weights other than `embed`
/// and `head`: heads, or, for grouped queries, heads of keys and a dim that only queries have. `source` is the name of
/// `position` for keys and values. If queries, keys and values are sharded along heads as the weights are, only the
/// last product communicates: it leaves one partial sum (Shoeybi et al. 2019).
template <detail::LinearMap Q, detail::LinearMap K, detail::LinearMap O, detail::LinearMap V, class How = all_scores,
          class Mask = no_mask, class Pin = std::identity, class Drop = std::identity,
          std::convertible_to<dim_ref>... Heads>
constexpr value self_attention(operand x, const attention_weights<Q, K, O, V>& w, dim_ref embed,
                               const attention_dims& d, const self_attention_options<How, Mask, Pin, Drop>& o = {},
                               const Heads&... heads) {
  const called_at user(x, "self_attention");
  if (!x.from.ok()) return x.from;
  using cleave::value;
  if (!detail::accepts_options<How, Drop, false>(x)) return {x.from.in, no_node};
  const auto turned = [&](const value& v, dim_ref along) {
    if (detail::is_literally(o.rotary.base, 0)) return v;
    value at = iota(x, along);
    if (o.at.in != nullptr) at = along.name == d.position.name ? o.at : rename(o.at, d.position, along);
    else if constexpr (requires { How::ring; })
      at = broadcast(iota(x, How::ring), How::ring, along) * cast<std::int32_t>(count(v, along)) + at;
    return rotary(v, at, d.head, o.rotary);
  };
  const value other = rename(x, d.position, d.source);
  const value q = turned(o.pin(detail::projected(x.from, w.query, embed)), d.position),
              k = turned(o.pin(detail::projected(other, w.key, embed)), d.source),
              v = o.pin(detail::projected(other, w.value, embed));
  return detail::attended_with(q, k, v, w, d, o, o.mask, heads...);
}

/// The same for the positions from `start` on, whose keys and values are written into a cache (Shazeer 2019): the
/// result and the cache. `start` is a whole number of rank 0; positions before it are in the cache. A mask that is
/// given holds besides `causal`, for indices of the cache. Sequences of different lengths end at the same index: the
/// mask of one that begins at index b is `source >= b`, and the option `at` has its positions. Queries see all of the
/// cache at once, or with `in_spans` only the spans that are in use, which has no gradient.
template <detail::LinearMap Q, detail::LinearMap K, detail::LinearMap O, detail::LinearMap V, class Keys, class Values,
          class How, class Mask, class Pin, class Drop, std::convertible_to<dim_ref>... Heads>
constexpr std::pair<value, kv_cache<value>> self_attention(operand x, const attention_weights<Q, K, O, V>& w,
                                                           dim_ref embed, const attention_dims& d,
                                                           const self_attention_options<How, Mask, Pin, Drop>& o,
                                                           const kv_cache<Keys, Values>& so_far, operand start,
                                                           const Heads&... heads) {
  const called_at user(x, "self_attention");
  using cleave::value;
  if (!x.from.ok()) return {x.from, {x.from, x.from}};
  const value none{x.from.in, no_node};
  if (!detail::accepts_options<How, Drop, true>(x)) return {none, {none, none}};
  const value index = iota(x, d.position) + start, at = o.at.in != nullptr ? o.at : index;
  value first = x.from.in->constant(0, element::i32, x.where);
  if constexpr (requires { o.how.first; })
    if (o.how.first.in != nullptr) first = o.how.first;
  const auto turned = [&](const value& v) {
    return detail::is_literally(o.rotary.base, 0) ? v : rotary(v, at, d.head, o.rotary);
  };
  const auto stored = [&](operand cache, const value& made) {
    return dynamic_update(cache, d.source, in_type(made, element_in(cache.from)), d.position, first + start);
  };
  const value q = turned(o.pin(detail::projected(x.from, w.query, embed)));
  const value keys = stored(so_far.keys, turned(o.pin(detail::projected(x.from, w.key, embed)))),
              values = stored(so_far.values, o.pin(detail::projected(x.from, w.value, embed)));
  const auto given = detail::scoring_of(o.mask);
  const auto sees = [&](const value& position, const value& source) {
    if constexpr (std::same_as<decltype(given.mask), no_mask>) return position >= source;
    else return both{causal{}, given.mask}(position, source);
  };
  const scoring how{sees, given.bias, given.scale, given.soft_cap, index};
  if constexpr (requires { How::span; }) {
    const value end = count<std::int32_t>(index, d.position) + start;
    const value mixed = detail::attended_in_spans(q, keys, values, d, How::span, how, first, end);
    return {detail::projected(o.pin(mixed), w.out, heads..., d.head), {keys, values}};
  } else {
    return {detail::attended_with(q, keys, values, w, d, o, how, heads...), {keys, values}};
  }
}

/// A mistake: weights that are neither tensors nor linear maps. Fault: not_an_operand.
template <class Q, class K, class O, class V, class... Rest>
  requires(!(detail::LinearMap<Q> && detail::LinearMap<K> && detail::LinearMap<O> && detail::LinearMap<V>))
constexpr auto self_attention(operand x, const attention_weights<Q, K, O, V>&, dim_ref, const attention_dims&,
                              const Rest&...) {
  return say(rejection<fault::not_an_operand, op_named<"self_attention">, Q, K, O, V>), x.from;
}

/// The base of rotary position embedding; 0: no rotation.
struct attention_rotation {
  double rotary_base = 0;
};
/// The same with each option as an argument of its own, as it was written before there was `self_attention_options`.
template <class Q, class K, class O, class V, class How, class Mask, class Pin, std::convertible_to<dim_ref>... Heads>
constexpr value self_attention(operand x, const attention_weights<Q, K, O, V>& w, dim_ref embed,
                               const attention_dims& d, const How& how, const attention_rotation& rotation,
                               const Mask& mask, const Pin& pin, const Heads&... heads) {
  return self_attention(x, w, embed, d, self_attention_options<How, Mask, Pin>{how, mask, pin, {rotation.rotary_base}},
                        heads...);
}

}}} // namespace cleave::v0::nn
