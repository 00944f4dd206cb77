// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/policy.hpp>
#include <cleave/graph/graph.hpp>
#include <cleave/layout/box.hpp>
#include <cleave/layout/moved.hpp>

#include <algorithm>
#include <utility>

namespace cleave { inline namespace v0 {

/// One operand of a remap and the result, in their layouts: the source and the destination of an exchange.
struct exchange_part {
  tensor_type from{};
  layout taken{};
  tensor_type to{};
  layout made{};
  /// The maps of this operand.
  static_vector<dim_map, 3> maps{};
};

constexpr exchange_part part_of(indexed_span<const dim_map> maps, std::uint8_t operand, const tensor_type& from,
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
  return set;
}

namespace detail {

/// Along the dims of one map, or of several that follow one dim of the result: how many indices a device needs, how
/// many of them it has itself, each once, and how many devices have the needed ones.
struct needed_indices {
  std::int64_t all = 0, here = 0, owners = 0;
  friend constexpr bool operator==(const needed_indices&, const needed_indices&) = default;
};

/// The indices that a device holds of the operand's dim that a map reads, and the number of devices that hold some.
constexpr axis_list axes_of_source(const exchange_part& p, const dim_map& m) { return p.taken[p.from.find(m.from)]; }
constexpr range held_source(const exchange_part& p, const dim_map& m, const coordinates& at, const sizes& s) {
  return held(s.along(m.from), axes_of_source(p, m), at, s.axes);
}

/// If the offset is known only when the step runs: all that other devices have may be needed of them, no more.
constexpr needed_indices needed_somewhere(const exchange_part& p, const dim_map& m, range wanted, const coordinates& at,
                                          const sizes& s) {
  const std::int64_t extent = s[m.from], blocks = s.axes.product(axes_of_source(p, m));
  const std::int64_t all = std::min(wanted.size(), extent), elsewhere = extent - held_source(p, m, at, s).size();
  return {all, std::max<std::int64_t>(all - elsewhere, 0), all == extent ? blocks : std::min<std::int64_t>(blocks, 2)};
}
/// Two dims that are merged: each index of the major one has a range of the minor one.
constexpr needed_indices needed_of_merged(const exchange_part& p, const dim_map& major, const dim_map& minor,
                                          range wanted, const coordinates& at, const sizes& s) {
  const std::int64_t length = s[minor.from];
  const range outer = held_source(p, major, at, s), inner = held_source(p, minor, at, s);
  needed_indices n;
  n.all = wanted.size();
  for (std::int64_t i = length > 0 ? wanted.begin / length : 0; n.all > 0 && i * length < wanted.end; ++i) {
    if (i < outer.begin || i >= outer.end) continue;
    const range row = intersect(wanted, {i * length, (i + 1) * length});
    n.here += intersect(row, {i * length + inner.begin, i * length + inner.end}).size();
  }
  n.owners = s.axes.product(axes_of_source(p, major)) * s.axes.product(axes_of_source(p, minor));
  return n;
}
/// A diagonal: index i of both dims.
constexpr needed_indices needed_of_diagonal(const exchange_part& p, const dim_map& a, const dim_map& b, range wanted,
                                            const coordinates& at, const sizes& s) {
  const range both = intersect(wanted, {0, std::min(s[a.from], s[b.from])});
  const range here = intersect(both, intersect(held_source(p, a, at, s), held_source(p, b, at, s)));
  return {both.size(), here.size(), 2};
}
/// One dim, at each index of its window. If the operand has the dim of the window, each window index is fetched
/// separately.
constexpr needed_indices needed_of_window(const exchange_part& p, const dim_map& m, range wanted, const coordinates& at,
                                          const sizes& s) {
  const bool window = m.window != no_dim, apart = window && p.from.has(m.window);
  const range own = held_source(p, m, at, s);
  const dim_blocks dim = s.along(m.from);
  const std::int64_t blocks = s.axes.product(axes_of_source(p, m));
  needed_indices n;
  indexed_vector<index_run> runs;
  const auto count = [&] {
    for (const index_run& r : distinct_sources(std::exchange(runs, {}))) {
      n.all += r.count;
      n.here += within(r, own).count;
      if (dim.extent > 0) n.owners += dim.owners(blocks, r.from, r.from + (r.count - 1) * r.from_step);
    }
  };
  for (std::int64_t w = 0; w < (window ? s[m.window] : 1); ++w) {
    for (const index_run& r : runs_of(bound(m, s, w), wanted)) runs.push_back(r);
    if (apart) count();
  }
  if (!apart) count();
  return n;
}

constexpr needed_indices needed_along(const exchange_part& p, std::size_t map, const coordinates& at, const sizes& s) {
  const dim_map& m = p.maps[map];
  const range wanted = held(s.along(m.to), p.made[p.to.find(m.to)], at, s.axes);
  if (m.at_run_time != 0) return needed_somewhere(p, m, wanted, at, s);
  for (std::size_t other = 0; other < p.maps.size(); ++other) {
    const dim_map& o = p.maps[other];
    if (other == map || o.to != m.to) continue;
    if (m.floors) return needed_of_merged(p, m, o, wanted, at, s);
    if (o.floors) return needed_of_merged(p, o, m, wanted, at, s);
    return needed_of_diagonal(p, m, o, wanted, at, s);
  }
  return needed_of_window(p, m, wanted, at, s);
}

/// Elements of the dims that no map names, on the device that has the most.
constexpr std::int64_t common_elements(const exchange_part& p, const sizes& s) {
  dim_set mapped = 0;
  for (const dim_map& m : p.maps) mapped |= dim_bit(m.from) | (m.window != no_dim ? dim_bit(m.window) : dim_set{});
  std::int64_t n = 1;
  for (int i = 0; i < p.from.rank; ++i)
    if ((mapped & dim_bit(p.from[i])) == 0) n = times(n, s.along(p.from[i]).longest(s.axes.product(p.taken[i])));
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

namespace detail {

/// The number of devices at each end of a large mesh that are priced, besides one in the middle: those between are
/// alike but for the remainders of blocks. Not measured.
inline constexpr std::int64_t devices_at_ends = 64;

/// The most that a device fetches, over the devices that differ on some axes.
template <class Fetched>
constexpr cost busiest_of(unsigned used, const sizes& s, Fetched&& of) {
  axis_sizes walk;
  for (int a = 0; a < max_axes; ++a) walk[a] = (used >> a & 1) != 0 ? s.axes[a] : 1;
  const std::int64_t devices = walk.devices();
  cost busiest;
  for (std::int64_t d = 0; d < devices; ++d) {
    if (devices > enumerated_devices && d > devices_at_ends && d < devices - devices_at_ends && d != devices / 2)
      continue;
    const cost c = of(coordinates_of(d, walk));
    busiest.bytes = std::max(busiest.bytes, c.bytes);
    busiest.messages = std::max(busiest.messages, c.messages);
  }
  return busiest;
}

} // namespace detail

/// The communication of an exchange: on the busiest device the elements that it needs and does not hold, each once.
constexpr cost exchange_cost(indexed_span<const exchange_part> parts, const sizes& s) {
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

}} // namespace cleave::v0
