// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/operands.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/storage/vectorise.hpp>

namespace cleave {

/// The inner loop of a map: blocks that become vector code, and the rest.
template <class Expression>
void map_line(const typename Expression::row_type r, typename Expression::type* to, std::int64_t i, std::int64_t stop) {
  for (; i + vector_block <= stop; i += vector_block) {
    CLEAVE_INDEPENDENT
    for (int j = 0; j < vector_block; ++j) to[i + j] = convert<typename Expression::type>(Expression::at(r, i + j));
  }
  for (; i < stop; ++i) to[i] = convert<typename Expression::type>(Expression::at(r, i));
}

/// out[i...] = expression(i...), a stretch of the iteration space for each unit; the inner loop is contiguous in the result.
template <class Expression>
struct map_functor {
  using result_type = typename Expression::type;
  using table = operand_table<Expression>;
  using rows = row_maker<Expression>;

  table operands;
  kernel_loops<table::count> outer;
  result_type* out;
  std::int64_t inner;
  std::int64_t total;
  std::int64_t chunk;

  void operator()(std::int64_t unit) const {
    std::int64_t flat = unit * chunk;
    const std::int64_t end = flat + chunk < total ? flat + chunk : total;
    const typename Expression::row_type start = rows::start(operands);
    odometer<table::count> at(outer, flat / inner);
    std::int64_t i = flat % inner;
    while (flat < end) {
      const std::int64_t stop = inner - i < end - flat ? inner : i + (end - flat);
      map_line<Expression>(rows::moved(start, at.offset), out + at.offset[table::result], i, stop);
      flat += stop - i;
      i = 0;
      at.next(outer);
    }
  }
};

/// Rows and columns of a tile: rows of a cache line of the load that is read across, few enough lines to stay in the cache.
inline constexpr std::int64_t map_tile_rows = 16;
inline constexpr std::int64_t map_tile_columns = 64;

/// The same for operands that another dim than the inner one is contiguous for (transposed ones): tile by tile over both
/// dims, so that every cache line read is used as a whole. A band of rows for each unit.
template <class Expression>
struct map_tiles_functor {
  using result_type = typename Expression::type;
  using table = operand_table<Expression>;
  using rows = row_maker<Expression>;

  table operands;
  kernel_loops<table::count> outer;
  std::int64_t across[table::count];
  std::int64_t height;
  result_type* out;
  std::int64_t inner;

  void operator()(std::int64_t unit) const {
    const std::int64_t bands = (height + map_tile_rows - 1) / map_tile_rows;
    const std::int64_t first = unit % bands * map_tile_rows;
    const std::int64_t last = first + map_tile_rows < height ? first + map_tile_rows : height;
    const odometer<table::count> at(outer, unit / bands);
    const typename Expression::row_type start = rows::start(operands);
    for (std::int64_t begin = 0; begin < inner; begin += map_tile_columns) {
      const std::int64_t stop = begin + map_tile_columns < inner ? begin + map_tile_columns : inner;
      for (std::int64_t i = first; i < last; ++i) {
        std::int64_t offset[table::count];
        for (int k = 0; k < table::count; ++k) offset[k] = at.offset[k] + i * across[k];
        map_line<Expression>(rows::moved(start, offset), out + offset[table::result], begin, stop);
      }
    }
  }
};

/// The same with one element for each unit, for devices.
template <class Expression>
struct map_flat_functor {
  using result_type = typename Expression::type;
  using table = operand_table<Expression>;

  table operands;
  kernel_loops<table::count> outer;
  result_type* out;
  std::int64_t inner;

  KOKKOS_FUNCTION void operator()(std::int64_t flat) const {
    const odometer<table::count> at(outer, flat / inner);
    const std::int64_t i = flat % inner;
    out[at.offset[table::result] + i] =
        convert<result_type>(Expression::at(row_maker<Expression>::moved(row_maker<Expression>::start(operands), at.offset), i));
  }
};

/// Elements that are worth a unit of parallel work.
inline constexpr std::int64_t map_grain = 1 << 14;

/// Runs a map. `Flat` forces the form for devices.
template <class Expression, bool Flat = !on_host>
void run_map(const bound_loops& b, const void* const* from, void* to) {
  using table = operand_table<Expression>;
  const std::int64_t total = b.outer.size();
  if (total == 0) return;
  const kernel_loops<table::count> outer(b.outer.dims, b.outer.dims.size() - 1);
  auto* out = static_cast<typename Expression::type*>(to);
  if constexpr (Flat) {
    launch("cleave map", total, map_flat_functor<Expression>{table(b, from), outer, out, b.inner.extent});
  } else {
    if constexpr (Expression::strided)
      if (b.tiled) {
        const std::size_t row = b.outer.dims.size() - 2;
        map_tiles_functor<Expression> f{table(b, from), kernel_loops<table::count>(b.outer.dims, row), {}, b.outer.dims[row].extent,
                                        out, b.inner.extent};
        for (std::size_t k = 0; k < table::count; ++k) f.across[k] = b.outer.dims[row].stride[k];
        const std::int64_t bands = total / (f.height * f.inner) * ((f.height + map_tile_rows - 1) / map_tile_rows);
        launch("cleave map", bands, f);
        return;
      }
    const map_functor<Expression> f{table(b, from), outer, out, b.inner.extent, total, map_grain};
    launch("cleave map", (total + map_grain - 1) / map_grain, f);
  }
}

} // namespace cleave
