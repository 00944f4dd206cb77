// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/fold.hpp>
#include <cleave/kernels/lines.hpp>
#include <cleave/program/fold_cut.hpp>
#include <cleave/storage/memory.hpp>

#include <algorithm>
#include <cstring>

// The loops of a fold on the host: they compute lines of its expression and add them up. Compiled once.

namespace cleave { inline namespace v0 {

/// Folded extents below which a line goes along results instead of along summands.
inline constexpr std::int64_t fold_short = 2 * vector_block;

/// Cuts the folded range in pieces if there are few results.
inline void cut_fold(bound_loops& b, bool inner_folded) {
  const std::int64_t range = b.folded.size();
  b.results = b.outer.size() * (inner_folded ? 1 : b.inner.extent);
  const fold_cut cut = cut_of_fold(b.results, range, inner_folded ? 1 : b.inner.extent);
  b.chunks = cut.chunks;
  b.chunk = cut.chunk;
}

/// The functions of a fold: of its lines on the host, of all of it on a device.
struct fold_functions {
  /// Whether the inner dim is a folded one.
  bool inner_folded = false;
  /// Whether its expression is one contiguous array, which is added up in place.
  bool plain = false;
  lines_function lines = nullptr;
  /// Lines along results, with strides that are known at run time; null if the expression does not permit it.
  lines_function strided_lines = nullptr;
  /// The sums of lines that have one term each, else null.
  lines_function single_terms = nullptr;
  /// How results, and pieces of results, are added up.
  const fold_arithmetic* results = nullptr;
  const fold_arithmetic* pieces = nullptr;
  void (*join)(const bound_loops&, const void*, void*) = nullptr;
  void (*flat)(const bound_loops&, const void* const* from, void* to, void* pieces) = nullptr;
  /// Bytes of a result, and of the type in which it is computed.
  std::int64_t stored_bytes = 0, computed_bytes = 0;
};

namespace detail {
/// Of each line the sum along it, of which one term alone is not 0: that is computed (step::one_term).
template <class Expression, class Out, int Comparison>
void compute_single_terms(const line_block& b) {
  using rows = row_maker<Expression>;
  typename Expression::row_type r = rows::moved(rows::start(*b.loops, b.from, b.step), b.offset);
  for (std::int64_t row = 0; row < b.rows; ++row) {
    const std::int64_t i = label_of<Expression>::template position<Comparison>(r);
    as<Out>(b.out[0])[row] = i >= b.begin && i < b.end ? convert<Out>(Expression::at(r, i)) : Out(0);
    r = rows::moved(r, b.apart);
  }
}

template <class Expression>
inline constexpr bool is_plain_line = false;
template <class T>
inline constexpr bool is_plain_line<fused_expression<1, fused_node<load_code, T, 0, 1>>> =
    std::is_same_v<T, computed<T>>;
} // namespace detail

/// `OneTerm`: see step::one_term.
template <class Expression, reduction How, bool InnerFolded, int OneTerm>
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
    f.plain = detail::is_plain_line<Expression>;
    f.results = &fold_arithmetic_of<T, How, Out>;
    f.pieces = &fold_arithmetic_of<T, How, T>;
    f.join = &join_pieces<T, How, Out>;
    using computed_result = expression_result<Expression::entries - 1, T>;
    f.lines = &compute_lines<Expression, computed_result>;
    if constexpr (InnerFolded && Expression::indices == 0)
      f.strided_lines = &compute_lines<typename striding<Expression>::type, computed_result>;
    if constexpr (OneTerm > 0) f.single_terms = &detail::compute_single_terms<Expression, T, OneTerm - 1>;
  }
  return f;
}();

namespace detail {

struct fold_work {
  const bound_loops& l;
  const void* const* from;
  void* to;
  const fold_functions& f;
  const fold_arithmetic& add;
  /// Bytes of the stored values.
  std::int64_t bytes;

