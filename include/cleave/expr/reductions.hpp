// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/expr/functions.hpp>
#include <cleave/record/op_builder.hpp>

#include <limits>
#include <utility>

// Reductions that are composed of others: planned, fused and differentiated as these.

namespace cleave { inline namespace v0 {

namespace detail {

/// The lowest index along a dim where x is its extremum, or is NaN: the extremum of NaN and numbers is NaN, which
/// equals nothing.
constexpr value index_of_extremum(reduction how, operand x, dim_ref over) {
  recorder& in = *x.from.in;
  const value extremum = in.reduce(how, x.from, std::array{over}, x.where);
  if (!extremum.ok()) return extremum;
  const op_builder apply(in, x.where);
  value hit = apply(op::equal, x.from, extremum);
  if (is_floating(in.at(x.from).type.element)) hit = apply(op::logical_or, hit, apply(op::not_equal, x.from, x.from));
  const value none = in.constant(std::numeric_limits<std::int32_t>::max(), element::i32, x.where);
  const value index = apply(op::select, hit, in.iota(over, element::i32, x.where), none);
  return in.reduce(reduction::min, index, std::array{over}, x.where);
}

/// Numbers are true if they are not 0.
constexpr value as_predicate(operand x) {
  if (!x.from.ok() || x.from.in->at(x.from).type.element == element::boolean) return x.from;
  return x.from.in->elementwise(op::cast, std::array{x.from}, x.where, element::boolean);
}

} // namespace detail

/// The index (int32) of the largest element along a dim: the lowest of several, the first NaN if there is one, 2^31 - 1
/// along an extent of 0. Element types with an order. Communication: if the dim is sharded, two all-reduces, of the
/// maxima and of the indices. Faults: dim_missing, not_for_complex.
constexpr value argmax(operand x, dim_ref over) { return detail::index_of_extremum(reduction::max, x, over); }
CLEAVE_LIFT(argmax)
/// The index of the smallest element along a dim. Otherwise as `argmax`.
constexpr value argmin(operand x, dim_ref over) { return detail::index_of_extremum(reduction::min, x, over); }
CLEAVE_LIFT(argmin)

/// Whether the predicate is true anywhere along the dims, or along all dims if none is given. Numbers count as true if
/// they are not 0. bool; false over an empty range. Communication: one all-reduce if a dim is sharded. Fault:
/// dim_missing.
template <std::convertible_to<dim_ref>... D>
constexpr value any(operand x, const D&... over) {
  return x.from.in->reduce(reduction::sum, detail::as_predicate(x), detail::dims_of(over...), x.where);
}
CLEAVE_LIFT(any)
/// Whether the predicate holds everywhere; true over an empty range. Otherwise as `any`.
template <std::convertible_to<dim_ref>... D>
constexpr value all(operand x, const D&... over) {
  return x.from.in->reduce(reduction::prod, detail::as_predicate(x), detail::dims_of(over...), x.where);
}
CLEAVE_LIFT(all)
/// The product along the dims, or along all dims if none is given; 1 over an empty range. Integers wrap. Communication:
/// one all-reduce if a dim is sharded. Fault: dim_missing.
template <std::convertible_to<dim_ref>... D>
constexpr value prod(operand x, const D&... over) {
  return x.from.in->reduce(reduction::prod, x.from, detail::dims_of(over...), x.where);
}
CLEAVE_LIFT(prod)

/// The mean along the dims, or along all dims if none is given, of elements that count: sum(x * weights) /
/// sum(weights), of 16 bits in float; 0 if nothing counts. Weights are a predicate or numbers, with dims of x:
/// `weighted_mean(losses, labels != -100)` is the mean over the tokens that are not ignored, on all devices together.
/// An element that does not count is excluded also if it is infinite or NaN, and its gradient is 0. Communication: that
/// of two sums. Faults: dim_missing, not_floating.
template <std::convertible_to<dim_ref>... D>
constexpr value weighted_mean(operand x, operand weights, const D&... over) {
  recorder& in = detail::recorder_of(x, weights);
  const called_at user(x, "weighted_mean");
  if (!x.from.ok() || !weights.from.ok()) return in.missing("weighted_mean", x.where);
  if (!is_floating(in.at(x.from).type.element)) return in.fail(fault::not_floating, "weighted_mean", x.where);
  value wide = widened(x);
  const element type = in.at(wide).type.element;
  const auto everywhere = [&](const value& w) { return in.broadcast(w, in.at(wide).type, weights.where); };
  value total, weight;
  if (in.at(weights.from).type.element == element::boolean) {
    total = sum(select(weights, wide, 0), over...);
    weight = cast(sum(everywhere(cast<std::int64_t>(weights)), over...), type);
  } else {
    // Finite elements of weight 0 stay, since the gradient of the weights depends on them.
    const double infinity = std::numeric_limits<double>::infinity();
    const value share = in_type(weights, type);
    wide = select((share != 0) | (abs(wide) < infinity), wide, 0);
    total = sum(wide * share, over...);
    weight = sum(everywhere(share), over...);
  }
  return in_type(detail::placed(total / select(weight == 0, 1, weight), x), detail::element_beside(x));
}
CLEAVE_LIFT(weighted_mean)

namespace detail {
template <class... D>
constexpr std::pair<value, value> moments(std::string_view name, operand x, const D&... over) {
  recorder& in = *x.from.in;
  if (x.from.ok() && !is_floating(in.at(x.from).type.element)) {
    const value bad = in.fail(fault::not_floating, name, x.where);
    return {bad, bad};
  }
  const called_at user(x);
  const value wide = widened(x), middle = mean(wide, over...);
  const value off = wide - middle;
  return {in_type(middle, element_beside(x)), in_type(mean(off * off, over...), element_beside(x))};
}
} // namespace detail

/// Mean and variance along the dims, or along all dims if none is given. The variance is the mean of squared
/// differences from the mean, which avoids cancellation; both of 16 bits are computed in float. Real floating-point
/// numbers. Communication: two all-reduces if a dim is sharded. Faults: dim_missing, not_floating.
template <std::convertible_to<dim_ref>... D>
constexpr std::pair<value, value> moments(operand x, const D&... over) {
  return detail::moments("moments", x, over...);
}
CLEAVE_LIFT(moments)
/// The variance along the dims. Otherwise as `moments`.
template <std::convertible_to<dim_ref>... D>
constexpr value variance(operand x, const D&... over) {
  return detail::moments("variance", x, over...).second;
}
CLEAVE_LIFT(variance)

}} // namespace cleave::v0
