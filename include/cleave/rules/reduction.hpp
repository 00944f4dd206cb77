// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/candidates.hpp>
#include <cleave/cost/op_rules.hpp>
#include <cleave/program/step.hpp>
#include <cleave/record/op_builder.hpp>
#include <cleave/rules/cumulative.hpp>
#include <cleave/rules/reverse_context.hpp>

namespace cleave { inline namespace v0 { namespace detail {

/// The product of all other elements along dims: along one, of those before times those after, and so on with the
/// products along it. Nothing is divided, so factors may be 0, and the whole product may be too small or too large. The
/// last dims come first: their products are the messages along the others, if these are sharded.
constexpr value product_of_others(recorder& in, value x, dim_set over, source where) {
  const op_builder apply(in, where);
  const tensor_type t = in.at(x).type;
  int last = t.rank - 1;
  while (last >= 0 && (over & dim_bit(t[last])) == 0) --last;
  if (last < 0) return apply.number(1, t.element);
  const dim_set along = dim_bit(t[last]);
  const dim_info& d = in.made().dims[t[last]];
  const running_order forward{d.ref(), false, true}, backward{forward.along, true, true};
  const value before = recorded_cumulative(in, reduction::prod, x, forward, where);
  const value after = recorded_cumulative(in, reduction::prod, x, backward, where);
  const value beside = apply(op::mul, before, after);
  if (over == along) return beside;
  const value of_line = in.reduce(reduction::prod, x, along, where);
  return apply(op::mul, beside, product_of_others(in, of_line, over & ~along, where));
}

/// Reduction: a sum gives its cotangent to every element, an extremum to those that attain it, a product times the
/// others.
constexpr void adjoint_of_reduction(reverse_context& c, std::size_t v, const node& n, value g) {
  const value x = c.primal(n.in[0]), r = c.primal(v);
  const element e = n.type.element, wide = accumulator_of(e);
  const op_builder apply(c.in(), n.where);
  const auto cast = [&](value v, element to) { return e == wide ? v : apply.cast(v, to); };
  const auto summed = [&](value y) { return c.in().reduce(reduction::sum, y, n.over, n.where); };
  switch (n.combine) {
    case reduction::sum: return c.add(n.in[0], g, n.where);
    case reduction::max:
    case reduction::min: {
      // All that attain the extremum share equally. 16 bits could not count them.
      const value hit = apply(op::equal, x, r);
      const value share = cast(apply(op::div, cast(g, wide), summed(apply.cast(hit, wide))), e);
      return c.add(n.in[0], apply(op::select, hit, share, apply.number(0, e)), n.where);
    }
    // The softmax. A large result has lost digits, so that all exponentials are wrong by one factor.
    case reduction::logsumexp: {
      const value e = apply(op::exp, apply(op::sub, x, c.in().alias(op::stop_gradient, r, n.where)));
      return c.add(n.in[0], apply(op::mul, apply(op::div, g, summed(e)), e), n.where);
    }
    case reduction::prod: {
      const value others = product_of_others(c.in(), cast(x, wide), n.over, n.where);
      return c.add(n.in[0], apply(op::mul, g, cast(others, e)), n.where);
    }
  }
}

}}} // namespace cleave::v0::detail

namespace cleave { inline namespace v0 { namespace rules {

constexpr bool is_reduction_node(const node&) { return true; }

/// A consumer of partial values may take them scattered onto a dim that it keeps: its result is smaller, and cheaper to
/// move.
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

}}} // namespace cleave::v0::rules
