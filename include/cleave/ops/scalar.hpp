// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/functions.hpp>
#include <cleave/graph/graph.hpp>
#include <cleave/layout/layout.hpp>
#include <cleave/ops/double_functions.hpp>
#include <cleave/ops/philox.hpp>
#include <cleave/type/narrow.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

// The elementwise ops for one element, on host and device. The float versions of exp, log, tanh, sigmoid, gelu and erf
// have no branch and call nothing, so that loops over them become vector code; their relative error is some 1e-7.

namespace cleave { inline namespace v0 {

namespace detail {

CLEAVE_FUNCTION inline float float_of_bits(std::int32_t bits) { return __builtin_bit_cast(float, bits); }
CLEAVE_FUNCTION inline std::int32_t bits_of_float(float x) { return __builtin_bit_cast(std::int32_t, x); }

/// |x| as an integer: in the order of magnitudes, NaN above all.
CLEAVE_FUNCTION inline std::int32_t magnitude_of(float x) { return bits_of_float(x) & 0x7FFFFFFF; }
inline constexpr std::int32_t infinite_magnitude = 0x7F800000;

// Compilers make branches of selections between floats, into which they then sink the computation. Masks they leave
// alone.
/// a if the condition holds, else b.
CLEAVE_FUNCTION inline std::int32_t chosen(bool condition, std::int32_t a, std::int32_t b) {
  const std::int32_t mask = -std::int32_t{condition};
  return (a & mask) | (b & ~mask);
}
CLEAVE_FUNCTION inline bool both(bool a, bool b) { return (a & b) != 0; }
CLEAVE_FUNCTION inline bool either(bool a, bool b) { return (a | b) != 0; }
/// x with its magnitude cut at `limit` (given as an integer).
CLEAVE_FUNCTION inline float clamped(float x, std::int32_t limit) {
  const std::int32_t magnitude = magnitude_of(x);
  return float_of_bits((magnitude < limit ? magnitude : limit) |
                       (bits_of_float(x) & static_cast<std::int32_t>(0x80000000u)));
}
/// y, but NaN if x is.
CLEAVE_FUNCTION inline float unless_nan(float x, float y) {
  return float_of_bits(bits_of_float(y) | chosen(magnitude_of(x) > infinite_magnitude, 0x7FC00000, 0));
}

// Range reduction by ln 2 in two parts and a polynomial of degree 6 (Cephes, expf). Results that would be denormal are
// 0.
CLEAVE_FUNCTION inline float exp_of(float x) {
  // Adding 1.5 * 2^23 leaves the nearest integer in the low bits.
  const float shifted = x * 1.44269504088896341f + 12582912.0f;
  const float whole = shifted - 12582912.0f;
  float r = x - whole * 0.693359375f;
  r = r + whole * 2.12194440e-4f;
  float p = polynomial(r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                       5.0000001201e-1f);
  p = p * r * r + r + 1.0f;
  // The integer goes to the exponent. Outside the range of exponents this is noise, and replaced.
  const std::uint32_t power = static_cast<std::uint32_t>(bits_of_float(shifted)) << 23;
  std::int32_t result = static_cast<std::int32_t>(static_cast<std::uint32_t>(bits_of_float(p)) + power);
  result = chosen(x >= -87.3365402f, result, 0);
  // Not below the first number whose exponential is too large: too large, or NaN.
  return float_of_bits(chosen(x < 88.7228394f, result, bits_of_float(x + __builtin_huge_valf())));
}

// Near 0 the Taylor polynomial of degree 8, times x last, so that small numbers and -0 keep all digits.
CLEAVE_FUNCTION inline float expm1_of(float x) {
  const float t = clamped(x, 0x3F000000); // 1/2
  const float p = polynomial(t, 2.4801587e-5f, 1.9841270e-4f, 1.3888889e-3f, 8.3333333e-3f, 4.1666667e-2f,
                             1.6666667e-1f, 0.5f, 1.0f);
  return float_of_bits(chosen(magnitude_of(x) < 0x3F000000, bits_of_float(t * p), bits_of_float(exp_of(x) - 1.0f)));
}

// Mantissa in [sqrt(1/2), sqrt(2)) and a polynomial of degree 9 (Cephes, logf).
CLEAVE_FUNCTION inline float log_of(float x) {
  const bool tiny = magnitude_of(x) < 0x00800000;
  const float big = x * float_of_bits(chosen(tiny, 0x4B000000, 0x3F800000)); // 2^23 or 1
  const std::int32_t bits = bits_of_float(big);
  const std::int32_t scaled = (bits - 0x3F3504F3) >> 23;
  const float m = float_of_bits(bits - static_cast<std::int32_t>(static_cast<std::uint32_t>(scaled) << 23)) - 1.0f;
  const float e = static_cast<float>(scaled - chosen(tiny, 23, 0));
  const float p = polynomial(m, 7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f,
                             1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f,
                             3.3333331174e-1f);
  const float square = m * m;
  float y = m * square * p - 2.12194440e-4f * e - 0.5f * square;
  y = m + y + 0.693359375f * e;
  std::int32_t result = bits_of_float(y);
  result = chosen(magnitude_of(x) == 0, static_cast<std::int32_t>(0xFF800000u), result);
  result = chosen(bits_of_float(x) == infinite_magnitude, infinite_magnitude, result);
  // Negative numbers, but for -0, give NaN.
  result |= chosen(both(bits_of_float(x) < 0, magnitude_of(x) != 0), 0x7FC00000, 0);
  return unless_nan(x, float_of_bits(result));
}

// An odd rational function of degree 13 over 6, the one of Eigen (MPL-2.0, coefficients only).
CLEAVE_FUNCTION inline float tanh_of(float x) {
  const float t = clamped(x, 0x41000000); // 8
  const float s = t * t;
  const float p = polynomial(s, -2.76076847742355e-16f, 2.00018790482477e-13f, -8.60467152213735e-11f,
                             5.12229709037114e-08f, 1.48572235717979e-05f, 6.37261928875436e-04f,
                             4.89352455891786e-03f);
  const float q = polynomial(s, 1.19825839466702e-06f, 1.18534705686654e-04f, 2.26843463243900e-03f,
                             4.89352518554385e-03f);
  const float y = clamped(t * (p / q), 0x3F800000); // 1, past which rounding may lead
  // Below 4e-4 x itself is closer.
  return unless_nan(x, float_of_bits(chosen(magnitude_of(x) < 0x39D1B717, bits_of_float(x), bits_of_float(y))));
}

CLEAVE_FUNCTION inline float erf_of(float x) {
  const float t = clamped(x, 0x40800000); // 4
  const float s = t * t;
  const float p = polynomial(s, -2.72614225801306e-10f, 2.77068142495902e-08f, -2.10102402082508e-06f,
                             -5.69250639462346e-05f, -7.34990630326855e-04f, -2.95459980854025e-03f,
                             -1.60960333262415e-02f);
  const float q = polynomial(s, -1.45660718464996e-05f, -2.13374055278905e-04f, -1.68282697438203e-03f,
                             -7.37332916720468e-03f, -1.42647390514189e-02f);
  return unless_nan(x, clamped(t * (p / q), 0x3F800000));
}

// The same functions for the other types; ops/double_functions.hpp has exp, tanh and erf.
CLEAVE_FUNCTION inline double expm1_of(double x) { return std::expm1(x); }
CLEAVE_FUNCTION inline double log_of(double x) { return std::log(x); }
// Vector code with -fno-math-errno, which the target of CMake has.
CLEAVE_FUNCTION inline float sqrt_of(float x) { return std::sqrt(x); }
CLEAVE_FUNCTION inline double sqrt_of(double x) { return std::sqrt(x); }

/// Integers compute in the unsigned type, in which overflow wraps.
template <class T>
using wrapping = std::make_unsigned_t<std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>>;

template <class T>
CLEAVE_FUNCTION inline T power_of(T base, T exponent) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::pow(base, exponent);
  } else {
    using U = wrapping<T>;
    if constexpr (std::is_signed_v<T>)
      if (exponent < 0) return static_cast<T>(base == 1 ? 1 : base == -1 ? ((exponent & 1) != 0 ? -1 : 1) : 0);
    // 64 bits, since a product of two shorter unsigned numbers is computed in int and may overflow there.
    std::uint64_t result = 1, square = static_cast<U>(base);
    for (U left = static_cast<U>(exponent); left != 0; left = static_cast<U>(left >> 1)) {
      if ((left & 1) != 0) result *= square;
      square *= square;
    }
    return static_cast<T>(result);
  }
}

template <class T>
CLEAVE_FUNCTION inline T quotient_of(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a / b;
  } else {
    // Nothing aborts: x / 0 is 0, and the one signed quotient that overflows wraps.
    if (b == T(0)) return T(0);
    if constexpr (std::is_signed_v<T>)
      if (b == T(-1)) return static_cast<T>(std::uint64_t{0} - static_cast<std::uint64_t>(a));
    return static_cast<T>(a / b);
  }
}

