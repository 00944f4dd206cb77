// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/layout/box.hpp>
#include <cleave/storage/flat_loops.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/storage/wide.hpp>

#include <algorithm>
#include <cstdint>

namespace cleave { inline namespace v0 {

/// Any element of N bytes, copied without a look at its type.
template <int N>
struct alignas(N) raw_element {
  unsigned char byte[N];
};

/// Copies the elements of a box on a device, several for each unit.
template <class T>
struct box_functor {
  static constexpr int repeat = 8;
  using tiles_type = flat_tiles<2, repeat>;

  const T* from;
  T* to;
  tiles_type tiles;

  KOKKOS_FUNCTION void operator()(std::int64_t unit) const {
    const typename tiles_type::position at = tiles.at(unit);
    const T* const source = from + at.offset[0];
    T* const target = to + at.offset[1];
    if (at.count < repeat) {
      CLEAVE_NOT_UNROLLED
      for (int r = 0; r < at.count; ++r) target[r * tiles.step(1)] = source[r * tiles.step(0)];
      return;
    }
    T value[repeat];
    for (int r = 0; r < repeat; ++r) value[r] = source[r * tiles.step(0)];
    for (int r = 0; r < repeat; ++r) target[r * tiles.step(1)] = value[r];
  }
};

namespace detail {

template <class T>
void copy_box_flat(const box_copy& c, const void* from, void* to) {
  // Innermost is the dim that is contiguous in the destination, around it the dim contiguous in the source: threads
  // that follow each other write a line of the cache, and each reads a part of one.
  int inner = c.rank - 1, second = -1;
  for (int i = 0; i < c.rank; ++i)
    if (c.to[i] == 1) inner = i;
  for (int i = 0; i < c.rank; ++i)
    if (i != inner && (second < 0 || c.from[second] != 1)) second = i;
  flat_nest<2> nest;
  const auto append = [&](int i) { nest.append({c.extent[i], {c.from[i], c.to[i]}}); };
  for (int i = 0; i < c.rank; ++i)
    if (i != inner && i != second) append(i);
  if (second >= 0) append(second);
  if (inner >= 0) append(inner);
  else nest.append({});
  const typename box_functor<T>::tiles_type tiles(nest);
  launch("cleave copy", tiles.units(), box_functor<T>{as<T>(from) + c.from_offset, as<T>(to) + c.to_offset, tiles});
}

/// The two innermost loops of a copy that transposes: extents, and how far rows and columns are apart, in bytes.
struct tile_loops {
  std::int64_t rows, columns, from_row, from_column, to_row, to_column;
};
/// Copies in tiles that stay in the first cache. Of a copy, this alone depends on the size of an element.
template <class T>
void copy_tiles(const tile_loops& l, const char* from, char* to) {
  constexpr std::int64_t tile = 32;
  for (std::int64_t i0 = 0; i0 < l.rows; i0 += tile)
    for (std::int64_t j0 = 0; j0 < l.columns; j0 += tile) {
      const std::int64_t i1 = i0 + tile < l.rows ? i0 + tile : l.rows,
                         j1 = j0 + tile < l.columns ? j0 + tile : l.columns;
      for (std::int64_t i = i0; i < i1; ++i)
        for (std::int64_t j = j0; j < j1; ++j)
          *as<T>(to + i * l.to_row + j * l.to_column) = *as<T>(from + i * l.from_row + j * l.from_column);
    }
}

/// A copy on the host, whose runs or tiles are divided among the threads.
struct host_copy {
  const char* from;
  char* to;
  /// The loops around the runs or tiles; strides in bytes.
  int rank = 0;
  fixed_array<std::int64_t, max_rank> extent{};
  strides from_stride{}, to_stride{};
  /// Of a run, its bytes; else the elements that a tile loop copies, by `tiles`.
  std::int64_t run_bytes = 0;
  tile_loops loops{1, 1, 0, 0, 0, 0};
  void (*tiles)(const tile_loops&, const char*, char*) = nullptr;
  stores how = stores::in_caches;
  /// Every run, and the rows of every tile loop, are cut in so many parts.
  std::int64_t parts = 1;

