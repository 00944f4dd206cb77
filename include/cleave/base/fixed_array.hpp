// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstddef>

namespace cleave::inline v0 {

/// An array that any integer may index. Constant evaluation indexes it in one call, std::array in two.
template <class T, std::size_t Size>
struct fixed_array {
  T items[Size];

  static constexpr std::size_t size() { return Size; }
  constexpr T& operator[](std::integral auto i) { return items[i]; }
  constexpr const T& operator[](std::integral auto i) const { return items[i]; }
  constexpr T* data() { return items; }
  constexpr const T* data() const { return items; }
  constexpr T* begin() { return items; }
  constexpr T* end() { return items + Size; }
  constexpr const T* begin() const { return items; }
  constexpr const T* end() const { return items + Size; }

  friend constexpr bool operator==(const fixed_array&, const fixed_array&) = default;
};

} // namespace cleave::inline v0
