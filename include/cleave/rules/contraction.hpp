// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/candidates.hpp>
#include <cleave/program/step.hpp>
#include <cleave/rules/by_name.hpp>

namespace cleave::rules {

/// Multiply-adds of all devices, times 2.
constexpr double flops_of_product(const graph& g, const node& n, const sizes& s) {
  double flops = 2;
  for (int i = 0; i < n.type.rank; ++i) flops *= static_cast<double>(s[n.type[i]]);
  const tensor_type& first = g.nodes[n.in[0]].type;
  for (int i = 0; i < first.rank; ++i)
    if ((n.over & dim_bit(first[i])) != 0) flops *= static_cast<double>(s[first[i]]);
  return flops;
}
/// Those of the busiest device.
constexpr std::int64_t most_flops_of_product(const placed_op& o, const sizes& s) {
  std::int64_t flops = 2 * elements_of_busiest(o.out, s);
  const tensor_type& first = *o.in[0].type;
  for (int i = 0; i < first.rank; ++i)
    if (!o.out.type->has(first[i])) flops *= block_extent(s[first[i]], s.axes.product(o.in[0].where[i]));
  return flops;
}

/// Without a contracted dim a product is an elementwise operation.
constexpr bool contracts_nothing(const node& n) { return n.over == 0; }
constexpr void express_product(const node&, const tensor_type&, tape_op& t) { t.code = op::mul; }

constexpr void emit_product(const node& n, const placed_op& o, step& s) {
  const tensor_type &a = *o.in[0].type, &b = *o.in[1].type, &out = *o.out.type;
  for (int i = 0; i < out.rank; ++i) {
    const dim_id d = out[i];
    (!b.has(d) ? s.m : a.has(d) ? s.batch : s.n).append(d);
  }
  for (int i = 0; i < a.rank; ++i)
    if ((n.over & dim_bit(a[i])) != 0) s.k.append(a[i]);
  s.loop = out;
  s.space = o.out.where;
}

inline constexpr op_rules contraction{
    .what = op_class::contraction,
    .factors = &factors_by_name,
    .reads_any_order = true,
    .gives_any_order = true,
    .propagates_late = true,
    .traits = planner::contracting | planner::forced_in_turn | planner::leads_products,
    .flops = &flops_of_product,
    .most_flops = &most_flops_of_product,
    .offer = &planner::add_all_ways,
    .is_expression = &contracts_nothing,
    .express = &express_product,
    .emit = &emit_product,
    .kind_of_step = step_kind::gemm,
};

} // namespace cleave::rules
