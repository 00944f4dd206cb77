// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/gradient.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>

#include <functional>

// Attention by names of dims: queries and keys share `head`, over which they are multiplied; what else they share, as batch and heads, is
// common; queries alone have `position` (and what else they have, as the groups of grouped-query attention), keys and
// values `source`. So the same lines are multi-head, multi-query and grouped-query attention (Ainslie et al. 2023).

namespace cleave::nn {

struct attention_dims {
  dim_ref position, source, head;
};

/// Who sees whom. A mask is a function of two indices, of a position and of a source, that gives a predicate. It may capture values,
/// as lengths of sentences: `[&](auto, auto source) { return source < lengths; }`.
struct no_mask {};
/// Each position sees itself and what is before it.
struct causal {
  constexpr value operator()(const value& position, const value& source) const { return position >= source; }
};

/// How attention is computed. All scores at once.
struct all_scores {};
/// A block of sources at a time: see `blocked_attention`.
template <class Block>
struct in_blocks {
  static constexpr dim_ref block = Block::ref;
  constexpr in_blocks() = default;
  constexpr explicit in_blocks(const Block&) {}
};
/// Keys and values travel: see `ring_attention`.
template <class Ring>
struct around_ring {
  static constexpr dim_ref ring = Ring::ref;
  constexpr around_ring() = default;
  constexpr explicit around_ring(const Ring&) {}
};

namespace detail {

/// Scaled products of queries and keys; very low where the mask is false. `at` and `from` are indices with dims of queries and of keys.
template <class Mask>
constexpr value attention_scores(const value& q, const value& k, const attention_dims& d, const Mask& mask, const value& at, const value& from) {
  const value products = dot(q, k, d.head);
  if (!products.ok()) return products;
  recorder& in = *products.in;
  const value scores = products * rsqrt(cast(count(q, d.head), in.at(products).type.element));
  if constexpr (std::same_as<Mask, no_mask>) {
    return scores;
  } else {
    tensor_type pairs = in.at(at).type;
    const tensor_type sources = in.at(from).type;
    for (int i = 0; i < sources.rank; ++i)
      if (!pairs.has(sources[i])) pairs.append(sources[i]);
    const source where = in.at(products).where;
    return select(mask(in.broadcast(at, pairs, where), from), scores, -1e30);
  }
}

/// What has been seen of the sources so far (online softmax, Milakov and Gimelshein 2018): the largest score, and relative to it the sum of
/// the exponentials and the values mixed by them.
struct attended {
  value most, total, mixed;
};
constexpr attended nothing_attended(const value& q, const value& v, const attention_dims& d) {
  const value each = sum(q, d.head), values = sum(v, d.source);
  if (!each.ok() || !values.ok()) return {each, each, values};
  recorder& in = *q.in;
  const source where = in.at(q).where;
  const auto zeros = [&](const value& like) { return cleave::detail::zeros_like(in, in.at(like).type, where); };
  const value none = zeros(each);
  return {none - 1e30, none, zeros(in.dot(each, values, dim_set{0}, where))};
}
template <class Mask>
constexpr attended attend(const attended& so_far, const value& q, const value& k, const value& v, const attention_dims& d, const Mask& mask, const value& at, const value& from) {
  const value scores = attention_scores(q, k, d, mask, at, from);
  // It cancels in the end, so it has no gradient.
  const value most = stop_gradient(maximum(so_far.most, max(scores, d.source)));
  const value weights = exp(scores - most), fade = exp(stop_gradient(so_far.most) - most);
  return {most, so_far.total * fade + sum(weights, d.source), so_far.mixed * fade + dot(weights, v, d.source)};
}

} // namespace detail

/// softmax(q k / sqrt(extent of `head`)) v over `source`: [dims of q]. The scores exist as a whole; `drop` is applied to the weights. Moves
/// what the products and a softmax move: nothing where batch or heads are divided.
template <class Mask = no_mask, class Drop = std::identity>
constexpr value attention(operand q, operand k, operand v, const attention_dims& d, const Mask& mask = {}, const Drop& drop = {}) {
  const called_at user(q);
  const value scores = detail::attention_scores(q.from, k.from, d, mask, iota(q, d.position), iota(q, d.source));
  return dot(drop(softmax(scores, d.source)), v, d.source);
}

/// The same without the scores: sources are taken in as many blocks as `block`, a dim of fixed extent, says; the extent of `source` is a
/// multiple of it (Rabe and Staats 2021). The backward pass computes the scores of each block again.
template <class Mask = no_mask>
constexpr value blocked_attention(operand q, operand k, operand v, const attention_dims& d, dim_ref block, const Mask& mask = {}) {
  const called_at user(q);
  const dim_ref within{"within block"};
  const value keys = split(k, d.source, block, within), values = split(v, d.source, block, within);
  if (!keys.ok() || !values.ok() || !q.from.ok()) return {q.from.in, no_node};
  const value at = iota(q, d.position), from = split(iota(q, d.source), d.source, block, within);
  const attention_dims in_block{d.position, within, d.head};
  const auto step = [&](const detail::attended& so_far, const std::array<value, 3>& kv) { return detail::attend(so_far, q.from, kv[0], kv[1], in_block, mask, at, kv[2]); };
  const detail::attended all = scan(block, detail::nothing_attended(q.from, v.from, d), std::array{keys, values, from}, remat(function(step)));
  return all.mixed / all.total;
}

/// The same where positions and sources are cut into the chunks of a dim `ring`, divided over an axis (Liu, Zaharia and Abbeel 2023): q [ring, position, ...],
/// k and v [ring, source, ...]. Keys and values are handed on along the ring, one chunk at a time, in extent - 1 exchanges of what is
/// local, as many bytes as gathering them; no device holds more than a chunk of scores. The mask sees indices of the whole sequence. The
/// backward pass keeps the keys and values that came by, computes scores again, and hands cotangents on.
template <class Mask = no_mask>
constexpr value ring_attention(operand q, operand k, operand v, const attention_dims& d, dim_ref ring, const Mask& mask = {}) {
  const called_at user(q);
  recorder& in = *q.from.in;
  const dim_ref turn{"turn of the ring"};
  const int chunks = in.dim(ring, "ring_attention", q.where), turns = in.dim(turn, "ring_attention", q.where);
  if (chunks < 0 || turns < 0 || !q.from.ok() || !k.from.ok() || !v.from.ok()) return {&in, no_node};
  if (!in.extent_follows({static_cast<dim_id>(turns), cleave::detail::sum_of(-1, static_cast<dim_id>(chunks)), 1}, "ring_attention", q.where)) return {&in, no_node};
  const value place = iota(q, ring), number = cast<std::int32_t>(count(place, ring));
  const auto index = [&](const value& chunk, dim_ref part) { return broadcast(chunk, ring, part) * cast<std::int32_t>(count(iota(q, part), part)) + iota(q, part); };
  const value at = index(place, d.position);
  struct state {
    detail::attended so_far;
    value k, v;
  };
  // After t turns chunk i holds what chunk i - t had.
  const auto look = [&](const state& s, const value& t) {
    const value holds = place - t + number;
    return detail::attend(s.so_far, q.from, s.k, s.v, d, mask, at, index(holds - holds / number * number, d.source));
  };
  const auto step = [&](const state& s, const value& t) { return state{look(s, t), roll(s.k, ring, 1), roll(s.v, ring, 1)}; };
  const state before = scan(turn, state{detail::nothing_attended(q.from, v.from, d), k.from, v.from}, iota(q, turn), remat(function(step)));
  const detail::attended all = remat(function(look))(before, number - 1);
  return all.mixed / all.total;
}

} // namespace cleave::nn
