// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/kernels/lines.hpp>
#include <cleave/storage/wide.hpp>

#include <algorithm>

// Lines whose values are stored with non-temporal stores. They are computed a few kilobytes at a time in the first
// cache. While such a block is stored, the loads of the next one are prefetched: hardware prefetchers fetch too little
// ahead if several rows of an array are read at the same time.

namespace cleave { inline namespace v0 {

/// A part of each line, with an expression of its own.
struct line_piece {
  const bound_loops* loops;
  const void* const* from;
  lines_function lines;
  /// Its elements in the line.
  std::int64_t begin, end;
  /// How far apart two lines are in each array, and how far each array is along at the next line.
  const std::int64_t* apart;
  std::int64_t offset[max_walked];

  line_piece() = default;
  line_piece(const bound_loops& l, const void* const* from, lines_function lines, std::int64_t begin, std::int64_t end,
             const std::int64_t* first, const std::int64_t* apart)
      : loops(&l), from(from), lines(lines), begin(begin), end(end), apart(apart) {
    std::copy_n(first, l.walked, offset);
  }
  void next_line() {
    for (int k = 0; k < loops->walked; ++k) offset[k] += apart[k];
  }
};

/// Where lines of pieces go.
struct stored_lines {
  /// How many lines there are, and the elements of each that are computed.
  std::int64_t rows, begin, end;
  /// Of each result, where the first of them goes, and how many elements further the next line goes.
  void* const* out;
  const std::int64_t* out_apart;
  /// Of an element.
  std::int64_t bytes;
};

/// Bytes from which lines use non-temporal stores. With lines of 2 KiB, a stencil of seven points was 1.1x slower.
inline constexpr std::int64_t non_temporal_line = tuned_size(1 << 12, 64);

namespace detail {

inline constexpr std::int64_t non_temporal_block = tuned_size(1 << 12, 64);
/// Prefetch distance of loads in bytes: about when the block before is stored.
inline constexpr std::int64_t prefetched_ahead = tuned_size(1 << 12, 64);

/// Elements `begin` to `end` of the next line of a piece. `block`: where element `begin` of each result goes.
inline void compute_part(const line_piece& p, std::int64_t begin, std::int64_t end, char* const* block,
                         std::int64_t bytes) {
  static constexpr std::int64_t nowhere[max_results]{};
  const std::int64_t first = std::max(begin, p.begin), last = std::min(end, p.end);
  if (first >= last) return;
  void* out[max_results];
  for (int k = 0; k < p.loops->written; ++k) out[k] = block[k] + (first - begin) * bytes;
  p.lines(
      {p.loops, p.from, p.loops->inner.stride, p.offset, p.apart, 1, first - p.begin, last - p.begin, out, nowhere});
}

/// Stores a block that begins with element `at` of the line. The first one prefetches the next loads of a piece.
inline void store_block(const line_piece& p, std::int64_t at, char* to, const char* block, std::int64_t elements,
                        std::int64_t bytes, bool first) {
  const int prefetched = first ? p.loops->prefetched : 0;
  const char* ahead[most_prefetched];
  for (int k = 0; k < prefetched; ++k) {
    const int load = p.loops->prefetch[k];
    ahead[k] = as<char>(p.from[load]) + (p.offset[load] + at - p.begin) * bytes + prefetched_ahead;
  }
  copy_non_temporal(to, block, elements * bytes, [&](std::int64_t i) {
    for (int k = 0; k < prefetched; ++k) prefetch_line(ahead[k] + i);
  });
}

} // namespace detail

/// Computes lines that consist of `count` pieces with non-temporal stores, but for incomplete cache lines. The pieces
/// are then at the line after the last one. Other threads see the values after `finish_stores_non_temporal`.
inline void compute_lines_non_temporal(line_piece* pieces, int count, const stored_lines& l) {
  using detail::non_temporal_block;
  alignas(detail::cache_line) char memory[max_results * non_temporal_block];
  const int results = pieces[0].loops->written;
  int widest = 0;
  for (int i = 1; i < count; ++i)
    if (pieces[i].end - pieces[i].begin > pieces[widest].end - pieces[widest].begin) widest = i;
  for (std::int64_t row = 0; row < l.rows; ++row) {
    for (std::int64_t at = l.begin, end; at < l.end; at = end) {
      char *to[max_results], *block[max_results];
      end = l.end;
      for (int k = 0; k < results; ++k) {
        to[k] = as<char>(l.out[k]) + (row * l.out_apart[k] + at - l.begin) * l.bytes;
        // The block begins within its line of the cache as its place does.
        const auto shift = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to[k]) % detail::cache_line);
        end = std::min(end, at + (non_temporal_block - shift) / l.bytes);
        block[k] = memory + k * non_temporal_block + shift;
      }
      for (int i = 0; i < count; ++i) detail::compute_part(pieces[i], at, end, block, l.bytes);
      for (int k = 0; k < results; ++k)
        detail::store_block(pieces[widest], at, to[k], block[k], end - at, l.bytes, k == 0);
    }
    for (int i = 0; i < count; ++i) pieces[i].next_line();
  }
}

}} // namespace cleave::v0
