// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A text as its bytes, and three tokens more. It needs no vocabulary and knows every text.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace examples {

struct byte_tokens {
  static constexpr std::int32_t begin = 256, end = 257, pad = 258, count = 259;

  static std::vector<std::int32_t> tokens(std::string_view text) {
    std::vector<std::int32_t> made;
    for (const char c : text) made.push_back(static_cast<unsigned char>(c));
    return made;
  }
  /// Without the tokens that are no bytes.
  static std::string text(std::span<const std::int32_t> tokens) {
    std::string made;
    for (const std::int32_t t : tokens)
      if (t >= 0 && t < begin) made.push_back(static_cast<char>(t));
    return made;
  }
};

} // namespace examples
