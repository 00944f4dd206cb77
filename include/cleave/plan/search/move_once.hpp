// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/search/forced.hpp>

namespace cleave { inline namespace v0 { namespace planner {

/// The current cost of copies of a value, of the nodes downstream, and of the values combined with those: about
/// the most that a change there can save. Nodes count once.
constexpr double moved_downstream(const cost_model& m, assignment& a, std::size_t v) {
  ++a.round;
  std::size_t* made = a.priced.at;
  std::size_t found = 0;
  double total = 0;
  const auto count = [&](std::size_t u) {
    if (a.counted_in.at[u] == a.round) return false;
    a.counted_in.at[u] = a.round;
    total += a.price.at[u];
    return true;
  };
  count(v);
  made[found++] = v;
  for (std::size_t i = 0; i < found; ++i)
    for (std::uint32_t e = m.first_edge.at[made[i]]; e < m.first_edge.at[made[i] + 1]; ++e) {
      const std::size_t w = m.edges.at[e].to;
      if (found < m.limits.led_at_most && count(w)) made[found++] = w;
      for (std::uint32_t slot = m.first_slot.at[w]; slot < m.first_slot.at[w + 1]; ++slot) count(m.operand.at[slot]);
    }
  return total;
}

/// Moves a value once, before all its readers, and improves the rest around that.
constexpr void move_for_readers(const cost_model& m, assignment& a, fingerprints& f, std::size_t v, layout l, led who) {
  ++a.tries;
  begin_change(a);
  lead_readers(m, a, v, l, who);
  for (std::size_t i = 0; i < a.undo.count; ++i) {
    const std::size_t w = a.undo.at[i].node;
    mark_fresh(m, a, f, w);
    for (std::uint32_t slot = m.first_slot.at[w]; slot < m.first_slot.at[w + 1]; ++slot)
      mark_fresh(m, a, f, m.operand.at[slot]);
  }
  keep_change(m, a);
  improve(m, a, f, m.limits.merge_sweeps);
}

/// The layouts in which all readers of a value might take it for less: with the axes of one dim at another; whole,
/// unchanged, or gathered over one axis; a partial one scattered along each dim; in the layouts that some of them need
/// now, sharded over one more axis too.
constexpr void add_ways_to_read(const cost_model& m, assignment& a, std::size_t v, indexed_vector<layout>& ways) {
  const tensor_type& type = m.node_at(v).type;
  const layout made = produced(m, a, v), own{made.word & layout::dims_mask};
  const auto add = [&](layout l, int dim, axis_list list) {
    l.set(dim, list);
    if (m.at[type[dim]] < m.at.axes.product(list)) return;
    for (const layout known : ways)
      if (known.word == l.word) return;
    ways.push_back(l);
  };
  axis_list over;
  for (int axis = 0; axis < m.g.mesh.size(); ++axis)
    if (made.unreduced().contains(axis)) over.push_back(axis);
  for (int to = 0; to < type.rank && !over.empty(); ++to) add(own, to, own[to].then(over));
  for (int from = 0; from < type.rank; ++from)
    for (int to = 0; to < type.rank; ++to) {
      if (from == to || own.axes(from) == 0) continue;
      layout l = own;
      l.clear(from);
      add(l, to, own[to].then(own[from]));
    }
  ways.push_back(own);
  if (own.is_sharded()) ways.push_back(layout{});
  for (int from = 0; from < type.rank; ++from)
    for (int j = 0; j < own[from].size(); ++j)
      if (m.at.axes[own[from][j]] > 1) add(own, from, own[from].prefix(j).then(own[from].without(j + 1)));
  // A slice over one more axis may cost nothing, so that less is moved later. Before the other axes too.
  const auto add_with_idle_axes = [&](layout l, int to) {
    for (int axis = 0; axis < m.g.mesh.size(); ++axis) {
      if (m.at.axes[axis] == 1 || l.sharded().contains(axis)) continue;
      axis_list one;
      one.push_back(axis);
      add(l, to, l[to].then(one));
      if (!l[to].empty()) add(l, to, one.then(l[to]));
    }
  };
  const std::size_t copies = find_copies(m, a, v, made);
  for (std::size_t i = 0; i < copies; ++i) {
    const layout need{a.copies.at[i].word & layout::dims_mask};
    for (int to = 0; to < type.rank; ++to) {
      add(need, to, need[to]);
      add_with_idle_axes(need, to);
    }
  }
  for (int to = 0; to < type.rank && !made.is_partial(); ++to) add_with_idle_axes(own, to);
}
/// Tries to move one value for its readers. Whether the total is cheaper.
constexpr bool move_value_once(const cost_model& m, assignment& a, fingerprints& f, std::size_t v, double& best,
                               indexed_vector<layout>& ways) {
  const layout own = produced(m, a, v);
  const double saved = moved_downstream(m, a, v);
  if (saved == 0) return false;
  ways.clear();
  add_ways_to_read(m, a, v, ways);
  for (const layout l : ways) {
    if (l.word != own.word && reshard_price(m, v, own, l) >= m.limits.moved_for_saving * saved) continue;
    for (const led who : {led::readers, led::all}) {
      if (a.tries > m.rule.effort) return false;
      if (keep_if_cheaper(m, a, best, [&] { move_for_readers(m, a, f, v, l, who); })) return true;
    }
  }
  return false;
}

/// If a value or a downstream one is moved, all its readers may take it in one other layout for less. Any one of them
/// alone would only add a move. Last of all, so that no plan gets more expensive by it.
constexpr void move_once(const cost_model& m, assignment& a, fingerprints& f) {
  double best = total_price(m, a);
  a.tries = 0;
  indexed_vector<layout> ways;
  for (std::size_t v = 0; v < m.count && best > 0 && a.tries <= m.rule.effort; ++v) {
    const layout own = produced(m, a, v);
    if ((m.traits.at[v] & (rematerialised | transparent)) != 0 || (!own.is_partial() && !own.is_sharded())) continue;
    // Again after each success: the current needs of its readers lead to other ways.
    while (move_value_once(m, a, f, v, best, ways)) {
    }
  }
}

}}} // namespace cleave::v0::planner
