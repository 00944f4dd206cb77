// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The choice of a token by scores.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

namespace examples {

struct sampling {
  /// Scores are divided by it; 0: the likeliest token.
  double temperature = 0;
  /// How many of the likeliest tokens are left; 0: all.
  std::int64_t top_k = 0;
  /// The likeliest tokens are left that have this share together (Holtzman et al. 2020); 1: all.
  double top_p = 1;

  /// All ranks have the same scores and the same random numbers, so all choose the same.
  std::int32_t choose(std::span<const float> scores, std::mt19937_64& random) const {
    const auto most = std::max_element(scores.begin(), scores.end());
    if (temperature == 0) return static_cast<std::int32_t>(most - scores.begin());
    std::vector<double> shares(scores.size());
    for (std::size_t i = 0; i < scores.size(); ++i)
      shares[i] = std::exp(static_cast<double>(scores[i] - *most) / temperature);
    std::vector<std::int32_t> order(scores.size());
    std::iota(order.begin(), order.end(), 0);
    const auto share = [&](std::int32_t i) { return shares[static_cast<std::size_t>(i)]; };
    std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return share(a) > share(b); });
    if (top_k > 0 && top_k < std::ssize(order)) order.resize(static_cast<std::size_t>(top_k));
    double total = 0;
    for (const std::int32_t i : order) total += share(i);
    if (top_p < 1) {
      double kept = 0;
      std::size_t n = 0;
      while (n < order.size() && kept < top_p * total) kept += share(order[n++]);
      order.resize(std::max(n, std::size_t{1}));
      total = kept;
    }
    double at = static_cast<double>(random() >> 11) * 0x1p-53 * total;
    for (const std::int32_t i : order)
      if ((at -= share(i)) < 0) return i;
    return order.back();
  }
};

} // namespace examples