/// The numbers of type From at the ends of an integer type. Variables, since device code must not call numeric_limits.
template <class To, class From>
struct ends_of {
  static constexpr To most = std::numeric_limits<To>::max();
  /// The first number beyond the end is a power of two.
  static constexpr From lowest = static_cast<From>(std::numeric_limits<To>::min()),
                        beyond = From(2) * static_cast<From>(most / 2 + 1);
  /// Whether From has the last number of the type; else `last` is the one below it.
  static constexpr bool exact = std::numeric_limits<To>::digits <= std::numeric_limits<From>::digits;
  static constexpr From last = exact ? static_cast<From>(most)
                                     : beyond * (From(1) - std::numeric_limits<From>::epsilon() / 2);
};

} // namespace detail

/// The conversion of elements to another type. Numbers become bool by "is not 0". Of floating-point numbers the
/// fraction is dropped; numbers beyond the ends of an integer type become the end, and NaN 0, as in XLA.
template <class To, class From>
struct conversion {
  CLEAVE_FUNCTION static To of(From x) {
    if constexpr (std::is_same_v<To, bool>) return x != From(0);
    // g++ makes no vector code of a conversion from bool to float. These are the bits of 1.
    else if constexpr (std::is_same_v<From, bool> && std::is_same_v<To, float>)
      return detail::float_of_bits(detail::chosen(x, 0x3F800000, 0));
    else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
      // The converted numbers are within the type, on all lanes.
      using ends = detail::ends_of<To, From>;
      constexpr From lowest = ends::lowest, beyond = ends::beyond, last = ends::last;
      constexpr To most = ends::most;
      const From above = x > lowest ? x : lowest, within = above < last ? above : last;
      if constexpr (ends::exact) return static_cast<To>(x != x ? From(0) : within);
      else return x != x ? To(0) : x >= beyond ? most : static_cast<To>(within);
    } else return static_cast<To>(x);
  }
};
template <class To, class From>
CLEAVE_FUNCTION inline To convert(From x) {
  return conversion<To, From>::of(x);
}

