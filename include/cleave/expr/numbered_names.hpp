// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/type/tensor_type.hpp>

#include <array>
#include <string_view>

namespace cleave::detail {

/// Names for dims that an operation makes, five letters and a number: the name of a dim must outlive its graph.
struct numbered_name {
  char letters[8]{};
  constexpr std::string_view text() const { return {letters, 8}; }
};
constexpr std::array<numbered_name, max_dims> numbered_names(const char (&word)[6]) {
  std::array<numbered_name, max_dims> names{};
  for (std::size_t n = 0; n < names.size(); ++n) {
    for (std::size_t i = 0; i < 5; ++i) names[n].letters[i] = word[i];
    for (std::size_t digit = 0, rest = n; digit < 3; ++digit, rest /= 10) names[n].letters[7 - digit] = static_cast<char>('0' + rest % 10);
  }
  return names;
}
/// The same for a pair of dims, four letters and a number.
using pair_names = std::array<numbered_name, max_dims * max_dims>;
constexpr pair_names names_of_pairs(const char (&word)[5]) {
  pair_names names{};
  for (std::size_t n = 0; n < names.size(); ++n) {
    for (std::size_t i = 0; i < 4; ++i) names[n].letters[i] = word[i];
    for (std::size_t digit = 0, rest = n; digit < 4; ++digit, rest /= 10) names[n].letters[7 - digit] = static_cast<char>('0' + rest % 10);
  }
  return names;
}
constexpr std::string_view name_of_pair(const pair_names& names, int one, int other) {
  return names[static_cast<std::size_t>(one) * max_dims + static_cast<std::size_t>(other)].text();
}

} // namespace cleave::detail
