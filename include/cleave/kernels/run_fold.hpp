// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/fold.hpp>
#include <cleave/storage/as.hpp>

// The loops around a fold's expression, on the host. Compiled once.

namespace cleave::inline v0 {

/// Elements that are worth a unit of parallel work, and the most pieces of one range.
inline constexpr std::int64_t fold_grain = 1 << 13;
inline constexpr std::int64_t fold_chunks = 256;

/// Cuts the folded range in pieces where there are few results. Depends on the shape only, never on the number of
/// threads, so that the order of summation does not either.
inline void cut_fold(bound_loops& b, bool inner_folded) {
  const std::int64_t range = b.folded.size();
  b.results = b.outer.size() * (inner_folded ? 1 : b.inner.extent);
  const std::int64_t width = inner_folded ? 1 : b.inner.extent < fold_width ? b.inner.extent : fold_width;
  const std::int64_t units = width == 0 ? 0 : b.results / width;
  b.chunks = 1;
  b.chunk = range;
  if (units == 0 || units > 64 || range == 0) return;
  std::int64_t pieces = range * width / fold_grain;
  if (pieces > fold_chunks) pieces = fold_chunks;
  if (pieces > range) pieces = range;
  if (pieces < 2) return;
  b.chunk = (range + pieces - 1) / pieces;
  b.chunks = (range + b.chunk - 1) / b.chunk;
}

/// Scratch memory that a fold needs for its pieces.
inline std::int64_t fold_scratch(const bound_loops& b, std::int64_t element_bytes) {
  return b.chunks > 1 ? b.chunks * b.results * element_bytes : 0;
}

/// The functions of a fold's expression: of its parts on the host, of all of it on a device.
struct fold_functions {
  /// Whether the inner dim is a folded one.
  bool inner_folded = false;
  /// Blocks of lines, for results and for pieces of them.
  void (*block)(const fold_block&) = nullptr;
  void (*block_of_pieces)(const fold_block&) = nullptr;
  /// Short folded dims; null where the expression does not permit it.
  void (*shortly)(const bound_loops&, const void* const*, void*, std::int64_t, std::int64_t) = nullptr;
  void (*join)(const bound_loops&, const void*, void*) = nullptr;
  void (*flat)(const bound_loops&, const void* const* from, void* to, void* pieces) = nullptr;
  /// Bytes of a result, and of what it is computed in.
  std::int64_t stored_bytes = 0, computed_bytes = 0;
};

template <class Expression, reduction How, bool InnerFolded>
inline constexpr fold_functions fold_functions_of = [] {
  using T = typename Expression::value_type;
  using Out = typename Expression::type;
  fold_functions f;
  f.inner_folded = InnerFolded;
  f.stored_bytes = sizeof(Out);
  f.computed_bytes = sizeof(T);
  if constexpr (!on_host) {
    f.flat = &fold_flat<Expression, How, InnerFolded>;
  } else {
    f.join = &join_pieces<T, How, Out>;
    if constexpr (InnerFolded) {
      f.block = &fold_rows<Expression, How, Out>::run;
      f.block_of_pieces = &fold_rows<Expression, How, T>::run;
      if constexpr (Expression::indices == 0) f.shortly = &fold_shortly<Expression, How, Out>::run;
    } else {
      f.block = &fold_columns<Expression, How, Out>::run;
      f.block_of_pieces = &fold_columns<Expression, How, T>::run;
    }
  }
  return f;
}();

namespace detail {

struct fold_work {
  const bound_loops& l;
  const void* const* from;
  void* to;
  void (*block)(const fold_block&);
  std::int64_t bytes;
  void (*shortly)(const bound_loops&, const void* const*, void*, std::int64_t, std::int64_t);
  /// Enough for a vector of sums, or a line of them.
  struct alignas(64) sums_memory {
    char bytes[fold_width * 16];
  };

  void* piece(std::int64_t number) const { return as<char>(to) + number * l.results * bytes; }

