// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/search/forced.hpp>
#include <cleave/rules/view.hpp>

namespace cleave { inline namespace v0 { namespace planner {

/// Lets readers take a value in its own layout, with their followers: each that takes it sliced, then all of them. A
/// value that the user moves is made as its readers take it, see compute_as_read.
constexpr bool read_unmoved(const cost_model& m, assignment& a, fingerprints& f, std::size_t v) {
  const layout own = produced(m, a, v);
  if ((m.traits.at[v] & rematerialised) != 0 || own.is_partial() ||
      rules::annotation_of(m.node_at(v)) == rules::annotation::moved_layout || find_copies(m, a, v, own) == 0)
    return false;
  const std::uint32_t end = m.first_edge.at[v + 1];
  for (std::uint32_t e = m.first_edge.at[v]; e <= end; ++e) {
    if (e != end && (a.need.at[e].word == own.word || reshard_price(m, v, own, a.need.at[e]) > 0)) continue;
    begin_change(a);
    if (e != end) lead_reader(m, a, e, own, led::readers);
    else lead_readers(m, a, v, own, led::readers);
    if (accept_if_cheaper(m, a, f)) return true;
    take_back(m, a);
  }
  return false;
}

/// The carried value that a value after a loop is; any other value itself.
constexpr std::size_t carried_by(const cost_model& m, std::size_t u) {
  if ((m.traits.at[u] & transparent) == 0) return u;
  return m.operand.at[m.first_slot.at[m.operand.at[m.first_slot.at[u]]] + 1];
}

/// Computes the operands of changed nodes, from the `first`-th change on, in the layouts that are needed.
constexpr void pull_operands(const cost_model& m, assignment& a, std::size_t first) {
  const std::size_t end = a.undo.count;
  for (std::size_t i = first; i < end; ++i) {
    const std::size_t v = a.undo.at[i].node;
    for (std::uint32_t slot = m.first_slot.at[v]; slot < m.first_slot.at[v + 1]; ++slot) {
      const std::size_t u = carried_by(m, m.operand.at[slot]);
      // A product has many strategies, of which this is one: only for the fewest bytes.
      const bool product = (m.traits.at[u] & contracting) != 0;
      if (a.changed_in.at[u] == a.round || is_fixed(m, a, u) || (product && m.rule.effort == 0)) continue;
      const layout need = a.need.at[m.edge_of.at[slot]];
      const layout own = produced(m, a, u);
      if (need.word == own.word || need.is_partial()) continue;
      // Whole values on every device take memory that does not shrink with the mesh: only for the fewest bytes.
      if (m.rule.effort == 0 && m.at.axes.product(need.sharded()) < m.at.axes.product(own.sharded())) continue;
      strategy s = a.chosen.at[u];
      shard_result(m, u, need, s);
      s.forwarded = 0;
      s.partial_operands = 0;
      fetch_from_own_layout(m, a, u, s);
      derive_unreduced(m.node_at(u), s);
      if (valid(m, u, s) && (!product || !repeats_too_much(m, a, u, s))) set_strategy(m, a, u, s);
    }
  }
}

/// Tries a strategy together with its followers and its operands, up to some operations upstream.
constexpr bool try_with_operands(const cost_model& m, assignment& a, fingerprints& f, std::size_t v,
                                 const strategy& s) {
  ++a.tries;
  begin_change(a);
  ripple(m, a, v, s, false);
  std::size_t first = 0;
  for (int depth = 0; depth < m.limits.pulled_through; ++depth) {
    const std::size_t end = a.undo.count;
    pull_operands(m, a, first);
    if (a.undo.count == end) break;
    first = end;
    go_on_with_change(a);
    if (accept_if_cheaper(m, a, f)) return true;
  }
  take_back(m, a);
  return false;
}

/// The same for a carried value: together with its next value, since each needs the other in its own layout.
constexpr bool carry_unsliced(const cost_model& m, assignment& a, fingerprints& f, std::size_t v) {
  if ((m.traits.at[v] & begins_loop) == 0 || m.next_of.at[v] == no_node) return false;
  std::size_t u = m.operand.at[m.first_slot.at[v]];
  while ((m.traits.at[u] & transparent) != 0) u = m.operand.at[m.first_slot.at[carried_by(m, u)]];
  const layout own = (m.traits.at[u] & rematerialised) != 0 ? layout{} : produced(m, a, u);
  if (own.is_partial() || own.word == a.chosen.at[v].out.word) return false;
  strategy s = a.chosen.at[v];
  project(m, v, 0, own, s);
  derive_unreduced(m.node_at(v), s);
  return valid(m, v, s) && try_with_operands(m, a, f, v, s);
}

/// A slice costs nothing, but values computed from it may have to be moved later: sorted, reversed, gathered. Looks
/// from nodes that cost something up to the slices that they came through, and puts each of them off if that makes the
/// total cheaper. The node that reads a slice costs nothing itself, so that improving it alone would find nothing.
constexpr bool slice_later(const cost_model& m, assignment& a, fingerprints& f) {
  indexed_vector<std::uint8_t> left{};
  left.assign(m.count, 0);
  bool changed = false;
  for (std::size_t v = m.count; v-- > 0;) {
    if (a.price.at[v] > 0) left.at[v] = m.limits.slices_above;
    if (left.at[v] == 0) continue;
    changed = read_unmoved(m, a, f, v) || changed;
    // A value that is moved after a loop comes through the value that the loop carries, which has no choice.
    if (!is_fixed(m, a, v)) changed = carry_unsliced(m, a, f, v) || changed;
    else if ((m.traits.at[v] & follows_others) == 0 && !is_transparent(m, a, v)) continue;
    if ((m.traits.at[v] & contracting) != 0) continue;
    for (std::uint32_t slot = m.first_slot.at[v]; slot < m.first_slot.at[v + 1]; ++slot)
      if (std::uint8_t& above = left.at[m.operand.at[slot]]; above + 1 < left.at[v]) above = narrowed(left.at[v] - 1);
  }
  if (changed) improve(m, a, f, m.limits.sweeps);
  return changed;
}

/// If a value is moved, its operands may be moved for less: tries each strategy of the moved value, or of the reader
/// that needs the move, together with its operands and theirs. No change of a single node would find that. Whether
/// anything was found.
constexpr bool move_earlier(const cost_model& m, assignment& a, fingerprints& f) {
  bool changed = false;
  a.tries = 0;
  const int most = m.rule.effort > 0 ? m.rule.effort : m.limits.pulled_at_most;
  for (std::size_t v = m.count; v-- > 0;) {
    if (is_fixed(m, a, v) || (a.price.at[v] == 0 && !must_move(m, a, v))) continue;
    // A product has many strategies: only for the fewest bytes.
    if (m.rule.effort == 0 && (m.traits.at[v] & contracting) != 0) continue;
    find_candidates(m, a, v, a.candidates);
    bool better = false;
    for (std::size_t i = 0; i < a.candidates.size() && !better; ++i) {
      const strategy s = a.candidates[i];
      if (tried_already(a.candidates, 0, i) || repeats_too_much(m, a, v, s)) continue;
      if (a.tries == most) return changed;
      better = try_with_operands(m, a, f, v, s);
    }
    changed = changed || better;
  }
  return changed;
}

/// Looks further around reductions and exchanges, moves stacks otherwise before the loops that read them, and puts
/// slices off. Only here, when no other change makes a plan cheaper, so that no plan gets more expensive by it.
constexpr void look_further(const cost_model& m, assignment& a, fingerprints& f) {
  a.looks_further = true;
  // A stack that is sharded along the dim of the loop must be moved before it anyway. The others are moved index by
  // index, as weights that are gathered layer by layer: a whole stack would take more memory. So would another value
  // that a loop or a branch reads, which is moved before it only for the fewest bytes.
  for (std::size_t v = 0; v < m.count; ++v)
    if ((m.traits.at[v] & chosen_last) != 0) {
      const bool stack = m.node_at(v).which[0] != no_dim;
      a.moves_before_loop.at[v] = stack ? produced(m, a, m.operand.at[m.first_slot.at[v]]).axes(0) != 0
                                        : m.rule.effort > 0;
    }
  f.salt = 1;
  for (std::size_t v = 0; v < m.count; ++v)
    a.fresh.at[v] = (m.traits.at[v] & (reduces | remaps | chosen_last)) != 0 && (m.traits.at[v] & contracting) == 0;
  improve(m, a, f, m.limits.sweeps);
  // Again, since the layouts of a loop's operands are decided before it.
  if (slice_later(m, a, f)) slice_later(m, a, f);
  if (move_earlier(m, a, f)) improve(m, a, f, m.limits.sweeps);
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