namespace detail {

/// a if the condition holds, else b. On the host without a branch, so that the loop around it becomes vector code:
/// compilers move the computation of a and b behind a condition, and leave a branch there.
template <class T>
CLEAVE_FUNCTION inline T either_of(bool condition, T a, T b) {
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__) || defined(__SYCL_DEVICE_ONLY__)
  return condition ? a : b;
#else
  if constexpr (std::is_same_v<T, double>) {
    return chosen(condition, a, b);
  } else if constexpr (std::is_same_v<T, float>) {
    return float_of_bits(chosen(condition, bits_of_float(a), bits_of_float(b)));
  } else if constexpr (std::is_integral_v<T> && sizeof(T) >= 4) {
    using U = std::make_unsigned_t<T>;
    const U mask = U{0} - static_cast<U>(condition);
    return static_cast<T>((static_cast<U>(a) & mask) | (static_cast<U>(b) & ~mask));
  } else if constexpr (std::is_same_v<T, bool>) {
    return either(both(condition, a), both(!condition, b));
  } else {
    return condition ? a : b;
  }
#endif
}

} // namespace detail

/// The function of an elementwise op. T is the type of the operands, for 16-bit numbers float; comparisons give bool.
/// of(a), of(a, b), or for op::select of(predicate, a, b). NaN passes through maximum, minimum and relu.
template <op Code, class T>
struct scalar_op {
  CLEAVE_FUNCTION static auto of(T a) {
    using detail::exp_of, detail::expm1_of, detail::log_of, detail::tanh_of, detail::erf_of, detail::sqrt_of;
    constexpr bool real = std::is_floating_point_v<T>;
    // Integers are converted to double for functions that are not theirs.
    using R = std::conditional_t<real, T, double>;
    if constexpr (Code == op::neg) {
      if constexpr (real) return -a;
      else return static_cast<T>(std::uint64_t{0} - static_cast<std::uint64_t>(a));
    } else if constexpr (Code == op::abs) {
      if constexpr (real) return std::fabs(a);
      else if constexpr (std::is_signed_v<T>)
        return a < 0 ? static_cast<T>(std::uint64_t{0} - static_cast<std::uint64_t>(a)) : a;
      else return a;
    } else if constexpr (Code == op::sign) {
      if constexpr (real) return a != a ? a : a > T(0) ? T(1) : a < T(0) ? T(-1) : T(0);
      else return static_cast<T>((a > T(0)) - (a < T(0)));
    } else if constexpr (Code == op::relu) {
      return a < T(0) ? T(0) : a;
    } else if constexpr (Code == op::floor) {
      if constexpr (real) return std::floor(a);
      else return a;
    } else if constexpr (Code == op::conj || Code == op::real) {
      return a;
    } else if constexpr (Code == op::imag) {
      return T(0);
    } else if constexpr (Code == op::logical_not) {
      return !convert<bool>(a);
    } else {
      const R x = static_cast<R>(a);
      R y{};
      if constexpr (Code == op::exp) y = exp_of(x);
      else if constexpr (Code == op::expm1) y = expm1_of(x);
      else if constexpr (Code == op::log) y = log_of(x);
      else if constexpr (Code == op::tanh) y = tanh_of(x);
      else if constexpr (Code == op::sqrt) y = sqrt_of(x);
      else if constexpr (Code == op::rsqrt) y = R(1) / sqrt_of(x);
      else if constexpr (Code == op::erf) y = erf_of(x);
      else if constexpr (Code == op::sigmoid) y = R(1) / (R(1) + exp_of(-x));
      // x / 2 (1 + tanh(u)) with u = sqrt(2 / pi) (x + 0.044715 x^3), written so that no digit cancels.
      else if constexpr (Code == op::gelu)
        y = x / (R(1) + exp_of(x * (R(-1.5957691216057307) + R(-1.5957691216057307 * 0.044715) * x * x)));
      else if constexpr (Code == op::sin) y = std::sin(x);
      else if constexpr (Code == op::cos) y = std::cos(x);
      else static_assert(Code == op::exp, "cleave: not an elementwise op of one operand");
      return static_cast<T>(y);
    }
  }

