// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/functions.hpp>
#include <cleave/type/element.hpp>

#include <cstdint>
#include <limits>
#include <type_traits>

namespace cleave { inline namespace v0 {

namespace detail {

CLEAVE_FUNCTION constexpr std::uint32_t word_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
CLEAVE_FUNCTION constexpr float float_of_word(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

/// a if the condition holds, else b: by a mask. Compilers make a branch of a selection whose operands are computed.
CLEAVE_FUNCTION constexpr std::uint32_t either_word(bool condition, std::uint32_t a, std::uint32_t b) {
  const std::uint32_t mask = std::uint32_t{0} - std::uint32_t{condition};
  return (a & mask) | (b & ~mask);
}

// To the nearest, ties to even. Loops over these become vector code. No step relies on subnormal floats, which some
// programs flush to zero.
CLEAVE_FUNCTION constexpr std::uint16_t bfloat16_bits(float x) {
  const std::uint32_t bits = word_of(x);
  const std::uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
  // NaN keeps its sign and upper digits, and stays NaN if those are 0.
  return static_cast<std::uint16_t>(either_word((bits & 0x7FFFFFFFu) > 0x7F800000u, bits >> 16 | 0x40u, rounded));
}
CLEAVE_FUNCTION constexpr float float_of_bfloat16(std::uint16_t bits) {
  return float_of_word(std::uint32_t{bits} << 16);
}

CLEAVE_FUNCTION constexpr std::uint16_t half_bits(float x) {
  const std::uint32_t sign = word_of(x) >> 16 & 0x8000u, size = word_of(x) & 0x7FFFFFFFu;
  // The exponent loses its bias of 127 - 15; a carry of the rounding goes to the exponent, and from the largest to
  // infinity.
  const std::uint32_t normal = (size + 0xFFFu + (size >> 13 & 1u) - (112u << 23)) >> 13;
  // Below 2^-14 an addition rounds to the multiples of 2^-24 that half has there.
  const std::uint32_t tiny = word_of(float_of_word(size) + 0.5f) - word_of(0.5f);
  std::uint32_t result = either_word(size < 0x38800000u, tiny, normal);
  result = either_word(size >= 0x47800000u, 0x7C00u, result);
  result = either_word(size > 0x7F800000u, 0x7E00u | (size >> 13 & 0x3FFu), result);
  return static_cast<std::uint16_t>(sign | result);
}
CLEAVE_FUNCTION constexpr float float_of_half(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, size = (bits & 0x7FFFu) << 13;
  const std::uint32_t normal = size + (112u << 23);
  // 2^-14 (1 + m) - 2^-14
  const std::uint32_t tiny = word_of(float_of_word(size + (113u << 23)) - float_of_word(113u << 23));
  std::uint32_t result = either_word(size < 0x00800000u, tiny, normal);
  result = either_word(size >= 0x0F800000u, size | 0x7F800000u, result);
  return float_of_word(sign | result);
}

/// A variable, since device code must not call numeric_limits.
inline constexpr float largest_float = std::numeric_limits<float>::max();

/// A double as the float from which rounding again gives the same as rounding once: cut off, with the last bit set if
/// something was lost ("round to odd").
CLEAVE_FUNCTION constexpr float float_to_odd(double x) {
  const double size = x < 0 ? -x : x;
  if (size > largest_float && size - size == 0) return x < 0 ? -largest_float : largest_float;
  const float near = static_cast<float>(x);
  if (near == x || x != x) return near;
  const bool above = (near < 0 ? -near : near) > size;
  return float_of_word((word_of(near) - (above ? 1u : 0u)) | 1u);
}
/// The same for an integer.
CLEAVE_FUNCTION constexpr float float_to_odd(std::uint64_t magnitude, bool negative) {
  // 53 bits and one that says whether any below them is set are exact in double.
  const double size = magnitude < std::uint64_t{1} << 53
                          ? static_cast<double>(magnitude)
                          : static_cast<double>(magnitude >> 11 | ((magnitude & 0x7FFu) != 0 ? 1u : 0u)) * 2048.0;
  return float_to_odd(negative ? -size : size);
}

} // namespace detail

/// A 16-bit floating-point number. It is a storage type: arithmetic converts to float.
template <element Format>
struct narrow {
  static_assert(Format == element::bf16 || Format == element::f16);
  std::uint16_t bits;

