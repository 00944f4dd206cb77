// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/search/wider.hpp>
#include <cleave/rules/view.hpp>

namespace cleave { inline namespace v0 { namespace planner {

/// The dims that a remap leaves as they are, of which a layout of its result shards some otherwise than its first
/// operand is sharded.
constexpr dim_set dims_to_exchange(const cost_model& m, const assignment& a, std::size_t v, layout wanted) {
  const node& n = m.node_at(v);
  const node_id u = n.in[0];
  const layout own = produced(m, a, u);
  dim_set dims = 0;
  for (const factor& f : m.factors(v)) {
    if (f.is_fetched() || f.at[in_result] < 0) continue;
    bool common = true;
    for (int k = 0; k < n.arity; ++k) common = common && f.at[k] >= 0;
    if (common && own[f.at[0]] != wanted[f.at[in_result]]) dims |= dim_bit(n.type[f.at[in_result]]);
  }
  return dims;
}

/// Adds to a remap a map of each of some dims to itself, so that the exchange takes them in any layout. False, and
/// nothing is changed, if an exchange cannot have as many maps.
constexpr bool map_to_themselves(graph& g, std::size_t v, dim_set dims) {
  node& n = g.nodes[v];
  constexpr std::size_t most = decltype(exchange_part::maps)::capacity();
  std::size_t count = 0, all = n.maps;
  for (int d = 0; d < max_dims; ++d) count += dims.contains(d) ? 1 : 0;
  for (std::uint8_t k = 0; k < n.arity; ++k) {
    std::size_t of_operand = count;
    for (const dim_map& m : maps_of(g, n)) of_operand += m.operand == k ? 1 : 0;
    all += count;
    if (of_operand > most) return false;
  }
  if (all > max_arity) return false;
  const std::size_t first = g.maps.size();
  for (int i = 0; i < n.maps; ++i) g.maps.push_back(dim_map(g.maps[as_size(n.first_map + i)]));
  for (std::uint8_t k = 0; k < n.arity; ++k)
    for (int d = 0; d < max_dims; ++d) {
      if (!dims.contains(d)) continue;
      dim_map same;
      same.operand = k;
      same.from = same.to = narrowed(d);
      g.maps.push_back(same);
    }
  n.first_map = narrowed(first);
  n.maps = narrowed(all);
  return true;
}

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
  // The nodes around it first, lest it give way before its readers can follow it.
  improve(m, a, f, m.limits.merge_sweeps, v);
  a.fresh.at[v] = 1;
  improve(m, a, f, m.limits.merge_sweeps);
}

/// Tries to let an exchange take its operand in the produced layout and give its result in the layout that a reader
/// needs. Whether the total is cheaper. `g` is the graph of the model.
constexpr bool exchange_other_dims(graph& g, cost_model& m, assignment& a, fingerprints& f, std::size_t v,
                                   layout wanted, double& best) {
  const dim_set dims = dims_to_exchange(m, a, v, wanted);
  if (dims == 0) return false;
  const node before = g.nodes[v];
  const std::size_t maps_before = g.maps.size();
  const strategy chosen = a.chosen.at[v];
  if (!map_to_themselves(g, v, dims)) return false;
  m.describe_anew(v);
  strategy s;
  s.out.word = wanted.word & layout::dims_mask;
  fit(m, v, s);
  fetch_from_own_layout(m, a, v, s);
  derive_unreduced(m.node_at(v), s);
  if (valid(m, v, s) && keep_if_cheaper(m, a, best, [&] { settle_exchange(m, a, f, v, s); })) return true;
  g.nodes[v] = before;
  while (g.maps.size() > maps_before) g.maps.pop_back();
  m.describe_anew(v);
  begin_change(a);
  set_strategy(m, a, v, chosen);
  price_change(m, a);
  return false;
}

/// A layout with one axis after another replaced by each axis that it does not use: downstream values may need that
/// layout.
constexpr void add_idle_instead(const cost_model& m, layout l, indexed_vector<layout>& list) {
  if (l.is_partial()) return;
  for (int i = 0; i < max_rank; ++i)
    for (int j = 0; j < l[i].size(); ++j)
      for (int axis = 0; axis < m.g.mesh.size(); ++axis) {
        if (m.at.axes[axis] == 1 || m.at.axes[axis] != m.at.axes[l[i][j]] || l.sharded().contains(axis)) continue;
        axis_list instead = l[i].prefix(j);
        instead.push_back(axis);
        layout next = l;
        next.set(i, instead.then(l[i].without(j + 1)));
        list.push_back(next);
      }
}

/// An exchange that moves elements along some dims may as well take the other dims to other axes, instead of a move
/// before it or after it. Whether one does.
constexpr bool exchange_dims(graph& g, cost_model& m, assignment& a, fingerprints& f) {
  double best = total_price(m, a);
  bool changed = false;
  indexed_vector<layout> wanted;
  for (std::size_t v = 0; v < m.count && best > 0; ++v) {
    if ((m.traits.at[v] & remaps) == 0 || is_fixed(m, a, v)) continue;
    if (!must_move(m, a, v) && copies_price(m, a, v) == 0) continue;
    const layout own = produced(m, a, v);
    wanted.clear();
    wanted.push_back(own);
    const std::size_t copies = find_copies(m, a, v, own);
    for (std::size_t i = 0; i < copies; ++i) wanted.push_back(layout(a.copies.at[i]));
    add_idle_instead(m, own, wanted);
    for (const layout l : wanted)
      if (exchange_other_dims(g, m, a, f, v, l, best)) {
        changed = true;
        break;
      }
  }
  return changed;
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
