// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/layout/box.hpp>
#include <cleave/simulate/array.hpp>

#include <optional>
#include <span>
#include <vector>

// What a remap means, element by element: nothing here knows of runs, regions or parts.

namespace cleave::simulation {

using indices = std::array<std::int64_t, max_rank>;

/// Whether elements come from an operand. Offsets are operands too.
inline bool takes_from(std::span<const dim_map> maps, std::uint8_t operand) {
  for (const dim_map& m : maps)
    if (m.operand == operand) return true;
  return false;
}

/// The element of an operand that an element of the result is; none where it is 0.
inline std::optional<indices> source_of(std::span<const dim_map> maps, std::uint8_t operand, const tensor_type& from, const tensor_type& to,
                                        const indices& at, const sizes& s, std::span<const std::int64_t> offsets) {
  indices source{};
  for (int i = 0; i < from.rank; ++i) {
    const int same = to.find(from[i]);
    source[static_cast<std::size_t>(i)] = same < 0 ? 0 : at[static_cast<std::size_t>(same)];
  }
  for (const dim_map& m : maps) {
    if (m.operand != operand) continue;
    const auto index = [&](dim_id d) { return at[static_cast<std::size_t>(to.find(d))]; };
    const std::int64_t in_window = m.window == no_dim ? 0 : index(m.window);
    const std::int64_t i = bound(m, s, in_window, m.at_run_time == 0 ? 0 : offsets[m.at_run_time]).source(index(m.to));
    if (i < 0) return {};
    source[static_cast<std::size_t>(from.find(m.from))] = i;
  }
  return source;
}

/// The element of a table that an element of a look-up is; none where its place is not in the table.
template <class Places>
std::optional<indices> row_of(const tensor_type& table, const tensor_type& places, const tensor_type& to, dim_id along, std::int64_t extent, const indices& at,
                              Places&& place_at) {
  indices asked{}, source{};
  const auto index = [&](dim_id d) { return at[static_cast<std::size_t>(to.find(d))]; };
  for (int i = 0; i < places.rank; ++i) asked[static_cast<std::size_t>(i)] = index(places[i]);
  const double place = place_at(asked);
  if (!(place >= 0 && place < static_cast<double>(extent))) return {};
  for (int i = 0; i < table.rank; ++i) source[static_cast<std::size_t>(i)] = table[i] == along ? static_cast<std::int64_t>(place) : index(table[i]);
  return source;
}

/// Calls each(index along every dim, place in the array) for the elements of a box that lies in an array of its own.
template <class Each>
void for_each_index(const box& all, Each&& each) {
  if (all.empty()) return;
  indices at{};
  for (int i = 0; i < all.rank; ++i) at[static_cast<std::size_t>(i)] = all[i].begin;
  for (std::size_t place = 0;; ++place) {
    each(static_cast<const indices&>(at), place);
    int i = all.rank - 1;
    for (; i >= 0; --i) {
      if (++at[static_cast<std::size_t>(i)] < all[i].end) break;
      at[static_cast<std::size_t>(i)] = all[i].begin;
    }
    if (i < 0) return;
  }
}
inline bool holds(const box& b, const indices& at) {
  for (int i = 0; i < b.rank; ++i)
    if (at[static_cast<std::size_t>(i)] < b[i].begin || at[static_cast<std::size_t>(i)] >= b[i].end) return false;
  return true;
}
inline std::size_t place_in(const box& b, const indices& at) {
  const strides step = steps_of(b.extents());
  std::int64_t flat = 0;
  for (int i = 0; i < b.rank; ++i) flat += (at[static_cast<std::size_t>(i)] - b[i].begin) * step[static_cast<std::size_t>(i)];
  return static_cast<std::size_t>(flat);
}

} // namespace cleave::simulation
