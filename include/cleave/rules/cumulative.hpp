// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/program/step.hpp>
#include <cleave/record/op_builder.hpp>
#include <cleave/rules/rows.hpp>
#include <cleave/rules/whole_slices.hpp>

#include <limits>

namespace cleave::inline v0::detail {

/// Running totals along a dim, from its last index on if `backwards`, without the element itself if `exclusive`.
constexpr value recorded_cumulative(recorder& in, reduction how, value x, dim_ref along, bool backwards, bool exclusive,
                                    source where) {
  node n;
  n.code = op::cumulative;
  n.combine = how;
  n.backwards = backwards;
  n.exclusive = exclusive;
  if (!in.take_operands(n, std::array{x}, where)) return {&in, no_node};
  n.type = in.at(x).type;
  const int d = in.dim_of(x, along, "cumulative", where);
  if (d < 0) return {&in, no_node};
  if (is_complex(n.type.element) && (how == reduction::max || how == reduction::min))
    return in.fail(fault::not_for_complex, name_of(how), where);
  n.which[0] = narrowed(d);
  return in.push(n);
}

/// A running sum gives each cotangent to all elements before it: the running sum from the other end. So does a product,
/// times the others; a maximum gives it to the element that it is.
constexpr void adjoint_of_cumulative(reverse_context& c, std::size_t v, const node& n, value g) {
  if (!c.depends(n.in[0])) return;
  if (!c.type_of(g).has(n.which[0])) g = c.in().broadcast(g, n.type, n.where);
  const dim_ref along = c.dim_at(n.which[0]);
  const auto run = [&](reduction how, value y, bool backwards, bool exclusive) {
    return recorded_cumulative(c.in(), how, y, along, backwards, exclusive, n.where);
  };
  const auto before = [&](value y) { return run(reduction::sum, y, !n.backwards, n.exclusive); };
  if (n.combine == reduction::sum) return c.add(n.in[0], before(g), n.where);
  const value x = c.primal(n.in[0]), r = c.primal(v);
  const element e = n.type.element;
  const op_builder apply(c.in(), n.where);
  if (n.combine == reduction::prod) {
    // By division where nothing is zero; the first zero takes the product of the others.
    const value zero = apply(op::equal, x, apply.number(0, e));
    const value zeros = run(reduction::sum, apply.cast(zero, element::i32), n.backwards, false);
    const value first = apply(op::logical_and, zero, apply(op::equal, zeros, apply.number(1, element::i32)));
    const value others = run(reduction::prod, apply(op::select, first, apply.number(1, e), x), n.backwards,
                             n.exclusive);
    const value by_division = apply(op::div, before(apply(op::mul, g, r)),
                                    apply(op::select, zero, apply.number(1, e), x));
    const value rest = apply(op::select, zero, apply.number(0, e), by_division);
    return c.add(n.in[0], apply(op::select, first, before(apply(op::mul, g, others)), rest), n.where);
  }
  // Where the extremum was attained last, in the order of the run.
  const value reached = n.exclusive ? run(n.combine, x, n.backwards, false) : r;
  const double none = n.backwards ? std::numeric_limits<std::int32_t>::max() : -1;
  const value index = c.in().iota(along, element::i32, n.where);
  const value attained = apply(op::select, apply(op::equal, x, reached), index, apply.number(none, element::i32));
  const value last = run(n.backwards ? reduction::min : reduction::max, attained, n.backwards, n.exclusive);
  add_at_indices(c, n, g, last, along);
}

} // namespace cleave::inline v0::detail

namespace cleave::inline v0::rules {

constexpr void place_cumulative(const node& n, const strategy&, placed_op& o) {
  o.along = n.which[0];
  o.over = o.axes_along().mask();
}
/// What running totals along a dim move: an exclusive prefix scan of one value of each slice.
constexpr cost moves_of_cumulative(const placed_op& o, const sizes& s) {
  const std::int64_t devices = s.axes.product(o.over);
  if (devices == 1) return {};
  std::int64_t slices = 1;
  for (int i = 0; i < o.out.type->rank; ++i)
    if (const dim_id d = (*o.out.type)[i]; d != o.along)
      slices = times(slices, block_extent(s[d], s.axes.product(o.out.where[i])));
  return {slices * size_of(o.out.type->element), slices > 0 ? collectives::rounds(devices) : 0};
}

/// Little is moved for running totals, so that whole slices are worth a try only where all else has been tried.
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

} // namespace cleave::inline v0::rules
