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

/// A function of x, and the cotangent of x for one of its result.
struct pulled_back_value {
  value result, cotangent;
};
/// The product of all other elements along dims: along one, of those before times those after, and so on with the
/// products along it. Nothing is divided.
constexpr pulled_back_value product_of_others(recorder& in, value x, value g, dim_set over, source where) {
  const op_builder apply(in, where);
  const tensor_type t = in.at(x).type;
  int first = 0;
  while (first < t.rank && (over & dim_bit(t[first])) == 0) ++first;
  if (first == t.rank) return {apply.number(1, t.element), apply.number(0, t.element)};
  const dim_set along = dim_bit(t[first]);
  const dim_info& d = in.made().dims[t[first]];
  const running_order forward{{d.name, d.extent, d.divisible}, false, true}, backward{forward.along, true, true};
  const value before = recorded_cumulative(in, reduction::prod, x, forward, where);
  const value after = recorded_cumulative(in, reduction::prod, x, backward, where);
  const value beside = apply(op::mul, before, after);
  const pulled_back_value rest = product_of_others(in, in.reduce(reduction::prod, x, along, where),
                                                   in.reduce(reduction::sum, apply(op::mul, g, beside), along, where),
                                                   over & ~along, where);
  g = apply(op::mul, g, rest.result);
  const value from_after = recorded_recurrence(in, apply(op::mul, g, after), x, backward, where);
  const value from_before = recorded_recurrence(in, apply(op::mul, g, before), x, forward, where);
  const value of_both = apply(op::add, apply(op::mul, before, from_after), apply(op::mul, after, from_before));
  return {apply(op::mul, beside, rest.result), apply(op::add, of_both, apply(op::mul, rest.cotangent, beside))};
}

/// From x and its whole product, which lacks the dims along which it is one.
constexpr indexed_vector<value> pulled_back_to_others(indexed_span<const value> kept, indexed_span<const value> given) {
  recorder& in = *kept[0].in;
  const node n = in.at(kept[0]);
  const dim_set over = n.type.set() & ~in.at(kept[1]).type.set();
  indexed_vector<value> back;
  back.push_back(product_of_others(in, kept[0], given[0], over, n.where).cotangent);
  return back;
}

/// Zeros that stand for the product of the others if one of these is 0. Its derivative need not be 0 there: it is
/// recorded when it is asked for, so that a first derivative pays nothing for it.
constexpr value zeros_for_others(recorder& in, value x, value product, source where) {
  recorder::region r;
  x = in.alias(op::identity, x, where);
  r.first = narrowed(in.made().nodes.size());
  const value zeros = in.alias(op::identity, in.zeros(in.at(x).type, where), where);
  r.last = narrowed(in.made().nodes.size());
  r.arguments.push_back(x);
  r.results.push_back(zeros);
  r.residuals.push_back(x);
  r.residuals.push_back(product);
  r.backward = &pulled_back_to_others;
  if (zeros.ok()) in.add(r);
  return zeros;
}

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
      // All that attain the extremum share equally. 16 bits could not count them.
      const value hit = apply(op::equal, x, r);
      const element wide = accumulator_of(e);
      const auto cast = [&](value v, element to) { return e == wide ? v : apply.cast(v, to); };
      const value share = cast(apply(op::div, cast(g, wide), summed(apply.cast(hit, wide))), e);
      return c.add(n.in[0], apply(op::select, hit, share, apply.number(0, e)), n.where);
    }
    case reduction::logsumexp: return c.add(n.in[0], apply(op::mul, g, apply(op::exp, apply(op::sub, x, r))), n.where);
    case reduction::prod: {
      // The product of the others, by division if nothing is zero.
      const value zero = apply(op::equal, x, apply.number(0, e));
      const value zeros = summed(apply.cast(zero, e));
      const value rest = c.in().reduce(reduction::prod, apply(op::select, zero, apply.number(1, e), x), n.over,
                                       n.where);
      const value only = apply(op::select, apply(op::equal, zeros, apply.number(1, e)), rest,
                               zeros_for_others(c.in(), x, r, n.where));
      const value slope = apply(op::select, zero, only,
                                apply(op::div, r, apply(op::select, zero, apply.number(1, e), x)));
      return c.add(n.in[0], apply(op::mul, g, slope), n.where);
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
