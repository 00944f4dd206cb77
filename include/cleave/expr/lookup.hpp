// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/functions.hpp>
#include <cleave/expr/statement.hpp>
#include <cleave/rules/rows.hpp>
#include <cleave/rules/sort.hpp>

namespace cleave { inline namespace v0 {

/// Rows of a table at indices along dim `along`: an embedding look-up. A dim that table and indices share is a batch
/// dim. The result has the dims of the indices, then the other dims of the table. Indices are integers; an index
/// outside the table gives 0. Table, indices and result may be sharded in any way. Communication: if the table is
/// sharded along `along`, one all-to-all of indices and one of rows. The gradient with respect to the table is
/// `scatter_add`. A literal is one index. An ignored index gives 0. Faults: dim_missing, dim_used_twice, not_an_index,
/// rank_too_high.
constexpr value gather(operand table, dim_ref along, operand indices) {
  recorder& in = detail::recorder_of(table, indices);
  return detail::recorded_gather(in, in.value_of(table, "gather"), along, in.index_of(indices, "gather"),
                                 indices.where);
}
constexpr value gather(operand table, dim_ref along, operand indices, ignore ignored) {
  recorder& in = detail::recorder_of(table, indices);
  const value rows = gather(table, along, detail::placed(detail::labels_but(in, indices, ignored, "gather"), indices));
  return in.marked(rows, labels_are_indices);
}
CLEAVE_LIFT(gather)

namespace detail {
/// `checks`: see `labels_are_indices`.
constexpr value taken_along(const operand& x, const operand& indices, dim_ref along, double checks) {
  recorder& in = recorder_of(x, indices);
  if (!x.from.ok() || !indices.from.ok()) return in.missing("take_along", indices.where);
  const int d = in.dim_of(indices.from, along, "take_along", indices.where);
  if (d < 0) return {&in, no_node};
  const dim_ref ranks = ranks_along(known_dim(d), in.made().dims[d].extent);
  const value rows = recorded_gather(in, x.from, along, recorded_rename(in, indices.from, along, ranks, indices.where),
                                     indices.where);
  return recorded_rename(in, in.marked(rows, checks), ranks, along, indices.where);
}
} // namespace detail

/// Elements at indices along a dim that the indices have too (NumPy's take_along_axis): result[i, ...] = x[indices[i,
/// ...], ...]. With the result of `argsort` it puts other tensors in that order. Otherwise as `gather`.
constexpr value take_along(operand x, operand indices, dim_ref along) {
  return detail::taken_along(x, indices, along, 0);
}
constexpr value take_along(operand x, operand indices, dim_ref along, ignore ignored) {
  recorder& in = detail::recorder_of(x, indices);
  const value others = detail::labels_but(in, indices, ignored, "take_along");
  return detail::taken_along(x, detail::placed(others, indices), along, labels_are_indices);
}
CLEAVE_LIFT(take_along)

/// A table of zeros, with the new dim `along` first, to which rows are added at their indices: the gradient of an
/// embedding, or a sum over segments. Rows have all dims of the indices. They are summed over these dims, except for
/// the `common` ones: each index of a common dim has its own table. Rows whose index is outside the table, or ignored,
/// are dropped.
/// A literal is added at every index: `scatter_add(1, ids, word)` counts.
/// Communication: sharded indices leave partial tables, which are reduced, or rows are sent to the devices that own
/// their index, whichever is cheaper. Rows are added in the order of devices and indices, so every run gives the same
/// bits.
constexpr value scatter_add(operand rows, operand indices, dim_ref along, indexed_span<const dim_ref> common) {
  recorder& in = detail::recorder_of(rows, indices);
  if (!indices.from.ok()) return in.missing("scatter_add", indices.where);
  value added = in.value_of(rows, "scatter_add");
  if (rows.is_literal) added = in.broadcast(added, in.at(indices.from).type, rows.where);
  const int d = in.dim(along, "scatter_add", rows.where);
  if (d < 0 || !added.ok()) return in.missing("scatter_add", rows.where);
  const tensor_type from = in.at(added).type, asked = in.at(indices.from).type;
  tensor_type table;
  table.element = from.element;
  table.append(d);
  dim_set kept = ~asked.set();
  for (const dim_ref& c : common) {
    const int own = in.dim_of(indices.from, c, "scatter_add", indices.where);
    if (own < 0) return {&in, no_node};
    kept |= dim_bit(own);
  }
  for (int i = 0; i < from.rank; ++i)
    if ((kept & dim_bit(from[i])) != 0 && from[i] != d) table.append(from[i]);
  return detail::recorded_scatter(in, added, along, indices.from, table, rows.where);
}
template <std::convertible_to<dim_ref>... D>
constexpr value scatter_add(operand rows, operand indices, dim_ref along, const D&... common) {
  const std::array<dim_ref, sizeof...(D)> all{dim_ref(common)...};
  return scatter_add(rows, indices, along, indexed_span<const dim_ref>(all));
}
template <std::convertible_to<dim_ref>... D>
constexpr value scatter_add(operand rows, operand indices, dim_ref along, ignore ignored, const D&... common) {
  recorder& in = detail::recorder_of(rows, indices);
  if (!indices.from.ok()) return in.missing("scatter_add", indices.where);
  const value others = detail::labels_but(in, indices, ignored, "scatter_add");
  return in.marked(scatter_add(rows, detail::placed(others, indices), along, common...), labels_are_indices);
}
CLEAVE_LIFT(scatter_add)

}} // namespace cleave::v0
