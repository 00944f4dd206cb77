// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/graph/compose_maps.hpp>
#include <cleave/ops/table.hpp>
#include <cleave/program/program_view.hpp>

#include <algorithm>
#include <utility>

namespace cleave { inline namespace v0 { namespace lowering {

constexpr bool is_index(const fused_op& o) { return role_of(o.code) == fused_role::index; }
/// Whether an operation is the comparison that holds for equal operands alone.
constexpr bool holds_if_equal(const fused_op& o) {
  return is_comparison(o.code) && outcomes_of(o.code) == (operand_order::equal | operand_order::ones);
}
/// Whether an operation is one of two operands, by a predicate.
constexpr bool chooses(const fused_op& o) { return has_trait(o.code, op_traits::by_predicate); }

/// The most different expressions of a pass by ranges of its indices, and the most boxes of a predicate and of a pass.
inline constexpr std::size_t most_range_expressions = 8, most_predicate_boxes = 32, most_range_boxes = 256;

/// Writes into the steps of a program where their expressions compare indices: the labels of folds and maps, and the
/// expression that a map computes in each box of indices (step::bounds). A select by a predicate of indices, such as
/// the interior of a grid, has one branch in a box.
class range_cutting {
 public:
  constexpr explicit range_cutting(program& p) : p_(p) {}

  constexpr void run() {
    const std::size_t count = p_.steps.size();
    for (std::size_t i = 0, first = 0; i < count; ++i) {
      step& s = p_.steps.at[i];
      if (!s.joined) first = i;
      const fused_op* const ops = p_.fused_ops.at + s.first_op;
      std::size_t j = 0;
      while (j < s.ops && !is_index(ops[j])) ++j;
      if (j == s.ops) continue;
      const inner_dim inner = inner_dim_of(s, p_.buffers, p_.maps);
      mark_labels(s, inner);
      const bool ends = i + 1 == count || !p_.steps[i + 1].joined;
      if (s.kind == step_kind::map && ends && reads_lines(s, inner)) cut(first, i + 1);
    }
  }

 private:
  /// Bounds that an index of a box meets all of.
  using box = indexed_vector<index_bound>;
  using boxes = indexed_vector<box>;
  /// times * index along a dim of the loop + sum. Of a number that is known when the plan is bound, times is 0.
  struct index_form {
    extent_sum sum{};
    std::int8_t dim = -1, times = 0;
  };
  /// The condition of a select, an operation, and the boxes in which it holds.
  struct predicate {
    std::size_t condition;
    boxes where;
  };

  /// Marks the comparisons of the index along the lines of a map or a fold with a label that does not move along them,
  /// as in one_hot(label), and a sum along lines of which a label leaves one term.
  constexpr void mark_labels(step& s, const inner_dim& inner) {
    fused_op* const ops = p_.fused_ops.at + s.first_op;
    const auto counts = [](const fused_op& o) { return is_integer(o.type) && size_of(o.type) >= 4; };
    for (std::size_t j = 0; j < s.ops; ++j)
      for (std::size_t k = 0; k < 2 && holds_if_equal(ops[j]) && ops[j].arg == 0; ++k) {
        const fused_op &index = ops[ops[j].in[k]], &label = ops[ops[j].in[1 - k]];
        if (is_index(index) && index.arg == inner.position && label.code == op::input && inner.stride[label.arg] == 0 &&
            counts(index) && counts(label))
          ops[j].arg = narrowed(2 - k);
      }
    if (s.kind != step_kind::fold || s.combine != reduction::sum || !inner.folded) return;
    const auto comparison_in = [&](std::size_t j) {
      if (ops[j].type != element::boolean && arity_of(ops[j].code) == 1) j = ops[j].in[0];
      return holds_if_equal(ops[j]) && ops[j].arg != 0 ? j + 1 : 0;
    };
    const fused_op &last = ops[s.ops - 1], &otherwise = ops[last.in[2]];
    const bool product = entry_of(last.code).sums == linearity::each;
    if (product || (chooses(last) && otherwise.code == op::constant && otherwise.scalar == 0))
      s.one_term = narrowed(std::max(comparison_in(last.in[0]), product ? comparison_in(last.in[1]) : 0));
  }

