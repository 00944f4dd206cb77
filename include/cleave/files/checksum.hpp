// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

// Cyclic redundancy checks of parts of a block, in any order and on any rank. The check is linear: the check of a block
// is the exclusive or of those of its parts, each moved over the bytes behind it.

namespace cleave { inline namespace v0 { namespace io { namespace detail {

/// The polynomials, bits reversed: of zip files, and of Castagnoli, for which processors have an instruction.
inline constexpr std::uint32_t crc32_of_zip = 0xEDB88320u, crc32c = 0x82F63B78u;

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) inline std::uint32_t crc32c_by_instruction(std::uint32_t state,
                                                                             const unsigned char* at,
                                                                             std::int64_t bytes) {
  std::uint64_t wide = state;
  for (; bytes >= 8; bytes -= 8, at += 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  state = static_cast<std::uint32_t>(wide);
  for (; bytes > 0; --bytes) state = __builtin_ia32_crc32qi(state, *at++);
  return state;
}
#endif

template <std::uint32_t Polynomial>
class crc {
 public:
  /// The state after more bytes. A state that begins with 0 is linear in the bytes.
  static std::uint32_t add(std::uint32_t state, const void* bytes, std::int64_t count) {
    const auto* at = static_cast<const unsigned char*>(bytes);
#if defined(__x86_64__)
    if constexpr (Polynomial == crc32c)
      if (__builtin_cpu_supports("sse4.2")) return crc32c_by_instruction(state, at, count);
#endif
    for (; count >= 8; count -= 8, at += 8) {
      std::uint64_t word;
      std::memcpy(&word, at, 8);
      word ^= state;
      state = 0;
      for (std::size_t i = 0; i < 8; ++i) state ^= tables[7 - i][word >> (8 * i) & 255];
    }
    for (; count > 0; --count) state = state >> 8 ^ tables[0][(state ^ *at++) & 255];
    return state;
  }
  /// The state is a polynomial, and bytes 0 multiply it by x^8 each: the product of a state and of this.
  static std::uint32_t factor(std::int64_t zeros) {
    std::uint32_t product = 0x80000000u;
    for (std::size_t power = 0; zeros != 0; zeros >>= 1, ++power)
      if ((zeros & 1) != 0) product = times(product, powers[power]);
    return product;
  }
  static constexpr std::uint32_t times(std::uint32_t a, std::uint32_t b) {
    std::uint32_t product = 0;
    for (; a != 0; a <<= 1) {
      if ((a & 0x80000000u) != 0) product ^= b;
      b = b >> 1 ^ ((b & 1) != 0 ? Polynomial : 0);
    }
    return product;
  }
  /// The usual checksum of bytes, from their linear state.
  static std::uint32_t finished(std::uint32_t linear, std::int64_t count) {
    return linear ^ ~times(factor(count), ~0u);
  }
  static std::uint32_t of(const void* bytes, std::int64_t count) { return ~add(~0u, bytes, count); }

 private:
  /// Of one byte with 0 to 7 bytes 0 behind it.
  static constexpr auto tables = [] {
    std::array<std::array<std::uint32_t, 256>, 8> made{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      std::uint32_t state = byte;
      for (int bit = 0; bit < 8; ++bit) state = state >> 1 ^ ((state & 1) != 0 ? Polynomial : 0);
      made[0][byte] = state;
    }
    for (std::size_t t = 1; t < 8; ++t)
      for (std::size_t byte = 0; byte < 256; ++byte)
        made[t][byte] = made[t - 1][byte] >> 8 ^ made[0][made[t - 1][byte] & 255];
    return made;
  }();
  /// x^8, x^16, x^32, ...
  static constexpr auto powers = [] {
    std::array<std::uint32_t, 63> made{};
    std::uint32_t power = 0x00800000u;
    for (auto& p : made) {
      p = power;
      power = times(power, power);
    }
    return made;
  }();
};

}}}} // namespace cleave::v0::io::detail
