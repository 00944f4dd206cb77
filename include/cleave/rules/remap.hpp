// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/candidates.hpp>
#include <cleave/cost/exchange.hpp>
#include <cleave/program/step.hpp>
#include <cleave/rules/by_name.hpp>

namespace cleave::rules {

/// Dims that a map names are sharded on both sides as each side likes; those of windows are whole; the others are
/// common.
constexpr void factors_of_remap(const graph& g, const node& n, factor_list& list) {
  dim_set mapped = 0;
  for (int m = 0; m < n.maps; ++m) {
    const dim_map& map = g.maps[static_cast<std::size_t>(n.first_map + m)];
    factor f;
    f.type = factor_type::permutation;
    f.at[map.operand] = position_of(operand_type(g, n, map.operand), map.from);
    if ((mapped & dim_bit(map.to)) == 0) f.at[in_result] = position_of(n.type, map.to);
    f.taken = static_cast<std::int8_t>(m);
    list.push_back(f);
    mapped |= dim_bit(map.to);
    if (map.window != no_dim) mapped |= dim_bit(map.window);
  }
  for (int i = 0; i < n.type.rank; ++i) {
    if ((mapped & dim_bit(n.type[i])) != 0) continue;
    factor f;
    f.at[in_result] = static_cast<std::int8_t>(i);
    for (int k = 0; k < n.arity; ++k) f.at[k] = position_of(operand_type(g, n, k), n.type[i]);
    list.push_back(f);
  }
}
constexpr dim_set windows_of(const graph& g, const node& n) {
  dim_set set = 0;
  for (const dim_map& m : maps_of(g, n))
    if (m.window != no_dim) set |= dim_bit(m.window);
  return set;
}

constexpr exchange_part part_of(const placed_op& o, int k) {
  return part_of(o.maps, static_cast<std::uint8_t>(k), *o.in[k].type, o.in[k].where, *o.out.type, o.out.where);
}
constexpr void place_exchange(const node&, const strategy&, placed_op& o) {
  unsigned over = 0;
  for (int k = 0; k < o.arity; ++k) over |= fetched_over(part_of(o, k));
  o.over = static_cast<axis_set>(over);
}
constexpr cost moves_of_exchange(const placed_op& o, const sizes& s) {
  static_vector<exchange_part, max_arity> parts;
  for (int k = 0; k < o.arity; ++k) parts.push_back(part_of(o, k));
  return exchange_cost(std::span<const exchange_part>(parts.begin(), parts.end()), s);
}

/// What is short, or read whole, may be fetched whole at once.
constexpr void offer_exchanges(const planner::cost_model& m, planner::assignment& a, std::size_t v,
                               std::vector<strategy>& list) {
  if (m.node_at(v).maps == 0) return;
  strategy s = a.chosen.at[v];
  const node_factors factors = m.factors(v);
  for (std::size_t i = 0; i < factors.count; ++i)
    if (factors.items[i].is_fetched() && factors.items[i].at[in_result] >= 0)
      s.out.clear(factors.items[i].at[in_result]);
  planner::add_with_forwarding(m, a, v, s, list);
}

/// Whether a node reads each dim of its operand at a fixed distance, so that it reads a shard and what is around it.
constexpr bool reads_neighbours(const graph& g, const node& n) {
  if (class_of(n.code) != op_class::remap || n.arity != 1 || n.maps > 3) return false;
  const tensor_type& from = g.nodes[n.in[0]].type;
  dim_set seen = 0;
  for (const dim_map& m : maps_of(g, n)) {
    if (m.divisor != 1 || m.stride < 1 || m.at_run_time != 0 || !m.offset.terms.empty() || (seen & dim_bit(m.to)) != 0)
      return false;
    if (m.window != no_dim ? from.has(m.window) : m.stride != 1) return false;
    seen |= dim_bit(m.to);
  }
  return true;
}

constexpr void emit_exchange(const node& n, const placed_op&, step& s) {
  s.first_map = n.first_map;
  s.maps = n.maps;
}

inline constexpr op_rules remap{
    .what = op_class::remap,
    .factors = &factors_of_remap,
    .whole_dims = &windows_of,
    .reads_any_order = true,
    .traits = planner::special | planner::remaps | planner::fetches_operands,
    .place = &place_exchange,
    .moves = &moves_of_exchange,
    .remembered = true,
    .offer = &offer_exchanges,
    .emit = &emit_exchange,
    .kind_of_step = step_kind::exchange,
    .collective = kind::exchange,
    .reason = "each device fetches what it lacks",
};

} // namespace cleave::rules
