// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/layout/layout.hpp>

#include <limits>

namespace cleave { inline namespace v0 {

/// Half-open range of indices.
struct range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  constexpr std::int64_t size() const { return end - begin; }
  friend constexpr bool operator==(const range&, const range&) = default;
};

constexpr range intersect(range a, range b) {
  const std::int64_t begin = a.begin > b.begin ? a.begin : b.begin;
  const std::int64_t end = a.end < b.end ? a.end : b.end;
  return {begin, end > begin ? end : begin};
}

/// More elements than any machine has. Products of extents stop growing here, so that prices of assumed sizes stay
/// numbers.
inline constexpr std::int64_t most_elements = std::int64_t{1} << 46;
constexpr std::int64_t times(std::int64_t a, std::int64_t b) {
  return b != 0 && a > most_elements / b ? most_elements : a * b;
}

/// Extents of a tensor, by position.
struct shape {
  // A plain array: constant evaluation indexes it at once, std::array through a call.
  std::int64_t extent[max_rank]{};
  int rank = 0;

  constexpr std::int64_t operator[](std::integral auto i) const { return extent[i]; }
  constexpr std::int64_t& operator[](std::integral auto i) { return extent[i]; }
  constexpr std::int64_t elements() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n = times(n, extent[i]);
    return n;
  }
  friend constexpr bool operator==(const shape&, const shape&) = default;
};

/// The length of a block of `extent` in `parts` blocks: one division, rounded up, by the product of all axes.
constexpr std::int64_t block_extent(std::int64_t extent, std::int64_t parts) { return (extent + parts - 1) / parts; }

/// Block `index` of `parts`; the last blocks may be short or empty.
/// @post (1) block(extent, parts, 0).begin == 0 and block(extent, parts, parts - 1).end == extent
/// @post (2) block(extent, parts, i).end == block(extent, parts, i + 1).begin
/// @post (3) block(extent, parts, i).size() <= block_extent(extent, parts)
constexpr range block(std::int64_t extent, std::int64_t parts, std::int64_t index) {
  const std::int64_t b = block_extent(extent, parts);
  const std::int64_t begin = index * b < extent ? index * b : extent;
  return {begin, begin + b < extent ? begin + b : extent};
}

/// The indices along one dim that a device holds.
constexpr range held(std::int64_t extent, axis_list list, const coordinates& at, const axis_sizes& sizes) {
  if (list.empty()) return {0, extent};
  return block(extent, sizes.product(list), block_index(list, at, sizes));
}

/// The extents of a device's shard.
constexpr shape local_shape(const shape& global, const layout& l, const coordinates& at, const axis_sizes& sizes) {
  shape local = global;
  for (int i = 0; i < global.rank; ++i) local[i] = held(global[i], l[i], at, sizes).size();
  return local;
}

/// The most elements of a shard whose offsets are sent as 32-bit numbers.
inline constexpr std::int64_t most_narrow_offsets = std::numeric_limits<std::int32_t>::max();
/// The bytes of an offset in a shard of this many elements, in messages that contain offsets.
constexpr std::int64_t offset_bytes(std::int64_t elements) { return elements > most_narrow_offsets ? 8 : 4; }

/// The number of blocks along each position.
struct block_counts {
  std::int64_t of[max_rank] = {1, 1, 1, 1, 1, 1, 1, 1};

  constexpr block_counts(const layout& l, const axis_sizes& sizes) {
    int axis = 0;
    for (std::uint64_t rest = l.word & layout::dims_mask; rest != 0; rest >>= layout::bits_per_axis, ++axis)
      if ((rest & 15u) != 0) of[(rest & 15u) - 1u] *= sizes.of[axis];
  }
};

/// The extents of the largest shard: the capacity of a buffer on the device with coordinates 0.
constexpr shape largest_shape(const shape& global, const layout& l, const axis_sizes& sizes) {
  const block_counts parts(l, sizes);
  shape local;
  local.rank = global.rank;
  for (int i = 0; i < global.rank; ++i) local.extent[i] = (global.extent[i] + parts.of[i] - 1) / parts.of[i];
  return local;
}

/// Its elements.
constexpr std::int64_t largest_elements(const shape& global, const layout& l, const axis_sizes& sizes) {
  std::int64_t parts[max_rank] = {1, 1, 1, 1, 1, 1, 1, 1};
  int axis = 0;
  for (std::uint64_t rest = l.word & layout::dims_mask; rest != 0; rest >>= layout::bits_per_axis, ++axis)
    if ((rest & 15u) != 0) parts[(rest & 15u) - 1u] *= sizes.of[axis];
  std::int64_t n = 1;
  for (int i = 0; i < global.rank; ++i) {
    const std::int64_t local = (global.extent[i] + parts[i] - 1) / parts[i];
    n = local != 0 && n > most_elements / local ? most_elements : n * local;
  }
  return n;
}

/// Whether resharding along a dim from axes `coarse` to axes `fine` is local. `coarse` is a prefix of `fine`.
/// @post (1) nests(extent, coarse, fine, sizes) if and only if on every device d the block held(extent, fine, d, sizes)
///           is empty or inside held(extent, coarse, d, sizes)
/// @post (2) nests(extent, {}, fine, sizes) and nests(extent, fine, fine, sizes)
constexpr bool nests(std::int64_t extent, axis_list coarse, axis_list fine, const axis_sizes& sizes) {
  const std::int64_t p = sizes.product(coarse), q = sizes.product(fine);
  const std::int64_t wide = block_extent(extent, p), narrow = block_extent(extent, q);
  return p == 1 || p == q || wide == narrow * (q / p) || extent <= narrow;
}

/// The list without axes of size 1, which divide nothing.
constexpr axis_list essential(axis_list list, const axis_sizes& sizes) {
  axis_list kept;
  int shift = 0;
  for (std::uint32_t p = list.packed; p != 0; p >>= 4)
    if (sizes.of[(p & 15u) - 1u] != 1) {
      kept.packed |= (p & 15u) << shift;
      shift += 4;
    }
  return kept;
}

}} // namespace cleave::v0
