// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/functions.hpp>
#include <cleave/expr/recorded_rows.hpp>
#include <cleave/expr/recorded_sort.hpp>
#include <cleave/expr/statement.hpp>

namespace cleave {

/// Rows of a table at places along dim `along`: an embedding look-up, and with dims that both have NumPy's take_along_axis. The result
/// has the dims of the places and then the other ones of the table. Places are whole numbers; one that is not in the table gives 0.
/// Table, places and result may be divided in any way; where the table is divided along `along`, devices ask those who have the
/// rows: one all-to-all of places and one of rows. The gradient by the table is `scatter_add`.
/// A literal is one index. Faults: dim_missing, dim_used_twice, not_an_index, rank_too_high.
constexpr value gather(operand table, dim_ref along, operand places) {
  recorder& in = detail::recorder_of(table, places);
  return detail::recorded_gather(in, in.value_of(table, "gather"), along, in.index_of(places, "gather"), places.where);
}

/// Elements of slices at places that lie along the same dim (NumPy's take_along_axis): result[i, ...] = x[places[i, ...], ...]. What
/// `argsort` gives puts other tensors in its order. The same as gather, which it is, but for the name of the dim.
constexpr value take_along(operand x, operand places, dim_ref along) {
  recorder& in = detail::recorder_of(x, places);
  if (!x.from.ok() || !places.from.ok()) return in.missing("take_along", places.where);
  const int d = in.made().find_dim(along.name);
  if (d < 0 || !in.at(places.from).type.has(static_cast<dim_id>(d))) return in.fail(fault::dim_missing, "take_along", places.where, along.name);
  const dim_ref ranks = detail::ranks_along(static_cast<dim_id>(d), in.made().dims[static_cast<std::size_t>(d)].extent);
  return detail::recorded_rename(in, detail::recorded_gather(in, x.from, along, detail::recorded_rename(in, places.from, along, ranks, places.where), places.where), ranks, along, places.where);
}

/// A table of zeros, with the new dim `along` first, to which rows are added at their places: the gradient of an embedding, a sum over
/// segments. Rows have all dims of the places, over which they are summed but for the `common` ones: of those each index has a table of its
/// own. A literal is added at every place: `scatter_add(1, ids, word)` counts. Rows whose place is not in the table are dropped. Divided places leave partial tables, which are reduced, or rows are sent to
/// the devices that have their place, whichever is cheaper. Rows are added in the order of their places' devices and indices: the
/// same bits in every run.
constexpr value scatter_add(operand rows, operand places, dim_ref along, std::span<const dim_ref> common) {
  recorder& in = detail::recorder_of(rows, places);
  if (!places.from.ok()) return in.missing("scatter_add", places.where);
  value added = in.value_of(rows, "scatter_add");
  if (rows.is_literal) added = in.broadcast(added, in.at(places.from).type, rows.where);
  const int d = in.dim(along, "scatter_add", rows.where);
  if (d < 0 || !added.ok()) return in.missing("scatter_add", rows.where);
  const tensor_type from = in.at(added).type, asked = in.at(places.from).type;
  tensor_type table;
  table.element = from.element;
  table.append(static_cast<dim_id>(d));
  dim_set kept = ~asked.set();
  for (const dim_ref& c : common) {
    const int own = in.made().find_dim(c.name);
    if (own < 0 || !asked.has(static_cast<dim_id>(own))) return in.fail(fault::dim_missing, "scatter_add", places.where, c.name);
    kept |= dim_bit(static_cast<dim_id>(own));
  }
  for (int i = 0; i < from.rank; ++i)
    if ((kept & dim_bit(from[i])) != 0 && from[i] != d) table.append(from[i]);
  return detail::recorded_scatter(in, added, along, places.from, table, rows.where);
}
template <std::convertible_to<dim_ref>... D>
constexpr value scatter_add(operand rows, operand places, dim_ref along, const D&... common) {
  const std::array<dim_ref, sizeof...(D)> all{dim_ref(common)...};
  return scatter_add(rows, places, along, std::span<const dim_ref>(all));
}

template <Statement X, Dim D, Statement P>
constexpr auto gather(const X& table, const D& along, const P& places) {
  return detail::make_expression([](const auto& t, const auto& d, const auto& p) { return gather(t, d, p); }, table, along, places);
}
template <Statement X, Statement P, Dim D, Dim... Common>
constexpr auto scatter_add(const X& rows, const P& places, const D& along, const Common&... common) {
  return detail::make_expression([](const auto& r, const auto& p, const auto& d, const auto&... c) { return scatter_add(r, p, d, c...); }, rows, places, along, common...);
}

} // namespace cleave
