// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/search/wider.hpp>

namespace cleave::detail {

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
  n.first_map = static_cast<std::uint16_t>(g.maps.size());
  n.maps = 2;
  g.maps.push_back(major);
  g.maps.push_back(minor);
}

/// Where something is gathered for a merge, taking the elements from where they are may be cheaper: tries so for one
/// merge after another, improves what is near, and keeps what is cheaper in all. `g` is the graph of the model.
constexpr void exchange_merges(graph& g, cost_model& m, assignment& a, fingerprints& f) {
  double best = total_price(m, a);
  for (std::size_t v = 0; v < m.count; ++v) {
    if ((m.traits.at[v] & merges) == 0 || g.dims[m.node_at(v).which[1]].extent == dynamic) continue;
    if (!must_move(m, a, v) && copies_price(m, a, v) == 0) continue;
    const node before = g.nodes[v];
    const strategy merged = a.chosen.at[v];
    merge_by_elements(g, v);
    m.describe(v);
    if (keep_if_cheaper(m, a, best, [&] {
          strategy s;
          s.out = merged.out.reduced();
          fetch_from_own_layout(m, a, v, s);
          begin_change(a);
          set_strategy(m, a, v, s);
          keep_change(m, a);
          mark_fresh(m, a, f, v);
          for (std::uint32_t slot = m.first_slot.at[v]; slot < m.first_slot.at[v + 1]; ++slot)
            mark_fresh(m, a, f, m.operand.at[slot]);
          improve(m, a, f, m.limits.merge_sweeps);
        }))
      continue;
    g.nodes[v] = before;
    g.maps.pop_back();
    g.maps.pop_back();
    m.describe(v);
    begin_change(a);
    set_strategy(m, a, v, merged);
    price_change(m, a);
  }
}

} // namespace cleave::detail
