// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

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
  constexpr std::string_view view() const { return {chars, N - 1}; }
};

} // namespace cleave::inline v0
