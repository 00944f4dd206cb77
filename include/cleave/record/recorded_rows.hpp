// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/record/recorder.hpp>

// How look-ups, sums at places and running totals are recorded.

namespace cleave::detail {

/// Rows of a table at places along a dim of it. Dims that both have are common; the result has the dims of the places and then the
/// other ones of the table.
constexpr value recorded_gather(recorder& in, value table, dim_ref along, value places, source where) {
  node n;
  n.code = op::gather;
  if (!in.take_operands(n, std::array{table, places}, where)) return {&in, no_node};
  const tensor_type from = in.at(table).type, asked = in.at(places).type;
  const int d = in.dim_of(table, along, "gather", where);
  if (d < 0) return {&in, no_node};
  if (asked.has(static_cast<dim_id>(d))) return in.fail(fault::dim_used_twice, "gather", where, along.name);
  if (!is_integer(asked.element)) return in.fail(fault::not_an_index, "gather", where);
  n.type = asked;
  n.type.element = from.element;
  for (int i = 0; i < from.rank; ++i) {
    if (from[i] == d || asked.has(from[i])) continue;
    if (n.type.rank == max_rank) return in.fail(fault::rank_too_high, "gather", where);
    n.type.append(from[i]);
  }
  n.which[0] = static_cast<dim_id>(d);
  return in.push(n);
}

/// A table of zeros to which rows are added at places along a dim of it. The rows have the dims of the places; those that the table has
/// not are summed.
constexpr value recorded_scatter(recorder& in, value rows, dim_ref along, value places, const tensor_type& table, source where) {
  node n;
  n.code = op::scatter_add;
  if (!in.take_operands(n, std::array{rows, places}, where)) return {&in, no_node};
  const tensor_type from = in.at(rows).type, asked = in.at(places).type;
  const int d = in.dim(along, "scatter_add", where);
  if (d < 0) return {&in, no_node};
  if (!is_integer(asked.element)) return in.fail(fault::not_an_index, "scatter_add", where);
  if (from.has(static_cast<dim_id>(d)) || asked.has(static_cast<dim_id>(d))) return in.fail(fault::dim_used_twice, "scatter_add", where, along.name);
  for (int i = 0; i < asked.rank; ++i)
    if (!from.has(asked[i])) return in.fail(fault::dims_do_not_broadcast, "scatter_add", where, in.made().dims[asked[i]].name);
  n.type = table;
  n.type.element = from.element;
  n.over = from.set() & ~table.set();
  n.which[0] = static_cast<dim_id>(d);
  return in.push(n);
}

/// Running totals along a dim, from its last index on if `backwards`, without the element itself if `exclusive`.
constexpr value recorded_cumulative(recorder& in, reduction how, value x, dim_ref along, bool backwards, bool exclusive, source where) {
  node n;
  n.code = op::cumulative;
  n.combine = how;
  n.backwards = backwards;
  n.exclusive = exclusive;
  if (!in.take_operands(n, std::array{x}, where)) return {&in, no_node};
  n.type = in.at(x).type;
  const int d = in.dim_of(x, along, "cumulative", where);
  if (d < 0) return {&in, no_node};
  if (is_complex(n.type.element) && (how == reduction::max || how == reduction::min)) return in.fail(fault::not_for_complex, name_of(how), where);
  n.which[0] = static_cast<dim_id>(d);
  return in.push(n);
}

} // namespace cleave::detail
