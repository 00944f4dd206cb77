// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/functions.hpp>

#include <cstdint>

namespace cleave { inline namespace v0 {

/// Four words: a counter, or the random words made from it.
struct random_words {
  std::uint32_t word[4];

  friend constexpr bool operator==(const random_words&, const random_words&) = default;
};

CLEAVE_FUNCTION constexpr std::uint32_t low_word(std::uint64_t x) { return static_cast<std::uint32_t>(x); }

/// Philox4x32-10: random words of a counter under a key of two words, without any state (Salmon, Moraes, Dror and Shaw,
/// "Parallel random numbers: as easy as 1, 2, 3", SC 2011). Every counter gives words of its own under one key.
CLEAVE_FUNCTION constexpr random_words philox(random_words counter, std::uint32_t low_key, std::uint32_t high_key) {
  std::uint32_t a = counter.word[0], b = counter.word[1], c = counter.word[2], d = counter.word[3];
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t even = std::uint64_t{0xD2511F53u} * a, odd = std::uint64_t{0xCD9E8D57u} * c;
    a = low_word(odd >> 32) ^ b ^ low_key;
    b = low_word(odd);
    c = low_word(even >> 32) ^ d ^ high_key;
    d = low_word(even);
    low_key += 0x9E3779B9u;
    high_key += 0xBB67AE85u;
  }
  return {{a, b, c, d}};
}

/// The words of an element, from which op::random and op::normal draw. The counter is the element's place, its row (the
/// row-major index in all dims but the last) and its column, each of 64 bits.
CLEAVE_FUNCTION constexpr random_words random_words_at(std::uint64_t key, std::uint64_t row, std::uint64_t column) {
  return philox({{low_word(column), low_word(row), low_word(column >> 32), low_word(row >> 32)}}, low_word(key),
                low_word(key >> 32));
}

}} // namespace cleave::v0
