// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/candidates.hpp>
#include <cleave/cost/exchange.hpp>

namespace cleave::rules {

/// Dims that a map names are sharded on both sides as each side likes; those of windows are whole; the others are
/// common.
constexpr factor_list factors_of_remap(const graph& g, const node& n) {
  factor_list list;
  dim_set mapped = 0;
  for (int m = 0; m < n.maps; ++m) {
    const dim_map& map = g.maps[static_cast<std::size_t>(n.first_map + m)];
    factor f;
    f.type = factor_type::permutation;
    f.at[map.operand] = detail::position_of(detail::operand_type(g, n, map.operand), map.from);
    if ((mapped & dim_bit(map.to)) == 0) f.at[in_result] = detail::position_of(n.type, map.to);
    f.taken = static_cast<std::int8_t>(m);
    list.push_back(f);
    mapped |= dim_bit(map.to);
    if (map.window != no_dim) mapped |= dim_bit(map.window);
  }
  for (int i = 0; i < n.type.rank; ++i) {
    if ((mapped & dim_bit(n.type[i])) != 0) continue;
    factor f;
    f.at[in_result] = static_cast<std::int8_t>(i);
    for (int k = 0; k < n.arity; ++k) f.at[k] = detail::position_of(detail::operand_type(g, n, k), n.type[i]);
    list.push_back(f);
  }
  return list;
}
constexpr dim_set windows_of(const graph& g, const node& n) {
  dim_set set = 0;
  for (const dim_map& m : maps_of(g, n))
    if (m.window != no_dim) set |= dim_bit(m.window);
  return set;
}

constexpr cost moves_of_exchange(const planner::cost_model& m, std::size_t v, const strategy& s) {
  const node& n = m.node_at(v);
  static_vector<exchange_part, max_arity> parts;
  for (std::uint8_t k = 0; k < n.arity; ++k)
    parts.push_back(part_of(maps_of(m.g, n), k, m.node_at(n.in[k]).type, required(m, v, s, k), n.type, s.out));
  return exchange_cost(std::span<const exchange_part>(parts.begin(), parts.end()), m.at);
}

/// What is short, or read whole, may be fetched whole at once.
constexpr void offer_exchanges(const planner::cost_model& m, planner::assignment& a, std::size_t v,
                               std::vector<strategy>& list) {
  if (m.node_at(v).maps == 0) return;
  strategy s = a.chosen.at[v];
  const factor_list& factors = m.factors(v);
  for (std::size_t i = 0; i < factors.count; ++i)
    if (factors.items[i].is_fetched() && factors.items[i].at[in_result] >= 0)
      s.out.clear(factors.items[i].at[in_result]);
  planner::add_with_forwarding(m, a, v, s, list);
}

inline constexpr op_rules remap{
    .factors = &factors_of_remap,
    .whole_dims = &windows_of,
    .traits = planner::special | planner::remaps | planner::fetches_operands,
    .moves = &moves_of_exchange,
    .remembered = true,
    .offer = &offer_exchanges,
};

} // namespace cleave::rules
