// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/flat_loops.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/storage/vectorise.hpp>

namespace cleave::inline v0 {

/// The inner loop of a map: blocks that become vector code, and the rest.
template <class Expression>
void map_line(const typename Expression::row_type r, typename Expression::type* to, std::int64_t i, std::int64_t stop) {
  for (; i + vector_block <= stop; i += vector_block) {
    CLEAVE_INDEPENDENT
    for (int j = 0; j < vector_block; ++j) to[i + j] = convert<typename Expression::type>(Expression::at(r, i + j));
  }
  for (; i < stop; ++i) to[i] = convert<typename Expression::type>(Expression::at(r, i));
}

/// out[i...] = expression(i...) for a block of lines, each contiguous in the result. All of a map that depends on the
/// expression.
template <class Expression>
void map_lines(const line_block& b) {
  using rows = row_maker<Expression>;
  typename Expression::row_type r = rows::start(b);
  auto* to = as<typename Expression::type>(b.out) + b.offset[rows::result];
  for (std::int64_t row = 0; row < b.rows; ++row) {
    map_line<Expression>(r, to, b.begin, b.end);
    r = rows::moved(r, b.apart);
    to += b.apart[rows::result];
  }
}

/// The same with one element for each unit, for devices.
template <class Expression>
struct map_flat_functor {
  using result_type = typename Expression::type;
  using rows = row_maker<Expression>;

  typename Expression::row_type start;
  flat_loops<rows::walked> outer;
  result_type* out;
  std::int64_t inner;

  KOKKOS_FUNCTION void operator()(std::int64_t flat) const {
    const flat_position<rows::walked> at(outer, flat / inner);
    const std::int64_t i = flat % inner;
    out[at.offset[rows::result] + i] = convert<result_type>(Expression::at(rows::moved(start, at.offset), i));
  }
};
template <class Expression>
void map_flat(const bound_loops& l, const void* const* from, void* to) {
  using rows = row_maker<Expression>;
  const flat_loops<rows::walked> outer(l.outer, l.outer.rank - 1);
  launch("cleave map", l.outer.size(),
         map_flat_functor<Expression>{rows::start(l, from), outer, as<typename Expression::type>(to), l.inner.extent});
}

/// The functions of a map's expression: of its lines on the host, of all of it on a device.
struct map_functions {
  void (*lines)(const line_block&) = nullptr;
  void (*flat)(const bound_loops&, const void* const* from, void* to) = nullptr;
};
template <class Expression>
inline constexpr map_functions map_functions_of = [] {
  map_functions f;
  if constexpr (on_host) f.lines = &map_lines<Expression>;
  else f.flat = &map_flat<Expression>;
  return f;
}();

namespace detail {

/// Elements that are worth a unit of parallel work.
inline constexpr std::int64_t map_grain = 1 << 14;
/// Rows and columns of a tile: rows of a cache line of the load that is read across, few enough lines to stay in the
/// cache.
inline constexpr std::int64_t map_tile_rows = 16;
inline constexpr std::int64_t map_tile_columns = 64;

struct map_work {
  const bound_loops& l;
  const void* const* from;
  void* to;
  void (*lines)(const line_block&);

  /// A stretch of the iteration space for each unit.
  static void run_stretches(const void* work, std::int64_t begin, std::int64_t end) {
    const map_work& w = *as<map_work>(work);
    const std::int64_t total = w.l.outer.size(), last = end * map_grain;
    for_each_block(w.l.outer, w.l.walked, begin * map_grain, last < total ? last : total,
                   [&](const odometer& at, std::int64_t rows, std::int64_t i, std::int64_t stop) {
                     w.lines({&w.l, w.from, w.to, at.offset(), at.apart(), rows, i, stop});
                   });
  }
  /// Tile by tile over the two inner dims, so that every cache line read is used as a whole: a band of rows for each
  /// unit.
  static void run_tiles(const void* work, std::int64_t begin, std::int64_t end) {
    const map_work& w = *as<map_work>(work);
    const loop_dim& down = w.l.outer.dims[w.l.outer.rank - 2];
    const std::int64_t bands = bands_of(w.l), inner = w.l.inner.extent;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t first = unit % bands * map_tile_rows;
      const std::int64_t rows = first + map_tile_rows < down.extent ? map_tile_rows : down.extent - first;
      const odometer at(w.l.outer, w.l.outer.rank - 2, w.l.walked, unit / bands);
      std::int64_t offset[max_walked];
      for (int k = 0; k < w.l.walked; ++k) offset[k] = at.offset()[k] + first * down.stride[k];
      for (std::int64_t i = 0; i < inner; i += map_tile_columns)
        w.lines({&w.l, w.from, w.to, offset, down.stride, rows, i,
                 i + map_tile_columns < inner ? i + map_tile_columns : inner});
    }
  }
  static std::int64_t bands_of(const bound_loops& l) {
    return (l.outer.dims[l.outer.rank - 2].extent + map_tile_rows - 1) / map_tile_rows;
  }
};

} // namespace detail

/// Runs a map.
inline void run_map(const bound_loops& l, const void* const* from, void* to, const map_functions& f) {
  const std::int64_t total = l.outer.size();
  if (total == 0) return;
  if constexpr (!on_host) return f.flat(l, from, to);
  const detail::map_work work{l, from, to, f.lines};
  if (l.tiled) {
    const std::int64_t bands = total / (l.outer.dims[l.outer.rank - 2].extent * l.inner.extent) *
                               detail::map_work::bands_of(l);
    detail::launch_units("cleave map", bands, &detail::map_work::run_tiles, &work);
  } else {
    const std::int64_t stretches = (total + detail::map_grain - 1) / detail::map_grain;
    detail::launch_units("cleave map", stretches, &detail::map_work::run_stretches, &work);
  }
}

} // namespace cleave::inline v0
