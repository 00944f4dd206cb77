// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/layout/layout.hpp>
#include <cleave/type/dim_set.hpp>
#include <cleave/type/element.hpp>

#include <cstdint>

namespace cleave::inline v0 {

/// Element type and dims of a value, in memory order.
struct tensor_type {
  cleave::element element = element::none;
  std::uint8_t rank = 0;
  fixed_array<dim_id, max_rank> dims{};

  constexpr dim_id& operator[](std::integral auto i) { return dims.items[i]; }
  constexpr dim_id operator[](std::integral auto i) const { return dims.items[i]; }
  constexpr void append(std::integral auto d) { dims.items[rank++] = known_dim(d); }
  /// The position of a dim, or -1. No tensor has the dim -1, which is what look-ups by name give for unknown names.
  constexpr int find(std::integral auto d) const {
    for (int i = 0; i < rank; ++i)
      if (dims.items[i] == d) return i;
    return -1;
  }
  constexpr bool has(std::integral auto d) const {
    for (int i = 0; i < rank; ++i)
      if (dims.items[i] == d) return true;
    return false;
  }
  constexpr dim_set set() const {
    std::uint64_t bits = 0;
    for (int i = 0; i < rank; ++i) bits |= std::uint64_t{1} << dims.items[i];
    return bits;
  }
  friend constexpr bool operator==(const tensor_type&, const tensor_type&) = default;
};

} // namespace cleave::inline v0
