// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/layout/layout.hpp>

#include <algorithm>
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

/// The length of a block of `extent` in `parts` equal blocks: one division, rounded up, by the product of all axes.
constexpr std::int64_t block_extent(std::int64_t extent, std::int64_t parts) { return (extent + parts - 1) / parts; }

/// Blocks of given sizes: where each begins, and where the last one ends. A grid keeps them as they are, so that shapes
/// may point to them.
struct block_table {
  indexed_vector<std::int64_t> begins{};

  constexpr std::int64_t count() const { return std::ssize(begins) - 1; }
};

/// How a dim is cut into blocks. All bounds of blocks come from here. Blocks are equal, ceil(extent / parts) long, and
/// the last ones may be short or empty; or they are those of a table. If there are fewer parts than the table has
/// blocks, each part has neighbouring ones; if there are more, the blocks of the table are cut equally. A table has no
/// effect on parts whose number neither divides that of its blocks nor is a multiple of it.
/// @post (1) begin(parts, 0) == 0 and begin(parts, parts) == extent
/// @post (2) block(parts, i).size() <= longest(parts), and block(parts, longest_at(parts)).size() == longest(parts)
/// @post (3) index is in block(parts, owner(parts, index)), if 0 <= index < extent
struct dim_blocks {
  std::int64_t extent = 0;
  const block_table* given = nullptr;

  /// The first index of a block.
  constexpr std::int64_t begin(std::int64_t parts, std::int64_t index) const {
    if (index >= parts) return extent;
    const std::int64_t blocks = given == nullptr ? 0 : given->count();
    if (blocks != 0 && blocks % parts == 0) return given->begins[index * (blocks / parts)];
    if (blocks != 0 && parts % blocks == 0) {
      const std::int64_t cut = parts / blocks, first = given->begins[index / cut];
      return first + dim_blocks{given->begins[index / cut + 1] - first}.begin(cut, index % cut);
    }
    return std::min(index * block_extent(extent, parts), extent);
  }
  constexpr range block(std::int64_t parts, std::int64_t index) const {
    if (given != nullptr) return {begin(parts, index), begin(parts, index + 1)};
    // Of equal blocks with one division.
    const std::int64_t length = block_extent(extent, parts), first = index * length < extent ? index * length : extent;
    return {first, first + length < extent ? first + length : extent};
  }
  constexpr std::int64_t longest(std::int64_t parts) const {
    return given == nullptr ? block_extent(extent, parts) : block(parts, longest_at(parts)).size();
  }
  constexpr std::int64_t shortest(std::int64_t parts) const {
    std::int64_t least = block(parts, parts - 1).size();
    for (std::int64_t i = 0; given != nullptr && i < parts; ++i) least = std::min(least, block(parts, i).size());
    return least;
  }
  /// The first of the longest blocks.
  constexpr std::int64_t longest_at(std::int64_t parts) const {
    std::int64_t at = 0;
    for (std::int64_t i = 1; given != nullptr && i < parts; ++i)
      if (block(parts, i).size() > block(parts, at).size()) at = i;
    return at;
  }
  /// The block that has an index.
  constexpr std::int64_t owner(std::int64_t parts, std::int64_t index) const {
    if (given == nullptr) return index / std::max<std::int64_t>(block_extent(extent, parts), 1);
    std::int64_t low = 0;
    for (std::int64_t high = parts - 1; low < high;) {
      const std::int64_t middle = (low + high) / 2;
      if (index < begin(parts, middle + 1)) high = middle;
      else low = middle + 1;
    }
    return low;
  }
  /// How many blocks have indices from one index to another.
  constexpr std::int64_t owners(std::int64_t parts, std::int64_t from, std::int64_t to) const {
    const std::int64_t first = owner(parts, from), last = owner(parts, to);
    std::int64_t n = last - first + 1;
    for (std::int64_t i = first; given != nullptr && i < last; ++i) n -= block(parts, i).size() == 0 ? 1 : 0;
    return n;
  }
  /// Whether all blocks have one size.
  constexpr bool even(std::int64_t parts) const {
    return given == nullptr ? extent % parts == 0 : longest(parts) == shortest(parts);
  }
};

