// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/functions.hpp>

#include <cmath>
#include <cstdint>

// exp, tanh and erf of double without branches and calls, so that loops over them become vector code; their relative
// error is below 4e-16. They are for processors with fused multiply-add and vectors of four. Others take longer for
// them than for the functions of the C++ library, and devices have such functions already.

#if defined(__FMA__) && defined(__AVX2__) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
#define CLEAVE_VECTOR_DOUBLES 1
#else
#define CLEAVE_VECTOR_DOUBLES 0
#endif

namespace cleave { inline namespace v0 { namespace detail {

/// A polynomial by Horner's rule; the coefficient of the highest power comes first.
template <class T, class... Coefficients>
[[gnu::always_inline]] CLEAVE_FUNCTION inline T polynomial(T x, T first, Coefficients... next) {
  ((first = first * x + next), ...);
  return first;
}

CLEAVE_FUNCTION inline double double_of_bits(std::uint64_t bits) { return __builtin_bit_cast(double, bits); }
CLEAVE_FUNCTION inline std::uint64_t bits_of_double(double x) { return __builtin_bit_cast(std::uint64_t, x); }
/// a if the condition holds, else b: by a mask, of which compilers make no branch.
CLEAVE_FUNCTION inline double chosen(bool condition, double a, double b) {
  const std::uint64_t mask = std::uint64_t{0} - std::uint64_t{condition};
  return double_of_bits((bits_of_double(a) & mask) | (bits_of_double(b) & ~mask));
}

/// 2^n as a number whose lowest bits, those of 1.5 * 2^52 + n, are given.
CLEAVE_FUNCTION inline double power_of_two(double shifted) {
  return double_of_bits((bits_of_double(shifted) + 1023) << 52);
}

// Range reduction by ln 2 in two parts, and the Taylor polynomial of degree 13.
CLEAVE_FUNCTION inline double exp_of(double x) {
#if !CLEAVE_VECTOR_DOUBLES
  return std::exp(x);
#else
  // Adding 1.5 * 2^52 leaves the nearest integer in the low bits.
  constexpr double rounding = 0x1.8p52;
  const double whole = (x * 1.4426950408889634074 + rounding) - rounding;
  const double r = (x - whole * 6.93147180369123816490e-01) - whole * 1.90821492927058770002e-10;
  double p = polynomial(r, 1.6059043836821613e-10, 2.0876756987868099e-09, 2.5052108385441719e-08,
                        2.7557319223985893e-07, 2.7557319223985891e-06, 2.4801587301587302e-05, 1.9841269841269841e-04,
                        1.3888888888888889e-03, 8.3333333333333332e-03, 4.1666666666666664e-02, 1.6666666666666666e-01,
                        0.5);
  p = p * r * r + r + 1.0;
  // In two steps, so that numbers near the limits keep their remaining digits.
  const double half = whole * 0.5 + rounding;
  double result = p * power_of_two(half) * power_of_two((whole - (half - rounding)) + rounding);
  result = chosen(x >= -745.2, result, 0.0);
  // Not below: too large, or NaN.
  return chosen(x <= 709.782712893384, result, x + __builtin_huge_val());
#endif
}

// A rational function near 0 (Cephes, tanh), and exp beyond.
CLEAVE_FUNCTION inline double tanh_of(double x) {
#if !CLEAVE_VECTOR_DOUBLES
  return std::tanh(x);
#else
  constexpr std::uint64_t sign = std::uint64_t{1} << 63;
  const double size = double_of_bits(bits_of_double(x) & ~sign);
  const double s = x * x;
  const double p = polynomial(s, -9.64399179425052238628e-01, -9.92877231001918586564e+01, -1.61468768441708447952e+03);
  const double q = polynomial(s, 1.0, 1.12811678491632931402e+02, 2.23548839060100448583e+03,
                              4.84406305325125486048e+03);
  const double near = size + size * s * (p / q), far = 1.0 - 2.0 / (exp_of(2.0 * size) + 1.0);
  return double_of_bits(bits_of_double(chosen(size < 0.625, near, far)) | (bits_of_double(x) & sign));
#endif
}

// A rational function near 0, and 1 - erfc(x) beyond (Cephes, ndtr).
CLEAVE_FUNCTION inline double erf_of(double x) {
#if !CLEAVE_VECTOR_DOUBLES
  return std::erf(x);
#else
  constexpr std::uint64_t sign = std::uint64_t{1} << 63;
  const double given = double_of_bits(bits_of_double(x) & ~sign);
  // From 6 on, the nearest number is 1. NaN stays.
  const double size = chosen(given > 6.0, 6.0, given), s = size * size;
  const double t = polynomial(s, 9.60497373987051638749, 9.00260197203842689217e+01, 2.23200534594684319226e+03,
                              7.00332514112805075473e+03, 5.55923013010394962768e+04);
  const double u = polynomial(s, 1.0, 3.35617141647503099647e+01, 5.21357949780152679795e+02,
                              4.59432382970980127987e+03, 2.26290000613890934246e+04, 4.92673942608635921086e+04);
  const double p = polynomial(size, 2.46196981473530512524e-10, 5.64189564831068821977e-01, 7.46321056442269912687e+00,
                              4.86371970985681366614e+01, 1.96520832956077098242e+02, 5.26445194995477358631e+02,
                              9.34528527171957607540e+02, 1.02755188689515710272e+03, 5.57535335369399327526e+02);
  const double q = polynomial(size, 1.0, 1.32281951154744992508e+01, 8.67072140885989742329e+01,
                              3.54937778887819891062e+02, 9.75708501743205489753e+02, 1.82390916687909736289e+03,
                              2.24633760818710981792e+03, 1.65666309194161350182e+03, 5.57535340817727675546e+02);
  const double near = size * (t / u), far = 1.0 - exp_of(-s) * (p / q);
  return double_of_bits(bits_of_double(chosen(size < 1.0, near, far)) | (bits_of_double(x) & sign));
#endif
}

}}} // namespace cleave::v0::detail
