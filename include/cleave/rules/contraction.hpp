// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/candidates.hpp>
#include <cleave/rules/by_name.hpp>

namespace cleave::rules {

/// Multiply-adds of one device for a product, times 2; blocks are taken as even, so that uneven ones do not count as
/// repeated work.
constexpr double flops_of_product(const planner::cost_model& m, std::size_t v, const strategy& s) {
  const node& n = m.node_at(v);
  const factor_list& factors = m.factors(v);
  double flops = 2;
  int r = 0;
  for (std::size_t i = 0; i < factors.count; ++i) {
    const factor& f = factors.items[i];
    const int position = f.at[in_result] >= 0 ? f.at[in_result] : f.at[0];
    const dim_id d = f.at[in_result] >= 0 ? n.type[position] : m.node_at(n.in[0]).type[position];
    const axis_set axes = f.is_reduced() ? s.over.axes(r++) : s.out.axes(position);
    flops *= static_cast<double>(m.at[d]) / static_cast<double>(m.at.axes.product(axes));
  }
  return flops;
}

inline constexpr op_rules contraction{
    .factors = &factors_by_name,
    .traits = planner::contracting | planner::forced_in_turn | planner::leads_products,
    .flops = &flops_of_product,
    .offer = &planner::add_all_ways,
};

} // namespace cleave::rules
