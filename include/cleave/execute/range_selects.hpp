// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/execute/binder.hpp>
#include <cleave/execute/expression_of.hpp>

// Selects by ranges of indices, such as the interior of a grid. The iteration space is cut where such a predicate
// changes. Within a box of it every such select has one branch, so that boxes are computed without the test.

namespace cleave { inline namespace v0 { namespace detail {

/// The role of an operation of a fused expression in range predicates.
enum class range_part : std::uint8_t {
  other,
  /// An integer that is known when the plan is bound.
  number,
  /// An index, plus or minus a number.
  index,
  /// A comparison of an index with a number, or such combined by and, or, not.
  predicate
};

constexpr bool is_comparison(op code) {
  return code == op::less || code == op::less_equal || code == op::greater || code == op::greater_equal ||
         code == op::equal || code == op::not_equal;
}

/// The parts of all operations of a fused expression.
struct range_parts {
  indexed_vector<range_part> at{};

  constexpr explicit range_parts(const fused_code& t) {
    at.reserve(t.word.size());
    for (std::uint64_t word : t.word) at.push_back(part_of(word));
  }

 private:
  constexpr range_part part_of(std::uint64_t word) const {
    const op code = op_of(word);
    const element type = type_of(word);
    const bool integer = type == element::i32 || type == element::i64;
    if (code == op::iota) return integer ? range_part::index : range_part::other;
    if (is_literal(role_of(code))) return integer ? range_part::number : range_part::other;
    if (role_of(code) != fused_role::operation) return range_part::other;
    if (code == op::logical_not || code == op::broadcast) return at[operand_of(word, 0)];
    const range_part a = at[operand_of(word, 0)], b = at[operand_of(word, 1)];
    const bool numbers = a == range_part::number && b == range_part::number;
    const bool indexed = (a == range_part::index && b == range_part::number);
    const bool mirrored = (a == range_part::number && b == range_part::index);
    if (is_comparison(code)) return indexed || mirrored ? range_part::predicate : range_part::other;
    if (code == op::logical_and || code == op::logical_or)
      return a == range_part::predicate && b == a ? a : range_part::other;
    if (code != op::add && code != op::sub && code != op::mul) return range_part::other;
    if (numbers) return range_part::number;
    const bool moved = code == op::add ? indexed || mirrored : code == op::sub && indexed;
    return moved ? range_part::index : range_part::other;
  }
};

/// The selects by ranges of an expression, and the expressions that it becomes.
struct range_selects {
  static constexpr int most_predicates = 4, most_variants = 4;

