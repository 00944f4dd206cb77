// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/type/narrow.hpp>

#include <cstdint>
#include <cstring>
#include <type_traits>

// Floating-point numbers of a file in the element type of a member.

namespace cleave { inline namespace v0 { namespace io { namespace detail {

/// Whether an array of one element type can be loaded into a member of another: if that has all its numbers, or if
/// floating-point numbers may be rounded.
constexpr bool converts(element from, element to, bool rounds) {
  if (from == to || !is_floating(from) || !is_floating(to)) return from == to;
  return rounds || to == element::f64 || (to == element::f32 && from != element::f64);
}

template <class F>
void with_floating(element e, F&& f) {
  switch (e) {
    case element::f16: return f(half{});
    case element::bf16: return f(bfloat16{});
    case element::f32: return f(float{});
    default: return f(double{});
  }
}
/// Rounds at most once.
inline void convert(const char* from, element is, char* to, element becomes, std::int64_t count) {
  with_floating(is, [&]<class From>(From x) {
    using number = std::conditional_t<std::is_same_v<From, double>, double, float>;
    with_floating(becomes, [&]<class To>(To y) {
      for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(&x, from + i * std::int64_t{sizeof x}, sizeof x);
        y = static_cast<To>(static_cast<number>(x));
        std::memcpy(to + i * std::int64_t{sizeof y}, &y, sizeof y);
      }
    });
  });
}

}}}} // namespace cleave::v0::io::detail
