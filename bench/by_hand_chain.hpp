// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cmath>

namespace by_hand {

// Files with different flags include it, so each has a function of its own.
namespace {
inline float ten(float x) {
  float y = x * 1.5f;
  y = y + 0.25f;
  y = y * y;
  y = y - x;
  y = std::fabs(y);
  y = y + 1.0f;
  y = std::sqrt(y);
  y = y * 0.5f;
  y = y > 0.75f ? y : 0.75f;
  return 1.0f / y;
}
} // namespace

/// Ten operations on each number, whose root and quotient are rounded as IEEE 754 says.
void chain_rounded(const float* in, float* out, long n);
void chain_rounded_in_place(float* at, long n);

} // namespace by_hand
