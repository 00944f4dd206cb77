// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/plan/lower/place.hpp>
#include <cleave/program/program.hpp>

namespace cleave { inline namespace v0 { namespace lowering {

/// A program whose buffers are not yet in slots of the workspace: emitted first, and reordered afterwards.
struct emitted {
  program made{};
  /// The memory of each buffer, as an index of `storages`.
  indexed_vector<std::size_t> memory{};
  indexed_vector<storage> storages{};
};

/// Whether a step reads some memory.
constexpr bool reads(const emitted& e, const step& s, std::size_t memory) {
  for (std::size_t k = 0; k < s.in.count; ++k)
    if (e.memory.at[s.in.items[k]] == memory) return true;
  return false;
}
/// Whether it reads or writes it.
constexpr bool touches(const emitted& e, const step& s, std::size_t memory) {
  return reads(e, s, memory) || (e.memory.at[s.out] == memory && writes(s));
}

/// A value whose operands are visited, from operand `next` on; -1: it was not visited yet.
struct visited_value {
  std::size_t value;
  int next = -1;
};
/// The data that emission works on.
struct emission {
  const assigned_graph& in;
  const partitioned& p;
  const fusion& f;
  const storage_plan& m;
  emitted out{};
  /// By value: its buffer; and of one that reads a region, the view of that which it reads. -1: none yet.
  indexed_vector<int> buffers{}, views{};
  /// By region: its first map in the program, counted from 1; 0: not there yet.
  indexed_vector<std::uint16_t> region_maps{};
  /// By value: its entry in the expression of the step that is emitted, counted from 1; 0: it has none.
  indexed_vector<std::uint16_t> entries{};
  /// The values that have an entry, and those that wait for their operands. They are kept, since constant evaluation
  /// pays for each array.
  indexed_vector<std::size_t> expressed{};
  indexed_vector<visited_value> open{};
};

constexpr int add_buffer(emitted& e, const buffer& b, std::size_t memory) {
  e.made.buffers.push_back(b);
  e.memory.push_back(memory);
  return static_cast<int>(e.made.buffers.size() - 1);
}

/// Makes a buffer that of a region or a halo; the maps of the shard are kept once.
constexpr void give_region(emission& e, buffer& b, std::size_t region, int shard) {
  const region_shape& shape = e.p.regions.all[region].shape;
  indexed_vector<dim_map>& maps = e.out.made.maps;
  if (e.region_maps[region] == 0) {
    e.region_maps[region] = narrowed(maps.size() + 1);
    for (const dim_map& m : shape.maps) maps.push_back(m);
  }
  b.form = e.p.regions.all[region].halo ? form::halo : form::region;
  b.of = narrowed(shard);
  b.parts = shape.parts;
  b.first_map = narrowed(e.region_maps[region] - 1);
  b.maps = narrowed(shape.maps.size());
}

/// The buffer of a value.
constexpr int buffer_of(emission& e, std::size_t i) {
  if (e.buffers[i] >= 0) return e.buffers[i];
  const partitioned_value& v = e.p.values[i];
  buffer own{role::workspace, 0, v.type, v.where};
  if (v.origin == origin::region) give_region(e, own, v.region, buffer_of(e, v.in[0]));
  const int made = e.buffers[i] = add_buffer(e.out, own, e.m.of[i]);
  const std::size_t root = root_of(e.p, i);
  const bool collects = v.origin == origin::collect;
  if (!collects && (e.p.values[root].origin != origin::slice || v.origin == origin::region)) return made;
  // The value of the stack comes right after the collected value.
  const int stack = buffer_of(e, collects ? i + 1 : e.p.values[root].in[0]);
  buffer& b = e.out.made.buffers[as_size(made)];
  b.form = form::slice;
  b.of = narrowed(stack);
  b.loop = e.in.node_at(e.p.values[root].node).of;
  return made;
}

/// The buffer through which a value reads a region at a distance: the memory of the region under the value's dims; of a
/// halo, the shard and the halo around it.
constexpr int view_of(emission& e, std::size_t i) {
  if (e.views[i] >= 0) return e.views[i];
  const partitioned_value& v = e.p.values[i];
  const int region = buffer_of(e, v.in[0]);
  const auto& around = e.p.regions.all[e.p.values[v.in[0]].region].shape.maps;
  indexed_vector<dim_map>& maps = e.out.made.maps;
  buffer b{role::workspace, 0, v.type, v.where};
  b.form = form::view;
  b.of = narrowed(region);
  b.first_map = narrowed(maps.size());
  dim_set seen = 0;
  const bool halo = e.p.is_halo(v.in[0]);
  for (dim_map m : maps_of(e.in.g, e.in.node_at(v.node))) {
    for (const dim_map& have : around)
      if (have.from == m.from && !halo) m.offset.constant -= have.offset.constant;
    seen |= dim_bit(m.from);
    maps.push_back(m);
  }
  for (const dim_map& have : around) {
    if (halo || (seen & dim_bit(have.from)) != 0) continue;
    // A dim along which only others read neighbours.
    dim_map m = have;
    m.dilation = 0;
    m.offset.constant = -have.offset.constant;
    maps.push_back(m);
  }
  b.maps = narrowed(maps.size() - b.first_map);
  return e.views[i] = add_buffer(e.out, b, e.m.of[v.in[0]]);
}

/// A shard and its halo, read at the indices of the halo that is computed from them.
constexpr int view_at_shard(emission& e, std::size_t halo) {
  if (e.views[halo] >= 0) return e.views[halo];
  const partitioned_value& v = e.p.values[halo];
  buffer b{role::workspace, 0, v.type, v.where};
  b.form = form::view;
  b.of = narrowed(buffer_of(e, halo));
  return e.views[halo] = add_buffer(e.out, b, e.m.of[halo]);
}

/// The first buffers are the arguments and then the results, as the caller knows them.
constexpr void emit_outer_buffers(emission& e) {
  for (node_id i : e.in.g.inputs) buffer_of(e, as_computed(e.p, i));
  for (std::size_t r = 0; r < e.p.results.size(); ++r) {
    if (written_in_place(e.p, e.m, r)) {
      buffer_of(e, e.p.results[r]);
      continue;
    }
    const partitioned_value& v = e.p.values[e.p.results[r]];
    buffer own{role::output, narrowed(r), v.type, v.where};
    if (e.in.g.outputs_pinned) {
      own.type = e.in.g.output_types[r];
      own.where = e.in.g.output_layouts[r];
    }
    add_buffer(e.out, own, e.out.storages.size());
    e.out.storages.push_back({role::output, own.index, 0, true});
  }
}

}}} // namespace cleave::v0::lowering
