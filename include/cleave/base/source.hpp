// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <string_view>

namespace cleave::inline v0 {

/// A line of the user's code. The builtins work on every supported compiler, std::source_location does not.
struct source {
  const char* file = "";
  unsigned line = 0;

  static constexpr source here(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
    return {file, line};
  }
  /// The file without its folders.
  constexpr std::string_view name() const {
    std::string_view path = file;
    const auto slash = path.find_last_of('/');
    return slash == std::string_view::npos ? path : path.substr(slash + 1);
  }
  friend constexpr bool operator==(const source& a, const source& b) {
    return a.line == b.line && std::string_view(a.file) == std::string_view(b.file);
  }
};

} // namespace cleave::inline v0
