// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <stdexcept>

namespace cleave::inline v0 {

/// A vector of at most `Capacity` elements that lives in constant expressions and in structural positions.
/// Going past the capacity is a programming error of a pass: not a constant expression, std::length_error at run time.
template <class T, std::size_t Capacity>
struct static_vector {
  // A plain array: constant evaluation indexes it at once, std::array through a call.
  T items[Capacity]{};
  std::size_t count = 0;

  constexpr static_vector() = default;
  constexpr static_vector(std::initializer_list<T> from) {
    for (const T& item : from) push_back(item);
  }

  static constexpr std::size_t capacity() { return Capacity; }
  constexpr std::size_t size() const { return count; }
  constexpr bool empty() const { return count == 0; }
  constexpr bool full() const { return count == Capacity; }
  constexpr T& operator[](std::integral auto i) { return items[i]; }
  constexpr const T& operator[](std::integral auto i) const { return items[i]; }
  constexpr T& back() { return items[count - 1]; }
  constexpr const T& back() const { return items[count - 1]; }
  constexpr T* begin() { return items; }
  constexpr T* end() { return items + count; }
  constexpr const T* begin() const { return items; }
  constexpr const T* end() const { return items + count; }
  constexpr void push_back(const T& item) {
    if (count == Capacity) throw std::length_error("cleave: a static_vector is full");
    items[count++] = item;
  }
  constexpr void pop_back() { --count; }
  constexpr void clear() { count = 0; }
  constexpr bool contains(const T& item) const {
    for (std::size_t i = 0; i < count; ++i)
      if (items[i] == item) return true;
    return false;
  }

  friend constexpr bool operator==(const static_vector& a, const static_vector& b) {
    if (a.count != b.count) return false;
    for (std::size_t i = 0; i < a.count; ++i)
      if (!(a.items[i] == b.items[i])) return false;
    return true;
  }
};

} // namespace cleave::inline v0
