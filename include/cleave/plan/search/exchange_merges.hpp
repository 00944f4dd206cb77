// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/search/wider.hpp>

namespace cleave::inline v0::planner {

/// A merge, of which the minor dim has a fixed extent, as an exchange of elements.
constexpr void merge_by_elements(graph& g, std::size_t v) {
  node& n = g.nodes[v];
  dim_map major, minor;
  major.from = n.which[0];
  minor.from = n.which[1];
  major.to = minor.to = n.which[2];
  major.divisor = g.dims[n.which[1]].extent > 0 ? g.dims[n.which[1]].extent : 1;
  major.floors = true;
  minor.outside = border::periodic;
  n.code = op::merge_blocks;
  n.first_map = narrowed(g.maps.size());
  n.maps = 2;
  g.maps.push_back(major);
  g.maps.push_back(minor);
}

/// Sets a merge that became an exchange, with what agrees with it, and improves what is near.
constexpr void settle_exchange(const cost_model& m, assignment& a, fingerprints& f, std::size_t v, strategy s) {
  fetch_from_own_layout(m, a, v, s);
  derive_unreduced(m.node_at(v), s);
  begin_change(a);
  ripple(m, a, v, s, false);
  keep_change(m, a);
  mark_fresh(m, a, f, v);
  for (std::uint32_t slot = m.first_slot.at[v]; slot < m.first_slot.at[v + 1]; ++slot)
    mark_fresh(m, a, f, m.operand.at[slot]);
  // What is around it first, lest it give way before its readers can follow it.
  improve(m, a, f, m.limits.merge_sweeps, v);
  a.fresh.at[v] = 1;
  improve(m, a, f, m.limits.merge_sweeps);
}

/// Where something is gathered for a merge, taking the elements from where they are may be cheaper: tries so for one
/// merge after another, with the result as it was and as the major dim of the operand is sharded, improves what is
/// near, and keeps what is cheaper in all. `g` is the graph of the model.
constexpr void exchange_merges(graph& g, cost_model& m, assignment& a, fingerprints& f) {
  double best = total_price(m, a);
  for (std::size_t v = 0; v < m.count; ++v) {
    if ((m.traits.at[v] & merges) == 0 || g.dims[m.node_at(v).which[1]].extent == dynamic) continue;
    if (!must_move(m, a, v) && copies_price(m, a, v) == 0) continue;
    const node before = g.nodes[v];
    const strategy merged = a.chosen.at[v];
    merge_by_elements(g, v);
    m.describe_anew(v);
    strategy as_it_was, as_it_comes;
    as_it_was.out = merged.out.reduced();
    bool kept = keep_if_cheaper(m, a, best, [&] { settle_exchange(m, a, f, v, as_it_was); });
    project(m, v, 0, produced(m, a, m.operand.at[m.first_slot.at[v]]), as_it_comes);
    if (!as_it_comes.out.same_dims(a.chosen.at[v].out) && valid(m, v, as_it_comes) &&
        keep_if_cheaper(m, a, best, [&] { settle_exchange(m, a, f, v, as_it_comes); }))
      kept = true;
    if (kept) continue;
    g.nodes[v] = before;
    g.maps.pop_back();
    g.maps.pop_back();
    m.describe_anew(v);
    begin_change(a);
    set_strategy(m, a, v, merged);
    price_change(m, a);
  }
}

} // namespace cleave::inline v0::planner
