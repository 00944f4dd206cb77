// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/search/wider.hpp>

namespace cleave::inline v0::planner {

/// Lets all readers of a value take it in one layout, and what follows them too.
constexpr void lead_readers(const cost_model& m, assignment& a, std::size_t v, layout l) {
  for (std::uint32_t e = m.first_edge.at[v]; e < m.first_edge.at[v + 1]; ++e) {
    const std::size_t w = m.edges.at[e].to;
    if ((m.traits.at[w] & transparent) != 0) lead_readers(m, a, w, l);
    if (a.changed_in.at[w] == a.round || is_fixed(m, a, w)) continue;
    strategy next = a.chosen.at[w];
    project(m, w, m.edges.at[e].number, l, next);
    next.forwarded = 0;
    next.partial_operands = 0;
    derive_unreduced(m.node_at(w), next);
    if (!(next == a.chosen.at[w]) && valid(m, w, next)) ripple(m, a, w, next, false);
  }
}

/// Moves a value once, before all its readers, and improves the rest around that.
constexpr void move_for_readers(const cost_model& m, assignment& a, fingerprints& f, std::size_t v, layout l) {
  ++a.tries;
  begin_change(a);
  lead_readers(m, a, v, l);
  for (std::size_t i = 0; i < a.undo.count; ++i) {
    const std::size_t w = a.undo.at[i].node;
    mark_fresh(m, a, f, w);
    for (std::uint32_t slot = m.first_slot.at[w]; slot < m.first_slot.at[w + 1]; ++slot)
      mark_fresh(m, a, f, m.operand.at[slot]);
  }
  keep_change(m, a);
  improve(m, a, f, m.limits.merge_sweeps);
}

/// Where a value is moved, or what is made of it, all its readers may take it in one other layout for less: with the
/// axes of one dim at another. Any one of them alone would only add a move. Last of all, so that no plan becomes dearer
/// by it.
constexpr void move_once(const cost_model& m, assignment& a, fingerprints& f) {
  double best = total_price(m, a);
  a.tries = 0;
  for (std::size_t v = 0; v < m.count && best > 0; ++v) {
    const layout own = produced(m, a, v);
    if ((m.traits.at[v] & (rematerialised | transparent)) != 0 || own.is_partial() || !own.is_sharded()) continue;
    const tensor_type& type = m.node_at(v).type;
    bool kept = false;
    for (int from = 0; from < type.rank && !kept; ++from)
      for (int to = 0; to < type.rank && !kept; ++to) {
        if (from == to || own.axes(from) == 0) continue;
        layout l = own;
        l.clear(from);
        l.set(to, own[to].then(own[from]));
        if (m.at[type[to]] < m.at.axes.product(l[to])) continue;
        if (reshard_price(m, v, own, l) >= saved_downstream(m, a, v, m.limits.downstream)) continue;
        if (a.tries > m.rule.effort) return;
        kept = keep_if_cheaper(m, a, best, [&] { move_for_readers(m, a, f, v, l); });
      }
  }
  improve(m, a, f, m.limits.sweeps);
}

} // namespace cleave::inline v0::planner
