// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/search/improve.hpp>

#include <algorithm>

// Changes that are made although they cost more, with the nodes around them improved after that, and kept if the whole
// becomes cheaper.

namespace cleave { inline namespace v0 { namespace planner {

/// Takes back all changes that were kept since the journal began.
constexpr void roll_back(const cost_model& m, assignment& a, double flops) {
  begin_change(a);
  for (std::size_t i = a.journal.size(); i-- > 0;) {
    assign(m, a, a.journal[i].node, a.journal[i].before);
    a.undo.push_back(a.journal[i]);
  }
  price_change(m, a);
  count_work(m, a);
  a.flops = flops;
}

/// Makes changes, and keeps them if the total becomes cheaper than `best`.
template <class Changes>
constexpr bool keep_if_cheaper(const cost_model& m, assignment& a, double& best, const Changes& make_changes) {
  const double flops = a.flops;
  a.journal.clear();
  a.keeps_journal = true;
  make_changes();
  a.keeps_journal = false;
  const double found = total_price(m, a);
  const bool cheaper = found < best - m.limits.equal_prices * best;
  if (cheaper) best = found;
  else roll_back(m, a, flops);
  return cheaper;
}

/// How far a forced layout change propagates: to the readers that agreed with the old layout, as after any change, or
/// to all nodes downstream.
enum class led : std::uint8_t { readers, all };

/// The carried value that a node sets for the next iteration; none: no_node.
constexpr std::size_t carried_on_by(const cost_model& m, std::size_t v) {
  const node& n = m.node_at(v);
  return n.arity == 2 && m.next_of.at[n.in[1]] == v ? n.in[1] : no_node;
}

/// Lets all readers of a value take it in one layout, and lets their followers follow.
constexpr void lead_readers(const cost_model& m, assignment& a, std::size_t v, layout l, led who);
/// Gives a node a strategy, and lets all downstream nodes follow.
constexpr void lead_all(const cost_model& m, assignment& a, std::size_t v, const strategy& s) {
  set_strategy(m, a, v, s);
  if (s.out.is_partial()) return;
  lead_readers(m, a, v, s.out, led::all);
  if (const std::size_t after = after_loop(m, v); after != no_node) lead_readers(m, a, after, s.out, led::all);
}
/// The same for one reader.
constexpr void lead_reader(const cost_model& m, assignment& a, std::uint32_t e, layout l, led who) {
  std::size_t w = m.edges.at[e].to;
  if ((m.traits.at[w] & transparent) != 0) lead_readers(m, a, w, l, who);
  // A carried value is in the layout of its next value.
  const std::size_t carried = who == led::all && m.edges.at[e].number == 0 ? carried_on_by(m, w) : no_node;
  if (carried != no_node) w = carried;
  if (a.changed_in.at[w] == a.round || is_fixed(m, a, w) || a.undo.count >= m.limits.led_at_most) return;
  strategy next = a.chosen.at[w];
  if (carried != no_node) shard_result(m, w, l, next);
  else project(m, w, m.edges.at[e].number, l, next);
  next.forwarded = 0;
  next.partial_operands = 0;
  derive_unreduced(m.node_at(w), next);
  if (next == a.chosen.at[w] || !valid(m, w, next)) return;
  if (who == led::all) lead_all(m, a, w, next);
  else ripple(m, a, w, next, false);
}
constexpr void lead_readers(const cost_model& m, assignment& a, std::size_t v, layout l, led who) {
  for (std::uint32_t e = m.first_edge.at[v]; e < m.first_edge.at[v + 1]; ++e) lead_reader(m, a, e, l, who);
}

/// Lets every device compute all of the values that are made of constants and indices alone, if some of them move and
/// that is cheaper.
constexpr void compute_everywhere(const cost_model& m, assignment& a) {
  indexed_vector<std::size_t> made;
  indexed_vector<std::uint8_t> is_made(m.count, 0);
  std::uint8_t* const own = is_made.data();
  bool moves = false;
  for (std::size_t v = 0; v < m.count; ++v) {
    const std::uint32_t first = m.first_slot.at[v], last = m.first_slot.at[v + 1];
    bool alone = first != last && (m.traits.at[v] & (has_flops | of_user)) == 0;
    for (std::uint32_t slot = first; slot < last && alone; ++slot) {
      const std::size_t u = m.operand.at[slot];
      alone = (m.traits.at[u] & rematerialised) != 0 || own[u] != 0;
    }
    if (!alone || m.node_at(v).loop != 0) continue;
    made.push_back(v);
    own[v] = 1;
    moves = moves || a.price.at[v] > 0;
  }
  if (!moves) return;
  double best = total_price(m, a);
  keep_if_cheaper(m, a, best, [&] {
    begin_change(a);
    for (std::size_t v : made)
      if (!is_fixed(m, a, v) && valid(m, v, {})) set_strategy(m, a, v, {});
    keep_change(m, a);
  });
}

/// The cost of gathering a value that is sharded and not partial.
constexpr double gathered_price(const cost_model& m, const assignment& a, std::size_t v) {
  const layout own = produced(m, a, v);
  return !own.is_partial() && own.is_sharded() ? a.price.at[v] : 0;
}
/// An upper bound of the cost of moving the elementwise results of each value. Diamonds count twice.
constexpr indexed_vector<double> moved_later(const cost_model& m, const assignment& a) {
  indexed_vector<double> later(m.count, 0);
  double* sum = later.data();
  for (std::size_t v = m.count; v-- > 0;) {
    if ((m.traits.at[v] & elementwise_op) == 0) continue;
    const double price = a.price.at[v];
    if (sum[v] == 0 && price == 0) continue;
    const double moved = std::min(sum[v] + (price == 0 ? 0 : gathered_price(m, a, v)), m.limits.largest_sum);
    for (std::uint32_t slot = m.first_slot.at[v]; slot < m.first_slot.at[v + 1] && moved > 0; ++slot)
      sum[m.operand.at[slot]] += moved;
  }
  return later;
}

/// Whether a sharded value that elementwise ops read might be gathered for less than their results are: as a gradient
/// for the weights, the momentum and the squares of an optimizer that are replicated.
constexpr bool gather_pays(const cost_model& m, assignment& a, std::size_t v, double at_most) {
  const layout own = produced(m, a, v);
  if (m.first_edge.at[v + 1] == m.first_edge.at[v] || (m.traits.at[v] & rematerialised) != 0 ||
      (own.sharded() == 0 && own.is_partial()))
    return false;
  // A value that all devices hold costs its readers nothing, whoever else reads it.
  for (std::uint32_t e = m.first_edge.at[v]; e < m.first_edge.at[v + 1] && own.sharded() != 0; ++e)
    if ((m.traits.at[m.edges.at[e].to] & elementwise_op) == 0) return false;
  const double once = reshard_price(m, v, own, layout{own.word & ~layout::dims_mask}) * (1 + m.limits.equal_work);
  if (at_most <= once) return false;
  ++a.round;
  double later = 0;
  std::size_t* made = a.priced.at;
  std::size_t found = 0;
  made[found++] = v;
  for (std::size_t i = 0; i < found && later <= once; ++i)
    for (std::uint32_t e = m.first_edge.at[made[i]]; e < m.first_edge.at[made[i] + 1]; ++e) {
      const std::size_t w = m.edges.at[e].to;
      if ((m.traits.at[w] & elementwise_op) == 0 || a.counted_in.at[w] == a.round) continue;
      a.counted_in.at[w] = a.round;
      later += gathered_price(m, a, w);
      made[found++] = w;
    }
  return later > once;
}

/// Gathers values before several ops that read them, improves the rest around that, and keeps changes that make the
/// total cheaper.
constexpr void gather_early(const cost_model& m, assignment& a, fingerprints& f) {
  indexed_vector<double> later = moved_later(m, a);
  double best = 0;
  indexed_vector<std::size_t> near;
  // Layers look the same: a change that did not help in one is not tried in the others.
  indexed_vector<std::uint64_t> in_vain;
  for (std::size_t v = 0; v < m.count; ++v) {
    if (later[v] == 0 || !gather_pays(m, a, v, later[v])) continue;
    const std::uint64_t fingerprint = f.valid.at[v] != 0 ? f.of[v] : 0;
    if (fingerprint != 0 && std::find(in_vain.begin(), in_vain.end(), fingerprint) != in_vain.end()) continue;
    if (best == 0) best = total_price(m, a);
    const bool kept = keep_if_cheaper(m, a, best, [&] {
      begin_change(a);
      lead_readers(m, a, v, layout{}, led::readers);
      // Only nodes nearby can gain by it: sweeps of all nodes take most of the time that planning takes.
      near.clear();
      for (std::size_t i = 0; i < a.undo.count; ++i) {
        const change& c = a.undo.at[i];
        near.push_back(c.node);
        for (std::uint32_t slot = m.first_slot.at[c.node]; slot < m.first_slot.at[c.node + 1]; ++slot)
          near.push_back(m.operand.at[slot]);
      }
      keep_change(m, a);
      for (std::size_t u : near) a.fresh.at[u] = 1;
      for (int pass = 0; pass < 2; ++pass)
        for (std::size_t u : near) improve_node(m, a, f, u);
    });
    if (kept) later = moved_later(m, a);
    else if (fingerprint != 0) in_vain.push_back(fingerprint);
  }
}

/// Lets products whose operand is also moved for other readers read it in the way that would be cheapest without these,
/// and improves the others: one alone saves nothing as long as the operand is moved for another one. Keeps cheaper
/// plans.
constexpr void read_apart(const cost_model& m, assignment& a, fingerprints& f) {
  double best = 0;
  indexed_vector<strategy> ways;
  indexed_vector<std::size_t> near;
  for (std::size_t v = 0; v < m.count; ++v) {
    if ((m.traits.at[v] & contracting) == 0 || is_fixed(m, a, v)) continue;
    const double shared = price_of_moves(m, a, v, a.chosen.at[v], moves::shared);
    if (shared == 0) continue;
    if (best == 0) best = total_price(m, a);
    if (shared < m.limits.shared_at_least * best) continue;
    ways.clear();
    add_all_ways(m, a, v, ways);
    double least = shared;
    std::size_t way = ways.size();
    for (std::size_t i = 0; i < ways.size(); ++i)
      if (!repeats_too_much(m, a, v, ways[i]))
        if (const double price = price_of_moves(m, a, v, ways[i], moves::all) + more_work(m, a, v, ways[i]);
            price < least)
          least = price, way = i;
    if (way == ways.size() || ways[way] == a.chosen.at[v]) continue;
    keep_if_cheaper(m, a, best, [&] {
      near.clear();
      for (std::uint32_t slot = m.first_slot.at[v]; slot < m.first_slot.at[v + 1]; ++slot) {
        const std::size_t u = m.operand.at[slot];
        near.push_back(u);
        for (std::uint32_t e = m.first_edge.at[u]; e < m.first_edge.at[u + 1]; ++e) near.push_back(m.edges.at[e].to);
      }
      begin_change(a);
      ripple(m, a, v, ways[way], true);
      for (std::size_t i = 0; i < a.undo.count; ++i) near.push_back(a.undo.at[i].node);
      keep_change(m, a);
      for (int pass = 0; pass < 2; ++pass)
        for (std::size_t u : near) {
          a.fresh.at[u] = 1;
          // It was searched with other neighbours.
          f.valid.at[u] = 0;
          if (u != v) improve_node(m, a, f, u);
        }
    });
  }
}

}}} // namespace cleave::v0::planner
