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

// They are templates so that programs that call none of them do not pay for compiling them.
#define CLEAVE_RECORDS(name, ...) \
  return detail::elementwise_call<detail::mathematics::name>::record(std::array{__VA_ARGS__})
/// The tangent.
template <class Once = void>
constexpr value tan(operand x) {
  CLEAVE_RECORDS(tan, x);
}
CLEAVE_LIFT(tan)
/// The arc sine.
template <class Once = void>
constexpr value asin(operand x) {
  CLEAVE_RECORDS(asin, x);
}
CLEAVE_LIFT(asin)
/// The arc cosine.
template <class Once = void>
constexpr value acos(operand x) {
  CLEAVE_RECORDS(acos, x);
}
CLEAVE_LIFT(acos)
/// The arc tangent.
template <class Once = void>
constexpr value atan(operand x) {
  CLEAVE_RECORDS(atan, x);
}
CLEAVE_LIFT(atan)
/// The angle of the point (x, y), from -pi to pi; y comes first, as in <cmath>.
template <class Once = void>
constexpr value atan2(operand y, operand x) {
  CLEAVE_RECORDS(atan2, y, x);
}
CLEAVE_LIFT(atan2)
/// sqrt(x * x + y * y), without overflow in between.
template <class Once = void>
constexpr value hypot(operand x, operand y) {
  CLEAVE_RECORDS(hypot, x, y);
}
CLEAVE_LIFT(hypot)
/// The hyperbolic sine.
template <class Once = void>
constexpr value sinh(operand x) {
  CLEAVE_RECORDS(sinh, x);
}
CLEAVE_LIFT(sinh)
/// The hyperbolic cosine.
template <class Once = void>
constexpr value cosh(operand x) {
  CLEAVE_RECORDS(cosh, x);
}
CLEAVE_LIFT(cosh)
/// The inverse of the hyperbolic sine.
template <class Once = void>
constexpr value asinh(operand x) {
  CLEAVE_RECORDS(asinh, x);
}
CLEAVE_LIFT(asinh)
/// The inverse of the hyperbolic cosine.
template <class Once = void>
constexpr value acosh(operand x) {
  CLEAVE_RECORDS(acosh, x);
}
CLEAVE_LIFT(acosh)
/// The inverse of the hyperbolic tangent.
template <class Once = void>
constexpr value atanh(operand x) {
  CLEAVE_RECORDS(atanh, x);
}
CLEAVE_LIFT(atanh)
/// 2 to the power of x.
template <class Once = void>
constexpr value exp2(operand x) {
  CLEAVE_RECORDS(exp2, x);
}
CLEAVE_LIFT(exp2)
/// The logarithm to base 2.
template <class Once = void>
constexpr value log2(operand x) {
  CLEAVE_RECORDS(log2, x);
}
CLEAVE_LIFT(log2)
/// The logarithm to base 10.
template <class Once = void>
constexpr value log10(operand x) {
  CLEAVE_RECORDS(log10, x);
}
CLEAVE_LIFT(log10)
/// log(1 + x). Accurate near 0.
template <class Once = void>
constexpr value log1p(operand x) {
  CLEAVE_RECORDS(log1p, x);
}
CLEAVE_LIFT(log1p)
/// The cube root.
template <class Once = void>
constexpr value cbrt(operand x) {
  CLEAVE_RECORDS(cbrt, x);
}
CLEAVE_LIFT(cbrt)
/// 1 - erf(x). Accurate if erf(x) is close to 1.
template <class Once = void>
constexpr value erfc(operand x) {
  CLEAVE_RECORDS(erfc, x);
}
CLEAVE_LIFT(erfc)
/// The smallest integer that is not less. Its gradient is 0.
template <class Once = void>
constexpr value ceil(operand x) {
  CLEAVE_RECORDS(ceil, x);
}
CLEAVE_LIFT(ceil)
/// The integer next to x in the direction of 0. Its gradient is 0.
template <class Once = void>
constexpr value trunc(operand x) {
  CLEAVE_RECORDS(trunc, x);
}
CLEAVE_LIFT(trunc)
/// The nearest integer; of two the one away from 0, as in <cmath>. Its gradient is 0.
template <class Once = void>
constexpr value round(operand x) {
  CLEAVE_RECORDS(round, x);
}
CLEAVE_LIFT(round)
#undef CLEAVE_RECORDS

}} // namespace cleave::v0
