// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>

namespace cleave::inline v0 {

/// One entry for each enumerator of `Enum`, in the order of the enumeration.
template <class Enum, class T, std::size_t Size>
struct enum_table {
  T items[Size];

  static constexpr std::size_t size() { return Size; }
  constexpr const T& operator[](Enum e) const { return items[static_cast<std::size_t>(e)]; }
};

} // namespace cleave::inline v0
