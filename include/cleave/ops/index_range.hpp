// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

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

constexpr bool is_comparison(op code) {
  return code == op::less || code == op::less_equal || code == op::greater || code == op::greater_equal ||
         code == op::equal || code == op::not_equal;
}

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
