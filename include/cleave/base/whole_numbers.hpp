// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <vector>

namespace cleave::inline v0::detail {

/// A range of integers: a std::vector, a std::array, a C array.
template <class R>
concept WholeNumbers = requires(const R& r) {
  requires std::integral<std::remove_cvref_t<decltype(*std::begin(r))>>;
  std::end(r);
};

template <WholeNumbers R>
std::vector<std::int64_t> whole_numbers(const R& r) {
  std::vector<std::int64_t> all;
  for (const auto& n : r) all.push_back(static_cast<std::int64_t>(n));
  return all;
}

} // namespace cleave::inline v0::detail
