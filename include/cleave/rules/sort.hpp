// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/candidates.hpp>
#include <cleave/cost/sorting.hpp>
#include <cleave/program/step.hpp>
#include <cleave/rules/rows.hpp>

namespace cleave { inline namespace v0 { namespace detail {

/// The elements of each slice along a dim in order (op::sort), or their indices before sorting (op::argsort).
constexpr value recorded_sort(recorder& in, op code, value x, dim_ref along, bool descending, source where) {
  if (!x.ok()) return x;
  node n = in.node_on(code, x, where);
  n.backwards = descending;
  const int d = in.dim_of(x, along, name_of(code), where);
  if (d < 0) return {&in, no_node};
  if (is_complex(n.type.element)) return in.fail(fault::not_for_complex, name_of(code), where);
  n.which[0] = narrowed(d);
  if (code == op::argsort) n.type.element = element::i32;
  return in.append(n, std::array{x}, where);
}

/// How many elements of a sorted slice come before each value, or do not come after it (`right`). Dims that both have
/// are common. The result has the dims of the values, and then the other dims of the slices.
constexpr value recorded_search(recorder& in, value sorted, value values, dim_ref along, bool right, source where) {
  node n;
  n.code = op::searchsorted;
  if (!in.take_operands(n, std::array{sorted, values}, where)) return {&in, no_node};
  const tensor_type from = in.at(sorted).type, asked = in.at(values).type;
  const int d = in.dim_of(sorted, along, name_of(n.code), where);
  if (d < 0) return {&in, no_node};
  if (asked.has(static_cast<dim_id>(d))) return in.fail(fault::dim_used_twice, name_of(n.code), where, along.name);
  if (from.element != asked.element) return in.fail(fault::element_types_differ, name_of(n.code), where);
  if (is_complex(from.element)) return in.fail(fault::not_for_complex, name_of(n.code), where);
  n.type = asked;
  n.type.element = element::i32;
  for (int i = 0; i < from.rank; ++i) {
    if (from[i] == d || asked.has(from[i])) continue;
    if (n.type.rank == max_rank) return in.fail(fault::rank_too_high, name_of(n.code), where);
    n.type.append(from[i]);
  }
  n.which[0] = static_cast<dim_id>(d);
  // Each device counts in its own block: the sum over the blocks is the position.
  n.over = dim_bit(n.which[0]);
  n.backwards = right;
  return in.push(n);
}

/// A cotangent of each element of a sorted slice goes to the element's original index; indices and positions have none.
constexpr void adjoint_of_sort(reverse_context& c, std::size_t, const node& n, value g) {
  if (!c.depends(n.in[0]) || n.code != op::sort) return;
  const dim_ref along = c.dim_at(n.which[0]);
  add_at_indices(c, n, g, recorded_sort(c.in(), op::argsort, c.primal(n.in[0]), along, n.backwards, n.where), along);
}

}}} // namespace cleave::v0::detail

namespace cleave { inline namespace v0 { namespace rules {

constexpr void place_sort(const node& n, const strategy&, placed_op& o) {
  o.along = n.which[0];
  // Elements move only if the result has the dim; positions do not have it.
  if (o.out.type->has(o.along)) o.over = o.axes_along().mask();
}
/// The communication of sorting, charged as if the elements were spread evenly: an all-to-all of the operand, and of
/// the indices if they are the result; one stride of elements that are forwarded to a neighbour; samples; the elements
/// at the cuts with their indices; and counts. Nothing if the dim is not sharded, or is not in the result (a search).
constexpr cost moves_of_sort(const placed_op& o, const sizes& s) {
  const tensor_type& type = *o.in[0].type;
  const std::int64_t n = s.axes.product(o.over);
  if (n == 1) return {};
  std::int64_t slices = 1;
  for (int i = 0; i < type.rank; ++i)
    if (type[i] != o.along) slices = times(slices, s.along(type[i]).longest(s.axes.product(o.out.where[i])));
  const sorting how(n, slices, s.along(o.along));
  if (slices == 0 || how.extent == 0) return {};
  const bool indices = o.code == op::argsort;
  const std::int64_t key = size_of(type.element), each = key + (indices ? 4 : 0);
  const std::int64_t all = times(slices, how.block) * each;
  const std::int64_t elements = all - (all + n - 1) / n + times(slices, how.stride()) * each;
  const std::int64_t sampled = times(times(n - 1, how.decided()), how.samples_of(how.block)) * each;
  const std::int64_t cuts = times(slices - how.decided_by(n - 1), n - 1) * (key + 8);
  const std::int64_t counts = 2 * times(n - 1, slices) * 8;
  return {elements + sampled + cuts + counts, (indices ? 10 : 7) * (n - 1)};
}

constexpr void emit_sort(const node& n, const placed_op& o, step& s) {
  s.backwards = n.backwards;
  s.k.append(o.along);
}

inline constexpr op_rules sort{
    .what = op_class::sort,
    .adjoint = &detail::adjoint_of_sort,
    .factors = &factors_by_name,
    .place = &place_sort,
    .moves = &moves_of_sort,
    .offer = &offer_whole_slices,
    .emit = &emit_sort,
    .kind_of_step = step_kind::sort,
    .collective = kind::exchange,
    .reason = "elements go to the devices that have their ranks",
};

}}} // namespace cleave::v0::rules
