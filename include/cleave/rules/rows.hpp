// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/candidates.hpp>
#include <cleave/cost/op_rules.hpp>
#include <cleave/program/step.hpp>
#include <cleave/rules/reverse_context.hpp>
#include <cleave/rules/view.hpp>
#include <cleave/type/tensor_type.hpp>

namespace cleave { inline namespace v0 { namespace detail {

/// Rows of a table at indices along one of its dims. Dims that both have are common. The result has the dims of the
/// indices, and then the other dims of the table.
constexpr value recorded_gather(recorder& in, value table, dim_ref along, value indices, source where) {
  node n;
  n.code = op::gather;
  if (!in.take_operands(n, std::array{table, indices}, where)) return {&in, no_node};
  const tensor_type from = in.at(table).type, asked = in.at(indices).type;
  const int d = in.dim_of(table, along, "gather", where);
  if (d < 0) return {&in, no_node};
  if (asked.has(d)) return in.fail(fault::dim_used_twice, "gather", where, along.name);
  if (!is_integer(asked.element)) return in.fail(fault::not_an_index, "gather", where);
  n.type = asked;
  n.type.element = from.element;
  for (int i = 0; i < from.rank; ++i) {
    if (from[i] == d || asked.has(from[i])) continue;
    if (n.type.rank == max_rank) return in.fail(fault::rank_too_high, "gather", where);
    n.type.append(from[i]);
  }
  n.which[0] = narrowed(d);
  return in.push(n);
}

/// A table of zeros to which rows are added at indices along one of its dims. The rows have the dims of the indices;
/// those that the table lacks are summed.
constexpr value recorded_scatter(recorder& in, value rows, dim_ref along, value indices, const tensor_type& table,
                                 source where) {
  node n;
  n.code = op::scatter_add;
  if (!in.take_operands(n, std::array{rows, indices}, where)) return {&in, no_node};
  const tensor_type from = in.at(rows).type, asked = in.at(indices).type;
  const int d = in.dim(along, "scatter_add", where);
  if (d < 0) return {&in, no_node};
  if (!is_integer(asked.element)) return in.fail(fault::not_an_index, "scatter_add", where);
  if (from.has(d) || asked.has(d)) return in.fail(fault::dim_used_twice, "scatter_add", where, along.name);
  for (int i = 0; i < asked.rank; ++i)
    if (!from.has(asked[i]))
      return in.fail(fault::dims_do_not_broadcast, "scatter_add", where, in.made().dims[asked[i]].name);
  n.type = table;
  n.type.element = from.element;
  n.over = from.set() & ~table.set();
  n.which[0] = narrowed(d);
  return in.push(n);
}

/// The dim of the ranks of elements that are sorted along a dim: "rank 007".
inline constexpr auto rank_names = numbered_names("rank ");
constexpr dim_ref ranks_along(dim_id d, std::int64_t extent) { return {rank_names[d].text(), extent}; }

/// A look-up adds its cotangent up in the rows of the table.
constexpr void adjoint_of_gather(reverse_context& c, std::size_t, const node& n, value g) {
  if (!c.depends(n.in[0])) return;
  const value indices = c.primal(n.in[1]);
  const tensor_type table = c.node_at(n.in[0]).type;
  g = c.in().broadcast(g, n.type, n.where);
  c.add(n.in[0], recorded_scatter(c.in(), g, c.dim_at(n.which[0]), indices, table, n.where), n.where);
}
/// Rows that were added up take the cotangent of the row at their index.
constexpr void adjoint_of_scatter(reverse_context& c, std::size_t, const node& n, value g) {
  if (!c.depends(n.in[0])) return;
  g = c.in().broadcast(g, n.type, n.where);
  const value indices = c.primal(n.in[1]);
  c.add(n.in[0], recorded_gather(c.in(), g, c.dim_at(n.which[0]), indices, n.where), n.where);
}

/// Cotangents of a slice go to the indices that another slice names.
constexpr void add_at_indices(reverse_context& c, const node& n, value g, value indices, dim_ref along) {
  const dim_ref ranks = ranks_along(n.which[0], along.extent);
  const tensor_type whole = c.node_at(n.in[0]).type; // a copy: recording moves the nodes
  g = recorded_rename(c.in(), c.in().broadcast(g, n.type, n.where), along, ranks, n.where);
  indices = recorded_rename(c.in(), indices, along, ranks, n.where);
  c.add(n.in[0], recorded_scatter(c.in(), g, along, indices, whole, n.where), n.where);
}

}}} // namespace cleave::v0::detail

