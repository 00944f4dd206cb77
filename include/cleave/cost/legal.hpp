// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/assignment.hpp>

namespace cleave { inline namespace v0 { namespace planner {

/// Dims of the result that may not be sharded: those of windows, those that a user's kernel needs whole, and the one
/// along which a loop stacks.
constexpr dim_set whole_dims(const cost_model& m, std::size_t v) {
  const op_rules& rules = m.rules(v);
  return !rules.whole_dims.given ? dim_set{0} : rules.whole_dims.call(m.g, m.node_at(v));
}

/// Maps the axes of the operand of a split or merge to the result.
constexpr void project_view(const cost_model& m, std::size_t v, const factor& f, layout operand, strategy& s) {
  const node& n = m.node_at(v);
  const auto parts_of_view = m.rules(v).parts.call;
  const axis_list major_axes = operand[f.at[0]];
  if (f.minor_in_result) {
    const view_parts parts = parts_of_view(m.g, n, major_axes);
    s.out.set(f.at[in_result], parts.major);
    s.out.set(f.minor, parts.minor);
    return;
  }
  const axis_list minor_axes = operand[f.minor];
  axis_list whole = major_axes.then(minor_axes);
  if (const view_parts parts = parts_of_view(m.g, n, whole); !parts.exact || parts.minor != minor_axes) {
    const view_parts major = parts_of_view(m.g, n, major_axes);
    whole = major.major.then(major.minor);
  }
  s.out.set(f.at[in_result], whole);
  s.minor = narrowed(parts_of_view(m.g, n, whole).minor.size());
}

/// Maps the layout of operand `k` to the result and the reduced factors; other positions keep their axes, but for those
/// that the operand uses. By factors, for special nodes.
constexpr void project_factors(const cost_model& m, std::size_t v, int k, layout operand, strategy& s) {
  const node_factors factors = m.factors(v);
  const factor* list = factors.items;
  const std::size_t count = factors.count;
  unsigned used = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const factor& f = list[i];
    if (f.at[k] < 0) continue;
    // If the owners of rows look them up, none are fetched.
    if (f.is_fetched() && s.over.axes(0) == 0) s.taken.set(f.taken, operand[f.at[k]]);
    if (f.type == factor_type::reduction || f.at[in_result] >= 0) used |= operand.axes(f.at[k]).word;
  }
  int r = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const factor& f = list[i];
    const bool reduced = f.type == factor_type::reduction;
    if (!reduced && f.at[in_result] < 0) continue;
    layout& made = reduced ? s.over : s.out;
    const int position = reduced ? r++ : f.at[in_result];
    if (f.at[k] >= 0) made.clear(position);
    else made.give_up(position, used);
  }
  r = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const factor& f = list[i];
    const bool reduced = f.type == factor_type::reduction;
    if (!reduced && f.at[in_result] < 0) continue;
    const int position = reduced ? r++ : f.at[in_result];
    if (f.at[k] >= 0) (reduced ? s.over : s.out).set(position, operand[f.at[k]]);
  }
  for (std::size_t i = 0; i < count; ++i)
    if (list[i].minor >= 0) project_view(m, v, list[i], operand, s);
}

/// The sharding of a set of positions (bit i + 1: i) alone.
constexpr std::uint64_t only(std::uint64_t dims, std::uint32_t positions) {
  std::uint64_t made = 0;
  int shift = 0;
  for (std::uint64_t rest = dims; rest != 0; rest >>= layout::bits_per_axis, shift += layout::bits_per_axis)
    if ((positions >> (rest & 15u) & 1u) != 0) made |= (rest & 127u) << shift;
  return made;
}

/// The same for any node.
constexpr void project(const cost_model& m, std::size_t v, int k, layout operand, strategy& s) {
  if ((m.traits.at[v] & special) != 0) return project_factors(m, v, k, operand, s);
  const std::uint32_t slot = m.first_slot.at[v] + static_cast<std::uint32_t>(k);
  const std::uint64_t dims = operand.word & layout::dims_mask;
  const std::uint64_t partial = s.out.word & ~layout::dims_mask;
  const position_map to = m.to_result.at[slot];
  const layout out{to == same_positions || dims == 0 ? dims : mapped(dims, to)};
  const layout over{m.to_reduced.at[slot] == 0 || dims == 0 ? 0 : mapped(dims, m.to_reduced.at[slot])};
  if (const std::uint32_t missing = m.missing.at[slot]; missing == 0) {
    s.out.word = out.word | partial;
    s.over = over;
  } else {
    layout kept_out{only(s.out.word & layout::dims_mask, missing)}, kept_over{only(s.over.word, missing >> 16)};
    const unsigned used = out.sharded_bits() | over.sharded_bits();
    for (int i = 0; i < max_rank && ((kept_out.sharded_bits() | kept_over.sharded_bits()) & used) != 0; ++i) {
      kept_out.give_up(i, used);
      kept_over.give_up(i, used);
    }
    s.out.word = out.word | kept_out.word | partial;
    s.over.word = over.word | kept_over.word;
  }
}