  /// The predicates of selects, operations of the expression.
  int predicates = 0;
  std::uint16_t predicate[most_predicates]{};
  /// The number of expressions; 0: the expression is unchanged. `truths` has one for each, with one bit for each
  /// predicate.
  int variants = 0;
  std::uint8_t truths[most_variants]{};
  /// By truths: the expression.
  std::uint8_t variant_of[1 << most_predicates]{};
  /// By expression: the operand that it copies; -1: it computes something.
  std::int8_t copies[most_variants]{};
};

/// The expression with known predicates.
constexpr fused_code resolved(const fused_code& t, const range_selects& r, unsigned truths) {
  const int size = t.size();
  indexed_vector<int> chosen(t.word.size());
  for (int j = 0; j < size; ++j) {
    chosen[j] = j;
    for (int k = 0; k < r.predicates && op_of(t.word[j]) == op::select; ++k)
      if (operand_of(t.word[j], 0) == r.predicate[k])
        chosen[j] = chosen[operand_of(t.word[j], (truths >> k & 1) != 0 ? 1 : 2)];
  }
  const int last = chosen[size - 1];
  indexed_vector<std::uint8_t> kept(t.word.size(), 0);
  kept[last] = 1;
  const auto operands = [&](int j) {
    const fused_role role = role_of(op_of(t.word[j]));
    return role == fused_role::user ? 3 : role == fused_role::operation ? arity_of(op_of(t.word[j])) : 0;
  };
  // Numbers and indices keep their places in the bound loops.
  const auto stays = [&](int j) {
    const fused_role role = role_of(op_of(t.word[j]));
    return is_literal(role) || role == fused_role::index;
  };
  for (int j = last; j >= 0; --j)
    for (int k = 0; k < operands(j) && kept[j] != 0; ++k) kept[chosen[operand_of(t.word[j], k)]] = 1;
  fused_code made;
  made.loads = t.loads;
  indexed_vector<int> place(t.word.size());
  const auto append = [&](int j) {
    std::uint64_t word = t.word[j];
    for (int k = 0; k < operands(j); ++k) word = with_operand(word, k, place[chosen[operand_of(t.word[j], k)]]);
    place[j] = made.size();
    made.append(word, t.user[j]);
  };
  for (int j = 0; j < size; ++j)
    if (j != last && ((kept[j] != 0 && j < last) || stays(j))) append(j);
  append(last);
  made.root.push_back(narrowed(made.size() - 1));
  return made;
}

/// Finds the selects of an expression with one result. None, if a load is transposed: it is read in tiles instead.
constexpr range_selects selects_of(const fused_code& t) {
  range_selects r;
  if (t.root.size() != 1) return r;
  bool indexed = false, selects = false;
  for (std::uint64_t word : t.word) {
    const op code = op_of(word);
    indexed = indexed || code == op::iota;
    selects = selects || code == op::select;
    if (code == op::input && operand_of(word, 1) == 2) return r;
  }
  if (!indexed || !selects) return r;
  const range_parts parts(t);
  for (int j = 0; j < t.size(); ++j) {
    const int by = operand_of(t.word[j], 0);
    if (op_of(t.word[j]) != op::select || parts.at[by] != range_part::predicate) continue;
    bool known = false;
    for (int k = 0; k < r.predicates; ++k) known = known || r.predicate[k] == by;
    if (known) continue;
    if (r.predicates == range_selects::most_predicates) return {};
    r.predicate[r.predicates++] = static_cast<std::uint16_t>(by);
  }
  if (r.predicates == 0) return r;
  fused_code made[range_selects::most_variants];
  for (unsigned truths = 0; truths < 1u << r.predicates; ++truths) {
    const fused_code one = resolved(t, r, truths);
    int v = 0;
    while (v < r.variants && !(made[v] == one)) ++v;
    if (v == range_selects::most_variants) return {};
    if (v == r.variants) {
      made[v] = one;
      const std::uint64_t last = one.word.back();
      r.copies[v] = static_cast<std::int8_t>(op_of(last) == op::input ? operand_of(last, 0) : -1);
      r.truths[r.variants++] = static_cast<std::uint8_t>(truths);
    }
    r.variant_of[truths] = static_cast<std::uint8_t>(v);
  }
  return r;
}

/// The predicates of a step for the sizes of a binder.
class bound_ranges {
 public:
  bound_ranges(const binder& b, const step& s, const range_selects& selects)
      : b_(b), fused_ops_(fused_ops_of(b.program, s)), selects_(selects) {
    for (int k = 0; k < selects_.predicates && any(); ++k) find_comparisons(selects_.predicate[k]);
  }