  /// Sums that wait for the next lines, and values that are about to be added.
  struct alignas(64) memory {
    char sums[fold_width * 16];
    char values[fold_buffer_bytes];
  };

  char* piece(std::int64_t number) const { return as<char>(to) + number * l.results * bytes; }
  line_block lines(const std::int64_t* offset, const std::int64_t* apart, std::int64_t rows, std::int64_t i,
                   std::int64_t stop) const {
    return {&l, from, l.inner.stride, offset, apart, rows, i, stop, nullptr, nullptr};
  }
  /// The first value of lines that are one contiguous array each.
  const void* loaded(const line_block& b) const {
    return as<char>(b.from[0]) + (b.offset[0] + b.begin) * f.computed_bytes;
  }
  /// Computes some lines at a time, or a piece of a long line: `use(rows, n)`, with the values in `m`. Of lines that
  /// have one term each these are the terms.
  template <class Use>
  void compute(line_block b, lines_function code, memory& m, const Use& use) const {
    const std::int64_t room = fold_buffer_bytes / f.computed_bytes, begin = b.begin, end = b.end;
    const bool terms = code == f.single_terms;
    const std::int64_t width = terms ? 1 : end - begin, group = width < room ? room / width : 1;
    std::int64_t offset[max_walked];
    for (int k = 0; k < l.walked; ++k) offset[k] = b.offset[k];
    void* const values = m.values;
    std::int64_t elements = 0;
    b.offset = offset;
    b.out = &values;
    b.out_apart = &elements;
    for (std::int64_t left = b.rows; left > 0; left -= b.rows) {
      b.rows = group < left ? group : left;
      for (b.begin = begin; b.begin < end; b.begin = b.end) {
        b.end = terms || end - b.begin < room ? end : b.begin + room;
        elements = terms ? 1 : b.end - b.begin;
        code(b);
        use(b.rows, elements);
      }
      for (int k = 0; k < l.walked; ++k) offset[k] += b.rows * b.apart[k];
    }
  }
  /// Adds lines to one result, whose sums are in `m`.
  void add_rows(const line_block& b, memory& m) const {
    if (b.begin == b.end) return;
    if (f.single_terms != nullptr)
      return compute(b, f.single_terms, m,
                     [&](std::int64_t rows, std::int64_t) { add.add_rows(m.sums, m.values, 1, rows, rows); });
    if (f.plain) return add.add_rows(m.sums, loaded(b), b.rows, b.end - b.begin, b.apart[0]);
    compute(b, f.lines, m, [&](std::int64_t rows, std::int64_t n) { add.add_rows(m.sums, m.values, rows, n, n); });
  }
  /// Lines each of which is a result.
  void reduce_rows(const line_block& b, char* out, std::int64_t apart, memory& m) const {
    const std::int64_t n = b.end - b.begin;
    if (f.plain || n == 0) return add.reduce_rows(n == 0 ? m.values : loaded(b), b.rows, n, b.apart[0], out, apart);
    const bool terms = f.single_terms != nullptr;
    if (terms || n * f.computed_bytes <= fold_buffer_bytes)
      return compute(b, terms ? f.single_terms : f.lines, m, [&](std::int64_t rows, std::int64_t each) {
        add.reduce_rows(m.values, rows, each, each, out, apart);
        out += rows * apart * bytes;
      });
    std::int64_t done = 0;
    compute(b, f.lines, m, [&](std::int64_t, std::int64_t width) {
      if (done == 0) add.start(m.sums, vector_block);
      add.add_rows(m.sums, m.values, 1, width, width);
      done += width;
      if (done < n) return;
      add.finish_row(m.sums, out);
      out += apart * bytes;
      done = 0;
    });
  }
  /// Results that follow each other, each of which reduces lines that do too.
  void run_results(const odometer& kept, std::int64_t results, memory& m) const {
    const int result = l.walked - 1;
    char* out = as<char>(to) + kept.offset()[result] * bytes;
    const std::int64_t apart = kept.apart()[result], inner = l.inner.extent;
    if (l.folded.rank == 1) return reduce_rows(lines(kept.offset(), kept.apart(), results, 0, inner), out, apart, m);
    std::int64_t offset[max_walked];
    for (int k = 0; k < l.walked; ++k) offset[k] = kept.offset()[k];
    for (std::int64_t i = 0; i < results; ++i, out += apart * bytes) {
      add.start(m.sums, vector_block);
      add_rows(lines(offset, l.folded.dims[0].stride, l.folded.dims[0].extent, 0, inner), m);
      add.finish_row(m.sums, out);
      for (int k = 0; k < l.walked; ++k) offset[k] += kept.apart()[k];
    }
  }
  /// One piece of one result for each unit. If a piece is one block of lines, adjacent results are one call.
  static void run_rows(const void* work, std::int64_t begin, std::int64_t end) {
    const fold_work& w = *as<fold_work>(work);
    const bound_loops& l = w.l;
    const bool one_block = l.chunks == 1 && l.folded.rank <= 2;
    memory m;
    for (std::int64_t unit = begin; unit < end;) {
      odometer kept(l.outer, l.outer.rank, l.walked, unit % l.results);
      if (one_block) {
        for (std::int64_t n = 0; unit < end; unit += n, kept.advance(n)) {
          n = end - unit < kept.left() ? end - unit : kept.left();
          w.run_results(kept, n, m);
        }
      } else {
        w.run_piece(kept, l.chunk * (unit / l.results), w.piece(unit / l.results), m);
        ++unit;
      }
    }
  }
  std::int64_t end_of_piece(std::int64_t flat) const {
    const std::int64_t range = l.folded.size();
    return flat + l.chunk < range ? flat + l.chunk : range;
  }
  /// The folded elements from `flat` on of one result, a piece of them.
  void run_piece(const odometer& kept, std::int64_t flat, char* out, memory& m) const {
    add.start(m.sums, vector_block);
    add_elements(kept, flat, end_of_piece(flat), m);
    add.finish_row(m.sums, out + kept.offset()[l.walked - 1] * bytes);
  }
  /// Adds folded elements `flat` to `end` of one result.
  void add_elements(const odometer& kept, std::int64_t flat, std::int64_t end, memory& m) const {
    std::int64_t offset[max_walked];
    for_each_block(l.folded, l.walked, flat, end,
                   [&](const odometer& at, std::int64_t rows, std::int64_t i, std::int64_t stop) {
                     for (int k = 0; k < l.walked; ++k) offset[k] = kept.offset()[k] + at.offset()[k];
                     add_rows(lines(offset, at.apart(), rows, i, stop), m);
                   });
  }
  /// Adds lines to results along them, whose sums are in `m`.
  void add_columns(const line_block& b, memory& m) const {
    const std::int64_t width = b.end - b.begin;
    if (f.plain) return add.add_columns(m.sums, loaded(b), b.rows, width, b.apart[0]);
    compute(b, f.lines, m, [&](std::int64_t rows, std::int64_t n) { add.add_columns(m.sums, m.values, rows, n, n); });
  }
  /// A piece of a stretch of adjacent results for each unit.
  static void run_columns(const void* work, std::int64_t begin, std::int64_t end) {
    const fold_work& w = *as<fold_work>(work);
    const bound_loops& l = w.l;
    const std::int64_t inner = l.inner.extent, stretches = (inner + fold_width - 1) / fold_width,
                       outers = l.results / inner;
    memory m;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t number = unit / (stretches * outers), first = unit % stretches * fold_width;
      const odometer kept(l.outer, l.outer.rank, l.walked, unit / stretches % outers);
      w.run_stretch(kept, number, first, inner - first < fold_width ? inner : first + fold_width, m);
    }
  }
  void run_stretch(const odometer& kept, std::int64_t number, std::int64_t first, std::int64_t stop, memory& m) const {
    const std::int64_t begin = number * l.chunk, end = end_of_piece(begin);
    std::int64_t offset[max_walked];
    add.start(m.sums, stop - first);
    if (begin < end) {
      odometer at(l.folded, l.folded.rank, l.walked, begin);
      for (std::int64_t flat = begin, rows = 0; flat < end; flat += rows, at.advance(rows)) {
        rows = at.left() < end - flat ? at.left() : end - flat;
        for (int k = 0; k < l.walked; ++k) offset[k] = kept.offset()[k] + at.offset()[k];
        add_columns(lines(offset, at.apart(), rows, first, stop), m);
      }
    }
    const std::int64_t step = l.inner.stride[l.walked - 1];
    add.finish_columns(m.sums, stop - first, piece(number) + (kept.offset()[l.walked - 1] + first * step) * bytes,
                       step);
  }
  /// A stretch of results that each reduce a short line: lines go along the results instead.
  static void run_shortly(const void* work, std::int64_t begin, std::int64_t end) {
    const fold_work& w = *as<fold_work>(work);
    const bound_loops& l = w.l;
    const loop_dim &kept = l.outer.dims[0], &folded = l.folded.dims[0];
    std::int64_t offset[max_walked];
    for (int k = 0; k < l.walked; ++k) offset[k] = 0;
    memory m;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t first = unit * fold_short_width,
                         stop = kept.extent - first < fold_short_width ? kept.extent : first + fold_short_width;
      const line_block b{&l, w.from, kept.stride, offset, folded.stride, folded.extent, first, stop, nullptr, nullptr};
      w.add.start(m.sums, stop - first);
      w.compute(b, w.f.strided_lines, m,
                [&](std::int64_t rows, std::int64_t n) { w.add.add_columns(m.sums, m.values, rows, n, n); });
      w.add.finish_columns(m.sums, stop - first, as<char>(w.to) + first * w.bytes, 1);
    }
  }
  /// How many results `run_across` computes at a time.
  std::int64_t across() const { return fold_width * 16 / (vector_block * f.computed_bytes); }
  /// A stretch of adjacent results that each reduce a line across them: they have as many sums as `add_rows` has, of
  /// the same elements, so that their bits are the same.
  static void run_across(const void* work, std::int64_t begin, std::int64_t end) {
    const fold_work& w = *as<fold_work>(work);
    const bound_loops& l = w.l;
    const loop_dim &kept = l.outer.dims[0], &folded = l.folded.dims[0];
    std::int64_t offset[max_walked], apart[max_walked];
    for (int k = 0; k < l.walked; ++k) apart[k] = vector_block * folded.stride[k];
    memory m;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t first = unit * w.across(), n = std::min(kept.extent - first, w.across());
      const auto sums = [&](std::int64_t j) { return m.sums + j * n * w.f.computed_bytes; };
      w.add.start(m.sums, vector_block * n);
      for (std::int64_t j = 0; j < vector_block && j < folded.extent; ++j) {
        for (int k = 0; k < l.walked; ++k) offset[k] = j * folded.stride[k];
        const std::int64_t rows_of_sum = (folded.extent - j + vector_block - 1) / vector_block;
        const line_block b{&l, w.from, kept.stride, offset, apart, rows_of_sum, first, first + n, nullptr, nullptr};
        if (w.f.plain) w.add.add_columns(sums(j), w.loaded(b), b.rows, n, apart[0]);
        else
          w.compute(b, w.f.strided_lines, m, [&](std::int64_t rows, std::int64_t some) {
            w.add.add_columns(sums(j), m.values, rows, some, some);
          });
      }
      for (std::int64_t half = vector_block / 2; half > 0; half /= 2)
        for (std::int64_t j = 0; j < half; ++j) w.add.add_columns(sums(j), sums(j + half), 1, n, n);
      w.add.finish_columns(m.sums, n, as<char>(w.to) + first * w.bytes, 1);
    }
  }
};

