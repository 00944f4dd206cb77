// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>

#include <cstdint>

namespace cleave { inline namespace v0 {

/// The largest number of axes of a mesh.
inline constexpr int max_axes = 7;

/// A set of mesh axes.
using axis_set = small_set<struct axes_of_mesh, std::uint8_t, max_axes>;

constexpr axis_set axis_bit(int axis) { return 1u << axis; }

/// The axes that shard one dim, major first. Four bits an axis, so that layouts copy and compare as integers.
struct axis_list {
  std::uint32_t packed = 0;

  constexpr axis_list() = default;
  constexpr axis_list(int axis) { push_back(axis); }
  constexpr axis_list(const axis_list&) = default;
  // Not to a temporary: `l[i] = list` changes no layout.
  constexpr axis_list& operator=(const axis_list&) & = default;

  constexpr int size() const {
    int n = 0;
    for (std::uint32_t p = packed; p != 0; p >>= 4) ++n;
    return n;
  }
  constexpr bool empty() const { return packed == 0; }
  constexpr int operator[](int i) const { return static_cast<int>((packed >> (4 * i)) & 15u) - 1; }
  /// Appends the new minor axis.
  constexpr void push_back(int axis) & {
    int shift = 0;
    for (std::uint32_t p = packed; p != 0; p >>= 4) shift += 4;
    packed |= static_cast<std::uint32_t>(axis + 1) << shift;
  }
  constexpr void pop_back() & { packed &= (1u << (4 * (size() - 1))) - 1u; }
  constexpr axis_list prefix(int n) const {
    axis_list cut;
    cut.packed = packed & static_cast<std::uint32_t>((std::uint64_t{1} << (4 * n)) - 1u);
    return cut;
  }
  /// Followed by the axes of another list.
  constexpr axis_list then(axis_list minor) const {
    axis_list both;
    int shift = 0;
    for (std::uint32_t p = packed; p != 0; p >>= 4) shift += 4;
    both.packed = packed | minor.packed << shift;
    return both;
  }
  /// Without its first n axes.
  constexpr axis_list without(int n) const {
    axis_list rest;
    rest.packed = n >= 8 ? 0 : packed >> (4 * n);
    return rest;
  }
  constexpr axis_set mask() const { return bits(); }
  /// The bits of the set, for inner loops of the planner.
  constexpr unsigned bits() const {
    unsigned set = 0;
    for (std::uint32_t p = packed; p != 0; p >>= 4)
      if ((p & 15u) != 0) set |= 1u << ((p & 15u) - 1u);
    return set;
  }
  constexpr bool contains(int axis) const { return (bits() >> axis & 1u) != 0; }
  /// Whether the first axes are those of another list: that ends before the first index at which they differ.
  constexpr bool starts_with(axis_list head) const { return starts_with(packed, head.packed); }
  /// The same for packed lists.
  static constexpr bool starts_with(std::uint32_t list, std::uint32_t head) {
    const std::uint32_t x = list ^ head, differs = (x | x >> 1 | x >> 2 | x >> 3) & 0x1111'1111u;
    return differs == 0 || head < (differs & (0u - differs));
  }
  constexpr int common_prefix(axis_list other) const {
    int n = 0;
    std::uint32_t mine = packed, theirs = other.packed;
    for (; mine != 0 && (mine & 15u) == (theirs & 15u); mine >>= 4, theirs >>= 4) ++n;
    return n;
  }

  friend constexpr bool operator==(axis_list, axis_list) = default;
};

}} // namespace cleave::v0
