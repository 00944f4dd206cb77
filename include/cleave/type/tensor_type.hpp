// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/layout/layout.hpp>
#include <cleave/type/element.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace cleave { inline namespace v0 {

/// A dim of a graph: an index into its table of dims.
using dim_id = std::uint8_t;
/// The dim that a look-up by name has found. Look-ups give -1 for names that they do not know.
constexpr dim_id known_dim(std::integral auto found) { return static_cast<dim_id>(found); }
/// The largest number of dims of a graph.
inline constexpr int max_dims = 64;
/// A set of dims of a graph.
using dim_set = small_set<struct dims_of_graph, std::uint64_t, max_dims>;

constexpr dim_set dim_bit(std::integral auto d) { return std::uint64_t{1} << d; }

/// Element type and dims of a value, in memory order.
struct tensor_type {
  cleave::element element = element::none;
  std::uint8_t rank = 0;
  fixed_array<dim_id, max_rank> dims{};

  constexpr dim_id& operator[](std::integral auto i) { return dims.items[i]; }
  constexpr dim_id operator[](std::integral auto i) const { return dims.items[i]; }
  constexpr void append(std::integral auto d) { dims.items[rank++] = known_dim(d); }
  /// The position of a dim, or -1. No tensor has the dim -1, the result of look-ups of unknown names.
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

namespace detail {

/// A name for a dim that an operation makes, a word and a number: the name of a dim must outlive its graph.
struct numbered_name {
  char letters[8]{};
  constexpr numbered_name() = default;
  constexpr numbered_name(std::string_view word, std::size_t number) {
    for (std::size_t i = 0; i < word.size(); ++i) letters[i] = word[i];
    for (std::size_t i = 8; i-- > word.size(); number /= 10) letters[i] = static_cast<char>('0' + number % 10);
  }
  constexpr std::string_view text() const { return {letters, 8}; }
};
template <std::size_t Count>
constexpr std::array<numbered_name, Count> names_from(std::string_view word) {
  std::array<numbered_name, Count> names{};
  for (std::size_t n = 0; n < Count; ++n) names[n] = numbered_name(word, n);
  return names;
}
/// A name for each dim, five letters and a number.
constexpr std::array<numbered_name, max_dims> numbered_names(const char (&word)[6]) {
  return names_from<max_dims>({word, 5});
}

} // namespace detail

}} // namespace cleave::v0
