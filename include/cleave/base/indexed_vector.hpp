// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/as_size.hpp>

#include <concepts>
#include <utility>
#include <vector>

namespace cleave::inline v0 {

/// A std::vector that any integer may index.
template <class T>
struct indexed_vector : std::vector<T> {
  using std::vector<T>::vector;
  indexed_vector() = default;
  indexed_vector(std::vector<T> from) : std::vector<T>(std::move(from)) {}
  /// So many elements of one value.
  static indexed_vector filled(std::integral auto count, const T& value = {}) {
    return indexed_vector(as_size(count), value);
  }

  T& operator[](std::integral auto i) { return std::vector<T>::operator[](as_size(i)); }
  const T& operator[](std::integral auto i) const { return std::vector<T>::operator[](as_size(i)); }
};

} // namespace cleave::inline v0
