// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/ops/table.hpp>

#include <cstdint>

// Predicates of indices, such as `0 < i & i < n` of an index i: steps become loops over the boxes in which they do not
// change.

namespace cleave { inline namespace v0 {

enum class range_part : std::uint8_t {
  other,
  /// An integer that is known when the plan is bound.
  number,
  /// An index plus a number, or a number minus an index.
  index,
  /// A comparison of these, or such combined by and, or, not.
  predicate
};

/// The pairs of operands, each 0 or 1, of which an operation is not 0: a set of bits. Of a comparison, the orders in
/// which it holds.
namespace operand_order {
inline constexpr std::uint8_t equal = 1, less = 2, greater = 4, ones = 8;
}
namespace detail {
/// The result of an operation that is written as a sign between its operands, by its entry.
constexpr double result_of_sign(op code, double x, double y) {
  switch (code) {
#define CLEAVE_INFIX(code, sign, linearity, traits, meaning, ...) \
  case op::code: return meaning;
#include <cleave/graph/op_list.hpp>
    default: return 0;
  }
}
} // namespace detail
/// Of an operation that is written as a sign between its operands; none of others.
constexpr std::uint8_t outcomes_of(op code) {
  if (entry_of(code).sums == linearity::quotient) return 0; // it would divide by 0
  const auto bit = [=](double x, double y, int b) { return detail::result_of_sign(code, x, y) != 0 ? b : 0; };
  return narrowed(bit(0, 0, operand_order::equal) | bit(0, 1, operand_order::less) | bit(1, 0, operand_order::greater) |
                  bit(1, 1, operand_order::ones));
}
constexpr bool is_comparison(op code) { return has_trait(code, op_traits::to_bool) && outcomes_of(code) != 0; }

/// The part of an operation whose operands are `a` and `b`.
constexpr range_part range_part_of(op code, element type, range_part a, range_part b) {
  const bool integer = type == element::i32 || type == element::i64;
  const bool known = a == range_part::number && b == range_part::number;
  const bool indexed = a != b && (a == range_part::number || b == range_part::number) &&
                       (a == range_part::index || b == range_part::index);
  switch (code) {
    case op::iota: return integer ? range_part::index : range_part::other;
    case op::constant:
    case op::count: return integer ? range_part::number : range_part::other;
    case op::identity:
    case op::broadcast: return a;
    case op::logical_not: return a == range_part::predicate ? a : range_part::other;
    case op::logical_and:
    case op::logical_or: return a == range_part::predicate && b == a ? a : range_part::other;
    case op::add:
    case op::sub: return known ? range_part::number : indexed ? range_part::index : range_part::other;
    case op::mul: return known ? range_part::number : range_part::other;
    default: return is_comparison(code) && (known || indexed) ? range_part::predicate : range_part::other;
  }
}

}} // namespace cleave::v0
