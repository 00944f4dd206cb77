// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "by_hand_chain.hpp"

namespace by_hand {

void chain_rounded(const float* __restrict in, float* __restrict out, long n) {
#pragma omp simd
  for (long i = 0; i < n; ++i) out[i] = ten(in[i]);
}
void chain_rounded_in_place(float* at, long n) {
#pragma omp simd
  for (long i = 0; i < n; ++i) at[i] = ten(at[i]);
}

} // namespace by_hand
