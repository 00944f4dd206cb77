// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/search/wider.hpp>

namespace cleave { inline namespace v0 { namespace planner {

/// The cost of moving the operands of a product for a strategy, those included that are moved there for other readers
/// anyway.
constexpr double price_apart(const cost_model& m, const assignment& a, std::size_t v, const strategy& s) {
  double total = step_price(m, v, s);
  const std::uint32_t first = m.first_slot.at[v];
  for (std::uint32_t slot = first; slot < m.first_slot.at[v + 1]; ++slot) {
    const std::size_t u = m.operand.at[slot];
    if ((m.traits.at[u] & rematerialised) != 0) continue;
    const layout need = required(m, v, s, static_cast<int>(slot - first)), own = produced(m, a, u);
    if (need.word != own.word) total += reshard_price(m, u, own, need);
  }
  return total;
}
/// The price of the copies that a product shares with other readers.
constexpr double price_of_shared_copies(const cost_model& m, const assignment& a, std::size_t v) {
  double total = 0;
  for (std::uint32_t slot = m.first_slot.at[v]; slot < m.first_slot.at[v + 1]; ++slot) {
    const std::size_t u = m.operand.at[slot];
    const layout need = a.need.at[m.edge_of.at[slot]], own = produced(m, a, u);
    if ((m.traits.at[u] & rematerialised) == 0 && need.word != own.word && read_elsewhere(m, a, u, v, need))
      total += reshard_price(m, u, own, need);
  }
  return total;
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
    const double shared = price_of_shared_copies(m, a, v);
    if (shared == 0) continue;
    if (best == 0) best = total_price(m, a);
    if (shared < m.limits.shared_at_least * best) continue;
    ways.clear();
    add_all_ways(m, a, v, ways);
    double least = shared;
    std::size_t way = ways.size();
    for (std::size_t i = 0; i < ways.size(); ++i)
      if (!repeats_too_much(m, a, v, ways[i]))
        if (const double price = price_apart(m, a, v, ways[i]) + more_work(m, a, v, ways[i]); price < least) {
          least = price;
          way = i;
        }
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
