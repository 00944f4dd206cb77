// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/layout/layout.hpp>
#include <cleave/type/element.hpp>

#include <array>
#include <cstdint>

namespace cleave {

/// A dim of a graph: index into its table of dims. A set of dims is one 64-bit word.
using dim_id = std::uint8_t;
using dim_set = std::uint64_t;
inline constexpr int max_dims = 64;

constexpr dim_set dim_bit(dim_id d) { return dim_set{1} << d; }

/// Element type and dims of a value, in memory order.
struct tensor_type {
  cleave::element element = element::none;
  std::uint8_t rank = 0;
  std::array<dim_id, max_rank> dims{};

  constexpr dim_id operator[](int i) const { return dims[static_cast<std::size_t>(i)]; }
  constexpr void append(dim_id d) { dims[rank++] = d; }
  /// The position of a dim, or -1.
  constexpr int find(dim_id d) const {
    for (int i = 0; i < rank; ++i)
      if (dims[static_cast<std::size_t>(i)] == d) return i;
    return -1;
  }
  constexpr bool has(dim_id d) const { return find(d) >= 0; }
  constexpr dim_set set() const {
    dim_set s = 0;
    for (int i = 0; i < rank; ++i) s |= dim_bit(dims[static_cast<std::size_t>(i)]);
    return s;
  }
  friend constexpr bool operator==(const tensor_type&, const tensor_type&) = default;
};

} // namespace cleave
