// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/simulate/remap.hpp>

#include <algorithm>
#include <numeric>

namespace cleave::simulation {

/// Each slice along a dim in order, or the indices that its elements had: equal ones in the order of their indices, NaN
/// after all numbers, and before them in descending order.
inline void sort_slices(const host_array& in, int along, bool descending, bool indices_wanted, host_array& out) {
  const std::int64_t length = in.extents[along], step = steps_of(in.extents)[along];
  const auto less = [](double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; };
  auto order = indexed_vector<std::int64_t>::filled(length);
  for_each_index(box_of(in.extents, layout{}, {}, axis_sizes{}), [&](const position& index, std::int64_t offset) {
    if (index[along] != 0) return;
    const auto element = [&](std::int64_t i) { return in.data[offset + i * step]; };
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return descending ? less(element(b), element(a)) : less(element(a), element(b));
    });
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int64_t from = order[i];
      out.data[offset + i * step] = indices_wanted ? static_cast<double>(from) : element(from);
    }
  });
}

} // namespace cleave::simulation
