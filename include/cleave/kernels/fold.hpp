// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/operands.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/storage/vectorise.hpp>

namespace cleave {

/// Results that share a unit where the inner dim is kept.
inline constexpr std::int64_t fold_width = 512;
/// Elements that are worth a unit of parallel work, and the most pieces of one range.
inline constexpr std::int64_t fold_grain = 1 << 13;
inline constexpr std::int64_t fold_chunks = 256;

/// Cuts the folded range in pieces where there are few results. Depends on the shape only, never on the number of threads, so
/// that the order of summation does not either.
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

/// out[kept] = reduction over a contiguous folded inner dim: a vector of accumulators, combined in a fixed order. `Out` is
/// the type of the result; of several pieces it is that of the accumulators.
template <class Expression, int How, class Out>
struct fold_rows_functor {
  using T = typename Expression::value_type;
  using table = operand_table<Expression>;
  using rows = row_maker<Expression>;
  static constexpr reduction how = static_cast<reduction>(How);

  table operands;
  kernel_loops<table::count> outer;
  kernel_loops<table::count> folded;
  Out* out;
  std::int64_t results;
  std::int64_t inner;
  std::int64_t range;
  std::int64_t chunk;

  void operator()(std::int64_t unit) const {
    const odometer<table::count> kept(outer, unit % results);
    std::int64_t flat = unit / results * chunk;
    const std::int64_t end = flat + chunk < range ? flat + chunk : range;
    T lanes[vector_block];
    for (int j = 0; j < vector_block; ++j) lanes[j] = identity_of<how, T>;
    if (flat < end) {
      const typename Expression::row_type start = rows::moved(rows::start(operands), kept.offset);
      odometer<table::count> at(folded, flat / inner);
      std::int64_t i = flat % inner;
      while (flat < end) {
        const std::int64_t stop = inner - i < end - flat ? inner : i + (end - flat);
        line(rows::moved(start, at.offset), lanes, i, stop);
        flat += stop - i;
        i = 0;
        at.next(folded);
      }
    }
    for (int half = vector_block / 2; half > 0; half /= 2)
      for (int j = 0; j < half; ++j) lanes[j] = combined<how>(lanes[j], lanes[j + half]);
    out[unit / results * results + kept.offset[table::result]] = convert<Out>(lanes[0]);
  }

 private:
  static void line(const typename Expression::row_type r, T* lanes, std::int64_t i, std::int64_t stop) {
    T sum[vector_block];
    for (int j = 0; j < vector_block; ++j) sum[j] = lanes[j];
    for (; i + vector_block <= stop; i += vector_block) {
      CLEAVE_INDEPENDENT
      for (int j = 0; j < vector_block; ++j) sum[j] = combined<how>(sum[j], Expression::at(r, i + j));
    }
    for (int j = 0; i < stop; ++i, ++j) sum[j] = combined<how>(sum[j], Expression::at(r, i));
    for (int j = 0; j < vector_block; ++j) lanes[j] = sum[j];
  }
};

/// Folded extents below which a vector holds many results instead of many summands.
inline constexpr std::int64_t fold_short = 2 * vector_block;

/// out[kept] = reduction over a short folded inner dim, the only one, with one kept dim: a vector of results.
template <class Expression, int How, class Out>
struct fold_short_functor {
  using T = typename Expression::value_type;
  using lanes_expression = typename striding<Expression>::type;
  using table = operand_table<lanes_expression>;
  using rows = row_maker<lanes_expression>;
  static constexpr reduction how = static_cast<reduction>(How);

  /// With the strides along the kept dim; `next` has those along the folded one.
  table operands;
  std::int64_t next[table::count];
  Out* out;
  std::int64_t results;
  std::int64_t inner;

