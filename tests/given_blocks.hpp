// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/graph/graph.hpp>

#include <algorithm>
#include <list>
#include <random>

namespace support {

using namespace cleave;

/// Gives most dims that are neither merged nor split some blocks.
inline void give_blocks(const graph& g, sizes& at, unsigned seed, std::list<block_table>& tables) {
  std::mt19937 random(seed);
  const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  dim_set regrouped = 0;
  for (const dim_product& p : g.rules.products)
    for (int k = 0; k < 3; ++k)
      if (p[k] != no_dim) regrouped |= dim_bit(p[k]);
  for (std::size_t d = 0; d < g.dims.size(); ++d) {
    at.given[d] = nullptr;
    if (regrouped.contains(static_cast<int>(d)) || g.dims[d].divisible || below(4) == 0) continue;
    block_table& made = tables.emplace_back();
    for (std::int64_t n = 1 + below(8); n-- > 1;) made.begins.push_back(below(at.dims[d] + 1));
    made.begins.push_back(0);
    made.begins.push_back(at.dims[d]);
    std::sort(made.begins.begin(), made.begins.end());
    at.given[d] = &made;
  }
}

} // namespace support
