// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/grid_state.hpp>
#include <cleave/comm/staging.hpp>
#include <cleave/program/move_scratch.hpp>
#include <cleave/storage/box.hpp>

namespace cleave { inline namespace v0 { namespace comm {

/// The box that a device holds before a transfer and after it; this device unless another one is given.
inline box held_before(const grid_state& grid, const transfer& t, const coordinates& at) {
  return held_before(t, at, grid.sizes());
}
inline box held_after(const grid_state& grid, const transfer& t, const coordinates& at) {
  return held_after(t, at, grid.sizes());
}
inline box held_before(const grid_state& grid, const transfer& t) { return held_before(grid, t, grid.here()); }
inline box held_after(const grid_state& grid, const transfer& t) { return held_after(grid, t, grid.here()); }

/// Parts of a shard in the contiguous order that a collective needs. If the shard's memory has this order, nothing is
/// copied.
struct packing {
  indexed_vector<box_copy> copies{};
  rank_blocks blocks{};
  parts_in_order order{};

  void append_pack(const box& part, const box& from) { append(copy_to_packed(part, from, blocks.end()), true); }
  void append_unpack(const box& part, const box& to) { append(copy_from_packed(part, to, blocks.end()), false); }
  std::int64_t elements() const { return blocks.end(); }
  bool direct() const { return order.direct; }
  void run(const void* from, void* to, element e) const {
    for (const box_copy& c : copies) copy_box(c, from, to, size_of(e));
  }

 private:
  void append(const box_copy& c, bool pack) {
    order.append(c, pack ? c.from_offset : c.to_offset);
    copies.push_back(c);
    blocks.append(c.elements);
  }
};

/// The blocks of a shard for each device of the axes of a transfer, and those of the new shard from each of them.
[[gnu::cold]] inline packing blocks_given(const grid_state& grid, const transfer& t) {
  packing all;
  const box from = held_before(grid, t);
  for (std::int64_t r = 0; r < grid.sizes().product(t.axes); ++r)
    all.append_pack(intersect(from, held_after(grid, t, grid.member(t.axes, r))), from);
  return all;
}
[[gnu::cold]] inline packing blocks_taken(const grid_state& grid, const transfer& t) {
  packing all;
  const box to = held_after(grid, t);
  for (std::int64_t r = 0; r < grid.sizes().product(t.axes); ++r)
    all.append_unpack(intersect(to, held_before(grid, t, grid.member(t.axes, r))), to);
  return all;
}

}}} // namespace cleave::v0::comm