namespace cleave { inline namespace v0 { namespace rules {

/// Rows of a table: its other dims and those of the indices are common, the indexed dim is fetched from its owners.
constexpr void factors_of_gather(const graph& g, const node& n, factor_list& list) {
  factors_by_name(g, n, list);
  factor f;
  f.type = factor_type::permutation;
  f.at[0] = position_of(operand_type(g, n, 0), n.which[0]);
  f.taken = 0;
  list.push_back(f);
}

/// Rows are fetched over the axes of the table along the dim that is indexed.
constexpr void place_gather(const node& n, const strategy& s, placed_op& o) {
  o.along = n.which[0];
  o.over = s.taken[0].mask();
}
/// The communication of a look-up: indices to the devices that have the rows, and rows back. Both depend on the
/// indices; as charged, they are spread evenly over the devices that shard the table. Indices are sent as offsets in
/// shards of it.
constexpr cost moves_of_gather(const placed_op& o, const sizes& s) {
  const std::int64_t devices = s.axes.product(o.over);
  if (devices == 1) return {};
  const std::int64_t indices = elements_of_busiest(o.in[1], s), rows = elements_of_busiest(o.out, s);
  const std::int64_t offset = offset_bytes(elements_of_busiest(o.in[0], s));
  return {(devices - 1) * (indices * offset + rows * size_of(o.out.type->element)) / devices,
          rows > 0 ? 2 * (devices - 1) : 0};
}

constexpr void place_scatter(const node& n, const strategy& s, placed_op& o) {
  o.along = n.which[0];
  o.over = s.sent;
}
/// The price of sending rows to the devices that have their indices; charged as if indices were spread evenly.
constexpr cost moves_of_scatter(const placed_op& o, const sizes& s) {
  const std::int64_t devices = s.axes.product(o.over), parts = s.axes.product(o.axes_along());
  if (devices == 1) return {};
  const std::int64_t rows = elements_of_busiest(o.in[0], s), indices = elements_of_busiest(o.in[1], s);
  const std::int64_t offset = offset_bytes(elements_of_busiest(o.out, s));
  return {(devices - 1) * (indices * offset + rows * size_of(o.in[0].type->element)) / parts,
          rows > 0 ? 2 * (devices - 1) : 0};
}

constexpr void emit_rows(const node& n, const placed_op& o, step& s) {
  s.k.append(o.along);
  s.exclusive = n.scalar != 0;
}

/// Rows are sent over axes that shard the indices; none of them may shard another dim of the table.
constexpr bool rows_can_be_sent(const planner::cost_model& m, std::size_t v, const strategy& s) {
  const node& n = m.node_at(v);
  const unsigned over = s.over.sharded();
  for (int i = 0; i < n.type.rank; ++i)
    if (n.type[i] != n.which[0] && (s.out.axes(i) & over) != 0) return false;
  return true;
}

/// The strategies so far, with each device looking up the rows that it has, 0 for the others: nothing is asked for, and
/// the result is partial over the devices, as in Mesh-TensorFlow and GSPMD.
constexpr void offer_own_rows(const planner::cost_model& m, planner::assignment& a, std::size_t v,
                              indexed_vector<strategy>& list) {
  const node& n = m.node_at(v);
  const node_id rows = n.in[0];
  if ((m.traits.at[rows] & planner::rematerialised) != 0) return;
  const axis_list owners = planner::produced(m, a, rows)[m.node_at(rows).type.find(n.which[0])];
  const std::size_t count = list.size();
  for (std::size_t i = 0; i <= count; ++i) {
    strategy s = i < count ? list[i] : a.chosen.at[v];
    if (s.forwarded != 0 || s.over.axes(0) != 0) continue;
    s.over.set(0, owners);
    s.over.give_up(0, s.out.sharded());
    if (s.over.axes(0) != 0) planner::add_with_forwarding(m, a, v, s, list);
  }
}

/// The strategies so far, with the rows sent to the devices that have the index, instead of partial tables: the table
/// in its own layout, in that of a reader, or sharded as the indices are.
constexpr void offer_sent_rows(const planner::cost_model& m, planner::assignment& a, std::size_t v,
                               indexed_vector<strategy>& list) {
  const node& n = m.node_at(v);
  const int along = n.type.find(n.which[0]);
  indexed_vector<axis_list> wanted(1, axis_list{});
  const std::size_t copies = planner::find_copies(m, a, v, planner::produced(m, a, v));
  for (std::size_t i = 0; i < copies; ++i) wanted.push_back(a.copies.at[i][along]);
  const std::size_t count = list.size();
  for (std::size_t i = 0; i <= count; ++i) {
    strategy s = i < count ? list[i] : a.chosen.at[v];
    s.sent = 0;
    const axis_set over = reduced_axes(s);
    if (over == 0 || s.forwarded != 0) continue;
    // As s, but rows are sent, and the looked-up dim of the result is sharded over `way`.
    const auto send = [&](axis_list way) {
      strategy t = s;
      t.sent = over;
      t.out.clear(along);
      if ((t.out.sharded() & way.mask()) != 0) return;
      t.out.set(along, way);
      planner::add_with_forwarding(m, a, v, t, list);
    };
    for (std::size_t w = 0; w < wanted.size(); ++w) send(wanted[w]);
    send(s.out[along]);
    for (int r = 0; r < max_rank; ++r)
      if (s.over.axes(r) != 0) send(s.over[r]);
  }
}

inline constexpr op_rules gather{
    .what = op_class::gather,
    .adjoint = &detail::adjoint_of_gather,
    .factors = &factors_of_gather,
    .reads_any_order = true,
    .traits = planner::special | planner::fetches_operands | planner::leads_products,
    .place = &place_gather,
    .moves = &moves_of_gather,
    .offer = &offer_own_rows,
    .emit = &emit_rows,
    .kind_of_step = step_kind::gather,
    .collective = kind::exchange,
    .reason = "each device asks for the rows that it lacks",
};
/// Rows may be sent along axes that shard their destination.
inline constexpr op_rules scatter{
    .what = op_class::scatter,
    .adjoint = &detail::adjoint_of_scatter,
    .factors = &factors_by_name,
    .reads_any_order = true,
    .traits = planner::special,
    .place = &place_scatter,
    .moves = &moves_of_scatter,
    .offer = &offer_sent_rows,
    .possible = &rows_can_be_sent,
    .emit = &emit_rows,
    .kind_of_step = step_kind::scatter,
    .collective = kind::exchange,
    .reason = "rows go to the device that has their index",
};

}}} // namespace cleave::v0::rules
