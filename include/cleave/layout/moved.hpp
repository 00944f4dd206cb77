// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/layout/blocks.hpp>

namespace cleave::inline v0 {

/// Above this many devices the cost of an uneven move is its upper bound instead of an enumeration.
inline constexpr std::int64_t enumerated_devices = 256;

/// Elements that one device needs under `to` and does not hold under `from`.
constexpr std::int64_t missing(const shape& global, const layout& from, const layout& to, const coordinates& at,
                               const axis_sizes& sizes) {
  std::int64_t needed = 1, common = 1;
  for (int i = 0; i < global.rank; ++i) {
    const range want = held(global[i], to[i], at, sizes);
    needed = times(needed, want.size());
    common = times(common, intersect(want, held(global[i], from[i], at, sizes)).size());
  }
  return needed - common;
}

/// The smallest part of its shard that a device keeps when the shard is scattered over `axes`, with the layout `to`
/// whose blocks nest in those of `from`.
constexpr std::int64_t smallest_part(const shape& global, const layout& from, const layout& to, axis_set axes,
                                     const axis_sizes& sizes) {
  // The last device along the scattered axes of the first block has the least of that block.
  coordinates last{};
  for (int a = 0; a < max_axes; ++a)
    if (axes.contains(a)) last[a] = static_cast<std::int32_t>(sizes[a] - 1);
  std::int64_t kept = 1;
  for (int i = 0; i < global.rank; ++i)
    kept *= intersect(held(global[i], to[i], last, sizes), held(global[i], from[i], last, sizes)).size();
  return kept;
}

/// Elements that the busiest device must receive to go from one layout to another (partial values aside): what it
/// needs and does not hold. No collective can move less. For even blocks in closed form: either the lists of each dim
/// nest and all devices keep the same overlap, or some device keeps nothing.
/// @post (1) moved(global, a, b, sizes) is the largest missing(global, a, b, d, sizes) of all devices d
/// @post (2) moved(global, a, a, sizes) == 0
/// @post (3) moved(global, a, b, sizes) <= largest_shape(global, b, sizes).elements()
/// @post (4) moved(global, a, c, sizes) <= moved(global, a, b, sizes) + moved(global, b, c, sizes)
/// For uneven blocks over more than `enumerated_devices` it is the bound of (3), and (1), (2) and (4) need not hold.
constexpr std::int64_t moved(const shape& global, const layout& from, const layout& to, const axis_sizes& sizes) {
  const block_counts p(from, sizes), q(to, sizes);
  const std::int64_t* extent = global.extent;
  bool even = true;
  for (int i = 0; i < global.rank && even; ++i) even = extent[i] % p.of[i] == 0 && extent[i] % q.of[i] == 0;
  if (even) {
    std::int64_t needed = 1, common = 1;
    for (int i = 0; i < global.rank; ++i) {
      needed = times(needed, extent[i] / q.of[i]);
      common = times(common, extent[i] / (p.of[i] > q.of[i] ? p.of[i] : q.of[i]));
    }
    if (to.continues(from) || from.continues(to)) return needed - common;
    bool nested = true;
    const unsigned changed = from.differs_at(to);
    for (int i = 0; i < global.rank; ++i) {
      if ((changed >> i & 1u) == 0) continue;
      const axis_list a = essential(from[i], sizes), b = essential(to[i], sizes);
      nested = nested && (a.starts_with(b) || b.starts_with(a));
    }
    return nested ? needed - common : needed;
  }
  const axis_set used = from.sharded() | to.sharded();
  axis_sizes walk;
  for (int a = 0; a < max_axes; ++a) walk[a] = used.contains(a) ? sizes[a] : 1;
  if (walk.devices() > enumerated_devices) return largest_shape(global, to, sizes).elements();
  std::int64_t busiest = 0;
  for (std::int64_t d = 0; d < walk.devices(); ++d) {
    const std::int64_t m = missing(global, from, to, coordinates_of(d, walk), sizes);
    if (m > busiest) busiest = m;
  }
  return busiest;
}

} // namespace cleave::inline v0
