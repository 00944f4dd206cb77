// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/functions.hpp>
#include <cleave/expr/statement.hpp>
#include <cleave/rules/sort.hpp>

namespace cleave::inline v0 {

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
/// sum; or the planner gathers `sorted` where that is cheaper. No gradient flows. Faults: dim_missing, dim_used_twice,
/// element_types_differ, not_for_complex, rank_too_high; shape_error for a dim beyond int32.
constexpr value searchsorted(operand sorted, operand values, dim_ref along, side from = side::left) {
  recorder& in = detail::recorder_of(sorted, values);
  if (!sorted.from.ok()) return in.missing("searchsorted", sorted.where);
  const value asked = in.value_of(values, "searchsorted", in.at(sorted.from).type.element);
  return detail::recorded_search(in, sorted.from, asked, along, from == side::right, sorted.where);
}
CLEAVE_LIFT(searchsorted)

} // namespace cleave::inline v0
