// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/mesh/mesh_value.hpp>

/// The least extent with the same remainders over every group of axes, so that small data meet the same cases.
inline std::int64_t shrunk_extent(std::int64_t extent, const cleave::axis_sizes& axes) {
  for (std::int64_t small = 2; small < extent; ++small) {
    bool alike = true;
    for (unsigned set = 1; set < 128; ++set) {
      const std::int64_t n = axes.product(static_cast<cleave::axis_set>(set));
      alike = alike && (extent % n == 0) == (small % n == 0) && (extent < n) == (small < n);
    }
    if (alike) return small;
  }
  return extent;
}
