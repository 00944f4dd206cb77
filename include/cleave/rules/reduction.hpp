// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/candidates.hpp>
#include <cleave/program/step.hpp>
#include <cleave/record/op_builder.hpp>
#include <cleave/rules/by_name.hpp>
#include <cleave/rules/reverse_context.hpp>

namespace cleave::inline v0::detail {

/// Reduction: a sum gives its cotangent to every element, an extremum to those that attain it, a product times the
/// others.
constexpr void adjoint_of_reduction(reverse_context& c, std::size_t v, const node& n, value g) {
  const value x = c.primal(n.in[0]), r = c.primal(v);
  const element e = n.type.element;
  const op_builder apply(c.in(), n.where);
  const auto summed = [&](value y) { return c.in().reduce(reduction::sum, y, n.over, n.where); };
  switch (n.combine) {
    case reduction::sum: return c.add(n.in[0], g, n.where);
    case reduction::max:
    case reduction::min: {
      // All that attain the extremum share equally.
      const value hit = apply(op::equal, x, r);
      const value share = apply(op::div, g, summed(apply.cast(hit, e)));
      return c.add(n.in[0], apply(op::select, hit, share, apply.number(0, e)), n.where);
    }
    case reduction::logsumexp: return c.add(n.in[0], apply(op::mul, g, apply(op::exp, apply(op::sub, x, r))), n.where);
    case reduction::prod: {
      // The product of the others, by division where nothing is zero.
      const value zero = apply(op::equal, x, apply.number(0, e));
      const value zeros = summed(apply.cast(zero, e));
      const value rest = c.in().reduce(reduction::prod, apply(op::select, zero, apply.number(1, e), x), n.over,
                                       n.where);
      const value only = apply(op::select, apply(op::equal, zeros, apply.number(1, e)), rest, apply.number(0, e));
      const value slope = apply(op::select, zero, only,
                                apply(op::div, r, apply(op::select, zero, apply.number(1, e), x)));
      return c.add(n.in[0], apply(op::mul, g, slope), n.where);
    }
  }
}

} // namespace cleave::inline v0::detail

namespace cleave::inline v0::rules {

constexpr bool is_reduction_node(const node&) { return true; }

/// What reads partial values may take them scattered onto a dim that it keeps: its result is smaller, and cheaper to
/// move on.
constexpr void offer_scattered(const planner::cost_model& m, planner::assignment& a, std::size_t v,
                               indexed_vector<strategy>& list) {
  const layout from = planner::produced(m, a, m.node_at(v).in[0]);
  if (!a.looks_further || !from.is_partial()) return;
  axis_list up, down;
  for (int axis = 0; axis < m.g.mesh.size(); ++axis) {
    if ((from.unreduced() >> axis & 1) != 0) up.push_back(axis);
    if (const int last = m.g.mesh.size() - 1 - axis; (from.unreduced() >> last & 1) != 0) down.push_back(last);
  }
  strategy as_it_comes;
  planner::project(m, v, 0, from, as_it_comes);
  for (int i = 0; i < m.node_at(v).type.rank; ++i)
    for (const axis_list& axes : {up, down}) {
      strategy s = as_it_comes;
      s.out.set(i, s.out[i].then(axes));
      planner::add_with_forwarding(m, a, v, s, list);
    }
}

inline constexpr op_rules reduction{
    .what = op_class::reduction,
    .adjoint = &detail::adjoint_of_reduction,
    .factors = &factors_by_name,
    .reads_any_order = true,
    .gives_any_order = true,
    .propagates_late = true,
    .offer = &offer_scattered,
    .is_expression = &is_reduction_node,
    .folds = true,
    .kind_of_step = step_kind::fold,
};

} // namespace cleave::inline v0::rules
