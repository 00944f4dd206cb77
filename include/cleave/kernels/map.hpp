// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/block_roots.hpp>
#include <cleave/kernels/flat_loops.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/storage/vectorise.hpp>

namespace cleave::inline v0 {

/// Elements that are computed at once where a line is computed in several loops: few enough to stay in the first cache.
inline constexpr std::int64_t map_block = 256;

/// The inner loop of a map: elements i to `stop` of a line, the first of which is at `to`.
template <class Expression>
void map_line(const typename Expression::row_type r, typename Expression::type* to, std::int64_t i, std::int64_t stop) {
  using cut = detail::root_cut<Expression>;
  if constexpr (cut::found) {
    using argument = typename cut::argument;
    using rest = typename cut::rest;
    using detail::same_operands;
    alignas(64) typename cut::type roots[map_block];
    const auto under_root = same_operands<typename argument::row_type>(r, argument::loads, argument::indices,
                                                                       argument::literals);
    auto after = same_operands<typename rest::row_type>(r, Expression::loads, rest::indices, rest::literals);
    after.at[Expression::loads] = roots;
    for (; i < stop; i += map_block, to += map_block) {
      const std::int64_t n = stop - i < map_block ? stop - i : map_block;
      map_line<argument>(under_root, roots, i, i + n);
      take_roots(roots, n);
      if constexpr (cut::inverse)
        for (std::int64_t j = 0; j < n; ++j) roots[j] = 1 / roots[j];
      after.step[Expression::loads] = i;
      map_line<rest>(after, to, i, i + n);
    }
  } else {
    // Blocks that become vector code, and the rest.
    for (; i + vector_block <= stop; i += vector_block, to += vector_block) {
      CLEAVE_INDEPENDENT
      for (int j = 0; j < vector_block; ++j) to[j] = convert<typename Expression::type>(Expression::at(r, i + j));
    }
    for (; i < stop; ++i, ++to) *to = convert<typename Expression::type>(Expression::at(r, i));
  }
}

/// The same past the caches.
template <class Expression>
void map_line_past_caches(const typename Expression::row_type& r, typename Expression::type* to, std::int64_t i,
                          std::int64_t stop) {
  using T = typename Expression::type;
  alignas(64) T block[map_block];
  while (i < stop) {
    // From the next line of the cache on.
    const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(to) % 64;
    const std::int64_t most = map_block - static_cast<std::int64_t>(past / sizeof(T));
    const std::int64_t n = stop - i < most ? stop - i : most;
    if (past != 0) {
      map_line<Expression>(r, to, i, i + n);
    } else {
      map_line<Expression>(r, block, i, i + n);
      store_bytes_past_caches(to, block, bytes_of<T>(n));
    }
    i += n;
    to += n;
  }
}

/// out[i...] = expression(i...) for a block of lines, each contiguous in the result. All of a map that depends on the
/// expression.
template <class Expression>
void map_lines(const line_block& b) {
  using rows = row_maker<Expression>;
  typename Expression::row_type r = rows::start(b);
  auto* to = as<typename Expression::type>(b.out) + b.offset[rows::result];
  for (std::int64_t row = 0; row < b.rows; ++row) {
    if (has_stores_past_caches && b.loops->past_caches)
      map_line_past_caches<Expression>(r, to + b.begin, b.begin, b.end);
    else map_line<Expression>(r, to + b.begin, b.begin, b.end);
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

/// Results of so many bytes are stored past the caches, if their lines have at least so many.
inline constexpr std::int64_t past_caches_bytes = 1 << 24;
inline constexpr std::int64_t past_caches_line = 1 << 12;

struct map_work {
  const bound_loops& l;
  const void* const* from;
  void* to;
  void (*lines)(const line_block&);

  /// A stretch of the iteration space for each unit.
  static void run_stretches(const void* work, std::int64_t begin, std::int64_t end) {
    const map_work& w = *as<map_work>(work);
    const std::int64_t total = w.l.outer.size(), last = end * map_grain;
    run_elements(w, begin * map_grain, last < total ? last : total);
  }
  static void run_elements(const map_work& w, std::int64_t begin, std::int64_t end) {
    for_each_block(w.l.outer, w.l.walked, begin, end,
                   [&](const odometer& at, std::int64_t rows, std::int64_t i, std::int64_t stop) {
                     w.lines({&w.l, w.from, w.to, at.offset(), at.apart(), rows, i, stop});
                   });
    if (w.l.past_caches) finish_stores_past_caches();
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

/// Whether a map whose results have so many bytes each stores them past the caches, where it overwrites no operand.
inline bool may_store_past_caches(const bound_loops& l, std::int64_t element_bytes) {
  return has_stores_past_caches && on_host && !l.tiled && l.outer.size() * element_bytes >= detail::past_caches_bytes &&
         l.inner.extent * element_bytes >= detail::past_caches_line;
}

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

/// Elements `begin` to `end` of a map that is not tiled, on this thread.
inline void run_part_of_map(const bound_loops& l, const void* const* from, void* to, const map_functions& f,
                            std::int64_t begin, std::int64_t end) {
  detail::map_work::run_elements({l, from, to, f.lines}, begin, end);
}

} // namespace cleave::inline v0
