// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/kernels/expression.hpp>
#include <cleave/kernels/lines_non_temporal.hpp>
#include <cleave/storage/flat_loops.hpp>
#include <cleave/storage/memory.hpp>

namespace cleave { inline namespace v0 {

/// out[i...] = expression(i...), for devices, of one result or several. A thread computes several elements, unless the
/// expression is long, so that their loads overlap: all are loaded before one is stored, since the compiler may not
/// move a load past a store that may alias it. If there are several loads, some may be neighbours of others, as in
/// stencils: more elements at a time read less.
template <class Expression, class... Results>
struct map_flat_functor {
  using rows = row_maker<Expression>;
  static constexpr int walked = rows::result + int{sizeof...(Results)};
  static constexpr bool reads_around = Expression::loads > 2;
  static constexpr int repeat = Expression::entries > 24 ? 1 : reads_around || rows::strides ? 8 : 4;
  using tiles_type = flat_tiles<walked, repeat>;

  typename Expression::row_type start;
  tiles_type tiles;
  detail::result_pointers<Results...> out;

  KOKKOS_FUNCTION void operator()(std::int64_t unit) const {
    const typename tiles_type::position at = tiles.at(unit);
    typename Expression::row_type row = rows::moved(start, at.offset);
    detail::result_pointers<Results...> to = out;
    to.move(at.offset + rows::result);
    if (at.count < repeat) {
      CLEAVE_NOT_UNROLLED
      for (int r = 0; r < at.count; ++r) {
        to.store(0, Expression::frame_at(row, 0));
        to.move(tiles.steps() + rows::result);
        row = rows::moved(row, tiles.steps());
      }
      return;
    }
    typename detail::result_pointers<Results...>::values value[repeat];
    for (int r = 0; r < repeat; ++r) {
      value[r].take(Expression::frame_at(row, 0));
      row = rows::moved(row, tiles.steps());
    }
    for (int r = 0; r < repeat; ++r) {
      to.store(0, value[r]);
      to.move(tiles.steps() + rows::result);
    }
  }
};
template <class Expression, class... Results>
void map_flat(const bound_loops& l, const void* const* from, void* const* to) {
  using functor = map_flat_functor<Expression, Results...>;
  const typename functor::tiles_type tiles(l.outer);
  launch("cleave map", tiles.units(),
         functor{functor::rows::start(l, from, l.inner.stride), tiles, detail::result_pointers<Results...>(to)});
}

/// The functions of a map's expression: of its lines on the host, of all of it on a device.
struct map_functions {
  lines_function lines = nullptr;
  void (*flat)(const bound_loops&, const void* const* from, void* const* to) = nullptr;
  /// Bytes of an element of each result.
  std::int64_t bytes = 0;
};
template <class Expression, class... Results>
inline constexpr map_functions map_functions_of = [] {
  map_functions f;
  f.bytes = sizeof(typename Expression::type);
  if constexpr (on_host) f.lines = &compute_lines<Expression, Results...>;
  else f.flat = &map_flat<Expression, Results...>;
  return f;
}();

namespace detail {

/// Elements that are worth a unit of parallel work.
inline constexpr std::int64_t map_grain = tuned_size(1 << 14, 32);
/// Rows and columns of a tile: rows of a cache line of the load that is read across, few enough lines to stay in the
/// cache.
inline constexpr std::int64_t map_tile_rows = 16;
inline constexpr std::int64_t map_tile_columns = 64;

struct map_work {
  const bound_loops& l;
  const void* const* from;
  void* const* to;
  const map_functions& f;

  /// Elements i to `stop` of lines, the first of which is at `offset`.
  void run_lines(const std::int64_t* offset, const std::int64_t* apart, std::int64_t rows, std::int64_t i,
                 std::int64_t stop) const {
    const int result = l.first_result();
    void* out[max_results];
    for (int k = 0; k < l.written; ++k) out[k] = as<char>(to[k]) + (offset[result + k] + i) * f.bytes;
    if (has_stores_non_temporal && l.non_temporal) {
      line_piece all(l, from, f.lines, 0, l.inner.extent, offset, apart);
      compute_lines_non_temporal(&all, 1, {rows, i, stop, out, apart + result, f.bytes});
    } else {
      f.lines({&l, from, l.inner.stride, offset, apart, rows, i, stop, out, apart + result});
    }
  }

  /// A stretch of the iteration space for each unit.
  static void run_stretches(const void* work, std::int64_t begin, std::int64_t end) {
    const map_work& w = *as<map_work>(work);
    const std::int64_t total = w.l.outer.size(), last = end * map_grain;
    run_elements(w, begin * map_grain, last < total ? last : total);
  }
  static void run_elements(const map_work& w, std::int64_t begin, std::int64_t end) {
    for_each_block(w.l.outer, w.l.walked, begin, end,
                   [&](const odometer& at, std::int64_t rows, std::int64_t i, std::int64_t stop) {
                     w.run_lines(at.offset(), at.apart(), rows, i, stop);
                   });
    if (w.l.non_temporal) finish_stores_non_temporal();
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
        w.run_lines(offset, down.stride, rows, i, i + map_tile_columns < inner ? i + map_tile_columns : inner);
    }
  }
  static std::int64_t bands_of(const bound_loops& l) {
    return (l.outer.dims[l.outer.rank - 2].extent + map_tile_rows - 1) / map_tile_rows;
  }
};

} // namespace detail

/// Whether a map whose results have elements of this many bytes uses non-temporal stores if it overwrites no operand.
inline bool may_store_non_temporal(const bound_loops& l, std::int64_t element_bytes) {
  return on_host && !l.tiled && stores_of(l.outer.size() * element_bytes) == stores::non_temporal &&
         l.inner.extent * element_bytes >= non_temporal_line;
}

/// Runs a map.
inline void run_map(const bound_loops& l, const void* const* from, void* const* to, const map_functions& f) {
  const std::int64_t total = l.outer.size();
  if (total == 0) return;
  if constexpr (!on_host) return f.flat(l, from, to);
  // For a short line, computing its start would take longer than the line.
  if (l.outer.rank == 1 && total <= detail::map_grain && !l.non_temporal && !Kokkos::Tools::profileLibraryLoaded()) {
    static constexpr std::int64_t nowhere[max_walked]{};
    return f.lines({&l, from, l.inner.stride, nowhere, nowhere, 1, 0, total, to, nowhere});
  }
  const detail::map_work work{l, from, to, f};
  if (l.tiled) {
    const std::int64_t bands = total / (l.outer.dims[l.outer.rank - 2].extent * l.inner.extent) *
                               detail::map_work::bands_of(l);
    detail::launch_units("cleave map", bands, &detail::map_work::run_tiles, &work);
  } else {
    const std::int64_t stretches = (total + detail::map_grain - 1) / detail::map_grain;
    detail::launch_units("cleave map", stretches, &detail::map_work::run_stretches, &work);
  }
}

/// Elements `begin` to `end` of a map that is not tiled, on this thread.
inline void run_part_of_map(const bound_loops& l, const void* const* from, void* const* to, const map_functions& f,
                            std::int64_t begin, std::int64_t end) {
  detail::map_work::run_elements({l, from, to, f}, begin, end);
}

}} // namespace cleave::v0
