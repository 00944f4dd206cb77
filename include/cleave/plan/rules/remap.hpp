// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/exchange.hpp>
#include <cleave/plan/search/candidates.hpp>

namespace cleave::detail {

constexpr cost moves_of_exchange(const cost_model& m, std::size_t v, const strategy& s) {
  const node& n = m.node_at(v);
  static_vector<exchange_part, max_arity> parts;
  for (std::uint8_t k = 0; k < n.arity; ++k)
    parts.push_back(part_of(maps_of(m.g, n), k, m.node_at(n.in[k]).type, required(m, v, s, k), n.type, s.out));
  return exchange_cost(std::span<const exchange_part>(parts.begin(), parts.end()), m.at);
}

/// What is short, or read whole, may be fetched whole at once.
constexpr void offer_exchanges(const cost_model& m, assignment& a, std::size_t v, std::vector<strategy>& list) {
  if (m.node_at(v).maps == 0) return;
  strategy s = a.chosen.at[v];
  const factor_list& factors = m.factors(v);
  for (std::size_t i = 0; i < factors.count; ++i)
    if (factors.items[i].is_fetched() && factors.items[i].at[in_result] >= 0)
      s.out.clear(factors.items[i].at[in_result]);
  add_with_forwarding(m, a, v, s, list);
}

inline constexpr planning_rules remap_rules{&moves_of_exchange, true, nullptr, &offer_exchanges};

} // namespace cleave::detail
