// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/exchange.hpp>

namespace cleave { inline namespace v0 {

/// The indices of a region along a dim, from those of the block that it surrounds. They may be outside of the dim.
constexpr range region_range(const dim_map& m, range block) {
  if (block.size() == 0) return {};
  return {block.begin * m.stride + m.offset.constant, (block.end - 1) * m.stride + m.offset.constant + m.dilation + 1};
}

/// The parts of a region: before, in and after the device's own block along each of up to three dims. A part is a
/// number whose digits in base 3 say which it is along each dim; a set of parts is a word with a bit for each.
inline constexpr std::uint32_t all_region_parts = (1u << 27) - 1;

/// A region around blocks of an operand: maps as those of a buffer's region, with the border of each dim.
struct region_shape {
  tensor_type type{};
  /// Of the operand, and of the blocks.
  layout taken{}, made{};
  static_vector<dim_map, 3> maps{};
  std::uint32_t parts = all_region_parts;
  friend constexpr bool operator==(const region_shape&, const region_shape&) = default;
};

/// Whether the dim of the blocks is the operand's own, so that there is a before and an after.
constexpr bool surrounds(const dim_map& m) { return m.from == m.to && m.stride == 1; }

/// The digit of a map in the number of a part.
constexpr int digit_of(std::uint32_t part, std::size_t map) {
  for (; map > 0; --map) part /= 3;
  return static_cast<int>(part % 3);
}
/// The indices of one part of a region along a dim.
constexpr range part_along(const dim_map& m, range block, int digit) {
  const range all = region_range(m, block);
  if (!surrounds(m)) return digit == 1 ? all : range{};
  if (digit == 0) return intersect(all, {all.begin, block.begin});
  return digit == 1 ? intersect(all, block) : intersect(all, {block.end, std::max(all.end, block.end)});
}
constexpr std::uint32_t parts_of(std::size_t maps) { return maps == 0 ? 1 : maps == 1 ? 3 : maps == 2 ? 9 : 27; }

/// Whether a part of a region around a whole dim is the same elements as another part: those from the other end.
constexpr bool wraps_around(const dim_map& m, const layout& made, const tensor_type& type) {
  return m.outside == border::periodic && surrounds(m) && made[type.find(m.from)].mask() == 0;
}
/// The parts of a region that neither a shard nor another part has.
constexpr std::uint32_t halo_parts(const region_shape& r) {
  std::uint32_t parts = 0;
  for (std::uint32_t part = 0; part < parts_of(r.maps.size()); ++part) {
    bool center = true, again = false;
    for (std::size_t m = 0; m < r.maps.size(); ++m) {
      const bool beside = digit_of(part, m) != 1;
      center = center && !beside;
      again = again || (beside && wraps_around(r.maps[m], r.made, r.type));
    }
    if (!center && !again) parts |= r.parts & 1u << part;
  }
  return parts;
}

/// The region around the shards of operand k of a user's kernel; without maps: the kernel reads none.
constexpr region_shape region_of_operand(indexed_span<const dim_map> halos, int k, const tensor_type& type,
                                         const layout& where) {
  region_shape r{type, where, where, {}, 0};
  bool alone = false;
  for (const dim_map& m : halos) {
    if (m.operand != k) continue;
    r.maps.push_back(m);
    r.maps.back().operand = 0;
    alone = m.alone;
  }
  for (std::uint32_t part = 0; part < parts_of(r.maps.size()); ++part) {
    int beside = 0;
    for (std::size_t m = 0; m < r.maps.size(); ++m) beside += digit_of(part, m) != 1 ? 1 : 0;
    if (beside < 2 || !alone) r.parts |= 1u << part;
  }
  return r;
}

/// The same as for other exchanges; elements that two parts need count twice.
constexpr cost fetched(const region_shape& r, const coordinates& at, const sizes& s) {
  dim_set mapped = 0;
  unsigned over = 0;
  detail::needed_indices along[3][3];
  for (std::size_t m = 0; m < r.maps.size(); ++m) {
    const dim_map& map = r.maps[m];
    const int i = r.type.find(map.from);
    mapped |= dim_bit(map.from);
    over |= r.taken[i].mask();
    const range own = held(s.along(map.from), r.taken[i], at, s.axes),
                block = held(s.along(map.to), r.made[i], at, s.axes);
    for (int digit = 0; digit < 3; ++digit) {
      const index_map itself{1, 0, 1, false, map.outside, s[map.from]};
      for (const index_run& x : distinct_sources(runs_of(itself, part_along(map, block, digit)))) {
        along[m][digit].all += x.count;
        along[m][digit].here += within(x, own).count;
      }
    }
  }
  if (over == 0) return {};
  std::int64_t common = 1;
  for (int i = 0; i < r.type.rank; ++i)
    if ((mapped & dim_bit(r.type[i])) == 0)
      common = times(common, s.along(r.type[i]).longest(s.axes.product(r.taken[i])));
  cost c;
  for (std::uint32_t part = 0; part < parts_of(r.maps.size()); ++part) {
    if ((r.parts >> part & 1) == 0) continue;
    std::int64_t all = common, here = common;
    for (std::size_t m = 0; m < r.maps.size(); ++m) {
      all = times(all, along[m][digit_of(part, m)].all);
      here = times(here, along[m][digit_of(part, m)].here);
    }
    c.bytes += all - here;
    c.messages += all != here ? 1 : 0;
  }
  return c;
}

/// The axes along which devices must fetch from each other.
constexpr axis_set fetched_over(const region_shape& r) {
  unsigned set = 0;
  for (const dim_map& m : r.maps) set |= r.taken[r.type.find(m.from)].mask();
  return set;
}

/// The communication of an exchange that fills a region.
constexpr cost region_cost(const region_shape& r, const sizes& s) {
  unsigned used = fetched_over(r);
  if (used == 0) return {};
  for (const dim_map& m : r.maps) used |= r.made[r.type.find(m.from)].mask();
  return detail::busiest_of(used, s, [&](const coordinates& at) {
    cost c = fetched(r, at, s);
    c.bytes *= size_of(r.type.element);
    return c;
  });
}

}} // namespace cleave::v0
