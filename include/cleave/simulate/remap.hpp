// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/layout/box.hpp>
#include <cleave/simulate/array.hpp>

#include <utility>
#include <vector>

// The meaning of a remap, element by element: nothing here knows of runs, regions or parts.

namespace cleave { inline namespace v0 { namespace simulation {

/// The index of an element along every dim.
using position = fixed_array<std::int64_t, max_rank>;

/// Whether elements come from an operand. Offsets are operands too.
inline bool takes_from(indexed_span<const dim_map> maps, int operand) {
  for (const dim_map& m : maps)
    if (m.operand == operand) return true;
  return false;
}

/// The source of an element of the result in an operand; none if the element is 0.
inline optional_value<position> source_of(indexed_span<const dim_map> maps, int operand, const tensor_type& from,
                                          const tensor_type& to, const position& at, const sizes& s,
                                          indexed_span<const std::int64_t> offsets) {
  position source{};
  for (int i = 0; i < from.rank; ++i) {
    const int same = to.find(from[i]);
    source[i] = same < 0 ? 0 : at[same];
  }
  for (const dim_map& m : maps) {
    if (m.operand != operand) continue;
    const auto index = [&](dim_id d) { return at[to.find(d)]; };
    const std::int64_t in_window = m.window == no_dim ? 0 : index(m.window);
    const std::int64_t i = bound(m, s, in_window, m.at_run_time == 0 ? 0 : offsets[m.at_run_time]).source(index(m.to));
    if (i < 0) return {};
    source[from.find(m.from)] = i;
  }
  return source;
}

/// The element of a table that is an element of a look-up; none if its index is not in the table.
template <class Indices>
optional_value<position> row_of(const tensor_type& table, const tensor_type& indices, const tensor_type& to,
                                dim_id along, std::int64_t extent, const position& at, Indices&& index_at) {
  position asked{}, source{};
  const auto index = [&](dim_id d) { return at[to.find(d)]; };
  for (int i = 0; i < indices.rank; ++i) asked[i] = index(indices[i]);
  const double row = index_at(asked);
  if (!(row >= 0 && row < as_double(extent))) return {};
  for (int i = 0; i < table.rank; ++i) source[i] = table[i] == along ? static_cast<std::int64_t>(row) : index(table[i]);
  return source;
}

/// The box of all elements.
inline box whole_box(const shape& extents) { return box_of(extents, layout{}, {}, {}); }
/// Calls each(index along every dim, offset in the array) for the elements of a box that has an array of its own.
template <class Each>
void for_each_index(const box& all, Each&& each) {
  if (all.empty()) return;
  position at{};
  for (int i = 0; i < all.rank; ++i) at[i] = all[i].begin;
  for (std::int64_t offset = 0;; ++offset) {
    each(std::as_const(at), offset);
    int i = all.rank - 1;
    for (; i >= 0; --i) {
      if (++at[i] < all[i].end) break;
      at[i] = all[i].begin;
    }
    if (i < 0) return;
  }
}
inline bool holds(const box& b, const position& at) {
  for (int i = 0; i < b.rank; ++i)
    if (at[i] < b[i].begin || at[i] >= b[i].end) return false;
  return true;
}
inline std::int64_t offset_in(const box& b, const position& at) {
  const strides step = strides_of(b.extents());
  std::int64_t flat = 0;
  for (int i = 0; i < b.rank; ++i) flat += (at[i] - b[i].begin) * step[i];
  return flat;
}

}}} // namespace cleave::v0::simulation
