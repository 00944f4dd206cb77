// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/rejected.hpp>
#include <cleave/mesh/axis_list.hpp>

#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace cleave { inline namespace v0 {

/// An extent or axis size that is known only at run time.
inline constexpr std::int64_t dynamic = -1;

/// The kind of name that a size is given for: a dim, an axis, or any.
enum class sized_by : std::uint8_t { any, dim, axis };
/// A size by name, of a dim or of an axis: `batch = 1024`.
struct named_size {
  std::string_view name{};
  std::int64_t size = 0;
  sized_by what = sized_by::any;

  /// Whether it is the size of the dim, or of the axis, of this name.
  constexpr bool is_of_dim(std::string_view d) const { return what != sized_by::axis && name == d; }
  /// As is_of_dim().
  constexpr bool is_of_axis(std::string_view a) const { return what != sized_by::dim && name == a; }
};

/// The size of a dim or an axis: the one that a list gives it, else the one that its type fixes; and how often the list
/// gives one.
struct size_of_name {
  std::int64_t size = dynamic;
  int given = 0;

  /// Whether there is one, and only one.
  constexpr bool is_clear() const { return given == 1 || (given == 0 && size != dynamic); }
};
/// Looks up a name in a list; `is_of` says whether an entry is of a dim or of an axis of that name.
constexpr size_of_name look_up_size(indexed_span<const named_size> list,
                                    bool (named_size::*is_of)(std::string_view) const, std::string_view name,
                                    std::int64_t fixed) {
  size_of_name found{fixed};
  for (const named_size& n : list)
    if ((n.*is_of)(name)) found.size = n.size, ++found.given;
  return found;
}

struct axis_info {
  std::string_view name{};
  std::int64_t size = dynamic;

  friend constexpr bool operator==(const axis_info&, const axis_info&) = default;
};

/// A named mesh of devices. Devices are numbered with the last axis fastest, as MPI ranks on a row-major grid.
struct mesh_value {
  static_vector<axis_info, max_axes> axes{};

  constexpr int size() const { return static_cast<int>(axes.size()); }
  /// The axis of that name, or -1.
  constexpr int find(std::string_view name) const {
    for (int a = 0; a < size(); ++a)
      if (axes[a].name == name) return a;
    return -1;
  }
  constexpr axis_set all() const { return axis_set::first(size()); }

  friend constexpr bool operator==(const mesh_value&, const mesh_value&) = default;
};

/// Sizes of the axes of a mesh, by axis id; 1 beyond the mesh.
struct axis_sizes {
  // A plain array: constant evaluation indexes it at once, std::array through a call.
  std::int64_t of[max_axes] = {1, 1, 1, 1, 1, 1, 1};

  constexpr std::int64_t operator[](std::integral auto axis) const { return of[axis]; }
  constexpr std::int64_t& operator[](std::integral auto axis) { return of[axis]; }
  constexpr std::int64_t product(axis_set set) const { return product_of(set.word); }
  /// The same of a set as bits.
  constexpr std::int64_t product_of(unsigned set) const {
    std::int64_t n = 1;
    int axis = 0;
    for (unsigned rest = set; rest != 0; rest >>= 1, ++axis)
      if ((rest & 1u) != 0) n *= of[axis];
    return n;
  }
  constexpr std::int64_t product(axis_list list) const {
    std::int64_t n = 1;
    for (std::uint32_t p = list.packed; p != 0; p >>= 4) n *= of[(p & 15u) - 1u];
    return n;
  }
  constexpr std::int64_t devices() const { return product(axis_set::first(max_axes)); }

  friend constexpr bool operator==(const axis_sizes&, const axis_sizes&) = default;
};

/// Position of a device on every axis.
using coordinates = fixed_array<std::int32_t, max_axes>;