  CLEAVE_FUNCTION static auto of(T a, T b) {
    constexpr bool real = std::is_floating_point_v<T>;
    [[maybe_unused]] const auto wide = [](T x) {
      if constexpr (std::is_integral_v<T>) return static_cast<std::uint64_t>(x);
      else return x;
    };
    if constexpr (Code == op::add) {
      if constexpr (real) return a + b;
      else return convert<T>(wide(a) + wide(b));
    } else if constexpr (Code == op::sub) {
      if constexpr (real) return a - b;
      else return convert<T>(wide(a) - wide(b));
    } else if constexpr (Code == op::mul) {
      if constexpr (real) return a * b;
      else return convert<T>(wide(a) * wide(b));
    } else if constexpr (Code == op::div) {
      return detail::quotient_of(a, b);
    } else if constexpr (Code == op::pow) {
      return detail::power_of(a, b);
    } else if constexpr (Code == op::maximum) {
      // The first is one instruction, which gives b if it cannot compare.
      const T larger = a > b ? a : b;
      if constexpr (real) return detail::either_of(a != a, a, larger);
      else return larger;
    } else if constexpr (Code == op::minimum) {
      const T smaller = a < b ? a : b;
      if constexpr (real) return detail::either_of(a != a, a, smaller);
      else return smaller;
    } else if constexpr (Code == op::equal) {
      return a == b;
    } else if constexpr (Code == op::not_equal) {
      return a != b;
    } else if constexpr (Code == op::less) {
      return a < b;
    } else if constexpr (Code == op::less_equal) {
      return a <= b;
    } else if constexpr (Code == op::greater) {
      return a > b;
    } else if constexpr (Code == op::greater_equal) {
      return a >= b;
    } else if constexpr (Code == op::logical_and) {
      return detail::both(convert<bool>(a), convert<bool>(b));
    } else {
      static_assert(Code == op::logical_or, "cleave: not an elementwise op of two operands");
      return detail::either(convert<bool>(a), convert<bool>(b));
    }
  }

  CLEAVE_FUNCTION static T of(bool predicate, T a, T b)
    requires(Code == op::select)
  {
    return detail::either_of(predicate, a, b);
  }
};

