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
