// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/candidates.hpp>
#include <cleave/plan/search/change.hpp>
#include <cleave/rules/annotation.hpp>

namespace cleave { inline namespace v0 { namespace planner {

/// Whether another reader than `v` has a value in some layout.
constexpr bool read_elsewhere(const cost_model& m, const assignment& a, std::size_t u, std::size_t v, layout l) {
  const std::uint32_t end = m.first_edge.at[u + 1];
  const bool through = (m.traits.at[u] & read_through) != 0;
  const cost_model::edge* edges = m.edges.at;
  const layout* need = a.need.at;
  for (std::uint32_t e = m.first_edge.at[u]; e < end; ++e)
    if (edges[e].to != v && (through ? needed(m, a, edges[e]).word : need[e].word) == l.word) return true;
  return false;
}

/// Which moves of operands count: those that are not made for other readers already, those that are, or all.
enum class moves : std::uint8_t { own, shared, all };
/// The price of the moves of operands that a strategy needs, and of its step: if those that are made already do not
/// count, a lower bound of its price.
constexpr double price_of_moves(const cost_model& m, const assignment& a, std::size_t v, const strategy& s,
                                moves which) {
  double total = (m.traits.at[v] & moves_data) == 0 || which == moves::shared ? 0 : step_price(m, v, s);
  const std::uint32_t first = m.first_slot.at[v];
  for (std::uint32_t slot = first; slot < m.first_slot.at[v + 1]; ++slot) {
    const std::size_t u = m.operand.at[slot];
    bool counted = false;
    for (std::uint32_t before = first; before < slot; ++before) counted = counted || m.operand.at[before] == u;
    // One read twice is moved once; one read around an element may be moved before it is spread over windows.
    if (counted || (m.traits.at[u] & (rematerialised | remaps)) != 0) continue;
    const layout need = required(m, v, s, static_cast<int>(slot - first)), own = produced(m, a, u);
    if (need.word == own.word) continue;
    if (which == moves::all || read_elsewhere(m, a, u, v, need) == (which == moves::shared))
      total += reshard_price(m, u, own, need);
  }
  return total;
}

constexpr bool try_strategy(const cost_model& m, assignment& a, fingerprints& f, std::size_t v, const strategy& s,
                            bool together) {
  if (!together) return try_change(m, a, f, v, s, followers::none);
  if (try_change(m, a, f, v, s, followers::cheap)) return true;
  // A reduction's result is smaller than its operand: it may be moved for those that would not follow.
  if (a.looks_further && (m.traits.at[v] & (reduces | contracting)) == reduces &&
      try_change(m, a, f, v, s, followers::none))
    return true;
  if ((m.traits.at[v] & leads_products) != 0 && a.stopped_at_product && try_change(m, a, f, v, s, followers::products))
    return true;
  // A sum of partial sums, reduced once for all its readers.
  return s.forwarded != 0 && a.chosen.at[v].forwarded == 0 && try_change(m, a, f, v, s, followers::none);
}

/// Whether something that a node reads must be moved for it.
constexpr bool must_move(const cost_model& m, const assignment& a, std::size_t v) {
  if (step_price(m, v, a.chosen.at[v]) > 0) return true;
  for (std::uint32_t slot = m.first_slot.at[v]; slot < m.first_slot.at[v + 1]; ++slot) {
    const std::size_t u = m.operand.at[slot];
    if ((m.traits.at[u] & rematerialised) != 0) continue;
    const layout need = a.need.at[m.edge_of.at[slot]], own = produced(m, a, u);
    if (need.word != own.word && reshard_price(m, u, own, need) > 0) return true;
  }
  // The next value of a carried value must come back in its layout.
  return (m.traits.at[v] & begins_loop) != 0 && m.next_of.at[v] != no_node && must_move(m, a, m.next_of.at[v]);
}

/// Whether another way to compute a node whose operands are in place might be cheaper: moving its result costs more
/// than taking the sharded operands of a partial product elsewhere would.
constexpr bool is_promising(const cost_model& m, const assignment& a, std::size_t v, double own) {
  if (own == 0) return false;
  const node& n = m.node_at(v);
  const strategy& s = a.chosen.at[v];
  const axis_set partial = reduced_axes(s);
  if (partial == 0 || s.forwarded != 0) return true;
  const double part = 1 - 1 / static_cast<double>(m.at.axes.product(partial));
  double elsewhere = 0;
  for (int k = 0; k < n.arity; ++k) {
    const std::size_t u = n.in[k];
    const layout from = produced(m, a, u);
    if ((m.traits.at[u] & rematerialised) != 0 || (from.sharded() & partial) == 0) continue;
    const shape local = largest_shape(shape_of(m.node_at(u).type, m.at), from, m.at.axes);
    elsewhere += m.rule.byte * part * static_cast<double>(local.elements() * size_of(m.node_at(u).type.element));
  }
  return own > elsewhere;
}

/// The current cost of copies of a node's result, of the other operands of its readers, and the same of these readers,
/// up to `depth` readers away. It ends at products, whose layouts do not follow their operands'.
constexpr double saved_downstream(const cost_model& m, const assignment& a, std::size_t v, int depth) {
  double total = a.price.at[v];
  for (std::uint32_t e = m.first_edge.at[v]; depth > 0 && e < m.first_edge.at[v + 1]; ++e) {
    const std::size_t w = m.edges.at[e].to;
    if ((m.traits.at[w] & contracting) == 0) total += saved_downstream(m, a, w, depth - 1);
    for (std::uint32_t slot = m.first_slot.at[w]; slot < m.first_slot.at[w + 1]; ++slot)
      if (m.operand.at[slot] != v) total += a.price.at[m.operand.at[slot]];
  }
  return total;
}
/// The current cost of the copies of a node's result, of its followers, and of its operands: an upper bound of the
/// saving by a change there.
constexpr double saved_at_most(const cost_model& m, const assignment& a, std::size_t v) {
  double total = saved_downstream(m, a, v, m.limits.downstream);
  for (std::uint32_t slot = m.first_slot.at[v]; slot < m.first_slot.at[v + 1]; ++slot)
    total += a.price.at[m.operand.at[slot]];
  return total;
}

/// A partial sum that many read, each after other linear ops, is reduced once before them: tries so at the node and at
/// each op through which its sum came, with all that follows.
constexpr bool reduce_earlier(const cost_model& m, assignment& a, fingerprints& f, std::size_t v) {
  std::size_t through[search_limits::partial_chain] = {v};
  std::size_t found = 1;
  for (std::size_t i = 0; i < found; ++i) {
    const std::size_t w = through[i];
    const node& n = m.node_at(w);
    strategy whole = a.chosen.at[w];
    for (int k = 0; k < n.arity; ++k) {
      const std::size_t u = m.operand.at[m.first_slot.at[w] + as_size(k)];
      if (found == search_limits::partial_chain) break;
      if ((whole.partial_operands >> k & 1) != 0 && a.chosen.at[u].forwarded != 0 && !is_fixed(m, a, u))
        through[found++] = u;
    }
    whole.forwarded = 0;
    whole.partial_operands = 0;
    derive_unreduced(n, whole);
    if (valid(m, w, whole) && try_change(m, a, f, w, whole, followers::cheap)) return true;
  }
  return false;
}

/// The work of a product that a strategy repeats, less the repeated work of others that might be saved.
constexpr double more_work(const cost_model& m, const assignment& a, std::size_t v, const strategy& s) {
  if (m.rule.flop == 0 || (m.traits.at[v] & has_flops) == 0) return 0;
  const double more = flops_with(m, v, s) - a.work.at[v], repeated = a.flops - a.flops_once;
  return more > repeated ? m.rule.flop * (more - repeated) : 0;
}

/// Whether a candidate is one of those before it, from `from` on.
constexpr bool tried_already(const indexed_vector<strategy>& candidates, std::size_t from, std::size_t i) {
  const strategy* list = candidates.data();
  for (std::size_t j = from; j < i; ++j)
    if (list[j].out.word == list[i].out.word && list[j] == list[i]) return true;
  return false;
}

/// Improves one node, with its followers. If operands conflict, or work is repeated, a change may pay only together
/// with its followers. Otherwise the node alone is looked at, which keeps long chains of layers cheap to plan.
constexpr bool improve_node(const cost_model& m, assignment& a, fingerprints& f, std::size_t v) {
  if (a.fresh.at[v] == 0 || is_fixed(m, a, v)) return false;
  a.fresh.at[v] = 0;
  const bool repeats = m.rule.repeat > 0 && a.flops > a.allowed_flops * (1 + m.limits.equal_work);
  const bool whole_work = m.rule.flop == 0 || (m.traits.at[v] & has_flops) == 0 ||
                          a.work.at[v] <= flops_once(m, v) * (1 + m.limits.equal_work);
  const double own = a.price.at[v];
  // A product that contracts nothing costs no flops, so that repeating it costs nothing.
  const bool outer = (m.traits.at[v] & has_flops) != 0 && m.flops.at[v] == 0;
  const bool together = repeats || !whole_work || outer || must_move(m, a, v);
  if (!together && !is_promising(m, a, v, own)) return false;
  if (f.searched_before(v)) return false;
  bool changed = false;
  double spent = together ? saved_at_most(m, a, v) : own;
  find_candidates(m, a, v, a.candidates);
  // Candidates that were tried since the last one that was taken would fail again.
  std::size_t tried_from = 0;
  for (std::size_t i = 0; i < a.candidates.size(); ++i) {
    const strategy s = a.candidates[i];
    if (tried_already(a.candidates, tried_from, i)) continue;
    if (!repeats && (repeats_too_much(m, a, v, s) ||
                     (whole_work && price_of_moves(m, a, v, s, moves::own) + more_work(m, a, v, s) >= spent)))
      continue;
    if (!try_strategy(m, a, f, v, s, together)) continue;
    changed = true;
    tried_from = i + 1;
    spent = together ? saved_at_most(m, a, v) : a.price.at[v];
  }
  if (a.chosen.at[v].forwarded != 0 && own > 0 && reduce_earlier(m, a, f, v)) changed = true;
  if (!changed) f.searched_in_vain(v);
  return changed;
}

/// Improves all nodes, forward and backward, until nothing changes.
constexpr void improve(const cost_model& m, assignment& a, fingerprints& f, int sweeps) {
  for (int sweep = 0; sweep < sweeps; ++sweep) {
    bool changed = false;
    hash_neighbourhoods(m, a, f);
    for (std::size_t v = 0; v < m.count; ++v)
      if (a.fresh.at[v] != 0 && improve_node(m, a, f, v)) changed = true;
    if (changed) hash_neighbourhoods(m, a, f);
    for (std::size_t v = m.count; v-- > 0;)
      if (a.fresh.at[v] != 0 && improve_node(m, a, f, v)) changed = true;
    if (!changed) break;
  }
}

/// Whether a node is made by elementwise operations of constants and indices alone, which every device can make.
constexpr bool is_made_of_indices(const cost_model& m, std::size_t v, const indexed_vector<std::uint8_t>& made) {
  if ((m.traits.at[v] & elementwise_op) == 0 || m.first_slot.at[v] == m.first_slot.at[v + 1]) return false;
  for (std::uint32_t slot = m.first_slot.at[v]; slot < m.first_slot.at[v + 1]; ++slot)
    if (const std::size_t u = m.operand.at[slot]; (m.traits.at[u] & rematerialised) == 0 && made.at[u] == 0)
      return false;
  return true;
}
/// The one layout that all readers of a value and all results need; the own one if they differ.
constexpr layout needed_by_all(const cost_model& m, const assignment& a, std::size_t v) {
  const layout own = produced(m, a, v);
  layout all = own;
  bool any = false;
  const auto also = [&](layout need) {
    if (any && need.word != all.word) return false;
    all = need;
    return any = true;
  };
  for (std::uint32_t e = m.first_edge.at[v]; e < m.first_edge.at[v + 1]; ++e)
    if (!also(needed(m, a, m.edges.at[e]))) return own;
  for (std::uint32_t result = m.last_output.at[v]; result != 0; result = m.other_output.at[result - 1])
    if (!also(asked_of(m, a, result - 1))) return own;
  return all;
}

/// Makes values of indices alone, and values that the user moves, only for the elements that all readers take: no other
/// pass sees the memory and the time that the others cost, and nobody sees a layout in which nobody reads.
constexpr void compute_as_read(const cost_model& m, assignment& a, fingerprints& f) {
  indexed_vector<std::uint8_t> made(m.count, 0);
  for (std::size_t v = 0; v < m.count; ++v) made.at[v] = is_made_of_indices(m, v, made) ? 1 : 0;
  for (std::size_t v = m.count; v-- > 0;) {
    const bool moved = made.at[v] == 0 && (m.traits.at[v] & fixed_strategy) != 0 &&
                       rules::annotation_of(m.node_at(v)) == rules::annotation::moved_layout;
    if (!moved && (made.at[v] == 0 || is_fixed(m, a, v))) continue;
    const layout own = produced(m, a, v), need = needed_by_all(m, a, v);
    if (own.is_partial() || need.is_partial()) continue;
    if (m.at.axes.product(need.sharded()) <= m.at.axes.product(own.sharded())) continue;
    const strategy s{.out = need};
    bool no_dearer = false;
    if ((!moved && !valid(m, v, s)) || try_change(m, a, f, v, s, followers::none, &no_dearer) || !no_dearer) continue;
    begin_change(a);
    set_strategy(m, a, v, s);
    keep_change(m, a);
  }
}

}}} // namespace cleave::v0::planner
