// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/ops/scalar.hpp>
#include <cleave/ops/user.hpp>

// Functions of which derivatives are made, where formulas of sums and squares would lose digits or overflow in between.
// They have no branch, so that loops over them become vector code.

namespace cleave { inline namespace v0 {

namespace detail {

/// x without the lower half of its digits, so that its square is exact.
CLEAVE_FUNCTION inline float upper_digits(float x) { return float_of_bits(bits_of_float(x) & ~0xFFF); }
CLEAVE_FUNCTION inline double upper_digits(double x) {
  return double_of_bits(bits_of_double(x) & ~std::uint64_t{0x7FFFFFF});
}

/// The power of two that brings the larger one of two numbers near 1; the smallest one for infinity.
CLEAVE_FUNCTION inline float scale_of(float x, float y) {
  const std::int32_t a = magnitude_of(x), b = magnitude_of(y), most = a > b ? a : b;
  const std::int32_t scale = 0x7F000000 - (most & infinite_magnitude);
  return float_of_bits(scale > 0x00800000 ? scale : 0x00800000);
}
CLEAVE_FUNCTION inline double scale_of(double x, double y) {
  constexpr std::int64_t infinite = std::int64_t{0x7FF} << 52, least = std::int64_t{1} << 52;
  const auto a = static_cast<std::int64_t>(bits_of_double(std::fabs(x))),
             b = static_cast<std::int64_t>(bits_of_double(std::fabs(y)));
  const std::int64_t scale = (std::int64_t{0x7FE} << 52) - ((a > b ? a : b) & infinite);
  return double_of_bits(static_cast<std::uint64_t>(scale > least ? scale : least));
}

namespace slopes {

using symbols::g, symbols::r, symbols::x, symbols::y;

struct bell;
struct reciprocal_part;
struct direction;

} // namespace slopes
} // namespace detail

CLEAVE_IN_FORMULAS(detail::slopes::bell)
CLEAVE_IN_FORMULAS(detail::slopes::reciprocal_part)
CLEAVE_IN_FORMULAS(detail::slopes::direction)

namespace detail::slopes {

/// exp(-x * x). A rounded square would change the digits of the exponential: most of it is exact.
struct bell {
  static constexpr elementwise_entry entry{"bell", {-2.0 * x * r * g}};
  template <std::floating_point T>
  CLEAVE_FUNCTION T operator()(T a) const {
    // Beyond, the result is 0.
    constexpr T end = sizeof(T) == 4 ? T(16) : T(30);
    const T size = std::fabs(a), within = either_of(size > end, end, size), upper = upper_digits(within);
    return exp_of(-upper * upper) * exp_of((upper - within) * (upper + within));
  }
};

/// x / (x * x + y * y), the real part of 1 / (x + i y).
struct reciprocal_part {
  static constexpr elementwise_entry entry{"reciprocal_part",
                                           {g * (applied<reciprocal_part>(y, x) - r) *
                                                (applied<reciprocal_part>(y, x) + r),
                                            -2.0 * g * r * applied<reciprocal_part>(y, x)}};
  template <std::floating_point T>
  CLEAVE_FUNCTION T operator()(T a, T b) const {
    const T scale = scale_of(a, b), p = a * scale, q = b * scale;
    return p * scale / (p * p + q * q);
  }
};

/// x / sqrt(x * x + y * y), the cosine of the angle of the point (x, y).
struct direction {
  static constexpr elementwise_entry entry{"direction",
                                           {g * applied<direction>(y, x) * applied<reciprocal_part>(y, x),
                                            -g * r * applied<reciprocal_part>(y, x)}};
  template <std::floating_point T>
  CLEAVE_FUNCTION T operator()(T a, T b) const {
    const T scale = scale_of(a, b), p = a * scale, q = b * scale;
    return p / sqrt_of(p * p + q * q);
  }
};

} // namespace detail::slopes

CLEAVE_ENTRY_IN_FORMULAS(detail::slopes::bell)
CLEAVE_ENTRY_IN_FORMULAS(detail::slopes::reciprocal_part)
CLEAVE_ENTRY_IN_FORMULAS(detail::slopes::direction)

}} // namespace cleave::v0
