// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/grid_state.hpp>
#include <cleave/comm/staging.hpp>
#include <cleave/layout/box.hpp>
#include <cleave/storage/box.hpp>

namespace cleave::inline v0::comm {

/// What a move does: a value of these global extents goes from one layout to another.
struct transfer {
  cleave::element element = cleave::element::none;
  shape global{};
  layout from{};
  layout to{};
  /// The axes whose devices take part together.
  axis_set axes{};
  reduction combine = reduction::sum;
};

/// What a device holds before a transfer and after it; this device unless another one is given.
inline box held_before(const grid_state& grid, const transfer& t, const coordinates& at) {
  return box_of(t.global, t.from, at, grid.sizes());
}
inline box held_after(const grid_state& grid, const transfer& t, const coordinates& at) {
  return box_of(t.global, t.to, at, grid.sizes());
}
inline box held_before(const grid_state& grid, const transfer& t) { return held_before(grid, t, grid.here()); }
inline box held_after(const grid_state& grid, const transfer& t) { return held_after(grid, t, grid.here()); }

/// Flat position, in the array of a shard with these strides, of the first element of a part of it.
inline std::int64_t position_in(const box& shard, const box& part, const strides& stride) {
  std::int64_t flat = 0;
  for (int i = 0; i < shard.rank; ++i) flat += (part[i].begin - shard[i].begin) * stride[i];
  return part.elements() == 0 ? 0 : flat;
}
inline std::int64_t position_in(const box& shard, const box& part) {
  return position_in(shard, part, strides_of(shard.extents()));
}
/// Copies a part from one shard's array to another's.
inline box_copy copy_between(const box& part, const box& from, const box& to) {
  return make_copy(part.extents(), strides_of(from.extents()), position_in(from, part), strides_of(to.extents()),
                   position_in(to, part));
}
/// Copies a part of a shard's array to `offset` of a packed buffer.
inline box_copy copy_to_packed(const box& part, const box& from, std::int64_t offset) {
  return make_copy(part.extents(), strides_of(from.extents()), position_in(from, part), strides_of(part.extents()),
                   offset);
}
inline box_copy copy_from_packed(const box& part, const box& to, std::int64_t offset) {
  return make_copy(part.extents(), strides_of(part.extents()), offset, strides_of(to.extents()), position_in(to, part));
}

/// Parts of a shard one after another, as a collective takes them. If they are like this in the memory of the shard,
/// nothing is copied.
struct packing {
  indexed_vector<box_copy> copies{};
  rank_blocks blocks{};
  bool direct = true;

  void append_pack(const box& part, const box& from) {
    append(copy_to_packed(part, from, blocks.end()), part.elements(), true);
  }
  void append_unpack(const box& part, const box& to) {
    append(copy_from_packed(part, to, blocks.end()), part.elements(), false);
  }
  std::int64_t elements() const { return blocks.end(); }
  void run(const void* from, void* to, element e) const {
    for (const box_copy& c : copies) copy_box(c, from, to, size_of(e));
  }

 private:
  void append(const box_copy& c, std::int64_t elements, bool pack) {
    const std::int64_t in_shard = pack ? c.from_offset : c.to_offset;
    direct = direct && (elements == 0 || (c.contiguous() && in_shard == blocks.end()));
    copies.push_back(c);
    blocks.append(elements);
  }
};

/// Whether all blocks of the changing dims have one size.
inline bool even(const transfer& t, const axis_sizes& sizes) {
  for (int i = 0; i < t.global.rank; ++i) {
    if (t.from[i] == t.to[i]) continue;
    if (t.global[i] % sizes.product(t.from[i]) != 0 || t.global[i] % sizes.product(t.to[i]) != 0) return false;
  }
  return true;
}
/// The most elements that any device has before or after.
inline std::int64_t largest(const transfer& t, const axis_sizes& sizes) {
  const std::int64_t a = largest_shape(t.global, t.from, sizes).elements(),
                     b = largest_shape(t.global, t.to, sizes).elements();
  return a > b ? a : b;
}

} // namespace cleave::inline v0::comm
