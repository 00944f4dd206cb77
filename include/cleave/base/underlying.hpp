// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <type_traits>

namespace cleave::inline v0 {

/// The number of an enumerator, as the unsigned or signed type that its enumeration has: std::to_underlying of C++23.
template <class Enum>
  requires std::is_enum_v<Enum>
constexpr std::underlying_type_t<Enum> underlying(Enum e) {
  return static_cast<std::underlying_type_t<Enum>>(e);
}

} // namespace cleave::inline v0
