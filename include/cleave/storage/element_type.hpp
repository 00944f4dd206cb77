// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/storage/complex.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/type/narrow.hpp>

#include <cstdint>
#include <type_traits>

namespace cleave { inline namespace v0 {

/// The C++ type of an element.
template <element E>
struct element_type;
template <>
struct element_type<element::boolean> : std::type_identity<bool> {};
template <>
struct element_type<element::i8> : std::type_identity<std::int8_t> {};
template <>
struct element_type<element::u8> : std::type_identity<std::uint8_t> {};
template <>
struct element_type<element::i32> : std::type_identity<std::int32_t> {};
template <>
struct element_type<element::u32> : std::type_identity<std::uint32_t> {};
template <>
struct element_type<element::i64> : std::type_identity<std::int64_t> {};
template <>
struct element_type<element::u64> : std::type_identity<std::uint64_t> {};
template <>
struct element_type<element::bf16> : std::type_identity<bfloat16> {};
template <>
struct element_type<element::f16> : std::type_identity<half> {};
template <>
struct element_type<element::f32> : std::type_identity<float> {};
template <>
struct element_type<element::f64> : std::type_identity<double> {};
template <>
struct element_type<element::c64> : std::type_identity<Kokkos::complex<float>> {};
template <>
struct element_type<element::c128> : std::type_identity<Kokkos::complex<double>> {};

/// Calls f with a value of the C++ type of an element.
template <class F>
void with_element(element e, F&& f) {
  switch (e) {
    case element::boolean: return f(bool{});
    case element::i8: return f(std::int8_t{});
    case element::u8: return f(std::uint8_t{});
    case element::i32: return f(std::int32_t{});
    case element::u32: return f(std::uint32_t{});
    case element::i64: return f(std::int64_t{});
    case element::u64: return f(std::uint64_t{});
    case element::bf16: return f(bfloat16{});
    case element::f16: return f(half{});
    case element::f32: return f(float{});
    case element::f64: return f(double{});
    case element::c64: return f(Kokkos::complex<float>{});
    case element::c128: return f(Kokkos::complex<double>{});
    case element::none: return;
  }
}

/// Sets every element to one value.
template <class T>
struct fill_functor {
  T* at;
  T value;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { at[i] = value; }
};

template <class T>
void fill_elements(T* at, std::int64_t elements, T value) {
  if constexpr (on_host) {
    for (std::int64_t i = 0; i < elements; ++i) at[i] = value;
  } else {
    launch("cleave fill", elements, fill_functor<T>{at, value});
  }
}

/// Sets every element to the identity of a reduction.
inline void fill_identity(void* at, std::int64_t elements, element e, reduction how) {
  with_element(e, [&](auto zero) {
    using T = decltype(zero);
    T value{};
    switch (how) {
      case reduction::sum: value = identity_of<reduction::sum, T>; break;
      case reduction::logsumexp:
      case reduction::max: value = identity_of<reduction::max, T>; break;
      case reduction::min: value = identity_of<reduction::min, T>; break;
      case reduction::prod: value = identity_of<reduction::prod, T>; break;
    }
    fill_elements(as<T>(at), elements, value);
  });
}

namespace detail {
template <class From, class To>
struct convert_functor {
  const From* from;
  To* to;
  CLEAVE_FUNCTION void operator()(std::int64_t i) const { to[i] = static_cast<To>(computed<From>(from[i])); }
};
} // namespace detail

/// Copies an array into another element type, rounding each element once.
template <class From, class To>
void convert_elements(const From* from, To* to, std::int64_t n) {
  launch("cleave convert", n, detail::convert_functor<From, To>{from, to});
}

}} // namespace cleave::v0
