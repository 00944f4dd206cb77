// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/flat_loops.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/storage/vectorise.hpp>

// What of a fold depends on its expression. kernels/run_fold.hpp has the loops around it.

namespace cleave::inline v0 {

/// Results that share a unit where the inner dim is kept.
inline constexpr std::int64_t fold_width = 512;
/// Folded extents below which a vector holds many results instead of many summands.
inline constexpr std::int64_t fold_short = 2 * vector_block;

/// A block of lines of a fold, and what becomes of their sums.
struct fold_block : line_block {
  /// Where sums wait between the blocks of one result.
  void* sums;
  /// Whether this block is the first of its results, and the last.
  bool first, last;
  /// The number of adjacent results, each of which reduces such a block. If there are several, each has one block.
  std::int64_t results;
  const std::int64_t* results_apart;
};

/// out[kept] = reduction over a contiguous folded inner dim: a vector of accumulators, combined in a fixed order. `Out`
/// is the type of the result; of several pieces it is that of the accumulators.
template <class Expression, reduction How, class Out>
struct fold_rows {
  using T = typename Expression::value_type;
  using rows = row_maker<Expression>;
  using row_type = typename Expression::row_type;

  static void run(const fold_block& b) {
    row_type start = rows::start(b);
    Out* out = as<Out>(b.out) + b.offset[rows::result];
    for (std::int64_t result = 0; result < b.results; ++result) {
      block(b, start, out);
      start = rows::moved(start, b.results_apart);
      out += b.results_apart[rows::result];
    }
  }

 private:
  static void block(const fold_block& b, row_type r, Out* out) {
    T* const kept = as<T>(b.sums);
    T sum[vector_block];
    for (int j = 0; j < vector_block; ++j) sum[j] = b.first ? identity_of<How, T> : kept[j];
    for (std::int64_t row = 0; row < b.rows; ++row) {
      line(r, sum, b.begin, b.end);
      r = rows::moved(r, b.apart);
    }
    if (!b.last) {
      for (int j = 0; j < vector_block; ++j) kept[j] = sum[j];
      return;
    }
    for (int half = vector_block / 2; half > 0; half /= 2)
      for (int j = 0; j < half; ++j) sum[j] = combined<How>(sum[j], sum[j + half]);
    *out = convert<Out>(sum[0]);
  }
  static void line(const row_type r, T* lanes, std::int64_t i, std::int64_t stop) {
    // In registers, which memory that others may see is not.
    T sum[vector_block];
    for (int j = 0; j < vector_block; ++j) sum[j] = lanes[j];
    for (; i + vector_block <= stop; i += vector_block) {
      CLEAVE_INDEPENDENT
      for (int j = 0; j < vector_block; ++j) sum[j] = combined<How>(sum[j], Expression::at(r, i + j));
    }
    for (int j = 0; i < stop; ++i, ++j) sum[j] = combined<How>(sum[j], Expression::at(r, i));
    for (int j = 0; j < vector_block; ++j) lanes[j] = sum[j];
  }
};

/// out[kept] = reduction over folded dims around a contiguous kept one: whole lines are added up.
template <class Expression, reduction How, class Out>
struct fold_columns {
  using T = typename Expression::value_type;
  using rows = row_maker<Expression>;
  using row_type = typename Expression::row_type;

  static void run(const fold_block& b) {
    T* const sum = as<T>(b.sums);
    const std::int64_t width = b.end - b.begin;
    if (b.first)
      for (std::int64_t j = 0; j < width; ++j) sum[j] = identity_of<How, T>;
    row_type r = rows::start(b);
    for (std::int64_t row = 0; row < b.rows; ++row) {
      line(r, sum, b.begin, width);
      r = rows::moved(r, b.apart);
    }
    if (!b.last) return;
    const std::int64_t step = b.loops->inner.stride[rows::result];
    Out* const to = as<Out>(b.out) + b.begin * step;
    for (std::int64_t j = 0; j < width; ++j) to[j * step] = convert<Out>(sum[j]);
  }

 private:
  static void line(const row_type r, T* sum, std::int64_t first, std::int64_t width) {
    std::int64_t i = 0;
    for (; i + vector_block <= width; i += vector_block) {
      CLEAVE_INDEPENDENT
      for (int j = 0; j < vector_block; ++j) sum[i + j] = combined<How>(sum[i + j], Expression::at(r, first + i + j));
    }
    for (; i < width; ++i) sum[i] = combined<How>(sum[i], Expression::at(r, first + i));
  }
};

/// out[kept] = reduction over a short folded inner dim, the only one, with one kept dim: a vector of results.
template <class Expression, reduction How, class Out>
struct fold_shortly {
  using T = typename Expression::value_type;
  using lanes_expression = typename striding<Expression>::type;
  using rows = row_maker<lanes_expression>;
  using row_type = typename lanes_expression::row_type;

