// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/ops/scalar.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/type/element.hpp>

#include <cstdint>

namespace cleave {

/// Calls f with a value of the C++ type of an element; false where there is none.
template <class F>
bool with_element(element e, F&& f) {
  switch (e) {
    case element::boolean: f(bool{}); return true;
    case element::i8: f(std::int8_t{}); return true;
    case element::u8: f(std::uint8_t{}); return true;
    case element::i32: f(std::int32_t{}); return true;
    case element::u32: f(std::uint32_t{}); return true;
    case element::i64: f(std::int64_t{}); return true;
    case element::u64: f(std::uint64_t{}); return true;
    case element::f32: f(float{}); return true;
    case element::f64: f(double{}); return true;
    case element::none:
    case element::bf16:
    case element::f16: break;
  }
  return false;
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
      case reduction::max: value = identity_of<reduction::max, T>; break;
      case reduction::min: value = identity_of<reduction::min, T>; break;
      case reduction::prod: value = identity_of<reduction::prod, T>; break;
    }
    fill_elements(static_cast<T*>(at), elements, value);
  });
}

} // namespace cleave
