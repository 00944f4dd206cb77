// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/execute/binder.hpp>
#include <cleave/execute/expression_of.hpp>
#include <cleave/ops/index_range.hpp>

#include <algorithm>

// Selects by ranges of indices, such as the interior of a grid. The iteration space is cut where such a predicate
// changes. Within a box of it every such select has one branch, so that boxes are computed without the test.

namespace cleave { inline namespace v0 { namespace detail {

/// The parts of all operations of a fused expression.
constexpr indexed_vector<range_part> range_parts(const fused_code& t) {
  indexed_vector<range_part> part(t.word.size(), range_part::other);
  for (int j = 0; j < t.size(); ++j) {
    const op code = op_of(t.word[j]);
    const int operands = role_of(code) == fused_role::operation ? arity_of(code) : 0;
    const int a = operands == 0 ? j : operand_of(t.word[j], 0),
              b = operands == 0 ? j : operand_of(t.word[j], operands - 1);
    part[j] = range_part_of(code, type_of(t.word[j]), part[a], part[b]);
  }
  return part;
}

/// The selects by ranges of an expression, and the expressions that it becomes.
struct range_selects {
  static constexpr int most_predicates = 64, most_cases = 64, most_variants = 8;

  /// The predicates of selects, operations of the expression.
  int predicates = 0;
  std::uint16_t predicate[most_predicates]{};
  /// Predicates that are known, a bit for each, and which of these hold: then the expression is this variant.
  struct known {
    std::uint64_t which = 0, hold = 0;
    std::uint8_t variant = 0;
  };
  int cases = 0;
  known at[most_cases]{};
  /// There would be too many expressions, or there are several results: the first expression is that of the middle of
  /// the dims, and the second one, which compares, that of the elements near the faces.
  bool by_middle = false;
  /// The number of expressions; 0: the expression is unchanged. Of each a case, and the operand that it copies; -1: it
  /// computes something.
  int variants = 0;
  std::uint8_t example[most_variants]{};
  std::int8_t copies[most_variants]{};
};

/// The expression with known predicates; `open` becomes one that it still depends on, if there is any.
constexpr fused_code resolved(const fused_code& t, const range_selects& r, const range_selects::known& c, int& open) {
  const int size = t.size();
  indexed_vector<int> chosen(t.word.size()), undecided(t.word.size(), -1);
  for (int j = 0; j < size; ++j) {
    chosen[j] = j;
    for (int k = 0; k < r.predicates && op_of(t.word[j]) == op::select; ++k) {
      if (operand_of(t.word[j], 0) != r.predicate[k]) continue;
      if ((c.which >> k & 1) == 0) undecided[j] = k;
      else chosen[j] = chosen[operand_of(t.word[j], (c.hold >> k & 1) != 0 ? 1 : 2)];
    }
  }
  indexed_vector<std::uint8_t> kept(t.word.size(), 0);
  for (std::uint16_t root : t.root) kept[chosen[root]] = 1;
  const auto operands = [&](int j) {
    const fused_role role = role_of(op_of(t.word[j]));
    return role == fused_role::user ? 3 : role == fused_role::operation ? arity_of(op_of(t.word[j])) : 0;
  };
  // Numbers and indices keep their places in the bound loops.
  const auto stays = [&](int j) {
    const fused_role role = role_of(op_of(t.word[j]));
    return is_literal(role) || role == fused_role::index;
  };
  for (int j = size - 1; j >= 0; --j) {
    for (int k = 0; k < operands(j) && kept[j] != 0; ++k) kept[chosen[operand_of(t.word[j], k)]] = 1;
    if (kept[j] != 0 && undecided[j] >= 0) open = undecided[j];
  }
  fused_code made;
  made.loads = t.loads;
  indexed_vector<int> place(t.word.size());
  const auto append = [&](int j) {
    std::uint64_t word = t.word[j];
    for (int k = 0; k < operands(j); ++k) word = with_operand(word, k, place[chosen[operand_of(t.word[j], k)]]);
    place[j] = made.size();
    made.append(word, t.user[j]);
  };
  // A single result is last.
  const int last = t.root.size() > 1 ? size : chosen[size - 1];
  std::size_t next = 0;
  for (int j = 0; j < size; ++j) {
    if (j != last && ((kept[j] != 0 && j < last) || stays(j))) append(j);
    if (t.root.size() == 1 || j != t.root[next]) continue;
    // Each of several is an operation of its own, if only a copy.
    if (chosen[j] != j) made.append(word_of(op::cast, type_of(t.word[j]), as_size(place[chosen[j]]), 0, 0), nullptr);
    made.root.push_back(narrowed(made.size() - 1));
    ++next;
  }
  if (t.root.size() > 1) return made;
  append(last);
  made.root.push_back(narrowed(made.size() - 1));
  return made;
}

/// The value of an operation in the middle of long dims, where numbers that do not depend on an extent are small.
constexpr std::int64_t value_in_middle(const fused_code& t, int j) {
  const std::uint64_t word = t.word[j];
  const op code = op_of(word);
  if (code == op::count) return std::int64_t{1} << 30;
  if (code == op::iota) return std::int64_t{1} << 29;
  if (role_of(code) != fused_role::operation) return 1;
  const int last = operand_of(word, arity_of(code) - 1);
  return value_in_range(code, element::i64, value_in_middle(t, operand_of(word, 0)), value_in_middle(t, last));
}
/// The same selects with two expressions, one of them for the middle of the dims.
constexpr range_selects cut_by_middle(const fused_code& t, range_selects r) {
  r.by_middle = true;
  r.cases = r.variants = 2;
  r.at[0] = r.at[1] = {};
  for (int k = 0; k < r.predicates; ++k) {
    r.at[0].which |= std::uint64_t{1} << k;
    if (value_in_middle(t, r.predicate[k]) != 0) r.at[0].hold |= std::uint64_t{1} << k;
  }
  r.at[1].variant = r.example[1] = 1;
  r.example[0] = 0;
  r.copies[0] = r.copies[1] = -1;
  return r;
}

/// Finds the selects of an expression. None, if a load is transposed: it is read in tiles instead.
constexpr range_selects selects_of(const fused_code& t) {
  range_selects r;
  bool indexed = false, selects = false;
  for (std::uint64_t word : t.word) {
    const op code = op_of(word);
    indexed = indexed || code == op::iota;
    selects = selects || code == op::select;
    if (code == op::input && operand_of(word, 1) == 2) return r;
  }
  if (!indexed || !selects) return r;
  const indexed_vector<range_part> part = range_parts(t);
  for (int j = 0; j < t.size(); ++j) {
    const int by = operand_of(t.word[j], 0);
    if (op_of(t.word[j]) != op::select || part[by] != range_part::predicate) continue;
    bool known = false;
    for (int k = 0; k < r.predicates; ++k) known = known || r.predicate[k] == by;
    if (known) continue;
    if (r.predicates == range_selects::most_predicates) return {};
    r.predicate[r.predicates++] = static_cast<std::uint16_t>(by);
  }
  if (r.predicates == 0) return r;
  if (t.root.size() > 1) return cut_by_middle(t, r);
  fused_code made[range_selects::most_variants];
  r.cases = 1;
  for (int i = 0; i < r.cases;) {
    int open = -1;
    const fused_code one = resolved(t, r, r.at[i], open);
    if (open >= 0) {
      // Both cases of a predicate, the one in which it does not hold at once.
      if (r.cases == range_selects::most_cases) return cut_by_middle(t, r);
      r.at[i].which |= std::uint64_t{1} << open;
      r.at[r.cases] = r.at[i];
      r.at[r.cases++].hold |= std::uint64_t{1} << open;
      continue;
    }
    int v = 0;
    while (v < r.variants && !(made[v] == one)) ++v;
    if (v == range_selects::most_variants) return cut_by_middle(t, r);
    if (v == r.variants) {
      made[v] = one;
      const std::uint64_t last = one.word.back();
      r.copies[v] = static_cast<std::int8_t>(op_of(last) == op::input ? operand_of(last, 0) : -1);
      r.example[r.variants++] = static_cast<std::uint8_t>(i);
    }
    r.at[i++].variant = static_cast<std::uint8_t>(v);
  }
  return r;
}
/// Expression `v` of those that it becomes.
constexpr fused_code variant_of(const fused_code& t, const range_selects& r, std::size_t v) {
  int open = -1;
  return resolved(t, r, r.at[r.example[v]], open);
}

/// The predicates of a step for the sizes of a binder.
class bound_ranges {
 public:
  bound_ranges(const binder& b, const step& s, const range_selects& selects)
      : b_(b), fused_ops_(fused_ops_of(b.program, s)), selects_(selects) {
    for (int k = 0; k < selects_.predicates && any(); ++k) find_comparisons(selects_.predicate[k]);
    for (int i = 0; i < s.loop.rank && selects_.by_middle; ++i) {
      indexed_vector<std::int64_t> changes;
      append_changes(i, changes);
      range& middle = middle_[i];
      middle = {0, b.at[s.loop[i]]};
      for (const std::int64_t at : changes)
        if (at <= b.at[s.loop[i]] / 2) middle.begin = std::max(middle.begin, at);
        else middle.end = std::min(middle.end, at);
    }
  }

