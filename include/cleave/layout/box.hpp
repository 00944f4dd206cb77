// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/layout/blocks.hpp>

namespace cleave { inline namespace v0 {

/// The part of a tensor that one device holds, or a part of that: a range of global indices for each dim.
struct box {
  fixed_array<range, max_rank> along{};
  int rank = 0;

  constexpr range& operator[](std::integral auto i) { return along.items[i]; }
  constexpr range operator[](std::integral auto i) const { return along.items[i]; }
  constexpr shape extents() const {
    shape s;
    s.rank = rank;
    for (int i = 0; i < rank; ++i) s[i] = along[i].size();
    return s;
  }
  constexpr std::int64_t elements() const { return extents().elements(); }
  constexpr bool empty() const { return elements() == 0; }
  constexpr bool inside(const box& other) const {
    for (int i = 0; i < rank; ++i)
      if (along[i].begin < other[i].begin || along[i].end > other[i].end) return empty();
    return true;
  }
  friend constexpr bool operator==(const box&, const box&) = default;
};

/// The elements that a device holds.
constexpr box box_of(const shape& global, const layout& l, const coordinates& at, const axis_sizes& sizes) {
  box b;
  b.rank = global.rank;
  for (int i = 0; i < global.rank; ++i) b[i] = held(global.along(i), l[i], at, sizes);
  return b;
}

constexpr box intersect(const box& a, const box& b) {
  box c = a;
  for (int i = 0; i < a.rank; ++i) c[i] = intersect(a[i], b[i]);
  return c;
}

/// The strides of an array in elements, by position.
using strides = fixed_array<std::int64_t, max_rank>;

/// Strides of a LayoutRight array, or of a LayoutLeft one.
constexpr strides strides_of(const shape& s, bool left = false) {
  strides stride{};
  std::int64_t step = 1;
  for (int k = s.rank - 1; k >= 0; --k) {
    const int i = left ? s.rank - 1 - k : k;
    stride[i] = step;
    step *= s[i];
  }
  return stride;
}

/// The copy of an N-d box between two strided arrays: dims are collapsed if both permit it, offsets and strides are in
/// elements.
struct box_copy {
  int rank = 0;
  fixed_array<std::int64_t, max_rank> extent{};
  strides from{};
  strides to{};
  std::int64_t from_offset = 0;
  std::int64_t to_offset = 0;
  std::int64_t elements = 0;

  /// Whether source and destination are both contiguous.
  constexpr bool contiguous() const { return elements == 0 || rank == 0 || (rank == 1 && from[0] == 1 && to[0] == 1); }
  /// Whether the destination is contiguous.
  constexpr bool writes_one_run() const { return elements == 0 || rank == 0 || (rank == 1 && to[0] == 1); }
  /// The copy back.
  constexpr box_copy reversed() const { return {rank, extent, to, from, to_offset, from_offset, elements}; }
};

/// Describes a copy. Dims of extent 1 vanish, neighbours merge.
constexpr box_copy make_copy(const shape& extents, const strides& from, std::int64_t from_offset, const strides& to,
                             std::int64_t to_offset) {
  box_copy c;
  c.from_offset = from_offset;
  c.to_offset = to_offset;
  c.elements = extents.elements();
  for (int i = 0; i < extents.rank; ++i) {
    if (extents[i] == 1) continue;
    const int last = c.rank - 1;
    const bool merges = last >= 0 && c.from[last] == from[i] * extents[i] && c.to[last] == to[i] * extents[i];
    const int at = merges ? last : c.rank++;
    c.extent[at] = merges ? c.extent[at] * extents[i] : extents[i];
    c.from[at] = from[i];
    c.to[at] = to[i];
  }
  return c;
}

/// Flat position, in the array of a shard with these strides, of the first element of a part of it.
constexpr std::int64_t position_in(const box& shard, const box& part, const strides& stride) {
  std::int64_t flat = 0;
  for (int i = 0; i < shard.rank; ++i) flat += (part[i].begin - shard[i].begin) * stride[i];
  return part.elements() == 0 ? 0 : flat;
}
constexpr std::int64_t position_in(const box& shard, const box& part) {
  return position_in(shard, part, strides_of(shard.extents()));
}
/// Copies a part from one shard's array to another's.
constexpr box_copy copy_between(const box& part, const box& from, const box& to) {
  return make_copy(part.extents(), strides_of(from.extents()), position_in(from, part), strides_of(to.extents()),
                   position_in(to, part));
}
/// Copies a part of a shard's array to `offset` of a packed buffer.
constexpr box_copy copy_to_packed(const box& part, const box& from, std::int64_t offset) {
  return make_copy(part.extents(), strides_of(from.extents()), position_in(from, part), strides_of(part.extents()),
                   offset);
}
constexpr box_copy copy_from_packed(const box& part, const box& to, std::int64_t offset) {
  return make_copy(part.extents(), strides_of(part.extents()), offset, strides_of(to.extents()), position_in(to, part));
}

}} // namespace cleave::v0
