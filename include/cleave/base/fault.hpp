// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstdint>
#include <string_view>

namespace cleave { inline namespace v0 {

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

/// Everything that can be wrong with a program. Operators and passes find it, and base/rejected.hpp reports it.
enum class fault : std::uint8_t {
  none,
  /// Was reported where the type was written, and is not reported again.
  already_reported,
#define CLEAVE_FAULT(code, sentence) code,
#include <cleave/base/fault_list.hpp>
};

/// The result of a check by a pass: the fault and the names that belong in its sentence.
struct verdict {
  cleave::fault fault = fault::none;
  source where{};
  std::string_view op{};
  std::string_view dim{};
  std::string_view axis{};
  std::int64_t expected = 0;
  std::int64_t got = 0;
  /// The fault is in the derivative of `op`.
  bool gradient = false;

  constexpr bool ok() const { return fault == cleave::fault::none; }
};

}} // namespace cleave::v0