  narrow() = default;
  /// Rounds once, to nearest with ties to even, from any arithmetic type.
  template <class T>
    requires std::is_arithmetic_v<T>
  CLEAVE_FUNCTION constexpr explicit narrow(T number) : bits(rounded(number)) {}
  CLEAVE_FUNCTION constexpr operator float() const {
    if constexpr (Format == element::bf16) return detail::float_of_bfloat16(bits);
    else return detail::float_of_half(bits);
  }
  CLEAVE_FUNCTION static constexpr narrow of_bits(std::uint16_t bits) {
    narrow n{};
    n.bits = bits;
    return n;
  }

 private:
  template <class T>
  CLEAVE_FUNCTION static constexpr std::uint16_t rounded(T number) {
    float x{};
    if constexpr (std::is_same_v<T, float>) x = number;
    else if constexpr (std::is_floating_point_v<T>) x = detail::float_to_odd(static_cast<double>(number));
    else if constexpr (sizeof(T) < 4) x = static_cast<float>(number);
    else if constexpr (std::is_signed_v<T>)
      x = detail::float_to_odd(number < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(number)
                                          : static_cast<std::uint64_t>(number),
                               number < 0);
    else x = detail::float_to_odd(number, false);
    if constexpr (Format == element::bf16) return detail::bfloat16_bits(x);
    else return detail::half_bits(x);
  }
};

// Without these, the operators of values in functions would be as good a match as those of float.
template <element A>
CLEAVE_FUNCTION constexpr float operator-(narrow<A> a) {
  return -float{a};
}
template <element A, element B>
CLEAVE_FUNCTION constexpr float operator+(narrow<A> a, narrow<B> b) {
  return float{a} + float{b};
}
template <element A, element B>
CLEAVE_FUNCTION constexpr float operator-(narrow<A> a, narrow<B> b) {
  return float{a} - float{b};
}
template <element A, element B>
CLEAVE_FUNCTION constexpr float operator*(narrow<A> a, narrow<B> b) {
  return float{a} * float{b};
}
template <element A, element B>
CLEAVE_FUNCTION constexpr float operator/(narrow<A> a, narrow<B> b) {
  return float{a} / float{b};
}
template <element A, element B>
CLEAVE_FUNCTION constexpr bool operator==(narrow<A> a, narrow<B> b) {
  return float{a} == float{b};
}
template <element A, element B>
CLEAVE_FUNCTION constexpr bool operator!=(narrow<A> a, narrow<B> b) {
  return float{a} != float{b};
}
template <element A, element B>
CLEAVE_FUNCTION constexpr bool operator<(narrow<A> a, narrow<B> b) {
  return float{a} < float{b};
}
template <element A, element B>
CLEAVE_FUNCTION constexpr bool operator<=(narrow<A> a, narrow<B> b) {
  return float{a} <= float{b};
}
template <element A, element B>
CLEAVE_FUNCTION constexpr bool operator>(narrow<A> a, narrow<B> b) {
  return float{a} > float{b};
}
template <element A, element B>
CLEAVE_FUNCTION constexpr bool operator>=(narrow<A> a, narrow<B> b) {
  return float{a} >= float{b};
}

/// bfloat16: 8 bits of exponent, as in float, and 7 bits of mantissa.
using bfloat16 = narrow<element::bf16>;
/// IEEE 754 binary16: 5 bits of exponent and 10 bits of mantissa.
using half = narrow<element::f16>;

template <element Format>
inline constexpr element element_of<narrow<Format>> = Format;
template <element Format>
inline constexpr bool is_number<narrow<Format>> = true;

/// A number as it comes back from memory of a 16-bit type; of other types itself.
constexpr double rounded_to(element e, double x) {
  return e == element::bf16 ? double{float{bfloat16(x)}} : e == element::f16 ? double{float{half(x)}} : x;
}

/// The type in which values of an element type are computed, and added up.
template <class T>
struct computed_in : std::type_identity<T> {};
template <element Format>
struct computed_in<narrow<Format>> : std::type_identity<float> {};
template <class T>
using computed = typename computed_in<T>::type;

}} // namespace cleave::v0