/// Block `index` of `parts` equal ones; the last blocks may be short or empty.
/// @post (1) block(extent, parts, 0).begin == 0 and block(extent, parts, parts - 1).end == extent
/// @post (2) block(extent, parts, i).end == block(extent, parts, i + 1).begin
/// @post (3) block(extent, parts, i).size() <= block_extent(extent, parts)
constexpr range block(std::int64_t extent, std::int64_t parts, std::int64_t index) {
  return dim_blocks{extent}.block(parts, index);
}

/// Extents of a tensor, by position, and the blocks that are given for them.
struct shape {
  // Plain arrays: constant evaluation indexes them at once, std::array through a call.
  std::int64_t extent[max_rank]{};
  int rank = 0;
  const block_table* given[max_rank]{};

  constexpr std::int64_t operator[](std::integral auto i) const { return extent[i]; }
  constexpr std::int64_t& operator[](std::integral auto i) { return extent[i]; }
  constexpr dim_blocks along(std::integral auto i) const { return {extent[i], given[i]}; }
  constexpr std::int64_t elements() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n = times(n, extent[i]);
    return n;
  }
  /// Whether extents are the same, whatever the blocks.
  friend constexpr bool operator==(const shape& a, const shape& b) {
    bool same = a.rank == b.rank;
    for (int i = 0; i < max_rank; ++i) same = same && a.extent[i] == b.extent[i];
    return same;
  }
};

/// The indices along one dim that a device holds.
constexpr range held(const dim_blocks& dim, axis_list list, const coordinates& at, const axis_sizes& sizes) {
  if (list.empty()) return {0, dim.extent};
  return dim.block(sizes.product(list), block_index(list, at, sizes));
}

/// The extents of a device's shard.
constexpr shape local_shape(const shape& global, const layout& l, const coordinates& at, const axis_sizes& sizes) {
  shape local;
  local.rank = global.rank;
  for (int i = 0; i < global.rank; ++i) local[i] = held(global.along(i), l[i], at, sizes).size();
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

/// The extents of the largest shard.
constexpr shape largest_shape(const shape& global, const layout& l, const axis_sizes& sizes) {
  const block_counts parts(l, sizes);
  shape local;
  local.rank = global.rank;
  for (int i = 0; i < global.rank; ++i) {
    const std::int64_t n = parts.of[i];
    local.extent[i] = global.given[i] == nullptr ? (global.extent[i] + n - 1) / n : global.along(i).longest(n);
  }
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
    const std::int64_t p = parts[i],
                       local = global.given[i] == nullptr ? (global.extent[i] + p - 1) / p : global.along(i).longest(p);
    n = local != 0 && n > most_elements / local ? most_elements : n * local;
  }
  return n;
}

/// Whether resharding along a dim from axes `coarse` to axes `fine` is local. `coarse` is a prefix of `fine`.
/// @post (1) nests(dim, coarse, fine, sizes) if and only if on every device d the block held(dim, fine, d, sizes) is
///           empty or inside held(dim, coarse, d, sizes)
/// @post (2) nests(dim, {}, fine, sizes) and nests(dim, fine, fine, sizes)
constexpr bool nests(const dim_blocks& dim, axis_list coarse, axis_list fine, const axis_sizes& sizes) {
  const std::int64_t p = sizes.product(coarse), q = sizes.product(fine);
  if (dim.given != nullptr) {
    for (std::int64_t i = 0; i < q; ++i) {
      const range wide = dim.block(p, i / (q / p)), narrow = dim.block(q, i);
      if (narrow.size() != intersect(wide, narrow).size()) return false;
    }
    return true;
  }
  const std::int64_t wide = block_extent(dim.extent, p), narrow = block_extent(dim.extent, q);
  return p == 1 || p == q || wide == narrow * (q / p) || dim.extent <= narrow;
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