  void operator()(std::int64_t unit) const {
    const std::int64_t first = unit * vector_block;
    std::int64_t offset[table::count];
    for (int k = 0; k < table::count; ++k) offset[k] = first * operands.step[k];
    const typename lanes_expression::row_type start = rows::moved(rows::start(operands), offset);
    T sum[vector_block];
    for (int j = 0; j < vector_block; ++j) sum[j] = identity_of<how, T>;
    if (first + vector_block <= results) {
      for (std::int64_t i = 0; i < inner; ++i) {
        const typename lanes_expression::row_type r = along(start, i);
        CLEAVE_INDEPENDENT
        for (int j = 0; j < vector_block; ++j) sum[j] = combined<how>(sum[j], lanes_expression::at(r, j));
      }
      for (int j = 0; j < vector_block; ++j) out[first + j] = convert<Out>(sum[j]);
    } else {
      for (std::int64_t i = 0; i < inner; ++i) {
        const typename lanes_expression::row_type r = along(start, i);
        for (std::int64_t j = 0; j < results - first; ++j) sum[j] = combined<how>(sum[j], lanes_expression::at(r, j));
      }
      for (std::int64_t j = 0; j < results - first; ++j) out[first + j] = convert<Out>(sum[j]);
    }
  }

 private:
  typename lanes_expression::row_type along(const typename lanes_expression::row_type& start, std::int64_t i) const {
    std::int64_t offset[table::count];
    for (int k = 0; k < table::count; ++k) offset[k] = i * next[k];
    return rows::moved(start, offset);
  }
};

/// Runs a fold the short way where its loops permit.
template <class Expression, int How, class Out>
bool run_short_fold(const bound_loops& b, const void* const* from, Out* to) {
  using functor = fold_short_functor<Expression, How, Out>;
  using table = typename functor::table;
  if (b.chunks > 1 || b.outer.dims.size() != 1 || b.folded.dims.size() != 1) return false;
  const loop_nest::dim &kept = b.outer.dims[0], &folded = b.folded.dims[0];
  if (folded.extent >= fold_short || kept.extent < vector_block || kept.stride[table::result] != 1) return false;
  functor f{table(b, from), {}, to, b.results, folded.extent};
  for (std::size_t k = 0; k < table::count; ++k) {
    f.operands.step[k] = kept.stride[k];
    f.next[k] = folded.stride[k];
  }
  const std::int64_t units = (b.results + vector_block - 1) / vector_block;
  if (b.results * folded.extent <= fold_grain)
    for (std::int64_t u = 0; u < units; ++u) f(u);
  else launch("cleave fold", units, f);
  return true;
}

/// out[kept] = reduction over folded dims around a contiguous kept one: whole rows are added up.
template <class Expression, int How, class Out>
struct fold_columns_functor {
  using T = typename Expression::value_type;
  using table = operand_table<Expression>;
  using rows = row_maker<Expression>;
  static constexpr reduction how = static_cast<reduction>(How);

  table operands;
  kernel_loops<table::count> outer;
  kernel_loops<table::count> folded;
  Out* out;
  std::int64_t results;
  std::int64_t inner;
  std::int64_t range;
  std::int64_t chunk;

  void operator()(std::int64_t unit) const {
    const std::int64_t blocks = (inner + fold_width - 1) / fold_width;
    const std::int64_t outers = results / inner;
    const std::int64_t piece = unit / (blocks * outers);
    const odometer<table::count> kept(outer, unit / blocks % outers);
    const std::int64_t first = unit % blocks * fold_width;
    const std::int64_t width = inner - first < fold_width ? inner - first : fold_width;
    const std::int64_t begin = piece * chunk, end = begin + chunk < range ? begin + chunk : range;
    T sum[fold_width];
    for (std::int64_t j = 0; j < width; ++j) sum[j] = identity_of<how, T>;
    if (begin < end) {
      const typename Expression::row_type start = rows::moved(rows::start(operands), kept.offset);
      odometer<table::count> at(folded, begin);
      for (std::int64_t f = begin; f < end; ++f, at.next(folded)) line(rows::moved(start, at.offset), sum, first, width);
    }
    Out* to = out + piece * results + kept.offset[table::result] + first * operands.step[table::result];
    for (std::int64_t j = 0; j < width; ++j) to[j * operands.step[table::result]] = convert<Out>(sum[j]);
  }

 private:
  static void line(const typename Expression::row_type r, T* sum, std::int64_t first, std::int64_t width) {
    std::int64_t i = 0;
    for (; i + vector_block <= width; i += vector_block) {
      CLEAVE_INDEPENDENT
      for (int j = 0; j < vector_block; ++j) sum[i + j] = combined<how>(sum[i + j], Expression::at(r, first + i + j));
    }
    for (; i < width; ++i) sum[i] = combined<how>(sum[i], Expression::at(r, first + i));
  }
};

/// The same with one piece of one result for each unit, for devices. The inner dim, if kept, is the last of `outer`.
template <class Expression, int How, class Out>
struct fold_flat_functor {
  using T = typename Expression::value_type;
  using table = operand_table<Expression>;
  using rows = row_maker<Expression>;
  static constexpr reduction how = static_cast<reduction>(How);