namespace detail {

/// cos(2 pi v) for v in [0, 1]: the sine of the distance to the nearest zero, as an odd polynomial.
CLEAVE_FUNCTION inline float cos_of_turns(float v) {
  const float t = v - 0.5f;
  const float s = (float_of_bits(magnitude_of(t)) - 0.25f) * 6.2831853071795865f;
  const float square = s * s;
  const float p = polynomial(square, -2.5052108e-8f, 2.7557319e-6f, -1.9841270e-4f, 8.3333333e-3f, -1.6666667e-1f);
  return s + s * square * p;
}
CLEAVE_FUNCTION inline double cos_of_turns(double v) { return std::cos(6.283185307179586 * v); }

/// 53 bits of two words.
CLEAVE_FUNCTION inline double long_number(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>(high) * 2097152.0 + static_cast<double>(low >> 11);
}

} // namespace detail

/// How many bits a random number in [0, 1) has: those of a number just below 1, so that none is rounded up to 1.
CLEAVE_FUNCTION constexpr int random_digits(element e) {
  return e == element::f64 ? 53 : e == element::f32 ? 24 : e == element::f16 ? 11 : 8;
}

/// The functions op::random and op::normal, in the type in which results of type E are computed.
template <op Code, element E>
struct random_op {
  CLEAVE_FUNCTION static auto of(std::uint64_t key, std::uint64_t row, std::uint64_t column) {
    const random_words w = random_words_at(key, row, column);
    if constexpr (Code == op::normal) {
      // Box and Muller 1958: sqrt(-2 log u) cos(2 pi v), with u in (0, 1].
      if constexpr (E == element::f64) {
        const double u = (detail::long_number(w.word[0], w.word[1]) + 1.0) * 0x1p-53;
        return detail::sqrt_of(-2.0 * detail::log_of(u)) *
               detail::cos_of_turns(detail::long_number(w.word[2], w.word[3]) * 0x1p-53);
      } else {
        const float u = (static_cast<float>(w.word[0]) + 1.0f) * 0x1p-32f;
        return detail::sqrt_of(-2.0f * detail::log_of(u)) *
               detail::cos_of_turns(static_cast<float>(w.word[1]) * 0x1p-32f);
      }
    } else if constexpr (E == element::u32) {
      return w.word[0];
    } else if constexpr (E == element::f64) {
      return detail::long_number(w.word[0], w.word[1]) * 0x1p-53;
    } else {
      constexpr int digits = random_digits(E);
      // Signed, which converts in one instruction.
      return static_cast<float>(static_cast<std::int32_t>(w.word[0] >> (32 - digits))) *
             (1.0f / static_cast<float>(1 << digits));
    }
  }
};

namespace detail {
/// log(exp(a) + exp(b)), the same bits in both orders. Infinities, and two equal numbers, have no difference.
template <class T>
CLEAVE_FUNCTION inline T log_of_sum(T a, T b) {
  if (a == b) return a + T(0.6931471805599453);
  const T most = a > b ? a : b, least = a > b ? b : a;
  return most + scalar_op<op::log, T>::of(T(1) + scalar_op<op::exp, T>::of(least - most));
}
} // namespace detail

/// How two partial values of a reduction combine. 16-bit numbers are rounded each time: kernels combine their floats.
template <reduction How, class T>
CLEAVE_FUNCTION inline T combined(T a, T b) {
  if constexpr (!std::is_same_v<T, computed<T>>) return T(combined<How, computed<T>>(a, b));
  else if constexpr (How == reduction::sum) return scalar_op<op::add, T>::of(a, b);
  else if constexpr (How == reduction::max) return scalar_op<op::maximum, T>::of(a, b);
  else if constexpr (How == reduction::min) return scalar_op<op::minimum, T>::of(a, b);
  else if constexpr (How == reduction::prod) return scalar_op<op::mul, T>::of(a, b);
  else return detail::log_of_sum(a, b);
}

namespace detail {

template <reduction How, class T>
constexpr T make_identity() {
  using limits = std::numeric_limits<computed<T>>;
  if constexpr (How == reduction::sum) return T(0);
  else if constexpr (How == reduction::prod) return T(1);
  else if constexpr (How == reduction::max || How == reduction::logsumexp)
    return T(limits::has_infinity ? -limits::infinity() : limits::lowest());
  else return T(limits::has_infinity ? limits::infinity() : limits::max());
}

} // namespace detail

/// The value that a reduction over nothing gives. A variable, since device code must not call numeric_limits.
template <reduction How, class T>
inline constexpr T identity_of = detail::make_identity<How, T>();

}} // namespace cleave::v0
