// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/functions.hpp>

#include <concepts>

// The elements that a stencil reads outside of the domain: a condition for each face.

namespace cleave { inline namespace v0 { namespace stencil {

namespace detail {

/// Element m outside of a face, m = 1, 2, ..., counted from the face: a given value; the outermost element; or element
/// m, m - 1 or m - 2 inside, counted from 0, where element -1 is 0.
enum class outside : std::uint8_t { given, outermost, mirrored_at_element, mirrored_at_face, mirrored_beyond };

} // namespace detail

/// The condition of one face of the domain: `fixed(1.0)`, `zero_gradient`, `reflecting`, `wall`, or an odd one.
struct face {
  detail::outside what = detail::outside::given;
  /// Mirrored elements have the opposite sign.
  bool odd = false;
  /// For `fixed`: a literal, or a value that has no dims, or the dims of the face.
  operand given = 0.0;
};

/// Both faces of a dim that is a ring.
struct ring {};

/// Along this dim the domain is a ring: before its first element comes its last one.
inline constexpr ring periodic{};
/// Outside are copies of the outermost element. If elements are the means of cells, the derivative at the face of the
/// outermost cell is 0.
inline constexpr face zero_gradient{detail::outside::outermost};
/// Outside is the mirror image at the centre of the outermost element: element -1 is element 1. If elements are points,
/// the derivative at the outermost point is 0.
inline constexpr face reflecting{detail::outside::mirrored_at_element};
/// Outside is the mirror image at the face of the outermost cell: element -1 is element 0, -2 is 1. The pressure at a
/// wall, and the velocity along it.
inline constexpr face wall{detail::outside::mirrored_at_face};
/// The same with the opposite sign: the velocity through a wall.
inline constexpr face odd_wall{detail::outside::mirrored_at_face, true};
/// As `reflecting`, with the opposite sign: element -1 is minus element 1. The velocity through a wall on which the
/// outermost element is.
inline constexpr face odd_reflecting{detail::outside::mirrored_at_element, true};
/// The mirror is one element beyond the outermost one, and there is 0: element -1 is 0, -2 is minus element 0. The
/// velocity through a wall whose own element is not stored: cells and the faces before them have equally many elements.
inline constexpr face odd_beyond{detail::outside::mirrored_beyond, true};
/// Outside is this: a literal, or a value of the function, without dims or with the dims of the face.
constexpr face fixed(operand x) { return {detail::outside::given, false, x}; }

/// A dim of the domain with the conditions of its two faces; made by `along`.
template <Dim D>
struct boundary {
  /// The faces before the first element, and behind the last one.
  face low, high;
  bool is_ring = false;
};
/// A dim of the domain: `along(row, periodic)`.
template <Dim D>
constexpr boundary<std::remove_cvref_t<D>> along(const D&, ring) {
  return {{}, {}, true};
}
/// The same conditions on both faces: `along(row, zero_gradient)`.
template <Dim D>
constexpr boundary<std::remove_cvref_t<D>> along(const D&, const face& both) {
  return {both, both};
}
/// One condition before the first element and another one behind the last: `along(row, fixed(1.0), wall)`.
template <Dim D>
constexpr boundary<std::remove_cvref_t<D>> along(const D&, const face& low, const face& high) {
  return {low, high};
}

namespace detail {

/// The same without the type of the dim.
struct domain_dim {
  dim_ref dim{};
  face low{}, high{};
  bool is_ring = false;
  /// The border of reads outside of the dim. If it expresses the whole condition, nothing else is computed.
  border read = border::zero;
  bool complete = false;

  template <Dim D>
  constexpr domain_dim(const boundary<D>& b, std::int64_t width)
      : dim(D::ref), low(b.low), high(b.high), is_ring(b.is_ring) {
    if (is_ring) {
      read = border::periodic;
      complete = true;
    } else if (same()) {
      complete = true;
      const bool zero = low.given.is_literal && low.given.literal == 0 && low.given.imaginary == 0;
      if (low.what == outside::given && zero) read = border::zero;
      else if (low.what == outside::outermost) read = border::edge;
      else if (low.what == outside::mirrored_at_element && !low.odd) read = border::reflect;
      else if (low.what == outside::mirrored_at_face && !low.odd && width == 1) read = border::edge;
      else complete = false;
    }
  }

 private:
  constexpr bool same() const {
    return low.what == high.what && low.odd == high.odd && low.given.is_literal && high.given.is_literal &&
           low.given.literal == high.given.literal && low.given.imaginary == high.given.imaginary;
  }
};

} // namespace detail

}}} // namespace cleave::v0::stencil