  /// One piece of one result for each unit. Where a piece is one block, results beside each other are one call.
  static void run_rows(const void* work, std::int64_t begin, std::int64_t end) {
    const fold_work& w = *as<fold_work>(work);
    const bound_loops& l = w.l;
    const bool one_block = l.chunks == 1 && l.folded.rank <= 2;
    sums_memory sums;
    for (std::int64_t unit = begin; unit < end;) {
      odometer kept(l.outer, l.outer.rank, l.walked, unit % l.results);
      if (one_block) {
        for (std::int64_t n = 0; unit < end; unit += n, kept.advance(n)) {
          n = end - unit < kept.left() ? end - unit : kept.left();
          const std::int64_t rows = l.folded.rank == 2 ? l.folded.dims[0].extent : 1;
          w.block({{&l, w.from, w.to, kept.offset(), l.folded.dims[0].stride, rows, 0, l.inner.extent},
                   &sums,
                   true,
                   true,
                   n,
                   kept.apart()});
        }
      } else {
        w.run_blocks(kept, l.chunk * (unit / l.results), w.piece(unit / l.results), &sums);
        ++unit;
      }
    }
  }
  std::int64_t end_of_piece(std::int64_t flat) const {
    const std::int64_t range = l.folded.size();
    return flat + l.chunk < range ? flat + l.chunk : range;
  }
  /// The folded elements from `flat` on of one result, a piece of them.
  void run_blocks(const odometer& kept, std::int64_t flat, void* out, void* sums) const {
    const std::int64_t end = end_of_piece(flat);
    if (flat >= end)
      return block({{&l, from, out, kept.offset(), kept.apart(), 0, 0, 0}, sums, true, true, 1, kept.apart()});
    run_blocks_of_piece(kept, flat, flat, end, out, sums);
  }
  /// Elements `done` to `stop` of the piece that begins at `flat`.
  void run_blocks_of_piece(const odometer& kept, std::int64_t flat, std::int64_t done, std::int64_t stop_at, void* out,
                           void* sums) const {
    const std::int64_t end = end_of_piece(flat);
    std::int64_t offset[max_walked];
    for_each_block(
        l.folded, l.walked, done, stop_at,
        [&](const odometer& at, std::int64_t rows, std::int64_t i, std::int64_t stop) {
          for (int k = 0; k < l.walked; ++k) offset[k] = kept.offset()[k] + at.offset()[k];
          const bool first = done == flat;
          done += rows * (stop - i);
          block({{&l, from, out, offset, at.apart(), rows, i, stop}, sums, first, done == end, 1, kept.apart()});
        });
  }
  /// A piece of a stretch of results beside each other for each unit.
  static void run_columns(const void* work, std::int64_t begin, std::int64_t end) {
    const fold_work& w = *as<fold_work>(work);
    const bound_loops& l = w.l;
    const std::int64_t inner = l.inner.extent, stretches = (inner + fold_width - 1) / fold_width,
                       outers = l.results / inner;
    sums_memory sums;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t piece = unit / (stretches * outers), first = unit % stretches * fold_width;
      const odometer kept(l.outer, l.outer.rank, l.walked, unit / stretches % outers);
      w.run_stretch(kept, piece, first, inner - first < fold_width ? inner : first + fold_width, &sums);
    }
  }
  void run_stretch(const odometer& kept, std::int64_t piece_number, std::int64_t first, std::int64_t stop,
                   void* sums) const {
    const std::int64_t range = l.folded.size(), begin = piece_number * l.chunk,
                       end = begin + l.chunk < range ? begin + l.chunk : range;
    void* const out = as<char>(piece(piece_number)) + kept.offset()[l.walked - 1] * bytes;
    std::int64_t offset[max_walked];
    if (begin >= end)
      return block({{&l, from, out, kept.offset(), kept.apart(), 0, first, stop}, sums, true, true, 1, kept.apart()});
    odometer at(l.folded, l.folded.rank, l.walked, begin);
    for (std::int64_t f = begin; f < end;) {
      const std::int64_t rows = at.left() < end - f ? at.left() : end - f;
      for (int k = 0; k < l.walked; ++k) offset[k] = kept.offset()[k] + at.offset()[k];
      block(
          {{&l, from, out, offset, at.apart(), rows, first, stop}, sums, f == begin, f + rows == end, 1, kept.apart()});
      f += rows;
      at.advance(rows);
    }
  }
  /// A vector of results for each unit.
  static void run_shortly(const void* work, std::int64_t begin, std::int64_t end) {
    const fold_work& w = *as<fold_work>(work);
    const std::int64_t last = end * vector_block;
    w.shortly(w.l, w.from, w.to, begin * vector_block, last < w.l.results ? last : w.l.results);
  }
};

/// Whether a fold over an inner dim computes a vector of results at a time.
inline bool runs_shortly(const bound_loops& l, bool permitted) {
  if (!permitted || l.chunks != 1 || l.outer.rank != 1 || l.folded.rank != 1) return false;
  const loop_dim &kept = l.outer.dims[0], &folded = l.folded.dims[0];
  return folded.extent < fold_short && kept.extent >= vector_block && kept.stride[l.walked - 1] == 1;
}

inline void run_fold_into(const bound_loops& l, const fold_work& w, bool inner_folded) {
  unit_range run = inner_folded ? &fold_work::run_rows : &fold_work::run_columns;
  std::int64_t units = l.chunks * l.results;
  if (!inner_folded) {
    units = l.chunks * (l.results / l.inner.extent) * ((l.inner.extent + fold_width - 1) / fold_width);
  } else if (runs_shortly(l, w.shortly != nullptr)) {
    run = &fold_work::run_shortly;
    units = (l.results + vector_block - 1) / vector_block;
  }
  if (l.results * l.folded.size() <= fold_grain) run(&w, 0, units);
  else launch_units("cleave fold", units, run, &w);
}

} // namespace detail

