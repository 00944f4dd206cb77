// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/recorded_sort.hpp>
#include <cleave/expr/statement.hpp>

namespace cleave {

enum class order : std::uint8_t { ascending, descending };

/// The elements of each slice along a dim in order, in the layout of x. Element types with an order; NaN after all numbers (before them
/// in descending order). A divided dim stays divided, into the same blocks: every device sorts its own, samples tell where to cut, and one
/// all-to-all takes the elements to the devices that have their ranks (Shi and Schaeffer 1992), charged as if they were spread evenly.
/// The gradient goes to where the elements were. Faults: dim_missing, not_for_complex.
constexpr value sort(operand x, dim_ref along, order by = order::ascending) {
  return detail::recorded_sort(*x.from.in, op::sort, x.from, along, by == order::descending, x.where);
}
/// The indices (int32) that the elements of each slice had: of equal ones the lower first, in either order. Their elements:
/// `gather`, with a dim of the places renamed.
constexpr value argsort(operand x, dim_ref along, order by = order::ascending) {
  return detail::recorded_sort(*x.from.in, op::argsort, x.from, along, by == order::descending, x.where);
}

template <Statement X, Dim D>
constexpr auto sort(const X& x, const D& along) {
  return detail::make_expression([](const auto& a, const auto& d) { return sort(a, d); }, x, along);
}
template <Statement X, Dim D>
constexpr auto argsort(const X& x, const D& along) {
  return detail::make_expression([](const auto& a, const auto& d) { return argsort(a, d); }, x, along);
}

} // namespace cleave
