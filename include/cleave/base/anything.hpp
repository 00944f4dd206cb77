// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <initializer_list>

namespace cleave::inline v0::detail {

/// A parameter that takes any argument, a list in braces too, by a conversion. A function with such parameters is
/// chosen where no other fits, and says what to write instead.
struct anything {
  template <class T>
  constexpr anything(const T&) {}
  constexpr anything(std::initializer_list<std::int64_t>) {}
};

} // namespace cleave::inline v0::detail
