// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/statement.hpp>
#include <cleave/rules/sort.hpp>

namespace cleave {

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

} // namespace cleave
