// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/lower/fuse.hpp>
#include <cleave/program/addressing.hpp>

namespace cleave { inline namespace v0 { namespace lowering {

/// A piece of memory that one value or several have.
struct storage {
  cleave::role role = cleave::role::workspace;
  /// Which argument or result, or which slot of the workspace.
  std::uint16_t index = 0;
  /// Of the largest device.
  std::int64_t bytes = 0;
  /// Whether role and index are final; those of workspace come last.
  bool assigned = false;
};

/// In which memory values are.
struct storage_plan {
  indexed_vector<storage> storages{};
  /// By value.
  indexed_vector<std::size_t> of{};
};

/// Whether a result is computed in the caller's memory.
constexpr bool written_in_place(const partitioned& p, const storage_plan& m, std::size_t result) {
  const storage& s = m.storages[m.of[p.results[result]]];
  return s.role == role::output && s.index == result;
}

constexpr bool same_order(const tensor_type& a, const tensor_type& b) { return a.rank == b.rank && a.dims == b.dims; }

/// Whether an update may be written into the memory of its operand: no later step reads the old value.
constexpr bool may_overwrite(const assigned_graph& in, const partitioned& p, const fusion& f, const storage_plan& m,
                             std::size_t i) {
  const partitioned_value& v = p.values[i];
  const std::size_t root = root_of(p, v.in[2]), memory = m.of[root];
  const partitioned_value& from = p.values[root];
  if (m.storages[memory].role == role::input || f.fused[root] != 0 || from.origin == origin::slice) return false;
  // Of a carried value: if the update is its next value.
  std::size_t next = none;
  for (std::size_t k = i; k < p.values.size() && is_carried(in, from); ++k)
    if (p.values[k].origin == origin::next && p.values[k].in[1] == root && p.values[k].in[0] == i) next = k;
  if (is_carried(in, from) ? next == none || p.values[next].loop != v.loop : from.loop != v.loop) return false;
  for (std::size_t k = 0; k < p.values.size(); ++k) {
    if (k == i || k == next) continue;
    const partitioned_value& reader = p.values[k];
    // It reads it when its own step runs, before. A stencil reads a shard later than its halo.
    const bool before = k < i && f.fused[k] == 0 && reader.loop == v.loop && !p.is_halo(k);
    for (std::size_t o = 0; o < reader.arity && !before && f.uses[k] > 0; ++o)
      if (reader.in[o] < i && f.fused[reader.in[o]] == 0 && m.of[reader.in[o]] == memory) return false;
  }
  for (std::size_t r : p.results)
    if (r < i && m.of[r] == memory) return false;
  return true;
}

/// The value whose memory a value has too: that of which it is a view or a part, that which it carries on or updates,
/// or the partial sums that an all-reduce finishes and nothing else reads.
constexpr std::size_t shares_memory_with(const assigned_graph& in, const partitioned& p, const fusion& f,
                                         const storage_plan& m, std::size_t i) {
  const partitioned_value& v = p.values[i];
  if (v.updates) return may_overwrite(in, p, f, m, i) ? v.in[2] : none;
  switch (v.origin) {
    case origin::rename:
    case origin::slice: return v.in[0];
    case origin::next: return v.in[1];
    case origin::move: {
      const std::size_t from = v.in[0];
      const bool alone = v.by.move == kind::all_reduce && f.uses[from] == 1;
      return alone && m.storages[m.of[from]].role != role::input && p.values[from].origin != origin::rename ? from
                                                                                                            : none;
    }
    case origin::node:
    case origin::region:
    case origin::collect: break;
  }
  return none;
}

/// The bytes of the memory of a value. A collected value has the memory of the whole stack.
constexpr std::int64_t memory_of(const assigned_graph& in, const partitioned& p, const partitioned_value& v) {
  const std::int64_t element_bytes = size_of(v.type.element);
  buffer whole{role::workspace, 0, v.type, v.where};
  if (v.origin == origin::collect) whole = {role::workspace, 0, in.node_at(v.node).type, in.chosen[v.node].out};
  if (v.origin != origin::region) return largest_elements(whole, in.g.maps, in.at) * element_bytes;
  const region_shape& shape = p.regions.all[v.region].shape;
  whole.form = p.is_halo_region(v.region) ? form::halo : form::region;
  whole.parts = shape.parts;
  whole.maps = narrowed(shape.maps.size());
  return largest_elements(whole, shape.maps, in.at) * element_bytes;
}

/// Places values in memory: arguments and results in that of the caller, the rest in workspace.
constexpr storage_plan place(const assigned_graph& in, const partitioned& p, const fusion& f) {
  storage_plan m;
  const std::size_t count = p.values.size();
  m.of.assign(count, 0);
  m.storages.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (f.fused[i] != 0) continue;
    const partitioned_value& v = p.values[i];
    if (const std::size_t other = shares_memory_with(in, p, f, m, i); other != none) {
      m.of[i] = m.of[other];
      continue;
    }
    storage s;
    s.bytes = memory_of(in, p, v);
    if (is_argument(in, v)) {
      s.role = role::input;
      s.assigned = true;
      const node_id* inputs = in.g.inputs.data();
      std::uint16_t a = 0;
      while (inputs[a] != v.node) ++a;
      s.index = a;
    }
    m.of[i] = m.storages.size();
    m.storages.push_back(s);
  }
  // A result is written to the caller's memory, unless that is an argument's or another result's.
  for (std::size_t r = 0; r < p.results.size(); ++r) {
    storage& s = m.storages[m.of[p.results[r]]];
    const bool in_order = !in.g.outputs_pinned || same_order(p.values[p.results[r]].type, in.g.output_types[r]);
    if (s.role == role::workspace && !s.assigned && in_order) s = {role::output, narrowed(r), s.bytes, true};
  }
  return m;
}

}}} // namespace cleave::v0::lowering
