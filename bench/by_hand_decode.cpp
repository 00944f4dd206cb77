// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "by_hand_decode.hpp"

#include <algorithm>
#include <cmath>

namespace by_hand {

decoder::decoder(long heads, long positions, long features)
    : heads_(heads), positions_(positions), features_(features) {
  const auto size = [](long n) { return static_cast<std::size_t>(n); };
  keys.resize(size(heads * positions * features));
  values.resize(keys.size());
  out.resize(size(heads * features));
  scores_.resize(size(positions));
}

void decoder::step(const float* query, const float* key, const float* value, long at) {
  const long n = features_, used = at + 1;
  const float scale = 1 / std::sqrt(static_cast<float>(n));
  float* const s = scores_.data();
  for (long h = 0; h < heads_; ++h) {
    float *const k = keys.data() + h * positions_ * n, *const v = values.data() + h * positions_ * n;
    std::copy_n(key + h * n, n, k + at * n);
    std::copy_n(value + h * n, n, v + at * n);
    const float* __restrict const q = query + h * n;
    float most = -1e30f, total = 0;
    for (long p = 0; p < used; ++p) {
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (long f = 0; f < n; ++f) sum += q[f] * k[p * n + f];
      s[p] = sum * scale;
      most = std::max(most, s[p]);
    }
#pragma omp simd reduction(+ : total)
    for (long p = 0; p < used; ++p) {
      s[p] = std::exp(s[p] - most);
      total += s[p];
    }
    float* __restrict const to = out.data() + h * n;
    std::fill_n(to, n, 0.0f);
    for (long p = 0; p < used; ++p) {
      const float weight = s[p] / total;
#pragma omp simd
      for (long f = 0; f < n; ++f) to[f] += weight * v[p * n + f];
    }
  }
}

} // namespace by_hand
