// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/region.hpp>
#include <cleave/layout/box.hpp>
#include <cleave/program/program.hpp>

namespace cleave {

/// The indices that a device has of a buffer, along every dim.
template <class Maps>
constexpr box indices_of(const buffer& b, const Maps& maps, const sizes& s, const coordinates& at) {
  box all;
  all.rank = b.type.rank;
  for (int i = 0; i < b.type.rank; ++i) all.along[i] = held(s[b.type[i]], b.where[i], at, s.axes);
  for (int m = 0; m < b.maps && b.form == form::region; ++m) {
    const dim_map& map = maps[static_cast<std::size_t>(b.first_map + m)];
    const int i = b.type.find(map.from);
    all.along[i] = region_range(map, held(s[map.to], b.where[i], at, s.axes));
  }
  return all;
}

/// Where the elements of a buffer are on a device: element (i, j, ...) at offset + i * stride[0] + j * stride[1] + ...
struct addressing {
  shape extents{};
  std::array<std::int64_t, max_rank> stride{};
  std::int64_t offset = 0;
};

template <class Buffers, class Maps>
constexpr addressing addressing_of(const buffer& b, const Buffers& buffers, const Maps& maps, const sizes& s,
                                   const coordinates& at) {
  addressing p;
  p.extents = indices_of(b, maps, s, at).extents();
  std::int64_t* stride = p.stride.data();
  std::int64_t next = 1;
  for (int i = b.type.rank; i-- > 0; next *= p.extents[i]) stride[i] = next;
  if (b.form != form::view) return p;
  const buffer& region = buffers[b.of];
  const addressing from = addressing_of(region, buffers, maps, s, at);
  const auto along = [&](dim_id d) { return from.stride.data()[region.type.find(d)]; };
  p.stride = {};
  for (int i = 0; i < b.type.rank; ++i)
    if (region.type.has(b.type[i])) stride[i] = along(b.type[i]);
  for (int m = 0; m < b.maps; ++m) {
    const dim_map& map = maps[static_cast<std::size_t>(b.first_map + m)];
    stride[b.type.find(map.to)] = map.stride * along(map.from);
    if (map.window != no_dim) stride[b.type.find(map.window)] = map.dilation * along(map.from);
    p.offset += map.offset.constant * along(map.from);
  }
  return p;
}

/// The most elements that a device has of a buffer.
template <class Maps>
constexpr std::int64_t largest_elements(const buffer& b, const Maps& maps, const sizes& s) {
  return indices_of(b, maps, s, coordinates{}).elements();
}

} // namespace cleave
