// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/candidates.hpp>
#include <cleave/program/step.hpp>
#include <cleave/record/op_builder.hpp>
#include <cleave/rules/loop.hpp>
#include <cleave/rules/rows.hpp>

#include <limits>

namespace cleave { inline namespace v0 { namespace detail {

/// The order of running totals: along a dim, from its last index on if `backwards`, without the element itself if
/// `exclusive`.
struct running_order {
  dim_ref along;
  bool backwards = false, exclusive = false;
};

constexpr value recorded_cumulative(recorder& in, reduction how, value x, running_order order, source where) {
  node n;
  n.code = op::cumulative;
  n.combine = how;
  n.backwards = order.backwards;
  n.exclusive = order.exclusive;
  if (!in.take_operands(n, std::array{x}, where)) return {&in, no_node};
  n.type = in.at(x).type;
  const int d = in.dim_of(x, order.along, "cumulative", where);
  if (d < 0) return {&in, no_node};
  if (is_complex(n.type.element) && (how == reduction::max || how == reduction::min))
    return in.fail(fault::not_for_complex, name_of(how), where);
  n.which[0] = narrowed(d);
  return in.push(n);
}

/// Linear recurrences along a dim of the factors: w_k = x_k + f_k w_(k-1), in their type, and 0 before the first one.
constexpr value recorded_recurrence(recorder& in, value x, value factors, running_order order, source where) {
  if (!x.ok() || !factors.ok()) return {&in, no_node};
  node n = in.node_on(op::recurrence, factors, where);
  n.backwards = order.backwards;
  n.exclusive = order.exclusive;
  x = in.broadcast(x, n.type, where);
  if (!x.ok()) return x;
  if (in.at(x).type != n.type) x = in.reordered(x, n.type, where);
  const int d = in.dim_of(factors, order.along, "recurrence", where);
  if (d < 0) return {&in, no_node};
  n.which[0] = narrowed(d);
  return in.append(n, std::array{x, factors}, where);
}

/// A running sum gives each cotangent to all elements before it: the running sum from the other end. A maximum gives it
/// to the element that it is. A running product is a recurrence, r_k = x_k r_(k-1). The carried value of a recurrence
/// has a cotangent that is one from the other end, with the same factors, so that derivatives of every order are made
/// of recurrences and running products: nothing is divided, and factors may be 0.
constexpr void adjoint_of_cumulative(reverse_context& c, std::size_t v, const node& n, value g) {
  if (!c.type_of(g).has(n.which[0])) g = c.in().broadcast(g, n.type, n.where);
  const op_builder apply(c.in(), n.where);
  const dim_ref along = c.dim_at(n.which[0]);
  const running_order itself{along, n.backwards, true}, back{along, !n.backwards, true};
  const auto before = [&](const auto& run) { return n.exclusive ? c.primal(v) : run(); };
  // The cotangent of the value carried from each element to the next.
  const auto carried = [&](value factors) {
    if (n.exclusive) return recorded_recurrence(c.in(), g, factors, back, n.where);
    return apply(op::add, g, recorded_recurrence(c.in(), apply(op::mul, factors, g), factors, back, n.where));
  };
  const auto run = [&](reduction how, value y, running_order order) {
    return recorded_cumulative(c.in(), how, y, order, n.where);
  };
  if (n.code == op::cumulative && n.combine == reduction::sum)
    return c.add(n.in[0], run(reduction::sum, g, {along, !n.backwards, n.exclusive}), n.where);
  const value x = c.primal(n.in[0]);
  if (n.code == op::recurrence) {
    const value factors = c.primal(n.in[1]), w = carried(factors);
    c.add(n.in[0], w, n.where);
    const auto again = [&] { return recorded_recurrence(c.in(), x, factors, itself, n.where); };
    if (c.depends(n.in[1])) c.add(n.in[1], apply(op::mul, w, before(again)), n.where);
    return;
  }
  if (n.combine == reduction::prod)
    return c.add(n.in[0], apply(op::mul, carried(x), before([&] { return run(reduction::prod, x, itself); })), n.where);
  // The index at which the extremum was attained last, in the order of the run.
  const value reached = n.exclusive ? run(n.combine, x, {along, n.backwards, false}) : c.primal(v);
  const double none = n.backwards ? std::numeric_limits<std::int32_t>::max() : -1;
  const value index = c.in().iota(along, element::i32, n.where);
  const value attained = apply(op::select, apply(op::equal, x, reached), index, apply.number(none, element::i32));
  const value last = run(n.backwards ? reduction::min : reduction::max, attained, {along, n.backwards, n.exclusive});
  add_at_indices(c, n, g, last, along);
}

}}} // namespace cleave::v0::detail

namespace cleave { inline namespace v0 { namespace rules {

constexpr void place_cumulative(const node& n, const strategy&, placed_op& o) {
  o.along = n.which[0];
  o.over = o.axes_along().mask();
}
/// The communication of running totals along a dim: an exclusive prefix scan of one value of each slice; of a
/// recurrence two, the factor and the summand.
constexpr cost moves_of_cumulative(const placed_op& o, const sizes& s) {
  const std::int64_t devices = s.axes.product(o.over);
  if (devices == 1) return {};
  std::int64_t slices = 1;
  for (int i = 0; i < o.out.type->rank; ++i)
    if (const dim_id d = (*o.out.type)[i]; d != o.along)
      slices = times(slices, s.along(d).longest(s.axes.product(o.out.where[i])));
  const int values = o.code == op::recurrence ? 2 : 1;
  return {values * slices * size_of(o.out.type->element), slices > 0 ? collectives::rounds(devices) : 0};
}

/// Running totals move little, so that whole slices are worth a try only if all else has been tried.
constexpr void offer_whole_runs(const planner::cost_model& m, planner::assignment& a, std::size_t v,
                                indexed_vector<strategy>& list) {
  if (a.looks_further) offer_whole_slices(m, a, v, list);
}

constexpr void emit_cumulative(const node& n, const placed_op& o, step& s) {
  s.combine = n.combine;
  s.backwards = n.backwards;
  s.exclusive = n.exclusive;
  s.k.append(o.along);
}

inline constexpr op_rules cumulative{
    .what = op_class::cumulative,
    .adjoint = &detail::adjoint_of_cumulative,
    .factors = &factors_by_name,
    .place = &place_cumulative,
    .moves = &moves_of_cumulative,
    .offer = &offer_whole_runs,
    .emit = &emit_cumulative,
    .kind_of_step = step_kind::scan,
    .collective = kind::scan,
    .reason = "each device continues where the one before it ends",
};

}}} // namespace cleave::v0::rules
