// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/lower/values.hpp>

namespace cleave::inline v0::lowering {

/// Whether a predicate holds just where an update lies: from its first index on, for as many as it has.
constexpr bool holds_in_update(const graph& g, const node& predicate, const node& pad) {
  const auto at = [&](node_id v) -> const node& { return g.nodes[v]; };
  const std::span<const dim_map> maps = maps_of(g, pad);
  if (maps.size() != 1 || maps[0].at_run_time != 1 || predicate.code != op::logical_and) return false;
  const node &lower = at(predicate.in[0]), &upper = at(predicate.in[1]);
  if (lower.code != op::greater_equal || upper.code != op::less || lower.in[0] != upper.in[0]) return false;
  const node &index = at(lower.in[0]), &end = at(upper.in[1]);
  if (index.code != op::iota || index.which[0] != maps[0].to || lower.in[1] != pad.in[1]) return false;
  if (end.code != op::add || end.in[0] != pad.in[1]) return false;
  const node& length = at(end.in[1]);
  return length.code == op::count && length.over == dim_bit(maps[0].from);
}

/// Drops values that nothing reads any more, from value `last` back.
constexpr void drop_unread(const assigned_graph& in, partitioned& p, std::size_t last) {
  indexed_vector<int> readers;
  readers.assign(p.values.size(), 0);
  for (const partitioned_value& v : p.values) {
    for (std::size_t k = 0; k < v.arity; ++k) ++readers[v.in[k]];
    if (v.origin == origin::next) ++readers[v.in[1]];
  }
  for (const auto& steering : {p.iterations, p.until})
    for (std::size_t i : steering)
      if (i != none) ++readers[i];
  for (std::size_t r : p.results) ++readers[r];
  for (std::size_t i = last; i-- > 0;) {
    partitioned_value& v = p.values[i];
    if (readers[i] > 0 || is_argument(in, v) || (v.origin != origin::node && v.origin != origin::move)) continue;
    for (std::size_t k = 0; k < v.arity; ++k) --readers[v.in[k]];
    v.origin = origin::rename;
    v.arity = 0;
    v.in[0] = 0;
  }
}

/// Finds selects that put an update into an array: they become a copy of the array, if it is needed at all, and an
/// exchange that writes the elements of the update alone.
constexpr void find_updates(const assigned_graph& in, partitioned& p) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < p.values.size(); ++i) {
    partitioned_value& v = p.values[i];
    if (v.origin != origin::node || in.node_at(v.node).code != op::select) continue;
    const partitioned_value &placed = p.values[v.in[1]], &around = p.values[v.in[2]];
    if (placed.origin != origin::node || in.node_at(placed.node).code != op::dynamic_pad) continue;
    const bool alike = placed.type == v.type && around.type == v.type && placed.where == v.where &&
                       around.where == v.where && v.where.unreduced() == 0 && placed.loop == v.loop;
    if (!alike || !holds_in_update(in.g, in.node_at(in.node_at(v.node).in[0]), in.node_at(placed.node))) continue;
    v.updates = true;
    v.node = placed.node;
    v.in[0] = placed.in[0];
    v.in[1] = placed.in[1];
    last = i;
  }
  if (last > 0) drop_unread(in, p, last);
}

} // namespace cleave::inline v0::lowering
