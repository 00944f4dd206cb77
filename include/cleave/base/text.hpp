// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>

namespace cleave::inline v0 {

/// A string that may be a template argument: `axis<"data">`, `dim<"embed", 512>`.
template <std::size_t N>
struct text {
  char chars[N]{};

  constexpr text(const char (&from)[N]) {
    for (std::size_t i = 0; i < N; ++i) chars[i] = from[i];
  }
  /// One letter: `dim<'r'>`.
  template <std::same_as<char> C>
    requires(N == 2)
  constexpr text(C letter) : chars{letter, '\0'} {}
  /// Text that is no literal cannot be a template argument. The name is empty, and what has it says so.
  constexpr text(std::string_view)
    requires(N == 1)
  {}
  constexpr std::string_view view() const { return {chars, N - 1}; }
};
template <std::same_as<char> C>
text(C) -> text<2>;
text(std::string_view) -> text<1>;

/// In place of a name that is given as something else than a literal of text.
inline constexpr text<1> no_name{""};

} // namespace cleave::inline v0
