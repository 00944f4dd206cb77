// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/fuse.hpp>
#include <cleave/program/addressing.hpp>

namespace cleave::detail {

/// In which memory each piece is, and the buffers that name it.
struct placed_pieces : fused_pieces {
  using fused_pieces::fused_pieces;

  struct storage_of {
    cleave::role role = cleave::role::workspace;
    std::uint16_t index = 0;
    std::int64_t bytes = 0;
    std::size_t first_written = 0;
    std::size_t last_read = 0;
    bool assigned = false;
  };

  std::vector<storage_of> storages{};
  program out{};

  /// Which pieces share memory: renamed views, and all-reduces of a value that nothing else reads.
  constexpr void place() {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      piece& p = pieces[i];
      if (p.fused) continue;
      if (p.how == made_by::rename || p.how == made_by::slice) {
        p.storage = pieces[p.in[0]].storage;
        continue;
      }
      if (p.how == made_by::next) {
        p.storage = pieces[p.in[1]].storage;
        continue;
      }
      if (p.how == made_by::move && p.by.move == kind::all_reduce && pieces[p.in[0]].uses == 1 &&
          storages[pieces[p.in[0]].storage].role != role::input && pieces[p.in[0]].how != made_by::rename) {
        p.storage = pieces[p.in[0]].storage;
        continue;
      }
      storage_of s;
      buffer whole{role::workspace, 0, p.type, p.where};
      if (p.how == made_by::collect) whole = {role::workspace, 0, node_at(p.node).type, chosen[p.node].out};
      if (p.how == made_by::region) give_region(whole, p);
      s.bytes = largest_elements(whole, out.maps, at) * size_of(p.type.element);
      if (node_at(p.node).code == op::input && p.how == made_by::node) {
        s.role = role::input;
        s.assigned = true;
        for (std::size_t a = 0; a < g.inputs.size(); ++a)
          if (g.inputs[a] == p.node) s.index = static_cast<std::uint16_t>(a);
      }
      p.storage = storages.size();
      storages.push_back(s);
    }
    // A result is written where the caller wants it, unless its memory is an argument's or another result's.
    for (std::size_t r = 0; r < results.size(); ++r) {
      storage_of& s = storages[pieces[results[r]].storage];
      const bool same_order = !g.outputs_pinned || same_dims(pieces[results[r]].type, g.output_types[r]);
      if (s.role == role::workspace && !s.assigned && same_order) {
        s.role = role::output;
        s.index = static_cast<std::uint16_t>(r);
        s.assigned = true;
      }
    }
  }
  static constexpr bool same_dims(const tensor_type& a, const tensor_type& b) { return a.rank == b.rank && a.dims == b.dims; }

  constexpr int buffer_of(std::size_t i) {
    piece& p = pieces[i];
    if (p.buffer < 0) {
      p.buffer = static_cast<int>(out.buffers.size());
      out.buffers.push_back({role::workspace, 0, p.type, p.where});
      if (p.how == made_by::region) give_region(out.buffers.back(), p);
      buffer_storage.push_back(p.storage);
      const std::size_t root = root_of(i);
      const bool collects = p.how == made_by::collect;
      if (collects || (pieces[root].how == made_by::slice && p.how != made_by::region)) {
        // The piece of the stack comes right after what is collected into it.
        const int stack = buffer_of(collects ? i + 1 : pieces[root].in[0]);
        buffer& b = out.buffers[static_cast<std::size_t>(p.buffer)];
        b.form = form::slice;
        b.of = static_cast<std::uint16_t>(stack);
        b.loop = node_at(pieces[root].node).of;
      }
    }
    return p.buffer;
  }
  /// The form of a region: the maps of what it surrounds, kept once.
  constexpr void give_region(buffer& b, const piece& p) {
    const region_shape& shape = around.regions[p.region].shape;
    if (region_maps.empty()) region_maps.assign(around.regions.size(), 0);
    if (region_maps[p.region] == 0) {
      region_maps[p.region] = static_cast<std::uint16_t>(out.maps.size() + 1);
      for (const dim_map& m : shape.maps) out.maps.push_back(m);
    }
    b.form = form::region;
    b.first_map = static_cast<std::uint16_t>(region_maps[p.region] - 1);
    b.maps = static_cast<std::uint8_t>(shape.maps.size());
  }
  std::vector<std::uint16_t> region_maps{};
  /// What a piece that looks around sees, as a buffer: the memory of the region under the dims of the piece.
  constexpr int view_of(std::size_t i) {
    const piece& p = pieces[i];
    if (views.empty()) views.assign(pieces.size(), -1);
    if (views[i] >= 0) return views[i];
    const int region = buffer_of(p.in[0]);
    buffer b{role::workspace, 0, p.type, p.where};
    b.form = form::view;
    b.of = static_cast<std::uint16_t>(region);
    b.first_map = static_cast<std::uint16_t>(out.maps.size());
    dim_set seen = 0;
    for (dim_map m : maps_of(g, node_at(p.node))) {
      for (const dim_map& have : around.regions[pieces[p.in[0]].region].shape.maps)
        if (have.from == m.from) m.offset.constant -= have.offset.constant;
      seen |= dim_bit(m.from);
      out.maps.push_back(m);
    }
    for (const dim_map& have : around.regions[pieces[p.in[0]].region].shape.maps)
      if ((seen & dim_bit(have.from)) == 0) {
        // A dim at which only others look around.
        dim_map m = have;
        m.dilation = 0;
        m.offset.constant = -have.offset.constant;
        out.maps.push_back(m);
      }
    b.maps = static_cast<std::uint8_t>(out.maps.size() - b.first_map);
    views[i] = static_cast<int>(out.buffers.size());
    out.buffers.push_back(b);
    buffer_storage.push_back(pieces[p.in[0]].storage);
    return views[i];
  }
  std::vector<int> views{};
  std::vector<std::size_t> buffer_storage{};

  constexpr bool written_in_place(std::size_t r) const {
    const storage_of& s = storages[pieces[results[r]].storage];
    return s.role == role::output && s.index == r;
  }

  /// The first buffers are the arguments and then the results, as the caller knows them.
  constexpr void make_outer_buffers() {
    for (node_id i : g.inputs) buffer_of(copies[i][0]);
    for (std::size_t r = 0; r < results.size(); ++r) {
      if (written_in_place(r)) {
        buffer_of(results[r]);
        continue;
      }
      buffer own{role::output, static_cast<std::uint16_t>(r), pieces[results[r]].type, pieces[results[r]].where};
      if (g.outputs_pinned) {
        own.type = g.output_types[r];
        own.where = g.output_layouts[r];
      }
      out.buffers.push_back(own);
      buffer_storage.push_back(storages.size());
      storage_of outer;
      outer.role = role::output;
      outer.index = own.index;
      outer.assigned = true;
      storages.push_back(outer);
    }
  }
};

} // namespace cleave::detail
