// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/type/tensor_type.hpp>

#include <array>
#include <string_view>

namespace cleave::inline v0::detail {

/// A name for a dim that an operation makes, a word and a number: the name of a dim must outlive its graph.
struct numbered_name {
  char letters[8]{};
  constexpr numbered_name() = default;
  constexpr numbered_name(std::string_view word, std::size_t number) {
    for (std::size_t i = 0; i < word.size(); ++i) letters[i] = word[i];
    for (std::size_t i = 8; i-- > word.size(); number /= 10) letters[i] = static_cast<char>('0' + number % 10);
  }
  constexpr std::string_view text() const { return {letters, 8}; }
};
template <std::size_t Count>
constexpr std::array<numbered_name, Count> names_from(std::string_view word) {
  std::array<numbered_name, Count> names{};
  for (std::size_t n = 0; n < Count; ++n) names[n] = numbered_name(word, n);
  return names;
}
/// A name for each dim, five letters and a number.
constexpr std::array<numbered_name, max_dims> numbered_names(const char (&word)[6]) {
  return names_from<max_dims>({word, 5});
}
/// The same for each pair of dims, four letters and a number.
using pair_names = std::array<numbered_name, max_dims * max_dims>;
constexpr pair_names names_of_pairs(const char (&word)[5]) { return names_from<max_dims * max_dims>({word, 4}); }
constexpr std::string_view name_of_pair(const pair_names& names, int one, int other) {
  return names[as_size(one) * max_dims + as_size(other)].text();
}

} // namespace cleave::inline v0::detail
