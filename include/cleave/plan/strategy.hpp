// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/ops/factors.hpp>
#include <cleave/plan/reshard.hpp>

namespace cleave {

/// How one node is computed: the axes that divide each factor, and which partial axes of its operands it lets through.
struct strategy {
  /// The layout in which the result comes out, partial over the axes that divide reduced factors or pass through.
  layout out{};
  /// Axes of the reduced factors, in the order of factors_of. gather: those of the table along which devices look up the rows that they
  /// have, so that the result is partial; else rows are fetched, `taken`.
  axis_list over[max_rank]{};
  /// remap: the axes of the operands' dims that the maps name, by map.
  axis_list taken[max_arity]{};
  /// scatter: the axes that divide the places and over which rows are sent, so that they leave nothing partial.
  axis_set sent = 0;
  /// merge: the axes of the result that divide the minor part of the operand, the last ones of the merged dim.
  axis_list minor{};
  /// Partial axes let through by linearity, and the operands that must bring them (bit set).
  axis_set pass = 0;
  std::uint8_t bringers = 0;

  constexpr bool divides_like(const strategy& other) const {
    for (int i = 0; i < max_rank; ++i)
      if (over[i].packed != other.over[i].packed) return false;
    for (int i = 0; i < max_arity; ++i)
      if (taken[i].packed != other.taken[i].packed) return false;
    return sent == other.sent && minor.packed == other.minor.packed && out.same_dims(other.out);
  }
  friend constexpr bool operator==(const strategy& a, const strategy& b) {
    return a.pass == b.pass && a.bringers == b.bringers && a.divides_like(b) && a.out == b.out;
  }
};

/// The axes that divide a factor in its operands; `r` counts the reduced factors.
constexpr axis_list axes_of(const factor& f, const strategy& s, int& r) {
  return f.pinned ? f.pin : f.taken >= 0 ? (s.over[0].empty() ? s.taken[f.taken] : s.over[0]) : f.reduced ? s.over[static_cast<std::size_t>(r++)] : s.out[f.at[in_result]];
}
/// The layout that operand `k` of a node must have for a strategy.
constexpr layout required(const node& n, const factor_list& factors, const strategy& s, int k) {
  layout l;
  int r = 0;
  for (const factor& f : factors) {
    const axis_list list = axes_of(f, s, r);
    if (f.at[static_cast<std::size_t>(k)] < 0) continue;
    axis_list& own = l[f.at[static_cast<std::size_t>(k)]];
    own = list;
    if (f.minor < 0) continue;
    if (n.code == op::split) {
      own = list.then(s.out[f.minor]);
    } else {
      own = list.prefix(list.size() - s.minor.size());
      l[f.minor] = s.minor;
    }
  }
  if ((s.bringers >> k & 1) != 0) {
    l.unreduced = s.pass;
    l.combine = n.code == op::reduce ? n.combine : reduction::sum;
  }
  return l;
}

/// The axes that divide reduced factors.
constexpr axis_set axes_over(const strategy& s) {
  unsigned set = 0;
  for (const axis_list& list : s.over) set |= list.mask();
  return static_cast<axis_set>(set);
}
/// The axes that leave the result partial: those of reduced factors, unless rows are sent over them.
constexpr axis_set reduced_axes(const strategy& s) { return static_cast<axis_set>(axes_over(s) & ~s.sent); }
/// The axes over which no sum may be brought: they divide the result or what is reduced.
constexpr axis_set dividing_axes(const strategy& s) { return static_cast<axis_set>(s.out.sharded() | axes_over(s)); }

/// Sets the partial axes of the result from the rest of the strategy.
constexpr void seal(const node& n, strategy& s) {
  s.out.unreduced = static_cast<axis_set>(reduced_axes(s) | s.pass);
  s.out.combine = n.code == op::reduce ? n.combine : reduction::sum;
}

/// Multiply-adds of one device for a product, times 2; blocks are taken as even, so that uneven ones do not count as
/// repeated work.
constexpr double flops_of(const graph& g, const node& n, const factor_list& factors, const strategy& s,
                          const sizes& at) {
  if (n.code != op::dot) return 0;
  double flops = 2;
  int r = 0;
  for (const factor& f : factors) {
    const tensor_type& t = f.at[in_result] >= 0 ? n.type : g.nodes[n.in[0]].type;
    const int position = f.at[in_result] >= 0 ? f.at[in_result] : f.at[0];
    const axis_list list = f.reduced ? s.over[static_cast<std::size_t>(r++)] : s.out[position];
    flops *= static_cast<double>(at[t[position]]) / static_cast<double>(at.axes.product(list));
  }
  return flops;
}

} // namespace cleave
