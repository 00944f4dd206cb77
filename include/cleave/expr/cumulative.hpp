// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/functions.hpp>
#include <cleave/expr/statement.hpp>
#include <cleave/rules/cumulative.hpp>

namespace cleave { inline namespace v0 {

/// The direction of a running total, and whether an element counts itself.
enum class running : std::uint8_t {
  /// The elements up to and including its own.
  forward,
  /// The elements before its own.
  forward_exclusive,
  /// The elements from the last one down to its own.
  backward,
  /// The elements after its own.
  backward_exclusive,
};

namespace detail {
constexpr value running_total(reduction how, operand x, dim_ref along, running order) {
  if (element_beside(x) == element::boolean && (how == reduction::sum || how == reduction::prod))
    return x.from.in->fail(fault::sum_of_bools, how == reduction::sum ? "cumulative_sum" : "cumulative_prod", x.where);
  return recorded_cumulative(*x.from.in, how, x.from,
                             {along, order == running::backward || order == running::backward_exclusive,
                              order == running::forward_exclusive || order == running::backward_exclusive},
                             x.where);
}
} // namespace detail

/// Running sums along a dim, in the layout of x, for all element types but bool. A sharded dim stays sharded.
/// Communication: every device scans its block, and one value for each slice goes through an exclusive prefix scan over
/// the devices (Blelloch 1990; MPI_Exscan). The gradient is the sum from the other end.
constexpr value cumulative_sum(operand x, dim_ref along, running order = running::forward) {
  return detail::running_total(reduction::sum, x, along, order);
}
CLEAVE_LIFT(cumulative_sum)
/// Running products. The gradient is a linear recurrence from the other end; derivatives of every order are correct if
/// factors are 0. Otherwise as `cumulative_sum`.
constexpr value cumulative_prod(operand x, dim_ref along, running order = running::forward) {
  return detail::running_total(reduction::prod, x, along, order);
}
CLEAVE_LIFT(cumulative_prod)
/// Running maxima, for element types with an order. The gradient goes to the element that is the maximum, the last of
/// equal ones. Otherwise as `cumulative_sum`.
constexpr value cumulative_max(operand x, dim_ref along, running order = running::forward) {
  return detail::running_total(reduction::max, x, along, order);
}
CLEAVE_LIFT(cumulative_max)
/// Running minima. Otherwise as `cumulative_max`.
constexpr value cumulative_min(operand x, dim_ref along, running order = running::forward) {
  return detail::running_total(reduction::min, x, along, order);
}
CLEAVE_LIFT(cumulative_min)

}} // namespace cleave::v0
