// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/environment.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/storage/memory.hpp>
#include <cstdint>
#include <cstring>
#include <string_view>

// Stores that go past the caches, which compilers do not make of plain loops. As assembly, since <immintrin.h> takes
// longer to compile than this.

#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__) && !defined(__CUDACC__) && !defined(__HIPCC__)
#define CLEAVE_X86_VECTORS 1
#endif

namespace cleave { inline namespace v0 {

namespace detail {

/// Bytes of a line of the cache.
inline constexpr std::int64_t cache_line = 64;

#if defined(CLEAVE_X86_VECTORS)
#if defined(__AVX512F__)
inline constexpr int wide_bytes = 64;
#elif defined(__AVX__)
inline constexpr int wide_bytes = 32;
#else
inline constexpr int wide_bytes = 16;
#endif
/// The longest vectors of the processor for which the program is compiled.
template <class T>
using wide [[gnu::vector_size(wide_bytes), gnu::may_alias]] = T;

#if defined(__AVX__)
inline void store_non_temporal(wide<float>* to, wide<float> x) { asm volatile("vmovntps %1, %0" : "=m"(*to) : "v"(x)); }
#else
inline void store_non_temporal(wide<float>* to, wide<float> x) { asm volatile("movntps %1, %0" : "=m"(*to) : "x"(x)); }
#endif
#endif

} // namespace detail

#if defined(CLEAVE_X86_VECTORS)
/// Whether `store_bytes_non_temporal` uses non-temporal stores.
inline constexpr bool has_stores_non_temporal = true;

/// Copies bytes to memory that nothing reads soon: the lines of the target are not fetched first. `to` is aligned to 64
/// bytes. Other threads see the bytes after `finish_stores_non_temporal`. `each_line(i)` is called for each whole line
/// of the cache, before byte i is stored.
template <class EachLine>
void store_bytes_non_temporal(void* to, const void* from, std::int64_t bytes, const EachLine& each_line) {
  constexpr std::int64_t width = detail::wide_bytes;
  char* const target = as<char>(to);
  const char* const source = as<char>(from);
  std::int64_t i = 0;
  for (; i + detail::cache_line <= bytes; i += detail::cache_line) {
    each_line(i);
    for (std::int64_t part = 0; part < detail::cache_line; part += width) {
      detail::wide<float> v;
      std::memcpy(&v, source + i + part, sizeof(v));
      detail::store_non_temporal(reinterpret_cast<detail::wide<float>*>(target + i + part), v);
    }
  }
  std::memcpy(target + i, source + i, as_size(bytes - i));
}
inline void store_bytes_non_temporal(void* to, const void* from, std::int64_t bytes) {
  store_bytes_non_temporal(to, from, bytes, [](std::int64_t) {});
}
inline void finish_stores_non_temporal() { asm volatile("sfence" ::: "memory"); }
/// Prefetches a line of the cache. The address need not be valid.
inline void prefetch_line(const void* at) { __builtin_prefetch(at); }
#else
inline constexpr bool has_stores_non_temporal = false;
template <class EachLine>
void store_bytes_non_temporal(void* to, const void* from, std::int64_t bytes, const EachLine&) {
  std::memcpy(to, from, as_size(bytes));
}
inline void store_bytes_non_temporal(void* to, const void* from, std::int64_t bytes) {
  std::memcpy(to, from, as_size(bytes));
}
inline void finish_stores_non_temporal() {}
inline void prefetch_line(const void*) {}
#endif

/// Results of so many bytes leave the caches before they are read, so they are stored past them. It is half of the last
/// cache of the Zen 4 cores that were measured.
inline constexpr std::int64_t non_temporal_bytes = tuned_size(1 << 24, 256);
/// Of shorter runs, too much is in lines that are not whole.
inline constexpr std::int64_t shortest_non_temporal = tuned_size(1 << 10, 64);

/// Where copies store: into the caches, or past them. The latter is for what nothing reads soon, and for what a core
/// with other caches reads.
enum class stores { in_caches, non_temporal };

/// The setting of a process for its stores. CLEAVE_STORES=auto, cached or streaming in the environment sets it, or
/// store_mode() = ... before a grid is constructed. Values are the same, bit by bit.
enum class store_setting : std::uint8_t {
  /// Results of `non_temporal_bytes` are stored past the caches; a grid measures how the slots of a node are written.
  automatic,
  /// All is stored into the caches.
  cached,
  /// Results of `non_temporal_bytes` and slots of a node are stored past the caches.
  streaming,
};

inline store_setting& store_mode() {
  static store_setting mode = [] {
    const std::string_view word = word_of_environment("CLEAVE_STORES", {"auto", "cached", "streaming"});
    return word == "cached"      ? store_setting::cached
           : word == "streaming" ? store_setting::streaming
                                 : store_setting::automatic;
  }();
  return mode;
}

/// For results of so many bytes.
inline stores stores_of(std::int64_t bytes) {
  if (!has_stores_non_temporal || bytes < non_temporal_bytes) return stores::in_caches;
  return store_mode() == store_setting::cached ? stores::in_caches : stores::non_temporal;
}

/// Copies bytes past the caches, but for lines of the cache that are not whole. `each_line(i)` is called for each whole
/// line, before byte i is copied.
template <class EachLine>
void copy_non_temporal(void* to, const void* from, std::int64_t bytes, const EachLine& each_line) {
  const auto in_line = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to) % detail::cache_line);
  const std::int64_t rest = (detail::cache_line - in_line) % detail::cache_line, head = rest < bytes ? rest : bytes;
  std::memcpy(to, from, as_size(head));
  store_bytes_non_temporal(as<char>(to) + head, as<char>(from) + head, bytes - head,
                           [&](std::int64_t i) { each_line(head + i); });
}

namespace detail {

/// Copies N to 2 N bytes: the first N and the last N.
template <int N>
void copy_ends(char* to, const char* from, std::int64_t bytes) {
  char first[N], last[N];
  std::memcpy(first, from, N);
  std::memcpy(last, from + bytes - N, N);
  std::memcpy(to, first, N);
  std::memcpy(to + bytes - N, last, N);
}
/// Copies 8 bytes to a line of the cache, in less time than a call of memcpy takes.
inline void copy_short(char* to, const char* from, std::int64_t bytes) {
  if (bytes >= 32) copy_ends<32>(to, from, bytes);
  else if (bytes >= 16) copy_ends<16>(to, from, bytes);
  else copy_ends<8>(to, from, bytes);
}

} // namespace detail

/// Copies bytes that do not overlap. Other threads see those that are stored past the caches after
/// `finish_stores_non_temporal`.
inline void copy_run(void* to, const void* from, std::int64_t bytes, stores how) {
  if (bytes >= 8 && bytes <= detail::cache_line) detail::copy_short(as<char>(to), as<char>(from), bytes);
  else if (!has_stores_non_temporal || how == stores::in_caches || bytes < shortest_non_temporal)
    std::memcpy(to, from, as_size(bytes));
  else copy_non_temporal(to, from, bytes, [](std::int64_t) {});
}

}} // namespace cleave::v0
