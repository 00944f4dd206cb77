// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/search/wider.hpp>
#include <cleave/rules/view.hpp>

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

/// A split, of which the minor dim has a fixed extent, as an exchange of elements: windows of the whole dim, of which
/// the major or the minor part is whole on each device.
constexpr void split_by_elements(graph& g, std::size_t v, bool shards_minor) {
  node& n = g.nodes[v];
  const std::int64_t extent = g.dims[n.which[2]].extent > 0 ? g.dims[n.which[2]].extent : 1;
  dim_map m;
  m.from = n.which[0];
  m.to = n.which[shards_minor ? 2 : 1];
  m.window = n.which[shards_minor ? 1 : 2];
  m.stride = shards_minor ? 1 : extent;
  m.dilation = shards_minor ? extent : 1;
  n.code = op::windows;
  n.first_map = narrowed(g.maps.size());
  n.maps = 1;
  g.maps.push_back(m);
}
/// Whether the minor part of a split is the one that its readers need sharded.
constexpr bool wanted_by_minor(const cost_model& m, assignment& a, std::size_t v) {
  const node& n = m.node_at(v);
  const int minor = n.type.find(n.which[2]), major = n.type.find(n.which[1]);
  const std::size_t copies = find_copies(m, a, v, produced(m, a, v));
  for (std::size_t i = 0; i < copies; ++i)
    if (a.copies.at[i].axes(minor) != 0 && a.copies.at[i].axes(major) == 0) return true;
  return false;
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

/// Where something is gathered for a merge or a split, taking the elements from where they are may be cheaper: tries so
/// for one after another, with the result as it was and as the operand is sharded, improves what is near, and keeps
/// what is cheaper in all. `g` is the graph of the model.
constexpr void exchange_views(graph& g, cost_model& m, assignment& a, fingerprints& f) {
  double best = total_price(m, a);
  for (std::size_t v = 0; v < m.count; ++v) {
    if ((m.traits.at[v] & regroups) == 0 || g.dims[rules::dims_of_view(m.node_at(v)).minor].extent == dynamic) continue;
    if (!must_move(m, a, v) && copies_price(m, a, v) == 0) continue;
    const node before = g.nodes[v];
    const std::size_t maps_before = g.maps.size();
    const strategy viewed = a.chosen.at[v];
    if (before.code == op::merge) merge_by_elements(g, v);
    else split_by_elements(g, v, wanted_by_minor(m, a, v));
    m.describe_anew(v);
    strategy as_it_was, as_it_comes;
    as_it_was.out = viewed.out.reduced();
    fit(m, v, as_it_was);
    bool kept = keep_if_cheaper(m, a, best, [&] { settle_exchange(m, a, f, v, as_it_was); });
    project(m, v, 0, produced(m, a, m.operand.at[m.first_slot.at[v]]), as_it_comes);
    if (!as_it_comes.out.same_dims(a.chosen.at[v].out) && valid(m, v, as_it_comes) &&
        keep_if_cheaper(m, a, best, [&] { settle_exchange(m, a, f, v, as_it_comes); }))
      kept = true;
    if (kept) continue;
    g.nodes[v] = before;
    while (g.maps.size() > maps_before) g.maps.pop_back();
    m.describe_anew(v);
    begin_change(a);
    set_strategy(m, a, v, viewed);
    price_change(m, a);
  }
}

} // namespace cleave::inline v0::planner