  bool any() const { return selects_.variants > 0; }
  /// Appends the indices along a dim of the loop where the expression changes.
  [[gnu::cold]] void append_cuts(int dim, indexed_vector<std::int64_t>& cuts) const {
    if (!selects_.by_middle) return append_changes(dim, cuts);
    cuts.push_back(middle_[dim].begin);
    cuts.push_back(middle_[dim].end);
  }
  /// The expression of a box that begins at these indices.
  int variant_at(const std::int64_t* index) const {
    // Nearer to the faces a predicate may change within the box.
    for (int i = 0; i < max_rank && selects_.by_middle; ++i)
      if (middle_[i].size() > 0 && (index[i] < middle_[i].begin || index[i] >= middle_[i].end)) return 1;
    std::uint64_t hold = 0;
    for (int k = 0; k < selects_.predicates; ++k)
      if (value(selects_.predicate[k], index) != 0) hold |= std::uint64_t{1} << k;
    int i = 0;
    while ((hold & selects_.at[i].which) != selects_.at[i].hold) ++i;
    return selects_.at[i].variant;
  }
  int copied_by(int variant) const { return any() ? selects_.copies[variant] : -1; }

 private:
  /// Appends those where a predicate changes.
  [[gnu::cold]] void append_changes(int dim, indexed_vector<std::int64_t>& cuts) const {
    std::int64_t index[max_rank]{};
    for (int j : comparisons_) {
      const fused_op& t = fused_ops_[as_size(j)];
      const element type = fused_ops_[t.in[0]].type;
      const auto x = static_cast<std::uint64_t>(value(t.in[0], index)),
                 y = static_cast<std::uint64_t>(value(t.in[1], index));
      // Where both sides are equal, and where the one with the index wraps around: one of these and the next index.
      const std::uint64_t wrap = std::uint64_t{1} << (8 * size_of(type) - 1);
      for (const std::uint64_t at : {x - y, y - x, wrap - x, wrap - y, x - wrap, y - wrap})
        for (const std::uint64_t next : {0u, 1u})
          if (const std::int64_t cut = place(type, at + next); cut > 0 && changes(j, dim, cut)) cuts.push_back(cut);
    }
  }
  [[gnu::cold]] void find_comparisons(int j) {
    const fused_op& t = fused_ops_[as_size(j)];
    if (is_comparison(t.code)) return comparisons_.push_back(j);
    for (int k = 0; k < arity_of(t.code); ++k) find_comparisons(t.in[as_size(k)]);
  }
  /// Whether a comparison differs between an index along a dim and the one before it.
  bool changes(int j, int dim, std::int64_t at) const {
    std::int64_t before[max_rank]{}, index[max_rank]{};
    before[dim] = at - 1;
    index[dim] = at;
    return value(j, before) != value(j, index);
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
    const int last = arity_of(t.code) - 1;
    return value_in_range(t.code, t.type, value(t.in[0], index), value(t.in[as_size(last)], index));
  }

  const binder& b_;
  indexed_span<const fused_op> fused_ops_;
  const range_selects& selects_;
  indexed_vector<int> comparisons_{};
  /// `by_middle`: the indices along each dim of the loop between which no predicate changes.
  fixed_array<range, max_rank> middle_{};
};

}}} // namespace cleave::v0::detail
