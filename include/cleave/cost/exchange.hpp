// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/policy.hpp>
#include <cleave/graph/graph.hpp>
#include <cleave/layout/box.hpp>
#include <cleave/layout/moved.hpp>

#include <algorithm>
#include <span>
#include <vector>

namespace cleave {

/// One operand of a remap and the result, as they are divided: what an exchange takes from where.
struct exchange_part {
  tensor_type from{};
  layout taken{};
  tensor_type to{};
  layout made{};
  /// The maps of this operand.
  static_vector<dim_map, 3> maps{};
};

constexpr exchange_part part_of(std::span<const dim_map> maps, std::uint8_t operand, const tensor_type& from,
                                const layout& taken, const tensor_type& to, const layout& made) {
  exchange_part p{from, taken, to, made, {}};
  for (const dim_map& m : maps)
    if (m.operand == operand) p.maps.push_back(m);
  return p;
}

/// The axes along which devices must fetch from each other.
constexpr axis_set fetched_over(const exchange_part& p) {
  unsigned set = 0;
  for (const dim_map& m : p.maps) set |= p.taken[p.from.find(m.from)].mask();
  return static_cast<axis_set>(set);
}

namespace detail {

/// Along the dims of one map, or of several that follow one dim of the result: indices that a device needs and those of them
/// that it holds, each once.
struct needed_indices {
  std::int64_t all = 0, here = 0, owners = 0;
  friend constexpr bool operator==(const needed_indices&, const needed_indices&) = default;
};

constexpr needed_indices needed_along(const exchange_part& p, std::size_t map, const coordinates& at, const sizes& s) {
  const dim_map& m = p.maps[map];
  const int to = p.to.find(m.to), from = p.from.find(m.from);
  const range wanted = held(s[m.to], p.made[to], at, s.axes), own = held(s[m.from], p.taken[from], at, s.axes);
  const std::int64_t blocks = s.axes.product(p.taken[from]);
  needed_indices n;
  if (m.at_run_time != 0) {
    // Wherever it lies, it may all lie elsewhere.
    n.all = std::min(wanted.size(), s[m.from]);
    n.here = blocks == 1 ? n.all : 0;
    n.owners = std::min<std::int64_t>(blocks, 2);
    return n;
  }
  for (std::size_t other = 0; other < p.maps.size(); ++other) {
    if (other == map || p.maps[other].to != m.to) continue;
    if (m.floors || p.maps[other].floors) {
      // Two dims as one: each index of the major dim has a stretch of the minor one.
      const dim_map &major = m.floors ? m : p.maps[other], &minor = m.floors ? p.maps[other] : m;
      const std::int64_t length = s[minor.from];
      const range outer = held(s[major.from], p.taken[p.from.find(major.from)], at, s.axes),
                  inner = held(length, p.taken[p.from.find(minor.from)], at, s.axes);
      n.all = wanted.size();
      for (std::int64_t i = length > 0 ? wanted.begin / length : 0; n.all > 0 && i * length < wanted.end; ++i)
        if (i >= outer.begin && i < outer.end)
          n.here += intersect(intersect(wanted, {i * length, (i + 1) * length}),
                              {i * length + inner.begin, i * length + inner.end})
                        .size();
      n.owners = s.axes.product(p.taken[p.from.find(major.from)]) * s.axes.product(p.taken[p.from.find(minor.from)]);
      return n;
    }
    // The diagonal: element i of both.
    range both = intersect(wanted, {0, std::min(s[m.from], s[p.maps[other].from])});
    n.all = both.size();
    both = intersect(both,
                     intersect(own, held(s[p.maps[other].from], p.taken[p.from.find(p.maps[other].from)], at, s.axes)));
    n.here = both.size();
    n.owners = 2;
    return n;
  }
  const bool window = m.window != no_dim, skewed = window && p.from.has(m.window);
  std::vector<index_run> runs;
  const auto take = [&] {
    const std::int64_t width = blocks > 0 ? block_extent(s[m.from], blocks) : 1;
    for (const index_run& r : distinct_sources(runs)) {
      n.all += r.count;
      n.here += within(r, own).count;
      if (width > 0) n.owners += (r.from + (r.count - 1) * r.from_step) / width - r.from / width + 1;
    }
    runs.clear();
  };
  for (std::int64_t w = 0; w < (window ? s[m.window] : 1); ++w) {
    for (const index_run& r : runs_of(bound(m, s, w), wanted)) runs.push_back(r);
    if (skewed) take();
  }
  if (!skewed) take();
  return n;
}

/// Elements of the dims that no map names, on the device that has the most.
constexpr std::int64_t common_elements(const exchange_part& p, const sizes& s) {
  dim_set mapped = 0;
  for (const dim_map& m : p.maps) mapped |= dim_bit(m.from) | (m.window != no_dim ? dim_bit(m.window) : dim_set{});
  std::int64_t n = 1;
  for (int i = 0; i < p.from.rank; ++i)
    if ((mapped & dim_bit(p.from[i])) == 0) n = times(n, block_extent(s[p.from[i]], s.axes.product(p.taken[i])));
  return n;
}

constexpr bool first_of_its_dim(const exchange_part& p, std::size_t map) {
  for (std::size_t other = 0; other < map; ++other)
    if (p.maps[other].to == p.maps[map].to) return false;
  return true;
}

} // namespace detail

/// Elements that a device takes from others for a part, and how many devices it takes them from.
constexpr cost fetched(const exchange_part& p, const coordinates& at, const sizes& s) {
  if (fetched_over(p) == 0) return {};
  std::int64_t all = detail::common_elements(p, s), here = all, owners = 1;
  for (std::size_t m = 0; m < p.maps.size(); ++m) {
    if (!detail::first_of_its_dim(p, m)) continue;
    const detail::needed_indices n = detail::needed_along(p, m, at, s);
    all = times(all, n.all);
    here = times(here, n.here);
    owners = times(owners, n.owners);
  }
  return {all - here, all == here ? 0 : owners - (here > 0 ? 1 : 0)};
}

/// The indices of a region along a dim, from those of the block that it surrounds. They may lie outside of the dim.
constexpr range region_range(const dim_map& m, range block) {
  if (block.size() == 0) return {};
  return {block.begin * m.stride + m.offset.constant, (block.end - 1) * m.stride + m.offset.constant + m.dilation + 1};
}

/// The parts of a region along up to three dims: before, in and after the device's own block along each. Part `p` of
/// dim i is digit i of a number in base 3, of which bit n of step::region_parts says whether it is needed.
inline constexpr std::uint32_t all_region_parts = (1u << 27) - 1;

/// A region around blocks of an operand: maps as those of a buffer's region, with the border of each dim.
struct region_shape {
  tensor_type type{};
  /// Of the operand, and of the blocks.
  layout taken{}, made{};
  static_vector<dim_map, 3> maps{};
  std::uint32_t parts = all_region_parts;
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
    const range own = held(s[map.from], r.taken[i], at, s.axes), block = held(s[map.to], r.made[i], at, s.axes);
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
      common = times(common, block_extent(s[r.type[i]], s.axes.product(r.taken[i])));
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
  return static_cast<axis_set>(set);
}

namespace detail {

/// The most that a device fetches, over the devices that differ on some axes. Of a large mesh only the ends and the middle are
/// looked at: what is between is as they are, but for the remainders of blocks.
template <class Fetched>
constexpr cost busiest_of(unsigned used, const sizes& s, Fetched&& of) {
  axis_sizes walk;
  for (int a = 0; a < max_axes; ++a) walk[a] = (used >> a & 1) != 0 ? s.axes[a] : 1;
  const std::int64_t devices = walk.devices();
  cost busiest;
  for (std::int64_t d = 0; d < devices; ++d) {
    if (devices > enumerated_devices && d > 64 && d < devices - 64 && d != devices / 2) continue;
    const cost c = of(coordinates_of(d, walk));
    busiest.bytes = std::max(busiest.bytes, c.bytes);
    busiest.messages = std::max(busiest.messages, c.messages);
  }
  return busiest;
}

} // namespace detail

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

/// What an exchange moves: on the busiest device the elements that it needs and does not hold, each once.
constexpr cost exchange_cost(std::span<const exchange_part> parts, const sizes& s) {
  unsigned used = 0;
  for (const exchange_part& p : parts) {
    if (fetched_over(p) == 0) continue;
    used |= fetched_over(p);
    for (const dim_map& m : p.maps) used |= p.made[p.to.find(m.to)].mask();
  }
  if (used == 0) return {};
  return detail::busiest_of(used, s, [&](const coordinates& at) {
    cost c;
    for (const exchange_part& p : parts) {
      const cost one = fetched(p, at, s);
      c.bytes += one.bytes * size_of(p.from.element);
      c.messages += one.messages;
    }
    return c;
  });
}

} // namespace cleave