/// Where a device stands; the last axis runs fastest.
/// @post (1) device_of(coordinates_of(device, sizes), sizes) == device
constexpr coordinates coordinates_of(std::int64_t device, const axis_sizes& sizes) {
  coordinates at{};
  for (int a = max_axes - 1; a >= 0; --a) {
    at[a] = static_cast<std::int32_t>(device % sizes[a]);
    device /= sizes[a];
  }
  return at;
}

constexpr std::int64_t device_of(const coordinates& at, const axis_sizes& sizes) {
  std::int64_t device = 0;
  for (int a = 0; a < max_axes; ++a) device = device * sizes[a] + at[a];
  return device;
}

/// Whether two devices have the same coordinates on some axes.
constexpr bool same_along(axis_set axes, const coordinates& a, const coordinates& b) {
  for (int axis : axes)
    if (a[axis] != b[axis]) return false;
  return true;
}

/// The coordinates of a device on some axes as one number, 0 to the product of their sizes; the first axis is the major
/// one.
constexpr std::int64_t index_along(axis_set axes, const coordinates& at, const axis_sizes& sizes) {
  std::int64_t index = 0;
  for (int a : axes) index = index * sizes[a] + at[a];
  return index;
}
/// The device that stands at an index along some axes, and elsewhere as `at` does.
/// @post (1) index_along(axes, moved_along(axes, at, index, sizes), sizes) == index
/// @post (2) same_along(~axes, moved_along(axes, at, index, sizes), at)
constexpr coordinates moved_along(axis_set axes, coordinates at, std::int64_t index, const axis_sizes& sizes) {
  for (int a = max_axes - 1; a >= 0; --a) {
    if (!axes.contains(a)) continue;
    at[a] = static_cast<std::int32_t>(index % sizes[a]);
    index /= sizes[a];
  }
  return at;
}

/// Which block along a dim a device has: the coordinates on the axes of the list, major first.
constexpr std::int64_t block_index(axis_list list, const coordinates& at, const axis_sizes& sizes) {
  std::int64_t index = 0;
  for (int i = 0; i < list.size(); ++i) index = index * sizes[list[i]] + at[list[i]];
  return index;
}

/// The coordinates on the axes of a list of the devices that have a block.
constexpr void move_to_block(std::int64_t block, axis_list list, coordinates& at, const axis_sizes& sizes) {
  for (int i = list.size(); i-- > 0; block /= sizes[list[i]])
    at[list[i]] = static_cast<std::int32_t>(block % sizes[list[i]]);
}

struct axis_tag {};

namespace detail {
template <text Name, std::int64_t Size>
struct axis_verdict {
  static constexpr verdict found = Name.view().empty() ? verdict{fault::name_missing, {}, "axis"}
                                   : Size == dynamic || Size > 0
                                       ? verdict{}
                                       : verdict{fault::axis_empty, {}, "axis", {}, Name.view(), 1, Size};
};
} // namespace detail

/// A mesh axis by name. Its size is given at run time or fixed in the type: `axis<"data", 8>`.
template <text Name, std::int64_t Size = dynamic>
struct axis : axis_tag {
  static_assert(sizeof(typename detail::rejection_of<detail::axis_verdict<Name, Size>>::type) != 0);
  constexpr axis() = default;
  /// A mistake: `axis data("data")`. Fault: name_missing.
  explicit constexpr axis(const char*) {}
  // A rejected size is replaced, so that it is reported once.
  static constexpr axis_info info{Name.view(), Size > 0 ? Size : dynamic};
  /// `data = 8`: a size by name, for the price of a plan.
  constexpr named_size operator=(std::int64_t size) const { return {Name.view(), size, sized_by::axis}; }
  /// A mistake: sizes are whole. Fault: not_a_whole_number.
  template <std::floating_point N>
  constexpr named_size operator=(N) const {
    return say(rejection<fault::not_a_whole_number, axis_named<Name>, N>), named_size{Name.view(), 1};
  }
};

axis(const char*) -> axis<no_name>;

/// A type derived from `axis<...>`.
template <class A>
concept MeshAxis = std::derived_from<std::remove_cvref_t<A>, axis_tag>;

}} // namespace cleave::v0
