// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/operation.hpp>

#include <cmath>
#include <concepts>
#include <numbers>

// Functions of <cmath> besides those of expr/functions.hpp, as elementwise operations with derivatives. Nothing moves.
// Element types: float, double, and 16-bit floating-point numbers, which are computed as float. Faults:
// no_function_for_element, and operand_count.

namespace cleave { inline namespace v0 {

namespace detail::mathematics {

using slopes::bell, slopes::direction, slopes::reciprocal_part;
using symbols::g, symbols::r, symbols::x, symbols::y;

#define CLEAVE_OF_ONE(name, ...) struct name;
#define CLEAVE_OF_TWO(name, ...) struct name;
#include <cleave/expr/mathematics_list.hpp>

} // namespace detail::mathematics

#define CLEAVE_OF_ONE(name, ...) CLEAVE_IN_FORMULAS(detail::mathematics::name)
#define CLEAVE_OF_TWO(name, ...) CLEAVE_IN_FORMULAS(detail::mathematics::name)
#include <cleave/expr/mathematics_list.hpp>

namespace detail::mathematics {

#define CLEAVE_OF_ONE(name, ...)                                    \
  struct name {                                                     \
    static constexpr elementwise_entry entry{#name, {__VA_ARGS__}}; \
    template <std::floating_point T>                                \
    CLEAVE_FUNCTION T operator()(T a) const {                       \
      return std::name(a);                                          \
    }                                                               \
  };
#define CLEAVE_OF_TWO(name, ...)                                    \
  struct name {                                                     \
    static constexpr elementwise_entry entry{#name, {__VA_ARGS__}}; \
    template <std::floating_point T>                                \
    CLEAVE_FUNCTION T operator()(T a, T b) const {                  \
      return std::name(a, b);                                       \
    }                                                               \
  };
#include <cleave/expr/mathematics_list.hpp>

} // namespace detail::mathematics

#define CLEAVE_OF_ONE(name, ...) CLEAVE_ENTRY_IN_FORMULAS(detail::mathematics::name)
#define CLEAVE_OF_TWO(name, ...) CLEAVE_ENTRY_IN_FORMULAS(detail::mathematics::name)
#include <cleave/expr/mathematics_list.hpp>

/// The tangent.
constexpr value tan(operand x) { return operation<detail::mathematics::tan>{}(x); }
CLEAVE_LIFT(tan)
/// The arc sine.
constexpr value asin(operand x) { return operation<detail::mathematics::asin>{}(x); }
CLEAVE_LIFT(asin)
/// The arc cosine.
constexpr value acos(operand x) { return operation<detail::mathematics::acos>{}(x); }
CLEAVE_LIFT(acos)
/// The arc tangent.
constexpr value atan(operand x) { return operation<detail::mathematics::atan>{}(x); }
CLEAVE_LIFT(atan)
/// The angle of the point (x, y), from -pi to pi; y comes first, as in <cmath>.
constexpr value atan2(operand y, operand x) { return operation<detail::mathematics::atan2>{}(y, x); }
CLEAVE_LIFT(atan2)
/// sqrt(x * x + y * y), without overflow in between.
constexpr value hypot(operand x, operand y) { return operation<detail::mathematics::hypot>{}(x, y); }
CLEAVE_LIFT(hypot)
/// The hyperbolic sine.
constexpr value sinh(operand x) { return operation<detail::mathematics::sinh>{}(x); }
CLEAVE_LIFT(sinh)
/// The hyperbolic cosine.
constexpr value cosh(operand x) { return operation<detail::mathematics::cosh>{}(x); }
CLEAVE_LIFT(cosh)
/// The inverse of the hyperbolic sine.
constexpr value asinh(operand x) { return operation<detail::mathematics::asinh>{}(x); }
CLEAVE_LIFT(asinh)
/// The inverse of the hyperbolic cosine.
constexpr value acosh(operand x) { return operation<detail::mathematics::acosh>{}(x); }
CLEAVE_LIFT(acosh)
/// The inverse of the hyperbolic tangent.
constexpr value atanh(operand x) { return operation<detail::mathematics::atanh>{}(x); }
CLEAVE_LIFT(atanh)
/// 2 to the power of x.
constexpr value exp2(operand x) { return operation<detail::mathematics::exp2>{}(x); }
CLEAVE_LIFT(exp2)
/// The logarithm to base 2.
constexpr value log2(operand x) { return operation<detail::mathematics::log2>{}(x); }
CLEAVE_LIFT(log2)
/// The logarithm to base 10.
constexpr value log10(operand x) { return operation<detail::mathematics::log10>{}(x); }
CLEAVE_LIFT(log10)
/// log(1 + x). Accurate near 0.
constexpr value log1p(operand x) { return operation<detail::mathematics::log1p>{}(x); }
CLEAVE_LIFT(log1p)
/// The cube root.
constexpr value cbrt(operand x) { return operation<detail::mathematics::cbrt>{}(x); }
CLEAVE_LIFT(cbrt)
/// 1 - erf(x). Accurate if erf(x) is close to 1.
constexpr value erfc(operand x) { return operation<detail::mathematics::erfc>{}(x); }
CLEAVE_LIFT(erfc)
/// The smallest integer that is not less. Its gradient is 0.
constexpr value ceil(operand x) { return operation<detail::mathematics::ceil>{}(x); }
CLEAVE_LIFT(ceil)
/// The integer next to x in the direction of 0. Its gradient is 0.
constexpr value trunc(operand x) { return operation<detail::mathematics::trunc>{}(x); }
CLEAVE_LIFT(trunc)
/// The nearest integer; of two the one away from 0, as in <cmath>. Its gradient is 0.
constexpr value round(operand x) { return operation<detail::mathematics::round>{}(x); }
CLEAVE_LIFT(round)

}} // namespace cleave::v0