  /// Results `first` to `last`; a vector of them starts at every multiple of its length.
  static void run(const bound_loops& l, const void* const* from, void* to, std::int64_t first, std::int64_t last) {
    Out* const out = as<Out>(to);
    const loop_dim& kept = l.outer.dims[0];
    row_type start = rows::start(l, from);
    // A vector runs along the kept dim.
    for (int k = 0; k < Expression::loads; ++k) start.step[k] = kept.stride[k];
    for (; first < last; first += vector_block) {
      std::int64_t offset[rows::walked];
      for (int k = 0; k < rows::walked; ++k) offset[k] = first * kept.stride[k];
      vector(l.folded.dims[0], rows::moved(start, offset), out + first,
             last - first < vector_block ? last - first : vector_block);
    }
  }

 private:
  static void vector(const loop_dim& folded, row_type r, Out* out, std::int64_t lanes) {
    T sum[vector_block];
    for (int j = 0; j < vector_block; ++j) sum[j] = identity_of<How, T>;
    if (lanes == vector_block) {
      for (std::int64_t i = 0; i < folded.extent; ++i, r = rows::moved(r, folded.stride)) {
        CLEAVE_INDEPENDENT
        for (int j = 0; j < vector_block; ++j) sum[j] = combined<How>(sum[j], lanes_expression::at(r, j));
      }
      for (int j = 0; j < vector_block; ++j) out[j] = convert<Out>(sum[j]);
    } else {
      for (std::int64_t i = 0; i < folded.extent; ++i, r = rows::moved(r, folded.stride))
        for (std::int64_t j = 0; j < lanes; ++j) sum[j] = combined<How>(sum[j], lanes_expression::at(r, j));
      for (std::int64_t j = 0; j < lanes; ++j) out[j] = convert<Out>(sum[j]);
    }
  }
};

/// Combines the pieces of every result, first to last.
template <class T, int How, class Out>
struct join_functor {
  const T* pieces;
  Out* out;
  std::int64_t results;
  std::int64_t chunks;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    T sum = pieces[i];
    for (std::int64_t c = 1; c < chunks; ++c) sum = combined<static_cast<reduction>(How)>(sum, pieces[c * results + i]);
    out[i] = convert<Out>(sum);
  }
};
template <class T, reduction How, class Out>
void join_pieces(const bound_loops& l, const void* pieces, void* to) {
  const join_functor<T, static_cast<int>(How), Out> join{as<T>(pieces), as<Out>(to), l.results, l.chunks};
  if constexpr (on_host)
    for (std::int64_t i = 0; i < l.results; ++i) join(i);
  else launch("cleave fold", l.results, join);
}

/// One piece of one result for each unit, for devices. The inner dim, if kept, is the last of `outer`.
template <class Expression, int How, class Out>
struct fold_flat_functor {
  using T = typename Expression::value_type;
  using rows = row_maker<Expression>;
  static constexpr reduction how = static_cast<reduction>(How);

  typename Expression::row_type start;
  flat_loops<rows::walked> outer;
  flat_loops<rows::walked> folded;
  Out* out;
  std::int64_t results;
  std::int64_t range;
  std::int64_t chunk;

  KOKKOS_FUNCTION void operator()(std::int64_t unit) const {
    const flat_position<rows::walked> kept(outer, unit % results);
    const std::int64_t begin = unit / results * chunk, end = begin + chunk < range ? begin + chunk : range;
    T sum = identity_of<how, T>;
    if (begin < end) {
      const typename Expression::row_type first = rows::moved(start, kept.offset);
      flat_position<rows::walked> at(folded, begin);
      for (std::int64_t f = begin; f < end; ++f, at.next(folded))
        sum = combined<how>(sum, Expression::at(rows::moved(first, at.offset), 0));
    }
    out[unit / results * results + kept.offset[rows::result]] = convert<Out>(sum);
  }
};

template <class Expression, reduction How, bool InnerFolded, class Out>
void fold_flat_into(const bound_loops& l, const void* const* from, Out* out) {
  using rows = row_maker<Expression>;
  flat_loops<rows::walked> outer(l.outer, l.outer.rank);
  if (!InnerFolded) outer.append(l.inner);
  const flat_loops<rows::walked> folded(l.folded, l.folded.rank);
  using functor = fold_flat_functor<Expression, static_cast<int>(How), Out>;
  launch("cleave fold", l.chunks * l.results,
         functor{rows::start(l, from), outer, folded, out, l.results, l.folded.size(), l.chunk});
}

/// Runs a fold on a device. `pieces` is scratch memory for the pieces of results.
template <class Expression, reduction How, bool InnerFolded>
void fold_flat(const bound_loops& l, const void* const* from, void* to, void* pieces) {
  using T = typename Expression::value_type;
  using Out = typename Expression::type;
  if (l.results == 0) return;
  if (l.chunks == 1) return fold_flat_into<Expression, How, InnerFolded>(l, from, as<Out>(to));
  fold_flat_into<Expression, How, InnerFolded>(l, from, as<T>(pieces));
  join_pieces<T, How, Out>(l, pieces, to);
}

} // namespace cleave::inline v0
