// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/search/forced.hpp>
#include <cleave/rules/view.hpp>

namespace cleave { inline namespace v0 { namespace planner {

/// Gives an exchange a strategy, with its followers, and improves the nodes around it.
constexpr void settle_exchange(const cost_model& m, assignment& a, fingerprints& f, std::size_t v, strategy s) {
  fetch_from_own_layout(m, a, v, s);
  derive_unreduced(m.node_at(v), s);
  begin_change(a);
  ripple(m, a, v, s, false);
  keep_change(m, a);
  mark_fresh(m, a, f, v);
  for (std::uint32_t slot = m.first_slot.at[v]; slot < m.first_slot.at[v + 1]; ++slot)
    mark_fresh(m, a, f, m.operand.at[slot]);
  improve(m, a, f, m.limits.merge_sweeps);
}

/// Whether the minor part of a split is the one that its readers need sharded.
constexpr bool wanted_by_minor(const cost_model& m, assignment& a, std::size_t v) {
  const node& n = m.node_at(v);
  const int minor = n.type.find(n.which[2]), major = n.type.find(n.which[1]);
  if (minor < 0 || major < 0) return false;
  const std::size_t copies = find_copies(m, a, v, produced(m, a, v));
  for (std::size_t i = 0; i < copies; ++i)
    if (a.copies.at[i].axes(minor) != 0 && a.copies.at[i].axes(major) == 0) return true;
  return false;
}

/// If a value is gathered for a merge or a split, an exchange of its elements may be cheaper: tries so for one after
/// another, with the old layout of the result and with that of the operand, improves the nodes around it, and keeps
/// changes that make the total cheaper. `g` is the graph of the model.
constexpr void exchange_views(graph& g, cost_model& m, assignment& a, fingerprints& f) {
  double best = total_price(m, a);
  for (std::size_t v = 0; v < m.count; ++v) {
    if ((m.traits.at[v] & regroups) == 0 || g.dims[rules::dims_of_view(m.node_at(v)).minor].extent == dynamic) continue;
    if (!must_move(m, a, v) && copies_price(m, a, v) == 0) continue;
    const node before = g.nodes[v];
    const std::size_t maps_before = g.maps.size();
    const strategy viewed = a.chosen.at[v];
    rules::view_by_elements(g, v, wanted_by_minor(m, a, v));
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

}}} // namespace cleave::v0::planner
