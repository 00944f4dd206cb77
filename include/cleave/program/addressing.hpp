// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/cost/region.hpp>
#include <cleave/layout/box.hpp>
#include <cleave/program/program.hpp>

namespace cleave { inline namespace v0 {

/// The indices that a device has of a buffer, along every dim.
template <class Maps>
[[gnu::cold]] constexpr box indices_of(const buffer& b, const Maps& maps, const sizes& s, const coordinates& at) {
  box all;
  all.rank = b.type.rank;
  for (int i = 0; i < b.type.rank; ++i) all.along[i] = held(s.along(b.type[i]), b.where[i], at, s.axes);
  for (int m = 0; m < b.maps && has_neighbours(b); ++m) {
    const dim_map& map = maps[as_size(b.first_map + m)];
    const int i = b.type.find(map.from);
    all.along[i] = region_range(map, held(s.along(map.to), b.where[i], at, s.axes));
  }
  return all;
}

/// Tells a kernel of the user its part of a buffer, and how far the buffer reaches around it.
template <class Shard, class Maps>
[[gnu::cold]] constexpr void tell_extents(Shard& told, const buffer& b, const Maps& maps, const sizes& s,
                                          const coordinates& at) {
  const box all = indices_of(b, maps, s, at);
  told.global = shape_of(b.type, s);
  told.local.rank = told.offset.rank = told.before.rank = told.after.rank = all.rank;
  for (int i = 0; i < all.rank; ++i) {
    const range own = held(s.along(b.type[i]), b.where[i], at, s.axes);
    told.local[i] = own.size();
    told.offset[i] = own.begin;
    if (own.size() == 0) continue;
    told.before[i] = own.begin - all[i].begin;
    told.after[i] = all[i].end - own.end;
  }
}

/// The indices of one part of a halo.
template <class Maps>
[[gnu::cold]] constexpr box part_of_halo(const buffer& b, std::uint32_t part, const Maps& maps, const sizes& s,
                                         const coordinates& at) {
  box indices;
  indices.rank = b.type.rank;
  for (int i = 0; i < b.type.rank; ++i) indices.along[i] = held(s.along(b.type[i]), b.where[i], at, s.axes);
  for (std::size_t m = 0; m < b.maps; ++m) {
    const dim_map& map = maps[b.first_map + m];
    range& along = indices.along[b.type.find(map.from)];
    along = part_along(map, along, digit_of(part, m));
  }
  return indices;
}
/// Where a part of a halo begins, in elements: the parts are stored one after the other, each in the order of its dims.
/// The number past the last part gives the size.
template <class Maps>
[[gnu::cold]] constexpr std::int64_t offset_of_part(const buffer& b, std::uint32_t part, const Maps& maps,
                                                    const sizes& s, const coordinates& at) {
  std::int64_t n = 0;
  for (std::uint32_t p = 0; p < part; ++p)
    if ((b.parts >> p & 1) != 0) n += part_of_halo(b, p, maps, s, at).elements();
  return n;
}
/// The elements that a device has of a buffer.
template <class Maps>
constexpr std::int64_t elements_of(const buffer& b, const Maps& maps, const sizes& s, const coordinates& at) {
  if (b.form == form::halo) return offset_of_part(b, parts_of(b.maps), maps, s, at);
  return indices_of(b, maps, s, at).elements();
}

/// Where the elements of a buffer are on a device: element (i, j, ...) at offset + i * stride[0] + j * stride[1] + ...
struct addressing {
  shape extents{};
  std::array<std::int64_t, max_rank> stride{};
  std::int64_t offset = 0;
};

/// The strides of a shard that is not contiguous; null: it is.
struct contiguous_shards {
  constexpr const std::int64_t* operator()(const buffer&) const { return nullptr; }
};

/// `given` says the strides of shards; others are in LayoutRight order, or `left`.
template <class Buffers, class Maps, class Given = contiguous_shards>
[[gnu::cold]] constexpr addressing addressing_of(const buffer& b, const Buffers& buffers, const Maps& maps,
                                                 const sizes& s, const coordinates& at, const Given& given = {},
                                                 bool left = false) {
  addressing p;
  p.extents = indices_of(b, maps, s, at).extents();
  std::int64_t* stride = p.stride.data();
  if (b.form == form::view && buffers[b.of].form == form::halo) {
    // As far as the shard has them.
    const buffer& shard = buffers[buffers[b.of].of];
    const addressing own = addressing_of(shard, buffers, maps, s, at, given, left);
    for (int i = 0; i < b.type.rank; ++i) stride[i] = own.stride.data()[shard.type.find(b.type[i])];
    return p;
  }
  const strides in_order = strides_of(p.extents, left);
  for (int i = 0; i < b.type.rank; ++i) stride[i] = in_order[i];
  if (const std::int64_t* own = given(b); own != nullptr)
    for (int i = 0; i < b.type.rank; ++i) stride[i] = own[i];
  if (b.form != form::view) return p;
  const buffer& region = buffers[b.of];
  const addressing from = addressing_of(region, buffers, maps, s, at, given, left);
  const auto along = [&](dim_id d) { return from.stride.data()[region.type.find(d)]; };
  p.stride = {};
  for (int i = 0; i < b.type.rank; ++i)
    if (region.type.has(b.type[i])) stride[i] = along(b.type[i]);
  for (int m = 0; m < b.maps; ++m) {
    const dim_map& map = maps[as_size(b.first_map + m)];
    stride[b.type.find(map.to)] = map.stride * along(map.from);
    if (map.window != no_dim) stride[b.type.find(map.window)] = map.dilation * along(map.from);
    p.offset += map.offset.constant * along(map.from);
  }
  return p;
}

/// The stride of a buffer along a dim, 0 if it does not have it.
constexpr std::int64_t stride_along(const buffer& b, const addressing& a, dim_id d) {
  const int position = b.type.find(d);
  return position < 0 ? 0 : a.stride[as_size(position)];
}

/// The most elements that a device has of a buffer.
template <class Maps>
constexpr std::int64_t largest_elements(const buffer& b, const Maps& maps, const sizes& s) {
  coordinates at{};
  const auto move_to_longest = [&](dim_id along, int i) {
    if (const dim_blocks dim = s.along(along); dim.given != nullptr)
      move_to_block(dim.longest_at(s.axes.product(b.where[i])), b.where[i], at, s.axes);
  };
  for (int i = 0; i < b.type.rank; ++i) move_to_longest(b.type[i], i);
  // A region has the blocks of the dim that reads it.
  for (int m = 0; m < b.maps && has_neighbours(b); ++m) {
    const dim_map& map = maps[as_size(b.first_map + m)];
    move_to_longest(map.to, b.type.find(map.from));
  }
  return elements_of(b, maps, s, at);
}

}} // namespace cleave::v0
