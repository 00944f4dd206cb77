// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/graph/graph.hpp>

namespace cleave { inline namespace v0 { namespace rules {

/// Whether a predicate holds exactly at the elements of an update: from its first index on, over its extent.
constexpr bool holds_in_update(const graph& g, const node& predicate, const node& pad) {
  const auto at = [&](node_id v) -> const node& { return g.nodes[v]; };
  const indexed_span<const dim_map> maps = maps_of(g, pad);
  if (maps.size() != 1 || maps[0].at_run_time != 1 || predicate.code != op::logical_and) return false;
  const node &lower = at(predicate.in[0]), &upper = at(predicate.in[1]);
  if (lower.code != op::greater_equal || upper.code != op::less || lower.in[0] != upper.in[0]) return false;
  const node &index = at(lower.in[0]), &end = at(upper.in[1]);
  if (index.code != op::iota || index.which[0] != maps[0].to || lower.in[1] != pad.in[1]) return false;
  if (end.code != op::add || end.in[0] != pad.in[1]) return false;
  const node& length = at(end.in[1]);
  return length.code == op::count && length.over == dim_bit(maps[0].from);
}

/// Whether a node puts an update into its last operand, as `dynamic_update` records it: a select between an array and
/// the update with 0 around it, which is its second operand.
constexpr bool puts_update(const graph& g, const node& n) {
  if (n.code != op::select) return false;
  const node& placed = g.nodes[n.in[1]];
  return placed.code == op::dynamic_pad && holds_in_update(g, g.nodes[n.in[0]], placed);
}

}}} // namespace cleave::v0::rules