  /// Whole runs or tiles of the innermost of these loops.
  void copy_all(const char* source, char* target, std::int64_t n) const {
    const std::int64_t from_next = rank > 0 ? from_stride[rank - 1] : 0, to_next = rank > 0 ? to_stride[rank - 1] : 0;
    for (std::int64_t k = 0; k < n; ++k, source += from_next, target += to_next) {
      if (tiles == nullptr) copy_run(target, source, run_bytes, how);
      else tiles(loops, source, target);
    }
  }
  void copy_part(const char* source, char* target, std::int64_t part) const {
    if (tiles == nullptr) {
      const std::int64_t begin = run_bytes * part / parts, end = run_bytes * (part + 1) / parts;
      return copy_run(target + begin, source + begin, end - begin, how);
    }
    const std::int64_t begin = loops.rows * part / parts;
    tile_loops l = loops;
    l.rows = loops.rows * (part + 1) / parts - begin;
    tiles(l, source + begin * l.from_row, target + begin * l.to_row);
  }
  /// Parts `begin` to `end` of all.
  void run(std::int64_t begin, std::int64_t end) const {
    fixed_array<std::int64_t, max_rank> index{};
    std::int64_t at = begin / parts, part = begin % parts, source = 0, target = 0;
    for (int i = rank - 1; i >= 0; --i) {
      index[i] = at % extent[i];
      at /= extent[i];
      source += index[i] * from_stride[i];
      target += index[i] * to_stride[i];
    }
    const auto advance = [&](std::int64_t n) {
      for (int i = rank - 1; i >= 0; --i, n = 1) {
        source += n * from_stride[i];
        target += n * to_stride[i];
        index[i] += n;
        if (index[i] < extent[i]) break;
        index[i] = 0;
        source -= from_stride[i] * extent[i];
        target -= to_stride[i] * extent[i];
      }
    };
    for (std::int64_t done = begin, n = 1; done < end; done += n) {
      if (parts > 1) {
        copy_part(from + source, to + target, part);
        if (++part < parts) continue;
        part = 0;
      } else {
        if (rank > 0) n = std::min(extent[rank - 1] - index[rank - 1], end - done);
        copy_all(from + source, to + target, n);
      }
      advance(n);
    }
    if (how == stores::non_temporal) finish_stores_non_temporal();
  }
  static void run_units(const void* copy, std::int64_t begin, std::int64_t end) {
    as<host_copy>(copy)->run(begin, end);
  }
};

/// Elements of `size` bytes; `tiles` copies those.
inline void copy_box_host(const box_copy& c, const void* from, void* to, std::int64_t size,
                          void (*tiles)(const tile_loops&, const char*, char*), stores how) {
  host_copy work{as<char>(from) + c.from_offset * size, as<char>(to) + c.to_offset * size};
  // The innermost loop is contiguous where it is written; the one around it contiguous where it is read, if there is
  // one.
  int inner = c.rank - 1, second = -1;
  for (int i = 0; i < c.rank; ++i)
    if (c.to[i] == 1) inner = i;
  const bool runs = c.rank == 0 || (c.from[inner] == 1 && c.to[inner] == 1);
  if (!runs)
    for (int i = 0; i < c.rank; ++i)
      if (i != inner && (second < 0 || c.from[i] == 1)) second = i;
  if (runs) {
    work.run_bytes = (c.rank == 0 ? 1 : c.extent[inner]) * size;
    work.how = how;
  } else {
    work.tiles = tiles;
    work.loops = {1, c.extent[inner], 0, c.from[inner] * size, 0, c.to[inner] * size};
  }
  tile_loops& l = work.loops;
  if (second >= 0) l.rows = c.extent[second], l.from_row = c.from[second] * size, l.to_row = c.to[second] * size;
  std::int64_t units = 1;
  for (int i = 0; i < c.rank; ++i) {
    if (i == inner || i == second) continue;
    work.extent[work.rank] = c.extent[i];
    work.from_stride[work.rank] = c.from[i] * size;
    work.to_stride[work.rank++] = c.to[i] * size;
    units *= c.extent[i];
  }
  // A shorter copy takes less time than a parallel region.
  constexpr std::int64_t shared_from = 128 << 10;
  if (c.elements * size < shared_from) return work.run(0, units);
  const std::int64_t threads = launch_threads();
  if (threads == 1) return work.run(0, units);
  const std::int64_t most = runs ? work.run_bytes / 4096 : l.rows;
  if (units < 4 * threads && most > 1) work.parts = 4 * threads < most ? 4 * threads : most;
  launch_units("cleave copy", units * work.parts, &host_copy::run_units, &work);
}

template <int Size>
void copy_box_of(const box_copy& c, const void* from, void* to, [[maybe_unused]] stores how) {
  if constexpr (on_host) copy_box_host(c, from, to, Size, &copy_tiles<raw_element<Size>>, how);
  else copy_box_flat<raw_element<Size>>(c, from, to);
}

} // namespace detail

/// Runs a copy between arrays whose elements have `size` bytes.
inline void copy_box(const box_copy& c, const void* from, void* to, std::int64_t size, stores how) {
  if (c.elements == 0) return;
  switch (size) {
    case 1: return detail::copy_box_of<1>(c, from, to, how);
    case 2: return detail::copy_box_of<2>(c, from, to, how);
    case 4: return detail::copy_box_of<4>(c, from, to, how);
    case 8: return detail::copy_box_of<8>(c, from, to, how);
    case 16: return detail::copy_box_of<16>(c, from, to, how);
    default: return;
  }
}
inline void copy_box(const box_copy& c, const void* from, void* to, std::int64_t size) {
  copy_box(c, from, to, size, stores_of(c.elements * size));
}

namespace detail {

/// Copies elements `first` to `last` of a box whose array on one side is packed: of the dims from `dim` on, of which
/// `c` begins there. `packed_at` is where element `first` is in the packed array. Inlined into itself it would be 5 KB.
[[gnu::noinline]] inline void copy_packed_range(const box_copy& c, int dim, std::int64_t offset, std::int64_t first,
                                                std::int64_t last, std::int64_t& packed_at, bool packs,
                                                const void* from, void* to, std::int64_t size, stores how) {
  std::int64_t inner = 1;
  for (int i = dim + 1; i < c.rank; ++i) inner *= c.extent[i];
  const std::int64_t stride = dim < c.rank ? (packs ? c.from[dim] : c.to[dim]) : 0;
  while (first < last) {
    const std::int64_t row = first / inner, in_row = first % inner, rows = (last - first) / inner;
    if (in_row != 0 || rows == 0) {
      const std::int64_t n = (last - first < inner - in_row) ? last - first : inner - in_row;
      copy_packed_range(c, dim + 1, offset + row * stride, in_row, in_row + n, packed_at, packs, from, to, size, how);
      first += n;
      continue;
    }
    box_copy part;
    for (int i = dim; i < c.rank; ++i) {
      const int at = part.rank++;
      part.extent[at] = i == dim ? rows : c.extent[i];
      part.from[at] = c.from[i];
      part.to[at] = c.to[i];
    }
    part.elements = rows * inner;
    (packs ? part.from_offset : part.to_offset) = offset + row * stride;
    (packs ? part.to_offset : part.from_offset) = packed_at;
    copy_box(part, from, to, size, how);
    packed_at += part.elements;
    first += part.elements;
  }
}

/// Bytes that follow one another where a box is read.
inline std::int64_t run_bytes_of(const box_copy& c, std::int64_t size) {
  if (c.rank == 0) return size;
  return c.from[c.rank - 1] == 1 ? c.extent[c.rank - 1] * size : size;
}

} // namespace detail

/// Copies `n` elements of a box, from its element `first` on in the order of LayoutRight, to memory where they are
/// packed. The box describes how the whole of it is packed.
inline void pack_range(const box_copy& c, std::int64_t first, std::int64_t n, const void* from, void* packed,
                       std::int64_t size, stores how) {
  std::int64_t at = 0;
  // Only the host stores past its caches.
  if (!on_host || how == stores::in_caches || detail::run_bytes_of(c, size) >= shortest_non_temporal)
    return detail::copy_packed_range(c, 0, c.from_offset, first, first + n, at, true, from, packed, size, how);
  // Short runs are put together before they are written.
  constexpr std::int64_t block_bytes = 8 << 10;
  alignas(64) char block[block_bytes];
  const std::int64_t most = block_bytes / size;
  for (std::int64_t done = 0; done < n; done += most) {
    const std::int64_t m = n - done < most ? n - done : most;
    at = 0;
    detail::copy_packed_range(c, 0, c.from_offset, first + done, first + done + m, at, true, from, block, size,
                              stores::in_caches);
    copy_run(as<char>(packed) + done * size, block, m * size, how);
  }
  finish_stores_non_temporal();
}
/// The reverse.
inline void unpack_range(const box_copy& c, std::int64_t first, std::int64_t n, const void* packed, void* to,
                         std::int64_t size, stores how) {
  std::int64_t at = 0;
  detail::copy_packed_range(c, 0, c.to_offset, first, first + n, at, false, packed, to, size, how);
}

}} // namespace cleave::v0