  bool any() const { return selects_.variants > 0; }
  /// Appends the indices along a dim of the loop where a predicate changes.
  [[gnu::cold]] void append_cuts(int dim, indexed_vector<std::int64_t>& cuts) const {
    const std::int64_t start[max_rank]{};
    for (int j : comparisons_) {
      const fused_op& t = fused_ops_[as_size(j)];
      const bool mirrored = has_index(t.in[1]);
      const int index = t.in[mirrored ? 1 : 0], number = t.in[mirrored ? 0 : 1];
      if (dim_of(index) != dim) continue;
      const element type = fused_ops_[as_size(index)].type;
      const auto moved = static_cast<std::uint64_t>(value(index, start));
      const std::int64_t equal = place(type, static_cast<std::uint64_t>(value(number, start)) - moved);
      const op code = t.code;
      const bool below = code == op::equal || code == op::not_equal || code == (mirrored ? op::less_equal : op::less) ||
                         code == (mirrored ? op::greater : op::greater_equal);
      const bool above = code == op::equal || code == op::not_equal || !below;
      if (below) cuts.push_back(equal);
      if (above) cuts.push_back(equal + 1);
      // The sum wraps around here.
      cuts.push_back(place(type, (std::uint64_t{1} << (8 * size_of(type) - 1)) - moved));
    }
  }
  /// The expression of a box that begins at these indices.
  int variant_at(const std::int64_t* index) const {
    unsigned truths = 0;
    for (int k = 0; k < selects_.predicates; ++k)
      if (value(selects_.predicate[k], index) != 0) truths |= 1u << k;
    return selects_.variant_of[truths];
  }
  int copied_by(int variant) const { return any() ? selects_.copies[variant] : -1; }

 private:
  [[gnu::cold]] void find_comparisons(int j) {
    const fused_op& t = fused_ops_[as_size(j)];
    if (is_comparison(t.code)) return comparisons_.push_back(j);
    for (int k = 0; k < arity_of(t.code); ++k) find_comparisons(t.in[as_size(k)]);
  }
  int dim_of(int j) const {
    const fused_op& t = fused_ops_[as_size(j)];
    if (t.code == op::iota) return t.arg;
    if (t.code == op::broadcast) return dim_of(t.in[0]);
    return dim_of(has_index(t.in[0]) ? t.in[0] : t.in[1]);
  }
  bool has_index(int j) const {
    const fused_op& t = fused_ops_[as_size(j)];
    if (t.code == op::iota) return true;
    for (int k = 0; k < arity_of(t.code); ++k)
      if (has_index(t.in[as_size(k)])) return true;
    return false;
  }
  /// Integers wrap as those of kernels do.
  static std::int64_t wrapped(element type, std::uint64_t bits) {
    return type == element::i32 ? std::int64_t{static_cast<std::int32_t>(static_cast<std::uint32_t>(bits))}
                                : static_cast<std::int64_t>(bits);
  }
  /// The index at this distance from 0 in a type that wraps; one that no dim has if it is below 0.
  static std::int64_t place(element type, std::uint64_t bits) {
    return type == element::i32 ? std::int64_t{static_cast<std::uint32_t>(bits)} : static_cast<std::int64_t>(bits);
  }
  /// Of a number, an index or a predicate.
  std::int64_t value(int j, const std::int64_t* index) const {
    const fused_op& t = fused_ops_[as_size(j)];
    if (is_literal(role_of(t.code))) return static_cast<std::int64_t>(literal_of(t, b_.at));
    if (t.code == op::iota) return index[t.arg];
    const std::int64_t x = value(t.in[0], index);
    if (t.code == op::broadcast) return x;
    if (t.code == op::logical_not) return x == 0;
    const std::int64_t y = value(t.in[1], index);
    const auto a = static_cast<std::uint64_t>(x), b = static_cast<std::uint64_t>(y);
    switch (t.code) {
      case op::add: return wrapped(t.type, a + b);
      case op::sub: return wrapped(t.type, a - b);
      case op::mul: return wrapped(t.type, a * b);
      case op::less: return x < y;
      case op::less_equal: return x <= y;
      case op::greater: return x > y;
      case op::greater_equal: return x >= y;
      case op::equal: return x == y;
      case op::not_equal: return x != y;
      case op::logical_and: return x != 0 && y != 0;
      default: return x != 0 || y != 0;
    }
  }

  const binder& b_;
  indexed_span<const fused_op> fused_ops_;
  const range_selects& selects_;
  indexed_vector<int> comparisons_{};
};

}}} // namespace cleave::v0::detail