/// Whether a fold over an inner dim computes lines along its results.
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
  } else if (runs_shortly(l, w.f.strided_lines != nullptr)) {
    run = &fold_work::run_shortly;
    units = (l.results + fold_short_width - 1) / fold_short_width;
  } else if (l.along_results) {
    run = &fold_work::run_across;
    units = (l.results + w.across() - 1) / w.across();
  }
  if (l.results * l.folded.size() <= fold_grain) run(&w, 0, units);
  else launch_units("cleave fold", units, run, &w);
}

} // namespace detail

/// Runs a fold. `pieces` is scratch memory for the pieces of results, in the type in which the expression is computed.
inline void run_fold(const bound_loops& l, const void* const* from, void* to, void* pieces, const fold_functions& f) {
  if (l.results == 0) return;
  if constexpr (!on_host) return f.flat(l, from, to, pieces);
  if (l.chunks == 1) return detail::run_fold_into(l, {l, from, to, f, *f.results, f.stored_bytes}, f.inner_folded);
  detail::run_fold_into(l, {l, from, pieces, f, *f.pieces, f.computed_bytes}, f.inner_folded);
  f.join(l, pieces, to);
}

/// Whether each result of a fold is computed on its own, from contiguous memory.
inline bool runs_row_by_row(const bound_loops& l, const fold_functions& f) {
  return on_host && f.inner_folded && l.chunks == 1 && !detail::runs_shortly(l, f.strided_lines != nullptr);
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
/// a line is cut only where `run_fold` cuts it too, at whole blocks from the start of its piece, if it is the only one.
inline void go_on_with_fold(const bound_loops& l, const void* const* from, void* pieces, const fold_functions& f,
                            std::int64_t stop, std::int64_t end, fold_progress& p) {
  const detail::fold_work w{l, from, pieces, f, *f.pieces, f.computed_bytes};
  const std::int64_t block = fold_buffer_bytes / f.computed_bytes;
  const odometer kept(l.outer, l.outer.rank, l.walked, 0);
  detail::fold_work::memory m;
  std::memcpy(m.sums, p.sums, sizeof(p.sums));
  while (p.piece < l.chunks) {
    const std::int64_t begin = p.piece * l.chunk, last = w.end_of_piece(begin);
    std::int64_t upto = stop < last ? stop : last;
    if (upto < last) upto = l.folded.rank > 1 ? upto - upto % l.inner.extent : p.done + (upto - p.done) / block * block;
    if (last > end || upto <= p.done) break;
    if (p.done == begin) w.add.start(m.sums, vector_block);
    w.add_elements(kept, p.done, upto, m);
    p.done = upto;
    if (upto < last) break;
    w.add.finish_row(m.sums, w.piece(p.piece) + kept.offset()[l.walked - 1] * w.bytes);
    ++p.piece;
  }
  std::memcpy(p.sums, m.sums, sizeof(p.sums));
}
/// Folds the piece around an element, unless it begins there.
inline void fold_piece_around(const bound_loops& l, const void* const* from, void* pieces, const fold_functions& f,
                              std::int64_t at) {
  if (at % l.chunk == 0) return;
  const detail::fold_work w{l, from, pieces, f, *f.pieces, f.computed_bytes};
  detail::fold_work::run_rows(&w, at / l.chunk, at / l.chunk + 1);
}
/// Results `begin` to `end` of a fold that runs row by row, on this thread.
inline void run_part_of_fold(const bound_loops& l, const void* const* from, void* to, const fold_functions& f,
                             std::int64_t begin, std::int64_t end) {
  const detail::fold_work w{l, from, to, f, *f.results, f.stored_bytes};
  detail::fold_work::run_rows(&w, begin, end);
}

}} // namespace cleave::v0