  /// Whether a map reads no transposed array, with which it runs in tiles instead of boxes.
  constexpr bool reads_lines(const step& s, const inner_dim& inner) const {
    bool lines = true;
    for (const fused_op& o : fused_ops_of(p_, s)) lines = lines && (o.code != op::input || inner.stride[o.arg] < 2);
    return lines;
  }

  constexpr void cut(std::size_t first, std::size_t end) {
    ops_ = fused_ops_of(p_, p_.steps[end - 1]);
    predicates_.clear();
    bool any = false;
    for (const fused_op& o : ops_) any = (chooses(o) && predicate_of(o.in[0]) >= 0) || any;
    if (!any) return;
    // More operations are appended to the list.
    const indexed_vector<fused_op> own(ops_.begin(), ops_.end());
    ops_ = own;
    roots_.clear();
    for (std::size_t i = first; i < end; ++i) roots_.push_back(p_.steps[i].ops - std::size_t{1});
    predicate_of_.clear();
    for (const fused_op& o : ops_) predicate_of_.push_back(chooses(o) ? predicate_of(o.in[0]) : -1);
    known_.assign(predicates_.size(), -1);
    boxes_ = 0;
    first_op_ = p_.fused_ops.size();
    first_bound_ = p_.bounds.size();
    step& s = p_.steps[first];
    if (roots_.size() > 1 || !explore({box{}})) cut_middle(s.first_op);
    s.first_bound = narrowed(first_bound_);
    s.bounds = narrowed(p_.bounds.size() - first_bound_);
  }

  /// The number of the predicate that a condition is; -1: it is none.
  constexpr int predicate_of(std::size_t condition) {
    const int count = as_int(predicates_.size());
    for (int k = 0; k < count; ++k)
      if (predicates_[k].condition == condition) return k;
    boxes where{}; // not in the condition: nvcc 12 then finds it uninitialized
    if (!find_boxes(condition, true, where)) return -1;
    predicates_.push_back({condition, std::move(where)});
    return count;
  }

  /// The form of an operand of a comparison; false if it has none, or might wrap.
  constexpr bool find_form(std::size_t j, index_form& f) const {
    const fused_op& o = ops_[j];
    if (o.type != element::i32 && o.type != element::i64) return false;
    if (o.code == op::constant) {
      // Sums and products of others might overflow.
      if (!is_whole(o.scalar) || o.scalar > 0x1p61 || o.scalar < -0x1p61) return false;
      f.sum.constant = static_cast<std::int64_t>(o.scalar);
      return true;
    }
    if (is_index(o)) {
      f.dim = static_cast<std::int8_t>(o.arg);
      f.times = 1;
      return true;
    }
    if (role_of(o.code) == fused_role::count) {
      for (dim_id d = 0; d < max_dims; ++d)
        if (o.over == dim_bit(d)) f.sum.terms.push_back({d, 1});
      return f.sum.terms.size() == 1;
    }
    index_form a, b;
    const linearity sums = entry_of(o.code).sums;
    if (sums != linearity::joint && sums != linearity::difference) return false;
    if (!find_form(o.in[0], a) || !find_form(o.in[1], b)) return false;
    return subtract(b, sums == linearity::difference ? 1 : -1, a, f) && is_exact(f, o.type);
  }
  /// a - times * b, of which one at most is an index.
  static constexpr bool subtract(const index_form& b, int times, const index_form& a, index_form& f) {
    const auto sum = detail::scaled_sum(b.sum, -times, a.sum);
    if (!sum || (a.times != 0 && b.times != 0)) return false;
    f = {*sum, a.times != 0 ? a.dim : b.dim, static_cast<std::int8_t>(a.times - times * b.times)};
    return true;
  }
  /// Whether no index and no extent of a call makes a sum wrap (most_beyond_indices).
  static constexpr bool is_exact(const index_form& f, element type) {
    std::int64_t above = f.times > 0, below = f.times < 0;
    for (const extent_sum::term& t : f.sum.terms) (t.times > 0 ? above : below) += t.times > 0 ? t.times : -t.times;
    const std::int64_t most = type == element::i32 ? 1 : 64;
    return above <= most && below <= most && f.sum.constant <= most_beyond_indices &&
           f.sum.constant >= -most_beyond_indices;
  }

