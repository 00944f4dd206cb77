// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/functions.hpp>
#include <cleave/expr/gradient.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/expr/statement.hpp>
#include <cleave/rules/sort.hpp>

namespace cleave { inline namespace v0 {

/// The order of `sort` and `argsort`.
enum class order : std::uint8_t { ascending, descending };

/// The elements of each slice along a dim in order, in the layout of x. Element types with an order; NaN comes after
/// all numbers (before them in descending order). A sharded dim stays sharded in the same blocks. Communication:
/// samples determine cuts, and one all-to-all sends elements to the devices that own their ranks (Shi and Schaeffer
/// 1992); the price assumes evenly spread elements. The gradient goes to the original positions. Faults: dim_missing,
/// not_for_complex.
constexpr value sort(operand x, dim_ref along, order by = order::ascending) {
  return detail::recorded_sort(*x.from.in, op::sort, x.from, along, by == order::descending, x.where);
}
CLEAVE_LIFT(sort)
/// The original indices (int32) of the sorted elements; of equal elements the lower index comes first, in either order.
/// `take_along` puts other tensors in this order. Communication as for `sort`.
constexpr value argsort(operand x, dim_ref along, order by = order::ascending) {
  return detail::recorded_sort(*x.from.in, op::argsort, x.from, along, by == order::descending, x.where);
}
CLEAVE_LIFT(argsort)

/// On which side of equal elements `searchsorted` puts a value.
enum class side : std::uint8_t { left, right };

/// The positions (int32) at which values would keep slices in order, as jax.numpy.searchsorted: the number of elements
/// of each slice of `sorted` along the dim that come before the value, or with `side::right` that do not come after it.
/// `sorted` is in ascending order along the dim, NaN last, as `sort` leaves it; the values do not have the dim. A dim
/// that both have is a batch dim. The result has the dims of the values, then the other dims of `sorted`. A literal is
/// one value.
/// Communication: if the dim is sharded, every device counts in its block, and the counts are reduced as any partial
/// sum; or the planner gathers `sorted` if that is cheaper. No gradient flows. Faults: dim_missing, dim_used_twice,
/// element_types_differ, not_for_complex, rank_too_high; shape_error for a dim beyond int32.
constexpr value searchsorted(operand sorted, operand values, dim_ref along, side from = side::left) {
  recorder& in = detail::recorder_of(sorted, values);
  if (!sorted.from.ok()) return in.missing("searchsorted", sorted.where);
  const value asked = in.value_of(values, "searchsorted", in.at(sorted.from).type.element);
  return detail::recorded_search(in, sorted.from, asked, along, from == side::right, sorted.where);
}
CLEAVE_LIFT(searchsorted)

namespace detail {
/// One pass for each element: the extremum of the elements not taken yet, and its lowest index.
constexpr std::pair<value, value> taken_one_by_one(operand x, dim_ref over, dim_ref rank) {
  recorder& in = *x.from.in;
  const source where = x.where;
  if (!x.from.ok()) return {x.from, x.from};
  const element type = in.at(x.from).type.element;
  if (rank.extent == dynamic) return {in.fail(fault::window_open, "top_k", where, rank.name), {&in, no_node}};
  const int along = in.dim_of(x.from, over, "top_k", where);
  const value missing{&in, no_node};
  if (along < 0) return {missing, missing};
  const dim_id whole = narrowed(along);
  const std::int64_t extent = in.made().dims[whole].extent;
  if (extent != dynamic && extent < rank.extent)
    return {in.fail(fault::dim_too_short, "top_k", where, over.name, {}, rank.extent, extent), missing};
  if (extent == dynamic && !in.extent_at_least({whole, rank.extent}, "top_k", where)) return {missing, missing};
  const detail::op_builder apply(in, where);
  const value index = in.iota(over, element::i32, where),
              none = in.constant(std::numeric_limits<std::int32_t>::max(), element::i32, where);
  const value least = in.constant(lowest_of(type), type, where);
  value taken{}, values{}, indices{};
  const value position = in.iota(rank, element::i32, where);
  // Of no elements the first one gives the type.
  for (std::int64_t k = 0; k == 0 || k < rank.extent; ++k) {
    const value rest = taken.in == nullptr ? x.from : apply(op::select, taken, least, x.from);
    const value largest = in.reduce(reduction::max, rest, std::array{over}, where);
    if (!largest.ok()) return {largest, largest};
    value hit = apply(op::equal, rest, largest);
    if (is_floating(type)) hit = apply(op::logical_or, hit, apply(op::not_equal, rest, rest));
    if (taken.in != nullptr) hit = apply(op::logical_and, hit, apply(op::logical_not, taken));
    const value at = in.reduce(reduction::min, apply(op::select, hit, index, none), std::array{over}, where);
    const value here = apply(op::equal, index, at);
    taken = taken.in == nullptr ? here : apply(op::logical_or, taken, here);
    const value mine = apply(op::equal, position, in.constant(as_double(k), element::i32, where));
    const value zero = in.constant(0, type, where);
    // The first fills all ranks, the others their own.
    values = k == 0 ? apply(op::select, mine, largest, zero) : apply(op::select, mine, largest, values);
    indices = k == 0 ? apply(op::select, mine, at, in.constant(0, element::i32, where))
                     : apply(op::select, mine, at, indices);
  }
  return {values, indices};
}
} // namespace detail

/// The largest elements along a dim, in descending order, and their indices (int32). Their number is the fixed extent
/// of dim `rank`, which comes first in both results. Of equal elements the lowest index comes first; NaN comes before
/// numbers, as in JAX. Element types with an order. One pass over x for each element, so use it for a few dozen at
/// most. Communication: if the dim is sharded, two all-reduces of one number for each slice and each element. The
/// gradient of the values goes to the positions that the indices name, also if elements are equal. Faults: dim_missing,
/// window_open, dim_too_short, not_for_complex.
constexpr std::pair<value, value> top_k(operand x, dim_ref over, dim_ref rank) {
  if (detail::element_beside(x) == element::none || !is_floating(detail::element_beside(x)))
    return detail::taken_one_by_one(x, over, rank);
  const called_at user(x, "top_k");
  const auto forward = [&](const value& v) {
    const auto found = detail::taken_one_by_one(detail::placed(v, x), over, rank);
    return std::pair(found, std::pair(found.second, iota(v, over)));
  };
  const auto backward = [&](const std::pair<value, value>& at, const std::pair<value, value>& slope) {
    const value here = x.from.in->elementwise(op::equal, std::array{at.first, at.second}, x.where, element::boolean,
                                              true);
    return sum(select(here, slope.first, 0), rank);
  };
  return custom_vjp(forward, backward)(x.from);
}
CLEAVE_LIFT(top_k)

}} // namespace cleave::v0
