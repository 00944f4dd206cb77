// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/language.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace cleave { inline namespace v0 {

/// A number that is not negative as the standard library wants sizes.
constexpr std::size_t as_size(std::integral auto n) { return static_cast<std::size_t>(n); }

/// An integer that is known to fit into an int: a number of dims, operands, buffers or ranks. `narrowed` checks.
constexpr int as_int(std::integral auto n) { return static_cast<int>(n); }
/// A size as a signed number.
constexpr std::int64_t as_signed(std::integral auto n) { return static_cast<std::int64_t>(n); }
/// An integer as a floating-point number, rounded from 2^53 on.
constexpr double as_double(std::integral auto n) { return static_cast<double>(n); }
/// Whether a number has no fraction and fits into 64 bits.
constexpr bool is_whole(double x) { return x >= -0x1p63 && x < 0x1p63 && as_double(static_cast<std::int64_t>(x)) == x; }

/// An integer on its way into a narrower one, the type that it is assigned to. If it does not fit, that is not a
/// constant expression, and std::length_error at run time.
template <std::integral From>
struct narrowed {
  From value;

  constexpr explicit narrowed(From from) : value(from) {}
  template <std::integral To>
  constexpr operator To() const {
    const To to = static_cast<To>(value);
    if (static_cast<From>(to) != value) throw std::length_error("cleave: a number does not fit");
    return to;
  }
};

/// sum + times * each, none of them negative; the largest number if that is more.
constexpr std::int64_t plus_times(std::int64_t sum, std::int64_t times, std::int64_t each) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  return each != 0 && times > (most - sum) / each ? most : sum + times * each;
}

/// The number of an enumerator, as the unsigned or signed type that its enumeration has: std::to_underlying of C++23.
template <class Enum>
  requires std::is_enum_v<Enum>
constexpr std::underlying_type_t<Enum> underlying(Enum e) {
  return static_cast<std::underlying_type_t<Enum>>(e);
}

/// Rounds bytes up to whole cache lines, so that the next buffer starts at one.
constexpr std::int64_t aligned(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

/// A measured size from which on another algorithm is faster. With CLEAVE_SMALL_SIZES, which is for tests of the
/// library, it is `in_tests`: then small arrays use the algorithms of large ones.
constexpr std::int64_t tuned_size([[maybe_unused]] std::int64_t size, [[maybe_unused]] std::int64_t in_tests) {
#ifdef CLEAVE_SMALL_SIZES
  return in_tests;
#else
  return size;
#endif
}

namespace detail {

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

} // namespace detail

}} // namespace cleave::v0