  /// The boxes in which a condition is `wanted`; false if it is no predicate of indices.
  constexpr bool find_boxes(std::size_t j, bool wanted, boxes& where) const {
    const fused_op& o = ops_[j];
    if (has_trait(o.code, op_traits::negates)) return find_boxes(o.in[0], !wanted, where);
    if (is_comparison(o.code)) return find_bounds(o, wanted, where);
    const bool all = outcomes_of(o.code) == operand_order::ones;
    if (o.type != element::boolean ||
        (!all && outcomes_of(o.code) != (operand_order::less | operand_order::greater | operand_order::ones)))
      return false;
    boxes a, b;
    if (!find_boxes(o.in[0], wanted, a) || !find_boxes(o.in[1], wanted, b)) return false;
    // No conditional expression: g++ 12 destroys its vectors too early.
    if (all == wanted) {
      where = in_both(a, b);
    } else {
      where = std::move(a);
      where.append(b.begin(), b.end());
    }
    return where.size() <= most_predicate_boxes;
  }
  static constexpr boxes in_both(const boxes& a, const boxes& b) {
    boxes all;
    for (const box& x : a)
      for (const box& y : b) {
        all.push_back(x);
        for (const index_bound& bound : y) add_bound(all.back(), bound);
      }
    return all;
  }
  /// Of bounds that differ by a number the tighter one.
  static constexpr void add_bound(box& all, const index_bound& bound) {
    for (index_bound& b : all)
      if (b.dim == bound.dim && b.upper == bound.upper && b.at.terms == bound.at.terms) {
        if ((b.at.constant < bound.at.constant) != bound.upper) b = bound;
        return;
      }
    all.push_back(bound);
  }
  /// Of a comparison.
  constexpr bool find_bounds(const fused_op& o, bool wanted, boxes& where) const {
    index_form a, b, f;
    if (!find_form(o.in[0], a) || !find_form(o.in[1], b) || !subtract(b, 1, a, f)) return false;
    // times * index + sum is compared with 0. If it counts down, the other side of `at` is meant.
    const bool turned = f.times < 0;
    if (!turned) f.sum = *detail::scaled_sum(f.sum, -1, {});
    const auto add = [&](bool next, bool upper) {
      index_bound bound{f.sum, f.dim, upper};
      if (next) ++bound.at.constant;
      where.back().push_back(bound);
    };
    // The orders of the index and `at` in which the condition is as wanted.
    const auto holds = [&](unsigned order) { return ((outcomes_of(o.code) & order) != 0) == wanted; };
    const bool below = holds(turned ? operand_order::greater : operand_order::less), same = holds(operand_order::equal),
               above = holds(turned ? operand_order::less : operand_order::greater);
    where.push_back(box{});
    if (below && above) { // one on each side
      add(false, true);
      where.push_back(box{});
      add(true, false);
    } else {
      if (!below) add(!same, false);
      if (!above) add(same, true);
    }
    return true;
  }

  /// The expression where conditions are known. `open` becomes one on which it still depends, if there is any: then
  /// there is no expression. The results of a pass are its last operations.
  constexpr indexed_vector<fused_op> resolved(int& open) const {
    const std::size_t size = ops_.size();
    indexed_vector<std::size_t> chosen(size), place(size);
    indexed_vector<std::uint8_t> kept(size, 0);
    for (std::size_t j = 0; j < size; ++j) {
      const int k = predicate_of_[j];
      chosen[j] = k < 0 || known_[k] < 0 ? j : chosen[ops_[j].in[known_[k] != 0 ? 1 : 2]];
    }
    for (std::size_t root : roots_) kept[chosen[root]] = 1;
    for (std::size_t j = size; j-- > 0;) {
      if (kept[j] == 0) continue;
      for (std::size_t k = 0; k < operands_of(ops_[j]); ++k) kept[chosen[ops_[j].in[k]]] = 1;
      if (open < 0) open = predicate_of_[j];
    }
    indexed_vector<fused_op> made;
    for (std::size_t j = 0; j < size && open < 0; ++j) {
      if (kept[j] == 0) continue;
      fused_op o = ops_[j];
      for (std::size_t k = 0; k < operands_of(o); ++k) o.in[k] = narrowed(place[chosen[o.in[k]]]);
      place[j] = made.size();
      made.push_back(o);
    }
    for (std::size_t k = 0; k < roots_.size() && roots_.size() > 1; ++k) {
      fused_op copy;
      copy.code = copying;
      copy.type = ops_[roots_[k]].type;
      copy.in[0] = narrowed(place[chosen[roots_[k]]]);
      made.push_back(copy);
    }
    return made;
  }
  static constexpr std::size_t operands_of(const fused_op& o) {
    return is_of_user(o.code) ? o.in.size() : as_size(arity_of(o.code));
  }

