// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/search/improve.hpp>

#include <algorithm>

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
  if (found < best - m.limits.equal_prices * best) {
    best = found;
    return true;
  }
  roll_back(m, a, flops);
  return false;
}

/// Forces each product and look-up into each of its strategies, improves the rest around it, and keeps changes that
/// make the total cheaper.
constexpr void search_wider(const cost_model& m, assignment& a, fingerprints& f) {
  a.tries = 0;
  double best = total_price(m, a);
  indexed_vector<strategy> ways;
  for (std::size_t v = 0; v < m.count; ++v) {
    if ((m.traits.at[v] & forced_in_turn) == 0 || best == 0) continue;
    ways.clear();
    add_all_ways(m, a, v, ways);
    for (const strategy& s : ways) {
      if (a.tries > m.rule.effort) return;
      // Its operands alone must not cost more than all there is to gain around it, nor may work be repeated too often.
      if (s == a.chosen.at[v] || repeats_too_much(m, a, v, s) || least_price(m, a, v, s) >= saved_at_most(m, a, v))
        continue;
      keep_if_cheaper(m, a, best, [&] {
        begin_change(a);
        ripple(m, a, v, s, true);
        keep_change(m, a);
        a.fresh.assign(m.count, 1);
        improve(m, a, f, 1, v);
        a.fresh.assign(m.count, 1);
        improve(m, a, f, 1);
      });
    }
  }
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
    if (!alone) continue;
    if (m.node_at(v).loop != 0) continue;
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

}}} // namespace cleave::v0::planner
