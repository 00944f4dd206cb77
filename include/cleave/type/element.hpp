// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/base/rejected.hpp>

#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

namespace cleave { inline namespace v0 {

/// The element types of tensors. bf16 and f16 are storage types: arithmetic and reductions use f32. c64 and c128 are
/// complex numbers of two f32 and of two f64.
enum class element : std::uint8_t { none, boolean, i8, u8, i32, u32, i64, u64, bf16, f16, f32, f64, c64, c128 };

constexpr std::int64_t size_of(element e) {
  switch (e) {
    case element::none: return 0;
    case element::boolean:
    case element::i8:
    case element::u8: return 1;
    case element::bf16:
    case element::f16: return 2;
    case element::i32:
    case element::u32:
    case element::f32: return 4;
    case element::i64:
    case element::u64:
    case element::f64:
    case element::c64: return 8;
    case element::c128: return 16;
  }
  return 0;
}

constexpr std::string_view name_of(element e) {
  constexpr enum_table<element, std::string_view, 14> names{
      {"none", "bool", "i8", "u8", "i32", "u32", "i64", "u64", "bf16", "f16", "f32", "f64", "c64", "c128"}};
  return names[e];
}

/// Real floating-point numbers; complex ones are not among them.
constexpr bool is_floating(element e) { return e >= element::bf16 && e <= element::f64; }
constexpr bool is_complex(element e) { return e >= element::c64; }
/// Whole numbers, which may be indices; bool is not among them.
constexpr bool is_integer(element e) { return e >= element::i8 && e <= element::u64; }
constexpr bool is_signed_integer(element e) { return e == element::i8 || e == element::i32 || e == element::i64; }

/// The least value of an element type with an order.
constexpr double lowest_of(element e) {
  if (is_floating(e)) return -std::numeric_limits<double>::infinity();
  return is_signed_integer(e) ? -static_cast<double>(std::uint64_t{1} << (8 * size_of(e) - 1)) : 0;
}
/// Whether an element type has a number: integers have no fractions and end somewhere, bool has 0 and 1. A number that
/// is rounded to floating point counts as had.
constexpr bool has_number(element e, double x) {
  if (e == element::boolean) return x == 0 || x == 1;
  if (!is_integer(e)) return true;
  const double beyond = 2 * static_cast<double>(std::uint64_t{1} << (8 * size_of(e) - 1 - int{is_signed_integer(e)}));
  // Beyond 2^53 there are no fractions.
  return x >= lowest_of(e) && x < beyond && (x >= 0x1p53 || is_whole(x));
}
/// The same for a whole number of 64 bits, which double might round.
constexpr bool has_integer(element e, std::int64_t x, bool is_unsigned) {
  if (!is_integer(e)) return has_number(e, is_unsigned && x < 0 ? 0x1p63 : static_cast<double>(x));
  const std::uint64_t most = ~std::uint64_t{0} >> (64 - 8 * size_of(e) + int{is_signed_integer(e)});
  if (is_unsigned || x >= 0) return static_cast<std::uint64_t>(x) <= most;
  return is_signed_integer(e) && x >= -1 - static_cast<std::int64_t>(most);
}
/// The element type of the parts of a complex number; other types are their own.
constexpr element real_of(element e) {
  return e == element::c64 ? element::f32 : e == element::c128 ? element::f64 : e;
}
/// The type in which numbers of an element type are computed and added up.
constexpr element accumulator_of(element e) { return e == element::bf16 || e == element::f16 ? element::f32 : e; }

/// The C++ types of single numbers, which may be operands together with tensors.
template <class T>
inline constexpr bool is_number = std::is_arithmetic_v<T>;

namespace detail {
template <class T>
inline constexpr bool has_imaginary_part = requires(const T& x) { x.imag(); };
/// The fault of writing a number of type N into an element of type T: its fraction or its imaginary part is lost.
template <class T, class N>
inline constexpr fault lost_in = !is_number<N>                                     ? fault::none
                                 : has_imaginary_part<N> && !has_imaginary_part<T> ? fault::not_for_complex
                                 : std::is_integral_v<T> && !std::is_integral_v<N> ? fault::fraction_into_integers
                                                                                   : fault::none;
} // namespace detail

/// The element of a C++ type; `element::none` if the type cannot be an element. The 16-bit types are in
/// type/narrow.hpp, complex types in storage/complex.hpp.
template <class T>
inline constexpr element element_of = element::none;
template <>
inline constexpr element element_of<bool> = element::boolean;
template <>
inline constexpr element element_of<std::int8_t> = element::i8;
template <>
inline constexpr element element_of<std::uint8_t> = element::u8;
template <>
inline constexpr element element_of<std::int32_t> = element::i32;
template <>
inline constexpr element element_of<std::uint32_t> = element::u32;
template <>
inline constexpr element element_of<std::int64_t> = element::i64;
template <>
inline constexpr element element_of<std::uint64_t> = element::u64;
template <>
inline constexpr element element_of<float> = element::f32;
template <>
inline constexpr element element_of<double> = element::f64;

/// The element type that a literal of type T is written in: integers of other names, as long long, by their size and
/// sign.
template <class T>
inline constexpr element literal_element = element_of<T> != element::none ? element_of<T>
                                           : !std::is_arithmetic_v<T>     ? element::none
                                           : std::is_floating_point_v<T>  ? element::f64
                                           : sizeof(T) == 8 ? (std::is_signed_v<T> ? element::i64 : element::u64)
                                                            : element::i32;

namespace detail {
/// Reports, when it is completed, that T is no element type.
template <class T>
using checked_element =
    std::conditional_t<element_of<T> != element::none, rejected<fault::none>, rejected<fault::not_an_element, T>>;
} // namespace detail

}} // namespace cleave::v0
