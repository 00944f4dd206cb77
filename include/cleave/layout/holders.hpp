// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/layout/box.hpp>

#include <algorithm>

// Which devices hold elements of a box. A mesh of a million devices is not enumerated: it is halved along one axis
// after the other, and halves whose blocks are elsewhere are left out.

namespace cleave { inline namespace v0 {

/// The devices whose coordinates are between two corners of the mesh, on every axis.
struct device_block {
  coordinates low{}, high{};

  /// All devices that have the coordinates of one of them on some axes.
  constexpr device_block(axis_set same, const coordinates& here, const axis_sizes& sizes) {
    for (int a = 0; a < max_axes; ++a) {
      low[a] = same.contains(a) ? here[a] : 0;
      high[a] = same.contains(a) ? here[a] : static_cast<std::int32_t>(sizes[a] - 1);
    }
  }
  /// Whether one of them has the coordinates of a device on some axes.
  constexpr bool meets(axis_set axes, const coordinates& here) const {
    for (int a : axes)
      if (here[a] < low[a] || here[a] > high[a]) return false;
    return true;
  }
};

/// The indices along one dim that the devices of a block hold, from the first to the last one.
constexpr range held_by(const device_block& d, const dim_blocks& dim, axis_list list, const axis_sizes& sizes) {
  return {held(dim, list, d.low, sizes).begin, held(dim, list, d.high, sizes).end};
}

/// All axes: those that shard a dim first, the major one before the minor one, so that halves have blocks apart.
constexpr axis_list halving_order(const layout& l) {
  axis_list order;
  for (int i = 0; i < max_rank; ++i) order = order.then(l[i]);
  for (int a = 0; a < max_axes; ++a)
    if (!order.contains(a)) order.push_back(a);
  return order;
}

namespace detail {

template <class May>
[[gnu::noinline]] constexpr void add_devices(const device_block& d, axis_list order, const axis_sizes& sizes,
                                             const May& may, indexed_vector<std::int64_t>& found) {
  if (!may(d)) return;
  for (std::uint32_t rest = order.packed; rest != 0; rest >>= 4) {
    const auto a = (rest & 15u) - 1u;
    if (d.low[a] == d.high[a]) continue;
    axis_list from_here;
    from_here.packed = rest;
    device_block half = d;
    half.high[a] = d.low[a] + (d.high[a] - d.low[a]) / 2;
    add_devices(half, from_here, sizes, may, found);
    half.low[a] = half.high[a] + 1;
    half.high[a] = d.high[a];
    add_devices(half, from_here, sizes, may, found);
    return;
  }
  found.push_back(device_of(d.low, sizes));
}

} // namespace detail

/// The devices of a block that may(block) allows, in their order. It says whether any device of a block can be one.
template <class May>
[[gnu::cold]] constexpr indexed_vector<std::int64_t> devices_in(const device_block& d, axis_list order,
                                                                const axis_sizes& sizes, const May& may) {
  indexed_vector<std::int64_t> found;
  detail::add_devices(d, order, sizes, may, found);
  std::sort(found.begin(), found.end());
  return found;
}
/// The devices that hold elements of a part of a tensor, in their order, among those of a block. Those that differ only
/// along axes that shard nothing are not stored one by one.
class holders_of {
 public:
  /// `told_apart`: axes that leave_out() may name.
  [[gnu::cold]] constexpr holders_of(const box& part, const shape& global, const layout& l, const device_block& among,
                                     const axis_sizes& sizes, axis_set told_apart = {})
      : sizes_(sizes) {
    device_block sharding = among;
    for (int a = 0; a < max_axes; ++a)
      if (!(l.sharded() | told_apart).contains(a) && among.low[a] != among.high[a]) {
        free_ = free_.with(a);
        sharding.high[a] = sharding.low[a];
      }
    some_ = devices_in(sharding, halving_order(l), sizes, [&](const device_block& d) {
      for (int i = 0; i < part.rank; ++i)
        if (intersect(part[i], held_by(d, global.along(i), l[i], sizes)).size() == 0) return false;
      return true;
    });
  }

  /// Leaves out those with the coordinates of a device on some axes.
  constexpr void leave_out(axis_set axes, const coordinates& like) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < some_.size(); ++i)
      if (!same_along(axes, coordinates_of(some_[i], sizes_), like)) some_[kept++] = some_[i];
    some_.resize(kept);
  }
  constexpr std::int64_t size() const { return std::ssize(some_) * sizes_.product(free_); }
  /// The n-th device.
  constexpr coordinates operator[](std::int64_t n) const {
    if (free_.empty()) return coordinates_of(some_[n], sizes_);
    coordinates at{};
    walk([&](int a, std::int64_t first, std::int64_t& last, std::int64_t each) {
      if (free_.contains(a)) {
        at[a] = static_cast<std::int32_t>(n / (each * (last - first)));
        n %= each * (last - first);
        return first;
      }
      while (true) {
        const std::int64_t next = end_of_equal(first, last, a);
        if (n < each * (next - first)) {
          at[a] = coordinates_of(some_[first], sizes_)[a];
          last = next;
          return first;
        }
        n -= each * (next - first);
        first = next;
      }
    });
    return at;
  }
  /// The number of devices before one of them.
  constexpr std::int64_t before(const coordinates& at) const {
    std::int64_t n = 0;
    walk([&](int a, std::int64_t first, std::int64_t& last, std::int64_t each) {
      if (free_.contains(a)) {
        n += at[a] * each * (last - first);
        return first;
      }
      while (coordinates_of(some_[first], sizes_)[a] != at[a]) {
        const std::int64_t next = end_of_equal(first, last, a);
        n += each * (next - first);
        first = next;
      }
      last = end_of_equal(first, last, a);
      return first;
    });
    return n;
  }

 private:
  /// Calls choose(axis, first, last, devices) for each axis in turn, with the stored devices that have the coordinates
  /// chosen so far, and how many devices one of them stands for on the axes behind this one. It chooses some of them.
  template <class Choose>
  constexpr void walk(Choose&& choose) const {
    std::int64_t first = 0, last = std::ssize(some_);
    for (int a = 0; a < max_axes; ++a) first = choose(a, first, last, sizes_.product(free_ & ~axis_set::first(a + 1)));
  }
  constexpr std::int64_t end_of_equal(std::int64_t first, std::int64_t last, int a) const {
    const auto along = [&](std::int64_t device) {
      return device / sizes_.product(~axis_set::first(a + 1)) % sizes_[a];
    };
    return std::partition_point(some_.begin() + first, some_.begin() + last,
                                [&](std::int64_t d) { return along(d) == along(some_[first]); }) -
           some_.begin();
  }

  axis_sizes sizes_;
  axis_set free_{};
  /// Those with the coordinates of the block's first device on the axes that shard nothing.
  indexed_vector<std::int64_t> some_{};
};

}} // namespace cleave::v0
