// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/lower/values.hpp>

namespace cleave { inline namespace v0 { namespace lowering {

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

/// Finds nodes that put an update into an array: they become a copy of the array, if it is needed at all, and an
/// exchange that writes the elements of the update alone.
constexpr void find_updates(const assigned_graph& in, partitioned& p) {
  std::size_t last = 0;
  for (std::size_t i = 0; i < p.values.size(); ++i) {
    partitioned_value& v = p.values[i];
    if (v.origin != origin::node || !rules::puts_update(in.g, in.node_at(v.node))) continue;
    const partitioned_value &placed = p.values[v.in[1]], &around = p.values[v.in[2]];
    const bool alike = placed.origin == origin::node && placed.type == v.type && around.type == v.type &&
                       placed.where == v.where && around.where == v.where && v.where.unreduced() == 0 &&
                       placed.loop == v.loop;
    if (!alike) continue;
    v.updates = true;
    v.node = placed.node;
    v.in[0] = placed.in[0];
    v.in[1] = placed.in[1];
    last = i;
  }
  if (last > 0) drop_unread(in, p, last);
}

}}} // namespace cleave::v0::lowering
