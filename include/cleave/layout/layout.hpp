// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/mesh/mesh_value.hpp>

#include <cstdint>
#include <string_view>

namespace cleave {

/// The largest number of dims of a tensor.
inline constexpr int max_rank = 8;

/// How the partial values on the devices of an axis combine into the value.
enum class reduction : std::uint8_t { sum, max, min, prod };

constexpr std::string_view name_of(reduction r) {
  constexpr std::string_view names[] = {"sum", "max", "min", "prod"};
  return names[static_cast<int>(r)];
}

/// Where each element of a tensor lives. Position i of the tensor is divided over the axes `dims[i]`, major first, in
/// blocks of ceil(extent / product of their sizes). Over the axes in `unreduced` every device holds a partial value,
/// to be combined by `combine`. Over every other axis the tensor is replicated.
struct layout {
  axis_list dims[max_rank]{};
  axis_set unreduced = 0;
  reduction combine = reduction::sum;

  constexpr axis_list operator[](int i) const { return dims[i]; }
  constexpr axis_list& operator[](int i) { return dims[i]; }
  /// The axes that divide some dim.
  constexpr axis_set sharded() const {
    unsigned set = 0;
    for (const axis_list& list : dims) set |= list.mask();
    return static_cast<axis_set>(set);
  }
  constexpr axis_set used() const { return static_cast<axis_set>(sharded() | unreduced); }

  constexpr bool same_dims(const layout& other) const {
    for (int i = 0; i < max_rank; ++i)
      if (dims[i].packed != other.dims[i].packed) return false;
    return true;
  }
  friend constexpr bool operator==(const layout& a, const layout& b) {
    return a.unreduced == b.unreduced && a.same_dims(b) && (a.unreduced == 0 || a.combine == b.combine);
  }
};

} // namespace cleave
