// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/legal.hpp>
#include <cleave/cost/node_price.hpp>

namespace cleave { inline namespace v0 { namespace planner {

/// The invariant of each pass of the search: every node can be computed with its strategy, nodes without a choice
/// follow the others, and cached data equal recomputed ones.
constexpr bool verify(const cost_model& m, const assignment& a) {
  for (std::size_t v = 0; v < m.count; ++v) {
    const strategy& s = a.chosen.at[v];
    const std::uint32_t t = a.moves_before_loop.at[v] == 0 ? m.traits.at[v]
                                                           : m.traits.at[v] & ~(follows_others | fixed_strategy);
    if ((t & follows_others) != 0 && !(s == following(m, a, v))) return false;
    if ((t & (fixed_strategy | may_be_transparent)) == 0 && !valid(m, v, s)) return false;
    for (std::uint32_t slot = m.first_slot.at[v]; slot < m.first_slot.at[v + 1]; ++slot)
      if (!(a.need.at[m.edge_of.at[slot]] == required(m, v, s, static_cast<int>(slot - m.first_slot.at[v]))))
        return false;
  }
  return true;
}
/// The same of prices, once there are any.
constexpr bool verify_prices(const cost_model& m, assignment& a) {
  for (std::size_t v = 0; v < m.count; ++v)
    if (a.price.at[v] != copies_price(m, a, v) + step_price(m, v, a.chosen.at[v]) ||
        a.work.at[v] != flops_with(m, v, a.chosen.at[v]))
      return false;
  return true;
}

}}} // namespace cleave::v0::planner
