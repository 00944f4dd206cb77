// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/looks.hpp>

namespace cleave::detail {

/// Where partial sums stay partial to begin with.
struct deferred_sums : looked_at_strategies {
  using looked_at_strategies::looked_at_strategies;

  /// Partial sums stay partial through linear ops to begin with, where that makes them no larger: sums of several then
  /// meet before one reduction, which no change of a single op would find.
  constexpr void defer_reduction(std::size_t v) {
    const node& n = node_at(v);
    if (settled(v) || n.arity == 0 || class_of(n.code) == op_class::contraction || class_of(n.code) == op_class::remap) return;
    std::vector<strategy> variants;
    with_pass(v, chosen[v], variants);
    for (const strategy& s : variants)
      if (s.pass != 0)
        for (int k = 0; k < n.arity; ++k)
          if ((s.bringers >> k & 1) != 0 && node_at(n.in[static_cast<std::size_t>(k)]).type.rank >= n.type.rank) chosen[v] = s;
  }

  /// A running sum of partial sums stays partial from trip to trip, and is reduced once, after the loop. Changes of single ops
  /// would not find that: the sum is partial only where what it was before is.
  constexpr void accumulate_partially(std::size_t carried) {
    const node& total = node_at(node_at(next_of[carried]).in[0]);
    if (total.code != op::add || first_edge[carried + 1] - first_edge[carried] != 2) return;
    const int own = total.in[0] == carried ? 0 : 1;
    const std::size_t term = total.in[static_cast<std::size_t>(1 - own)], sum = node_at(next_of[carried]).in[0];
    if (total.in[static_cast<std::size_t>(own)] != carried || term == carried || settled(sum)) return;
    // So may be what is added up at places, and what an inner loop stacks. Only here: a stack of partial sums is as large on every device
    // as the whole, so where nothing accumulates each is reduced in its trip.
    for (int k = 0; k < node_at(term).arity && chosen[term].out.unreduced == 0; ++k) {
      const layout& from = home(node_at(term).in[static_cast<std::size_t>(k)]);
      strategy as_it_comes = chosen[term];
      project(term, k, from, as_it_comes);
      if (node_at(term).code == op::collect && from.combine == reduction::sum) pass_sums(term, from.unreduced, 1, as_it_comes);
      std::vector<strategy> variants;
      with_pass(term, as_it_comes, variants);
      for (const strategy& s : variants)
        if (s.pass != 0 && !settled(term)) chosen[term] = s;
    }
    const layout& part = home(term);
    if (part.unreduced == 0 || part.combine != reduction::sum) return;
    strategy s;
    project(sum, 1 - own, part, s);
    const strategy before = chosen[carried];
    chosen[carried].out = {};
    for (int i = 0; i < node_at(carried).type.rank; ++i) chosen[carried].out[i] = s.out[total.type.find(node_at(carried).type[i])];
    if (!pass_sums(carried, part.unreduced, 1, chosen[carried]) || !pass_sums(sum, part.unreduced, 3, s)) chosen[carried] = before;
    chosen[next_of[carried]] = following(next_of[carried]);
  }
  /// Chooses a strategy that lets partial sums through, if it may.
  constexpr bool pass_sums(std::size_t v, axis_set axes, std::uint8_t bringers, strategy s) {
    s.pass = axes;
    s.bringers = bringers;
    seal(node_at(v), s);
    if (axes == 0 || keeps_whole(node_at(v)) || !valid(v, s)) return false;
    chosen[v] = s;
    return true;
  }
};

} // namespace cleave::detail
