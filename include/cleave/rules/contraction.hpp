// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/cost/candidates.hpp>
#include <cleave/cost/op_rules.hpp>
#include <cleave/program/step.hpp>
#include <cleave/rules/reverse_context.hpp>

#include <limits>

namespace cleave { inline namespace v0 { namespace detail {

/// Contraction: for each operand a product of the cotangent and the other operand.
constexpr void adjoint_of_contraction(reverse_context& c, std::size_t, const node& n, value g) {
  const std::array<value, 2> operands{c.primal(n.in[0]), c.primal(n.in[1])};
  for (std::size_t k = 0; k < 2; ++k) {
    if (!c.depends(n.in[k])) continue;
    value other = operands[1 - k];
    const dim_set own = c.type_of(operands[k]).set(), has = c.type_of(g).set();
    // Along dims that only the other operand has and the cotangent lacks, the other is summed.
    const dim_set summed = c.type_of(other).set() & ~own & ~has;
    if (summed != 0) other = c.in().reduce(reduction::sum, other, summed, n.where);
    const dim_set over = c.type_of(other).set() & has & ~own;
    c.add(n.in[k], k == 0 ? c.in().dot(g, other, over, n.where) : c.in().dot(other, g, over, n.where), n.where);
  }
}

}}} // namespace cleave::v0::detail

namespace cleave { inline namespace v0 { namespace rules {

/// Multiply-adds of all devices, times 2. A product that contracts nothing is an elementwise operation, whose work does
/// not count: every device that has the factors may make all of it.
constexpr double flops_of_product(const graph& g, const node& n, const sizes& s) {
  if (n.over == 0) return 0;
  double flops = 2;
  for (int i = 0; i < n.type.rank; ++i) flops *= as_double(s[n.type[i]]);
  const tensor_type& first = g.nodes[n.in[0]].type;
  for (int i = 0; i < first.rank; ++i)
    if ((n.over & dim_bit(first[i])) != 0) flops *= as_double(s[first[i]]);
  return flops;
}
/// Those of the busiest device. Of assumed sizes they may be more than a number holds: then the largest one.
constexpr std::int64_t most_flops_of_product(const placed_op& o, const sizes& s) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  std::int64_t flops = 2 * elements_of_busiest(o.out, s);
  const tensor_type& first = *o.in[0].type;
  for (int i = 0; i < first.rank; ++i) {
    if (o.out.type->has(first[i])) continue;
    const std::int64_t length = s.along(first[i]).longest(s.axes.product(o.in[0].where[i]));
    flops = length != 0 && flops > most / length ? most : flops * length;
  }
  return flops;
}

/// Without a contracted dim a product is an elementwise operation.
constexpr bool contracts_nothing(const node& n) { return n.over == 0; }
constexpr void express_product(const node&, const tensor_type&, fused_op& t) { t.code = op::mul; }

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
    .adjoint = &detail::adjoint_of_contraction,
    .factors = &factors_by_name,
    .reads_any_order = true,
    .gives_any_order = true,
    .propagates_late = true,
    .traits = planner::contracting | planner::has_flops | planner::leads_products,
    .flops = &flops_of_product,
    .most_flops = &most_flops_of_product,
    .offer = &planner::add_all_ways,
    .is_expression = &contracts_nothing,
    .express = &express_product,
    .emit = &emit_product,
    .kind_of_step = step_kind::gemm,
};

}}} // namespace cleave::v0::rules