/// Makes the axes of the result of a split or merge those of blocks that its operand has too, and keeps dims whole that
/// must be.
constexpr void fit(const cost_model& m, std::size_t v, strategy& s) {
  if ((m.traits.at[v] & special) == 0) return;
  const node& n = m.node_at(v);
  const dim_set whole = whole_dims(m, v);
  for (int i = 0; i < n.type.rank && whole != 0; ++i)
    if ((whole & dim_bit(n.type[i])) != 0) s.out.clear(i);
  const node_factors factors = m.factors(v);
  for (std::size_t i = 0; i < factors.count; ++i) {
    const factor& f = factors.items[i];
    if (f.minor < 0) continue;
    const int position = f.at[in_result];
    const axis_list list = s.out[position];
    const view_parts parts = m.rules(v).parts.call(m.g, n, f.minor_in_result ? list.then(s.out[f.minor]) : list);
    if (f.minor_in_result) {
      s.out.clear(f.minor);
      s.out.set(position, parts.major);
      s.out.set(f.minor, parts.minor);
    } else {
      s.out.set(position, parts.major.then(parts.minor));
      s.minor = narrowed(parts.minor.size());
    }
  }
}

/// Takes fetched dims sharded as the result is along the dims that maps name; if the result is whole, as before.
constexpr void fetch_like_result(const cost_model& m, std::size_t v, strategy& s) {
  if ((m.traits.at[v] & fetches_operands) == 0) return;
  const node_factors factors = m.factors(v);
  for (std::size_t i = 0; i < factors.count; ++i) {
    const factor& f = factors.items[i];
    if (const int position = f.at[in_result]; f.is_fetched() && position >= 0)
      if (s.out.axes(position) != 0) s.taken.set(f.taken, s.out[position]);
  }
}
/// Fetches operands in their own layouts, without the axes that shard a common dim: that is cheapest.
constexpr void fetch_from_own_layout(const cost_model& m, const assignment& a, std::size_t v, strategy& s) {
  if ((m.traits.at[v] & fetches_operands) == 0) return;
  const node& n = m.node_at(v);
  const node_factors factors = m.factors(v);
  const bool owners_answer = s.over.axes(0) != 0;
  for (int k = 0; k < n.arity; ++k) {
    const std::size_t u = n.in[k];
    unsigned common = s.forwarded;
    for (std::size_t i = 0; i < factors.count; ++i) {
      const factor& f = factors.items[i];
      if (!f.is_fetched() && f.at[k] >= 0) common |= s.out.axes(f.at[in_result]);
    }
    const layout own = (m.traits.at[u] & rematerialised) != 0 ? layout{} : produced(m, a, u);
    for (std::size_t i = 0; i < factors.count; ++i) {
      const factor& f = factors.items[i];
      if (!f.is_fetched() || f.at[k] < 0) continue;
      axis_list list = owners_answer ? axis_list{} : own[f.at[k]];
      while ((list.bits() & common) != 0) list.pop_back();
      s.taken.set(f.taken, list);
    }
  }
}

/// Whether a special node can be computed so: dims that must be whole are, no axis shards an operand twice, and the
/// blocks of a split or merged dim are blocks of its parts.
constexpr bool fits(const cost_model& m, std::size_t v, const strategy& s) {
  const node& n = m.node_at(v);
  const dim_set whole = whole_dims(m, v);
  for (int i = 0; i < n.type.rank && whole != 0; ++i)
    if ((whole & dim_bit(n.type[i])) != 0 && s.out.axes(i) != 0) return false;
  const node_factors factors = m.factors(v);
  if ((m.traits.at[v] & fetches_operands) != 0) {
    if (s.over.axes(0) != 0 && !s.taken.empty()) return false;
    for (int k = 0; k < n.arity; ++k) {
      unsigned seen = s.forwarded;
      int r = 0;
      for (std::size_t i = 0; i < factors.count; ++i) {
        const unsigned axes = axes_of(factors.items[i], s, r).bits();
        if (factors.items[i].at[k] < 0) continue;
        if ((seen & axes) != 0) return false;
        seen |= axes;
      }
    }
  }
  for (std::size_t i = 0; i < factors.count; ++i) {
    const factor& f = factors.items[i];
    if (f.minor < 0) continue;
    const axis_list list = s.out[f.at[in_result]], minor = f.minor_in_result ? s.out[f.minor] : axis_list{};
    const view_parts parts = m.rules(v).parts.call(m.g, n, list.then(minor));
    if (!parts.exact || (f.minor_in_result ? parts.minor != minor : parts.minor.size() != s.minor)) return false;
  }
  const op_rules& rules = m.rules(v);
  return !rules.possible.given || rules.possible.call(m, v, s);
}

constexpr bool respects_pins(const node& n, const strategy& s) {
  for (int i = 0; i < n.type.rank; ++i)
    if ((n.pinned >> i & 1) != 0 && s.out[i] != n.pin[i]) return false;
  return true;
}

/// Whether a node can be computed so. Rows may be sent along the axes that shard their destination; else every axis is
/// used once.
constexpr bool valid(const cost_model& m, std::size_t v, const strategy& s) {
  const std::uint32_t t = m.traits.at[v];
  const unsigned forwarded = s.forwarded.word, sent = s.sent.word;
  if (forwarded != 0 || s.over.word != 0) {
    const unsigned out = s.out.sharded_bits(), over = s.over.sharded_bits();
    if ((out & forwarded) != 0 || ((out | forwarded) & over & ~sent) != 0) return false;
    if ((sent & ~over) != 0 || (forwarded & over) != 0) return false;
  } else if (sent != 0) {
    return false;
  }
  if ((t & special) != 0 && !fits(m, v, s)) return false;
  return (t & has_pins) == 0 || respects_pins(m.node_at(v), s);
}

}}} // namespace cleave::v0::planner