  table operands;
  kernel_loops<table::count> outer;
  kernel_loops<table::count> folded;
  Out* out;
  std::int64_t results;
  std::int64_t range;
  std::int64_t chunk;

  KOKKOS_FUNCTION void operator()(std::int64_t unit) const {
    const odometer<table::count> kept(outer, unit % results);
    const std::int64_t begin = unit / results * chunk, end = begin + chunk < range ? begin + chunk : range;
    T sum = identity_of<how, T>;
    if (begin < end) {
      const typename Expression::row_type start = rows::moved(rows::start(operands), kept.offset);
      odometer<table::count> at(folded, begin);
      for (std::int64_t f = begin; f < end; ++f, at.next(folded))
        sum = combined<how>(sum, Expression::at(rows::moved(start, at.offset), 0));
    }
    out[unit / results * results + kept.offset[table::result]] = convert<Out>(sum);
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

/// Scratch memory that a fold needs for its pieces.
inline std::int64_t fold_scratch(const bound_loops& b, std::int64_t element_bytes) {
  return b.chunks > 1 ? b.chunks * b.results * element_bytes : 0;
}

namespace detail {

template <class Expression, reduction How, bool InnerFolded, bool Flat, class Out>
void fold_into(const bound_loops& b, const void* const* from, Out* out) {
  using table = operand_table<Expression>;
  constexpr int how = static_cast<int>(How);
  const std::int64_t range = b.folded.size();
  const table operands(b, from);
  std::int64_t units = b.chunks * b.results;
  if constexpr (Flat) {
    std::vector<loop_nest::dim> kept = b.outer.dims;
    if (!InnerFolded) kept.push_back(b.inner);
    const kernel_loops<table::count> outer(kept, kept.size()), folded(b.folded.dims, b.folded.dims.size());
    launch("cleave fold", units, fold_flat_functor<Expression, how, Out>{operands, outer, folded, out, b.results, range, b.chunk});
  } else {
    if constexpr (InnerFolded && Expression::indices == 0)
      if (run_short_fold<Expression, how>(b, from, out)) return;
    using functor =
        std::conditional_t<InnerFolded, fold_rows_functor<Expression, how, Out>, fold_columns_functor<Expression, how, Out>>;
    const kernel_loops<table::count> outer(b.outer.dims, b.outer.dims.size());
    const kernel_loops<table::count> folded(b.folded.dims, b.folded.dims.size() - (InnerFolded ? 1 : 0));
    if (!InnerFolded) units = b.chunks * (b.results / b.inner.extent) * ((b.inner.extent + fold_width - 1) / fold_width);
    const functor f{operands, outer, folded, out, b.results, b.inner.extent, range, b.chunk};
    if (b.results * range <= fold_grain)
      for (std::int64_t u = 0; u < units; ++u) f(u);
    else launch("cleave fold", units, f);
  }
}

} // namespace detail

/// Runs a fold. `InnerFolded`: the inner dim is a folded one. `Flat` forces the form for devices. Pieces are of the type in
/// which the expression is computed.
template <class Expression, reduction How, bool InnerFolded, bool Flat = !on_host>
void run_fold(const bound_loops& b, const void* const* from, void* to, void* pieces) {
  using T = typename Expression::value_type;
  using Out = typename Expression::type;
  if (b.results == 0) return;
  if (b.chunks == 1) return detail::fold_into<Expression, How, InnerFolded, Flat>(b, from, static_cast<Out*>(to));
  detail::fold_into<Expression, How, InnerFolded, Flat>(b, from, static_cast<T*>(pieces));
  const join_functor<T, static_cast<int>(How), Out> join{static_cast<const T*>(pieces), static_cast<Out*>(to), b.results, b.chunks};
  if constexpr (on_host)
    for (std::int64_t i = 0; i < b.results; ++i) join(i);
  else launch("cleave fold", b.results, join);
}

} // namespace cleave
