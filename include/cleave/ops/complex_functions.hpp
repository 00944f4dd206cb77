// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/functions.hpp>
#include <cleave/ops/slopes.hpp>

#include <cmath>
#include <limits>
#include <type_traits>

// Functions of complex numbers, on host and device, with the special values of C99, Annex G. The functions of the C++
// library are not for devices, and those of Kokkos overflow where the result is a number. Nothing overflows or
// underflows in between.

namespace cleave { inline namespace v0 { namespace detail {

/// A complex number without operators, so that the rooms that plan see no library of complex numbers.
template <class R>
struct complex_parts {
  R re, im;
};

/// Variables, since device code must not call numeric_limits; nor may it refer to them, as `?:` may.
template <class R>
struct range_of {
  static constexpr R infinity = std::numeric_limits<R>::infinity(), nan = std::numeric_limits<R>::quiet_NaN();
  /// Beyond a fourth of the greatest number, and below numbers whose squares have all digits as parts of a sum, numbers
  /// are scaled first.
  static constexpr R large = std::numeric_limits<R>::max() / 4,
                     small = std::numeric_limits<R>::min() * 4 / std::numeric_limits<R>::epsilon();
  static constexpr int digits = std::numeric_limits<R>::digits;
  /// 2 to the power of `digits`, and its square.
  static constexpr R lift = 1 / std::numeric_limits<R>::epsilon() * 2, lift_squared = lift * lift;
  /// Below the logarithm of the greatest number.
  static constexpr R log_of_most = digits == 24 ? R(88.7) : R(709.7);
  /// From here on the nearest number to tanh is 1.
  static constexpr R tanh_is_1 = digits == 24 ? R(11) : R(22);
};
template <class R>
CLEAVE_FUNCTION bool is_finite(R x) {
  return x - x == R(0);
}
template <class R>
CLEAVE_FUNCTION bool is_infinite(R x) {
  return std::fabs(x) == range_of<R>::infinity;
}
/// A zero with the sign of x.
template <class R>
CLEAVE_FUNCTION R zero_like(R x) {
  return std::copysign(R(0), x);
}

template <class R>
CLEAVE_FUNCTION complex_parts<R> complex_exp(R x, R y) {
  using limits = range_of<R>;
  constexpr R nan = limits::nan;
  if (y == R(0)) return {std::exp(x), y};
  if (!is_finite(y)) {
    if (x == -limits::infinity) return {R(0), zero_like(y)};
    return {x == limits::infinity ? x : nan, nan};
  }
  if (!(x > limits::log_of_most)) return {std::exp(x) * std::cos(y), std::exp(x) * std::sin(y)};
  const R root = std::exp(x * R(0.5));
  return {root * std::cos(y) * root, root * std::sin(y) * root};
}

template <class R>
CLEAVE_FUNCTION complex_parts<R> complex_log(R x, R y) {
  using limits = range_of<R>;
  constexpr R log_2 = R(0.69314718055994530942);
  const R a = std::fabs(x), b = std::fabs(y), angle = std::atan2(y, x);
  const R most = a > b ? a : b, least = a > b ? b : a;
  if (most > limits::large) return {std::log(std::hypot(most * R(0.25), least * R(0.25))) + 2 * log_2, angle};
  if (most < limits::small)
    return {std::log(std::hypot(most * limits::lift, least * limits::lift)) - limits::digits * log_2, angle};
  // Near the unit circle the logarithm is that of 1 plus a small difference.
  if (most > R(0.5) && most < R(2)) return {R(0.5) * std::log1p((most - R(1)) * (most + R(1)) + least * least), angle};
  return {std::log(std::hypot(most, least)), angle};
}

template <class R>
CLEAVE_FUNCTION complex_parts<R> complex_sqrt(R x, R y) {
  using limits = range_of<R>;
  if (is_infinite(y)) return {limits::infinity, y};
  if (x == limits::infinity) return {x, y == y ? zero_like(y) : y};
  if (x == -limits::infinity) return {y == y ? R(0) : y, std::copysign(limits::infinity, y)};
  if (x == R(0) && y == R(0)) return {R(0), y};
  const R most = std::fabs(x) > std::fabs(y) ? std::fabs(x) : std::fabs(y);
  const R up = most > limits::large ? R(0.25) : most < limits::small ? limits::lift_squared : R(1);
  const R down = most > limits::large ? R(2) : most < limits::small ? R(1) / limits::lift : R(1);
  const R p = x * up, q = y * up, root = std::sqrt((std::fabs(p) + std::hypot(p, q)) * R(0.5));
  const R other = std::fabs(q) / (R(2) * root);
  return {(p < R(0) ? other : root) * down, std::copysign((p < R(0) ? root : other) * down, y)};
}

/// The hyperbolic sine; the sine of i z is i times this.
template <class R>
CLEAVE_FUNCTION complex_parts<R> complex_sinh(R x, R y) {
  using limits = range_of<R>;
  constexpr R nan = limits::nan;
  if (y == R(0)) return {std::sinh(x), y};
  if (!is_finite(y)) return {x == R(0) || is_infinite(x) ? x : nan, nan};
  const R size = std::fabs(x), c = std::cos(y), s = std::sin(y);
  if (!(size > limits::log_of_most)) return {std::sinh(x) * c, std::cosh(x) * s};
  const R root = std::exp(size * R(0.5)), half = R(0.5) * root;
  return {std::copysign(half, x) * c * root, half * s * root};
}
template <class R>
CLEAVE_FUNCTION complex_parts<R> complex_cosh(R x, R y) {
  using limits = range_of<R>;
  constexpr R nan = limits::nan;
  if (y == R(0)) return {std::cosh(x), x == x ? std::copysign(R(1), x) * y : y};
  if (!is_finite(y)) return {is_infinite(x) ? std::fabs(x) : nan, x == R(0) ? x : nan};
  const R size = std::fabs(x), c = std::cos(y), s = std::sin(y);
  if (!(size > limits::log_of_most)) return {std::cosh(x) * c, std::sinh(x) * s};
  const R root = std::exp(size * R(0.5)), half = R(0.5) * root;
  return {half * c * root, std::copysign(half, x) * s * root};
}

// By the tangent of y and the hyperbolic sine of x, in which nothing cancels (Kahan 1987).
template <class R>
CLEAVE_FUNCTION complex_parts<R> complex_tanh(R x, R y) {
  using limits = range_of<R>;
  constexpr R nan = limits::nan;
  if (is_infinite(x)) return {std::copysign(R(1), x), is_finite(y) ? zero_like(std::sin(R(2) * y)) : zero_like(y)};
  if (!is_finite(y)) return {x == R(0) ? x : nan, nan};
  if (y == R(0)) return {std::tanh(x), y};
  const R size = std::fabs(x);
  if (size > limits::tanh_is_1)
    return {std::copysign(R(1), x), R(4) * std::sin(y) * std::cos(y) * std::exp(R(-2) * size)};
  const R t = std::tan(y), b = R(1) + t * t, s = std::sinh(x), below = R(1) + b * s * s;
  return {b * std::sqrt(R(1) + s * s) * s / below, t / below};
}

template <class R>
CLEAVE_FUNCTION complex_parts<R> complex_quotient(complex_parts<R> n, complex_parts<R> d) {
  using limits = range_of<R>;
  // Powers of two bring both near 1. The quotient takes them back in an order that is not beyond the result.
  const R up = scale_of(n.re, n.im), scale = scale_of(d.re, d.im), back = R(1) / up;
  R a = n.re * up, b = n.im * up, c = d.re * scale, e = d.im * scale;
  const R square = c * c + e * e;
  const auto scaled = [&](R x) { return (scale > R(1)) == (back > R(1)) ? x * scale * back : x * (scale * back); };
  const complex_parts<R> q{scaled((a * c + b * e) / square), scaled((b * c - a * e) / square)};
  if (q.re == q.re || q.im == q.im) return q;
  // Quotients that are infinite or 0 by C99, G.5.1, although their parts are not numbers.
  if (square == R(0)) {
    const R infinite = std::copysign(limits::infinity, c);
    return {infinite * n.re, infinite * n.im};
  }
  const auto direction = [](R x) { return std::copysign(is_infinite(x) ? R(1) : R(0), x); };
  if ((is_infinite(a) || is_infinite(b)) && is_finite(c) && is_finite(e)) {
    a = direction(a);
    b = direction(b);
    return {limits::infinity * (a * c + b * e), limits::infinity * (b * c - a * e)};
  }
  if ((is_infinite(c) || is_infinite(e)) && is_finite(a) && is_finite(b)) {
    c = direction(c);
    e = direction(e);
    return {R(0) * (a * c + b * e), R(0) * (b * c - a * e)};
  }
  return q;
}

/// The function of an elementwise op of one complex number.
template <op Code, class R>
CLEAVE_FUNCTION complex_parts<R> complex_function(R x, R y) {
  if constexpr (Code == op::exp) return complex_exp(x, y);
  else if constexpr (Code == op::log) return complex_log(x, y);
  else if constexpr (Code == op::tanh) return complex_tanh(x, y);
  else if constexpr (Code == op::sqrt) return complex_sqrt(x, y);
  else if constexpr (Code == op::rsqrt) return complex_quotient({R(1), R(0)}, complex_sqrt(x, y));
  else if constexpr (Code == op::sin) {
    const complex_parts<R> turned = complex_sinh(y, x);
    return {turned.im, turned.re};
  } else {
    static_assert(Code == op::cos, "cleave: not an op of one complex number");
    const complex_parts<R> turned = complex_cosh(y, x);
    return {turned.re, -turned.im};
  }
}

/// Of float in double, in which the logarithm times the exponent keeps all digits of the result.
template <class R>
CLEAVE_FUNCTION complex_parts<R> complex_power(complex_parts<R> base, complex_parts<R> exponent) {
  if constexpr (std::is_same_v<R, float>) {
    const auto power = complex_power<double>({base.re, base.im}, {exponent.re, exponent.im});
    return {static_cast<float>(power.re), static_cast<float>(power.im)};
  } else {
    if (exponent.re == R(0) && exponent.im == R(0)) return {R(1), R(0)};
    if (exponent.im == R(0) && base.im == R(0) && base.re > R(0))
      return {std::pow(base.re, exponent.re), zero_like(std::copysign(R(1), exponent.re) * base.im)};
    const complex_parts<R> l = complex_log(base.re, base.im);
    // A real exponent multiplies no infinite part by 0.
    if (exponent.im == R(0)) return complex_exp(exponent.re * l.re, exponent.re * l.im);
    return complex_exp(exponent.re * l.re - exponent.im * l.im, exponent.re * l.im + exponent.im * l.re);
  }
}

}}} // namespace cleave::v0::detail