  /// The boxes with known conditions, some of which are in `where`. Of boxes that overlap the first one counts, so that
  /// the indices where a condition does not hold need no box of their own. False: there are too many.
  constexpr bool explore(const boxes& where) {
    // There are no fewer boxes with all conditions known.
    if (where.size() > most_range_boxes) return false;
    int open = -1;
    const indexed_vector<fused_op> expression = resolved(open);
    if (open < 0) return add(where, expression);
    known_[open] = 1;
    bool fits = explore(in_both(where, predicates_[as_size(open)].where));
    known_[open] = 0;
    fits = fits && explore(where);
    known_[open] = -1;
    return fits;
  }
  /// Writes boxes with an expression, which may be there already.
  constexpr bool add(const boxes& where, const indexed_vector<fused_op>& expression) {
    index_bound end{.ends = true, .ops = narrowed(expression.size()), .first_op = narrowed(p_.fused_ops.size())};
    for (std::size_t k = first_bound_; k < p_.bounds.size() && end.first_op == p_.fused_ops.size(); ++k) {
      const index_bound& b = p_.bounds[k];
      if (!b.ends) continue;
      if (std::ranges::equal(fused_ops_of(program_view(p_), b), expression)) end = b;
      else end.expression = std::max<std::uint8_t>(end.expression, narrowed(b.expression + 1));
    }
    boxes_ += where.size();
    if (end.expression == most_range_expressions || boxes_ > most_range_boxes) return false;
    if (end.first_op == p_.fused_ops.size()) p_.fused_ops.append(expression.begin(), expression.end());
    for (const box& one : where) {
      p_.bounds.append(one.begin(), one.end());
      p_.bounds.push_back(end);
    }
    return true;
  }
  /// One box away from all bounds, where extents are large, and elsewhere the whole expression, which is there.
  constexpr void cut_middle(std::uint32_t whole) {
    constexpr std::int64_t large = std::int64_t{1} << 30;
    box middle;
    for (std::size_t k = 0; k < predicates_.size(); ++k) {
      known_[k] = 0;
      for (const box& one : predicates_[k].where) {
        bool inside = true;
        for (index_bound b : one) {
          std::int64_t at = b.at.constant;
          for (const extent_sum::term& t : b.at.terms) at += t.times * large;
          const bool below = at <= (b.dim < 0 ? 0 : large / 2);
          inside = inside && below != b.upper;
          b.upper = !below;
          add_bound(middle, b);
        }
        if (inside) known_[k] = 1;
      }
    }
    int open = -1;
    boxes_ = 0;
    p_.fused_ops.resize(first_op_);
    p_.bounds.resize(first_bound_);
    add({middle}, resolved(open));
    p_.bounds.push_back({.ends = true, .expression = 1, .ops = narrowed(ops_.size()), .first_op = whole});
  }

  program& p_;
  /// Of the pass that is looked at: its operations, and which of them are its results.
  indexed_span<const fused_op> ops_{};
  indexed_vector<std::size_t> roots_{};
  indexed_vector<predicate> predicates_{};
  /// By operation: the predicate by which it selects; -1: by none.
  indexed_vector<int> predicate_of_{};
  /// By predicate: whether it holds; -1: that is not known.
  indexed_vector<std::int8_t> known_{};
  /// How many boxes it has, and where its expressions and bounds begin.
  std::size_t boxes_ = 0, first_op_ = 0, first_bound_ = 0;
};

}}} // namespace cleave::v0::lowering
