// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/layout/blocks.hpp>

namespace cleave { inline namespace v0 {

/// Above this many devices the cost of an uneven move is its upper bound instead of an enumeration.
inline constexpr std::int64_t enumerated_devices = 256;

/// Elements that one device needs under `to` and does not hold under `from`.
constexpr std::int64_t missing(const shape& global, const layout& from, const layout& to, const coordinates& at,
                               const axis_sizes& sizes) {
  std::int64_t needed = 1, common = 1;
  for (int i = 0; i < global.rank; ++i) {
    const range want = held(global.along(i), to[i], at, sizes);
    needed = times(needed, want.size());
    common = times(common, intersect(want, held(global.along(i), from[i], at, sizes)).size());
  }
  return needed - common;
}

/// The largest f(coordinates) of all devices that differ along some axes, or `bound` if these are many.
template <class F>
constexpr std::int64_t busiest(axis_set along, const axis_sizes& sizes, std::int64_t bound, const F& f) {
  axis_sizes walk;
  for (int a = 0; a < max_axes; ++a) walk[a] = along.contains(a) ? sizes[a] : 1;
  if (walk.devices() > enumerated_devices) return bound;
  std::int64_t most = 0;
  for (std::int64_t d = 0; d < walk.devices(); ++d)
    if (const std::int64_t n = f(coordinates_of(d, walk)); n > most) most = n;
  return most;
}

/// The smallest part of its shard that a device keeps when the shard is scattered over `axes`, with the layout `to`
/// whose equal blocks nest in those of `from`.
constexpr std::int64_t smallest_part(const shape& global, const layout& from, const layout& to, axis_set axes,
                                     const axis_sizes& sizes) {
  // The last device along the scattered axes of the first block has the least of that block.
  coordinates last{};
  for (int a = 0; a < max_axes; ++a)
    if (axes.contains(a)) last[a] = static_cast<std::int32_t>(sizes[a] - 1);
  std::int64_t kept = 1;
  for (int i = 0; i < global.rank; ++i)
    kept *= intersect(held(global.along(i), to[i], last, sizes), held(global.along(i), from[i], last, sizes)).size();
  return kept;
}

/// The most elements of its shard that a device sends then, whatever the blocks.
constexpr std::int64_t most_scattered(const shape& global, const layout& from, const layout& to, axis_set axes,
                                      const axis_sizes& sizes) {
  const std::int64_t most = largest_elements(global, from, sizes);
  bool given = false;
  for (int i = 0; i < global.rank; ++i) given = given || global.given[i] != nullptr;
  if (!given) return most - smallest_part(global, from, to, axes, sizes);
  return busiest(from.sharded() | to.sharded(), sizes, most, [&](const coordinates& at) {
    return local_shape(global, from, at, sizes).elements() - local_shape(global, to, at, sizes).elements();
  });
}

/// Elements that the busiest device must receive to change one layout to another (partial values aside): those that it
/// needs and does not hold. No collective can move less. For even blocks in closed form: either the lists of each dim
/// nest and all devices keep the same overlap, or some device keeps nothing.
/// @post (1) moved(global, a, b, sizes) is the largest missing(global, a, b, d, sizes) of all devices d
/// @post (2) moved(global, a, a, sizes) == 0
/// @post (3) moved(global, a, b, sizes) <= largest_shape(global, b, sizes).elements()
/// @post (4) moved(global, a, c, sizes) <= moved(global, a, b, sizes) + moved(global, b, c, sizes)
/// For uneven blocks over more than `enumerated_devices` it is the bound of (3), and (1), (2) and (4) need not hold.
constexpr std::int64_t moved(const shape& global, const layout& from, const layout& to, const axis_sizes& sizes) {
  // The numbers of blocks along each position, as block_counts has them, but without calls: prices of moves take most
  // of the time that planning takes.
  std::int64_t p[max_rank] = {1, 1, 1, 1, 1, 1, 1, 1}, q[max_rank] = {1, 1, 1, 1, 1, 1, 1, 1};
  bool all_divide = true;
  std::uint64_t a = from.word & layout::dims_mask, b = to.word & layout::dims_mask;
  for (int axis = 0; (a | b) != 0; a >>= layout::bits_per_axis, b >>= layout::bits_per_axis, ++axis) {
    if (((a | b) & 15u) == 0) continue;
    const std::int64_t n = sizes.of[axis];
    if ((a & 15u) != 0) p[(a & 15u) - 1u] *= n;
    if ((b & 15u) != 0) q[(b & 15u) - 1u] *= n;
    if (n == 1) all_divide = false;
  }
  bool even = true;
  std::int64_t needed = 1, common = 1;
  for (int i = 0; i < global.rank && even; ++i) {
    const std::int64_t extent = global.extent[i], parts = p[i], wanted = q[i];
    even = extent % parts == 0 && extent % wanted == 0 && global.given[i] == nullptr;
    // As times() does, which keeps products of assumed extents numbers.
    const std::int64_t want = extent / wanted, both = extent / (parts > wanted ? parts : wanted);
    needed = want != 0 && needed > most_elements / want ? most_elements : needed * want;
    common = both != 0 && common > most_elements / both ? most_elements : common * both;
  }
  if (even) {
    if (to.continues(from) || from.continues(to)) return needed - common;
    const unsigned changed = from.differs_at(to);
    for (int i = 0; i < global.rank; ++i) {
      if ((changed >> i & 1u) == 0) continue;
      std::uint32_t have = from.packed_axes(i), want = to.packed_axes(i);
      if (!all_divide) {
        have = essential(from[i], sizes).packed;
        want = essential(to[i], sizes).packed;
      }
      if (have != 0 && want != 0 && !axis_list::starts_with(have, want) && !axis_list::starts_with(want, have))
        return needed;
    }
    return needed - common;
  }
  return busiest(from.sharded() | to.sharded(), sizes, largest_shape(global, to, sizes).elements(),
                 [&](const coordinates& at) { return missing(global, from, to, at, sizes); });
}

}} // namespace cleave::v0
