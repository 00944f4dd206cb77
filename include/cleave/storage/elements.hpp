// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/storage/element_type.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/type/narrow.hpp>

#include <cstdint>

namespace cleave { inline namespace v0 {

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
