// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/gradient.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/values.hpp>

#include <functional>
#include <limits>
#include <tuple>

// Attention by names of dims: queries and keys share `head`, over which they are multiplied; their other shared dims,
// as batch and heads, are common; queries alone have `position` (and further dims, as the groups of grouped-query
// attention), keys and values `source`. So the same lines are multi-head, multi-query and grouped-query attention
// (Ainslie et al. 2023).

namespace cleave { inline namespace v0 { namespace nn {

/// The dims of attention: positions of the queries, positions of keys and values, and the dim of a head, over which
/// queries and keys are multiplied.
struct attention_dims {
  dim_ref position, source, head;
};
namespace detail {
template <auto Position, auto Source, auto Head>
struct attention_dims_constant {
  constexpr operator attention_dims() const { return {Position, Source, Head}; }
};
} // namespace detail
/// The dims of attention in a statement on tensors: `nn::attention_dims_c<position, source, head>`.
template <auto Position, auto Source, auto Head>
inline constexpr detail::attention_dims_constant<Position, Source, Head> attention_dims_c{};

/// A mask that lets every position see every source. A mask is a function of two indices, of a position and of a
/// source, that returns a predicate. It may capture values, such as sentence lengths:
/// `[&](auto, auto source) { return source < lengths; }`.
struct no_mask {};
/// A mask: each position sees itself and the positions before it.
struct causal {
  /// Whether the position sees the source.
  constexpr value operator()(const value& position, const value& source) const { return position >= source; }
};

/// A mask: each position sees itself and the `length` - 1 positions before it (Beltagy, Peters and Cohan 2020).
struct sliding_window {
  std::int64_t length;
  /// Whether the position sees the source.
  constexpr value operator()(const value& position, const value& source) const {
    return (position >= source) & (position - source < length);
  }
};
/// A mask of the pairs that both masks allow: `nn::both{nn::causal{}, padding}`.
template <class A, class B>
struct both {
  A first;
  B second;
  /// Whether the position sees the source.
  constexpr value operator()(const value& position, const value& source) const {
    return first(position, source) & second(position, source);
  }
};
template <class A, class B>
both(A, B) -> both<A, B>;

/// No number is added to the scores. A bias is a function of two indices, of a position and of a source, in the element
/// type of the scores. It returns the number that is added to the score of each pair.
struct no_bias {};
/// A bias: each head looks less far back, by a slope of its own (ALiBi; Press, Smith and Lewis 2022). The slopes are
/// those of the paper, also if the number of heads is no power of two.
struct alibi {
  dim_ref heads;
  /// The slope of each head.
  constexpr value slopes(operand beside) const {
    const value index = iota<double>(beside, heads), n = count<double>(index, heads);
    // The largest power of two that is not above n; the other heads have every second slope of twice as many.
    const value power = exp(floor(log(n) / 0.69314718055994531 + 1e-6) * 0.69314718055994531);
    const value rest = 2.0 * (index - power) + 1.0;
    return pow(2.0, select(index < power, -8.0 * (index + 1.0) / power, -4.0 * rest / power));
  }
  /// The bias of each head.
  constexpr value operator()(const value& position, const value& source) const {
    return in_type(slopes(position), element_in(position)) * (source - position);
  }
};

/// How products of queries and keys become scores. A mask stands for a scoring with that mask.
template <class Mask = no_mask, class Bias = no_bias>
struct scoring {
  /// no_mask, causal, sliding_window, both, or a function of two indices.
  Mask mask{};
  /// no_bias, alibi, or a function of two indices. It has no gradient in `blocked_attention` and `ring_attention`.
  Bias bias{};
  /// By which products are multiplied; 0: by 1 / sqrt(extent of `head`).
  double scale = 0;
  /// c > 0: scores are c * tanh(score / c), before bias and mask (Gemma 2).
  double soft_cap = 0;
  /// The indices of the queries for mask and bias, integers with dim `position` and perhaps further dims of the
  /// queries; by default 0, 1, 2 and so on. `ring_attention` has its own.
  value at{};
};
template <class M>
scoring(M) -> scoring<M>;
template <class M, class B>
scoring(M, B) -> scoring<M, B>;
template <class M, class B>
scoring(M, B, double) -> scoring<M, B>;
template <class M, class B>
scoring(M, B, double, double) -> scoring<M, B>;
template <class M, class B>
scoring(M, B, double, double, value) -> scoring<M, B>;

/// A kind of attention: all scores at once.
struct all_scores {};
/// A kind of attention: one block of sources at a time. The extent of the dim is the number of blocks; see
/// `blocked_attention`.
template <class Block>
struct in_blocks {
  static constexpr dim_ref block = Block::ref;
  constexpr in_blocks() = default;
  /// Deduces the dim.
  constexpr explicit in_blocks(const Block&) {}
};
/// A kind of attention: keys and values are sent around a ring; see `ring_attention`.
template <class Ring>
struct around_ring {
  static constexpr dim_ref ring = Ring::ref;
  constexpr around_ring() = default;
  /// Deduces the dim.
  constexpr explicit around_ring(const Ring&) {}
};
/// A kind of attention to a cache: one span of sources at a time, and only those that are in use. The fixed extent of
/// the dim is the length of a span; a cache has at least as many sources. With `first`, the sources of a layer begin at
/// that index, so that one cache, which a loop over layers carries, has those of all layers and is updated in place.
template <class Span>
struct in_spans {
  static constexpr dim_ref span = Span::ref;
  value first{};
  /// Deduces the dim.
  constexpr explicit in_spans(const Span&, const value& begin = {}) : first(begin) {}
};

namespace detail {

/// Excluded sources have this score, so that their weights are 0.
inline constexpr double excluded = -std::numeric_limits<double>::infinity();
/// Below all scores that are not excluded. If it is the largest score of a row, the row has no sources, and its
/// weights are 0.
inline constexpr double below_all = std::numeric_limits<float>::lowest();
/// Divides by totals of weights; a total of 0 belongs to a row without sources, whose result is 0.
constexpr value by_total(const value& x, const value& total) { return x / select(total == 0, 1, total); }

template <class S>
concept Scoring = requires(const S& s) { s.soft_cap; };
template <class S>
constexpr auto scoring_of(const S& how) {
  if constexpr (Scoring<S>) return how;
  else return scoring<S>{how};
}
/// The indices of the queries.
template <class S>
constexpr value indices_of_queries(const S& how, operand q, dim_ref position) {
  const value at = scoring_of(how).at;
  return at.in != nullptr ? at : iota(q, position);
}

/// Scaled products of queries and keys, with a bias, minus infinity if the mask is false; of 16 bits in float. `at` and
/// `from` are indices with dims of queries and of keys.
template <class S>
constexpr value attention_scores(const value& q, const value& k, const attention_dims& d, const S& how, const value& at,
                                 const value& from) {
  const auto s = scoring_of(how);
  const element type = element_in(q), wide = accumulator_of(type);
  const operand scale = s.scale == 0 ? operand(rsqrt(cast(count(q, d.head), wide))) : operand(s.scale);
  // Of 16 bits the product is one of floats, and queries are cast anyway.
  value scores = wide == type ? dot(q, k, d.head) * scale : dot(widened(q) * scale, widened(k), d.head);
  if (s.soft_cap > 0) scores = tanh(scores / s.soft_cap) * s.soft_cap;
  if (!scores.ok()) return scores;
  recorder& in = *scores.in;
  const auto of_pairs = [&](const auto& f, const value& position, const value& source) {
    if (!position.ok() || !source.ok()) return position;
    tensor_type pairs = in.at(position).type;
    const tensor_type sources = in.at(source).type;
    for (int i = 0; i < sources.rank; ++i)
      if (!pairs.has(sources[i])) pairs.append(sources[i]);
    // A mask may compare an index with a value that has other dims, as the lengths of the sentences of a batch.
    const recorder::outer_products any_dims(in);
    return f(in.broadcast(position, pairs, in.at(scores).where), source);
  };
  if constexpr (!std::same_as<decltype(s.bias), no_bias>) {
    const element numbers = element_in(scores);
    scores = scores + in_type(of_pairs(s.bias, cast(at, numbers), cast(from, numbers)), numbers);
  }
  if constexpr (std::same_as<decltype(s.mask), no_mask>) return scores;
  else if constexpr (std::is_arithmetic_v<decltype(s.mask)>) // `true` for `causal{}`
    return in.fail(fault::wrong_arguments, "attention", in.at(scores).where);
  else return select(of_pairs(s.mask, at, from), scores, excluded);
}

/// The state after some of the sources (online softmax, Milakov and Gimelshein 2018): the largest score, and relative
/// to it the sum of the exponentials and the values mixed by them, all of 16 bits in float.
struct attended {
  value most, total, mixed;
};
constexpr attended nothing_attended(const value& q, const value& v, const attention_dims& d) {
  const value each = widened(sum(q, d.head)), values = widened(sum(v, d.source));
  if (!each.ok() || !values.ok()) return {each, each, values};
  const value none = zeros_like(each);
  return {none + below_all, none, zeros_like(dot(each, values))};
}
template <class Mask>
constexpr attended attend(const attended& so_far, const value& q, const value& k, const value& v,
                          const attention_dims& d, const Mask& mask, const value& at, const value& from) {
  const value scores = attention_scores(q, k, d, mask, at, from);
  // It cancels in the end, so it has no gradient.
  const value most = stop_gradient(maximum(so_far.most, max(scores, d.source)));
  const value weights = exp(scores - most), fade = exp(stop_gradient(so_far.most) - most);
  return {most, so_far.total * fade + sum(weights, d.source), so_far.mixed * fade + dot(weights, widened(v), d.source)};
}

/// The result of attention, and the values that its derivative reads.
struct attention_result {
  value q, k, v, mixed, most, share;
};
constexpr std::pair<value, attention_result> finished(const attended& all, const value& q, const value& k,
                                                      const value& v) {
  const value mixed = in_type(by_total(all.mixed, all.total), element_in(q));
  return {mixed, {q, k, v, mixed, all.most, by_total(zeros_like(all.total) + 1.0, all.total)}};
}
/// Attention to the sources of a cache that are in use: those before index `end` of the sources from `first` on.
template <class S>
constexpr value attended_in_spans(const value& q, const value& keys, const value& values, const attention_dims& d,
                                  dim_ref span, const S& how, const value& first, const value& end) {
  recorder& in = *q.in;
  const value offsets = iota(q, span), length = count<std::int32_t>(offsets, span),
              last = count<std::int32_t>(keys, d.source) - length;
  const attention_dims in_span{d.position, span, d.head};
  const auto part = [&](const value& all, const value& begin) { return dynamic_slice(all, d.source, span, begin); };
  const auto step = [&](const std::tuple<attended, value>& carry) {
    const value at = std::get<1>(carry);
    // The last span of all ends with the cache, and leaves out the sources of the one before it.
    const value begin = minimum(at + first, last), from = offsets + (begin - first);
    const auto sees = [&](const value& position, const value& source) {
      return how.mask(position, source) & (source >= at);
    };
    const scoring one{sees, how.bias, how.scale, how.soft_cap, how.at};
    return std::tuple(attend(std::get<0>(carry), q, part(keys, begin), part(values, begin), in_span, one, how.at, from),
                      value(at + length));
  };
  const value zero = in.constant(0, element::i32, in.at(q).where);
  const attended none = nothing_attended(q, part(values, zero), in_span);
  const auto all = repeat_times((end + length - 1) / length, std::tuple(none, zero), step);
  return finished(std::get<0>(all), q, keys, values).first;
}
/// The cotangents of queries, keys and values that some sources cause (FlashAttention, Dao et al. 2022, section 3.1):
/// their weights are computed again from the largest score and the total, and that all weights add up to 1 costs the
/// result times their sum.
struct attention_slopes {
  value q, k, v;
};
template <class Mask>
constexpr attention_slopes slopes_by(const attention_result& r, const value& slope, const value& k, const value& v,
                                     const attention_dims& d, const Mask& mask, const value& at, const value& from) {
  const auto part = [&](const value& q, const value& keys, const value& values) {
    const value weights = exp(attention_scores(q, keys, d, mask, at, from) - r.most) * r.share;
    return dot(weights, widened(values), d.source) - widened(r.mixed) * sum(weights, d.source);
  };
  const auto [dq, dk, dv] = vjp(part, r.q, k, v).second(widened(slope));
  return {dq, dk, dv};
}

} // namespace detail

/// softmax(q k / sqrt(extent of `head`)) v over `source`, with the dims of q. A position that sees no source has the
/// result 0 and no gradient. The weight of a source that a position does not see is 0, which multiplies its value: NaN
/// or infinity there gives NaN, as in JAX and PyTorch. All scores exist at once; of 16 bits they and the weights are
/// floats, and the result is rounded once. `mask` may be a `scoring`. `drop` is applied to the weights, as `[&](const
/// value& w) { return dropout(w, rate, key); }`. Communication: that of the products and of a softmax; none if batch or
/// heads are sharded.
template <class Mask = no_mask, class Drop = std::identity>
constexpr value attention(operand q, operand k, operand v, const attention_dims& d, const Mask& mask = {},
                          const Drop& drop = {}) {
  const called_at user(q, "attention");
  const value scores = detail::attention_scores(q.from, k.from, d, mask,
                                                detail::indices_of_queries(mask, q, d.position), iota(q, d.source));
  const value weights = exp(scores - stop_gradient(maximum(max(scores, d.source), detail::below_all)));
  const value shares = detail::by_total(weights, sum(weights, d.source));
  return in_type(dot(drop(shares), widened(v), d.source), element_in(v.from));
}
CLEAVE_LIFT(attention)

/// The same as `attention`, without all scores at once. Sources are taken in blocks, whose number is the fixed extent
/// of dim `block`; the extent of `source` is a multiple of it (Rabe and Staats 2021). The backward pass keeps q, k, v,
/// the result and two numbers for each query, and recomputes the scores of each block.
template <class Mask = no_mask>
constexpr value blocked_attention(operand q, operand k, operand v, const attention_dims& d, dim_ref block,
                                  const Mask& mask = {}) {
  const called_at user(q, "blocked_attention");
  recorder& in = *q.from.in;
  const dim_ref within = derived_dim<"span">(q, "blocked_attention", d.source, block);
  if (within.name.empty()) return {&in, no_node};
  const auto cut = [&](const value& x) { return split(x, d.source, block, within); };
  // A fault if the extent is no multiple; they are cut again under the names that the derivative knows.
  if (!cut(k.from).ok() || !cut(v.from).ok() || !q.from.ok()) return {&in, no_node};
  const value at = detail::indices_of_queries(mask, q, d.position), from = cut(iota(q, d.source));
  const attention_dims in_block{d.position, within, d.head};
  const auto forward = [&](const value& qs, const value& ks, const value& vs) {
    const auto step = [&](const detail::attended& so_far, const std::array<value, 3>& kv) {
      return detail::attend(so_far, qs, kv[0], kv[1], in_block, mask, at, kv[2]);
    };
    const auto all = scan(block, detail::nothing_attended(qs, vs, d), std::array{cut(ks), cut(vs), from},
                          remat(function(step)));
    return detail::finished(all, qs, ks, vs);
  };
  const auto backward = [&](const detail::attention_result& r, const value& slope) {
    const auto step = [&](const value& so_far, const std::array<value, 3>& kv) {
      const detail::attention_slopes by = detail::slopes_by(r, slope, kv[0], kv[1], in_block, mask, at, kv[2]);
      return std::pair(so_far + widened(by.q), std::array{by.k, by.v});
    };
    const auto [dq, both] = scan(block, widened(zeros_like(r.q)), std::array{cut(r.k), cut(r.v), from}, step);
    const auto whole = [&](const value& x) { return merge(x, block, within, d.source); };
    return detail::attention_slopes{in_type(dq, element_in(r.q)), whole(both[0]), whole(both[1])};
  };
  return custom_vjp(forward, backward)(q.from, k.from, v.from);
}
CLEAVE_LIFT(blocked_attention)

/// The same as `blocked_attention`, for positions and sources in chunks along a dim `ring` that is sharded over an axis
/// (Liu, Zaharia and Abbeel 2023): q is [ring, position, ...], k and v are [ring, source, ...]. Communication: keys and
/// values are sent around the ring, one chunk at a time, in extent - 1 exchanges, as many bytes as gathering them. The
/// current chunk is used while the next one is in transit. Besides its own chunk a device has two chunks of keys and
/// values, and one chunk of scores. In the backward pass keys and values are sent again, and their cotangents with
/// them, in extent exchanges; those of 16 bits as floats. The mask sees indices of the whole sequence.
template <class Mask = no_mask>
constexpr value ring_attention(operand q, operand k, operand v, const attention_dims& d, dim_ref ring,
                               const Mask& mask = {}) {
  const called_at user(q, "ring_attention");
  recorder& in = *q.from.in;
  const dim_ref turn = derived_dim<"turn ">(q, "ring_attention", ring);
  if (turn.name.empty() || !q.from.ok() || !k.from.ok() || !v.from.ok()) return {&in, no_node};
  if (!define_extent(q, "ring_attention", turn, -1, {{ring}})) return {&in, no_node};
  const value own = iota(q, ring), number = cast<std::int32_t>(count(own, ring));
  const auto index = [&](const value& chunk, dim_ref part) {
    return broadcast(chunk, ring, part) * cast<std::int32_t>(count(iota(q, part), part)) + iota(q, part);
  };
  const value at = index(own, d.position);
  // After t exchanges chunk i holds the original chunk i - t.
  const auto sources = [&](const value& t) {
    const value holds = own - t + number;
    return index(holds - holds / number * number, d.source);
  };
  const auto on = [&](const value& x) { return roll(x, ring, 1); };
  // The exchange is recorded first, so that it runs while the current chunk is used.
  const auto forward = [&](const value& qs, const value& ks, const value& vs) {
    struct state {
      detail::attended so_far;
      value k, v;
    };
    const auto look = [&](const state& s, const value& t) {
      return detail::attend(s.so_far, qs, s.k, s.v, d, mask, at, sources(t));
    };
    const auto step = [&](const state& s, const value& t) {
      const value k_next = on(s.k), v_next = on(s.v);
      return state{look(s, t), k_next, v_next};
    };
    const state before = scan(turn, state{detail::nothing_attended(qs, vs, d), ks, vs}, iota(q, turn),
                              remat(function(step)));
    return detail::finished(remat(function(look))(before, number - 1), qs, ks, vs);
  };
  const auto backward = [&](const detail::attention_result& r, const value& slope) {
    struct state {
      value k, v;
      detail::attention_slopes so_far;
    };
    const auto look = [&](const state& s, const value& t) {
      const detail::attention_slopes by = detail::slopes_by(r, slope, s.k, s.v, d, mask, at, sources(t));
      return detail::attention_slopes{s.so_far.q + widened(by.q), on(s.so_far.k + widened(by.k)),
                                      on(s.so_far.v + widened(by.v))};
    };
    const auto step = [&](const state& s, const value& t) {
      const value k_next = on(s.k), v_next = on(s.v);
      return state{k_next, v_next, look(s, t)};
    };
    const detail::attention_slopes none{widened(zeros_like(r.q)), widened(zeros_like(r.k)), widened(zeros_like(r.v))};
    const auto all = look(scan(turn, state{r.k, r.v, none}, iota(q, turn), step), number - 1);
    return detail::attention_slopes{in_type(all.q, element_in(r.q)), in_type(all.k, element_in(r.k)),
                                    in_type(all.v, element_in(r.v))};
  };
  return custom_vjp(forward, backward)(q.from, k.from, v.from);
}
CLEAVE_LIFT(ring_attention)

}}} // namespace cleave::v0::nn