/// Runs a fold. `pieces` is scratch memory for the pieces of results, in the type in which the expression is computed.
inline void run_fold(const bound_loops& l, const void* const* from, void* to, void* pieces, const fold_functions& f) {
  if (l.results == 0) return;
  if constexpr (!on_host) return f.flat(l, from, to, pieces);
  if (l.chunks == 1) return detail::run_fold_into(l, {l, from, to, f.block, f.stored_bytes, f.shortly}, f.inner_folded);
  detail::run_fold_into(l, {l, from, pieces, f.block_of_pieces, f.computed_bytes, nullptr}, f.inner_folded);
  f.join(l, pieces, to);
}

/// Whether each result of a fold is computed on its own, from memory that lies together.
inline bool runs_row_by_row(const bound_loops& l, const fold_functions& f) {
  return on_host && f.inner_folded && l.chunks == 1 && !detail::runs_shortly(l, f.shortly != nullptr);
}
/// Whether a fold has one result and its folded range is cut in pieces.
inline bool folds_in_pieces(const bound_loops& l, const fold_functions& f) {
  return on_host && f.inner_folded && l.results == 1 && l.chunks > 1;
}
/// How far a thread is in such a fold: in which piece, and up to which element of the folded range.
struct fold_progress {
  std::int64_t piece, done;
  alignas(64) char sums[vector_block * 16];
};
/// Begins at an element of the folded range, with the first piece that does not begin before it.
inline void start_fold(const bound_loops& l, std::int64_t begin, fold_progress& p) {
  p.piece = (begin + l.chunk - 1) / l.chunk;
  p.done = p.piece * l.chunk;
}
/// Folds elements up to `stop`, in pieces that end before `end`. Elements are added in the same order as by `run_fold`:
/// a line is cut only where it is a whole number of vectors away from where its piece began, if it is the only one.
inline void go_on_with_fold(const bound_loops& l, const void* const* from, void* pieces, const fold_functions& f,
                            std::int64_t stop, std::int64_t end, fold_progress& p) {
  const detail::fold_work w{l, from, pieces, f.block_of_pieces, f.computed_bytes, nullptr};
  const odometer kept(l.outer, l.outer.rank, l.walked, 0);
  while (p.piece < l.chunks) {
    const std::int64_t begin = p.piece * l.chunk, last = w.end_of_piece(begin);
    std::int64_t upto = stop < last ? stop : last;
    if (upto < last)
      upto = l.folded.rank > 1 ? upto - upto % l.inner.extent : p.done + (upto - p.done) / vector_block * vector_block;
    if (last > end || upto <= p.done) return;
    w.run_blocks_of_piece(kept, begin, p.done, upto, w.piece(p.piece), p.sums);
    p.done = upto;
    if (upto < last) return;
    ++p.piece;
  }
}
/// Folds the piece around an element, unless it begins there.
inline void fold_piece_around(const bound_loops& l, const void* const* from, void* pieces, const fold_functions& f,
                              std::int64_t at) {
  if (at % l.chunk == 0) return;
  const detail::fold_work w{l, from, pieces, f.block_of_pieces, f.computed_bytes, nullptr};
  detail::fold_work::run_rows(&w, at / l.chunk, at / l.chunk + 1);
}
/// Results `begin` to `end` of a fold that runs row by row, on this thread.
inline void run_part_of_fold(const bound_loops& l, const void* const* from, void* to, const fold_functions& f,
                             std::int64_t begin, std::int64_t end) {
  const detail::fold_work w{l, from, to, f.block, f.stored_bytes, nullptr};
  detail::fold_work::run_rows(&w, begin, end);
}

} // namespace cleave::inline v0
