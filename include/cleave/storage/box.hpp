// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/layout/blocks.hpp>
#include <cleave/storage/memory.hpp>

#include <array>
#include <cstdint>
#include <cstring>

namespace cleave {

/// Strides of a LayoutRight array, in elements.
inline std::array<std::int64_t, max_rank> strides_of(const shape& s) {
  std::array<std::int64_t, max_rank> stride{};
  std::int64_t step = 1;
  for (int i = s.rank - 1; i >= 0; --i) {
    stride[static_cast<std::size_t>(i)] = step;
    step *= s[i];
  }
  return stride;
}

/// The copy of an N-d box between two strided arrays: dims collapsed where both permit, offsets and strides in elements.
struct box_copy {
  int rank = 0;
  std::array<std::int64_t, max_rank> extent{};
  std::array<std::int64_t, max_rank> from{};
  std::array<std::int64_t, max_rank> to{};
  std::int64_t from_offset = 0;
  std::int64_t to_offset = 0;
  std::int64_t elements = 0;

  /// Whether the box is one run of memory on both sides.
  bool contiguous() const { return elements == 0 || rank == 0 || (rank == 1 && from[0] == 1 && to[0] == 1); }
};

/// Describes a copy. Dims of extent 1 vanish, neighbours merge.
inline box_copy make_copy(const shape& extents, const std::array<std::int64_t, max_rank>& from, std::int64_t from_offset,
                          const std::array<std::int64_t, max_rank>& to, std::int64_t to_offset) {
  box_copy c;
  c.from_offset = from_offset;
  c.to_offset = to_offset;
  c.elements = extents.elements();
  for (int i = 0; i < extents.rank; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (extents[i] == 1) continue;
    if (c.rank > 0) {
      const auto last = static_cast<std::size_t>(c.rank - 1);
      if (c.from[last] == from[at] * extents[i] && c.to[last] == to[at] * extents[i]) {
        c.extent[last] *= extents[i];
        c.from[last] = from[at];
        c.to[last] = to[at];
        continue;
      }
    }
    const auto next = static_cast<std::size_t>(c.rank++);
    c.extent[next] = extents[i];
    c.from[next] = from[at];
    c.to[next] = to[at];
  }
  return c;
}

/// Any element of N bytes, copied without a look at its type.
template <int N>
struct alignas(N) raw_element {
  unsigned char byte[N];
};

/// Copies one element of a box for each flat index.
template <class T>
struct box_functor {
  const T* from;
  T* to;
  int rank;
  std::int64_t extent[max_rank];
  std::int64_t from_stride[max_rank];
  std::int64_t to_stride[max_rank];

  KOKKOS_FUNCTION void operator()(std::int64_t flat) const {
    std::int64_t source = 0, target = 0;
    for (int i = rank - 1; i >= 0; --i) {
      const std::int64_t at = flat % extent[i];
      flat /= extent[i];
      source += at * from_stride[i];
      target += at * to_stride[i];
    }
    to[target] = from[source];
  }
};

namespace detail {

template <class T>
void copy_box_flat(const box_copy& c, const void* from, void* to) {
  box_functor<T> f{static_cast<const T*>(from) + c.from_offset, static_cast<T*>(to) + c.to_offset, c.rank, {}, {}, {}};
  for (int i = 0; i < c.rank; ++i) {
    const auto at = static_cast<std::size_t>(i);
    f.extent[i] = c.extent[at];
    f.from_stride[i] = c.from[at];
    f.to_stride[i] = c.to[at];
  }
  launch("cleave copy", c.elements, f);
}

/// The two innermost loops of a copy that transposes, in tiles that stay in the first cache.
template <class T>
void copy_tiles(const T* from, T* to, std::int64_t rows, std::int64_t columns, std::int64_t from_row, std::int64_t from_column,
                std::int64_t to_row, std::int64_t to_column) {
  constexpr std::int64_t tile = 32;
  for (std::int64_t i0 = 0; i0 < rows; i0 += tile)
    for (std::int64_t j0 = 0; j0 < columns; j0 += tile) {
      const std::int64_t i1 = i0 + tile < rows ? i0 + tile : rows, j1 = j0 + tile < columns ? j0 + tile : columns;
      for (std::int64_t i = i0; i < i1; ++i)
        for (std::int64_t j = j0; j < j1; ++j) to[i * to_row + j * to_column] = from[i * from_row + j * from_column];
    }
}

template <class T>
void copy_box_host(const box_copy& c, const void* from_bytes, void* to_bytes) {
  const T* from = static_cast<const T*>(from_bytes) + c.from_offset;
  T* to = static_cast<T*>(to_bytes) + c.to_offset;
  if (c.rank == 0) {
    *to = *from;
    return;
  }
  // The innermost loop is contiguous where it is written; the one around it contiguous where it is read, if there is one.
  int inner = c.rank - 1, second = -1;
  for (int i = 0; i < c.rank; ++i)
    if (c.to[static_cast<std::size_t>(i)] == 1) inner = i;
  const bool runs = c.from[static_cast<std::size_t>(inner)] == 1 && c.to[static_cast<std::size_t>(inner)] == 1;
  if (!runs)
    for (int i = 0; i < c.rank; ++i)
      if (i != inner && (second < 0 || c.from[static_cast<std::size_t>(i)] == 1)) second = i;
  const auto at = static_cast<std::size_t>(inner);
  std::array<std::int64_t, max_rank> index{};
  while (true) {
    if (runs) {
      std::memcpy(to, from, static_cast<std::size_t>(c.extent[at]) * sizeof(T));
    } else if (second < 0) {
      copy_tiles<T>(from, to, 1, c.extent[at], 0, c.from[at], 0, c.to[at]);
    } else {
      const auto row = static_cast<std::size_t>(second);
      copy_tiles<T>(from, to, c.extent[row], c.extent[at], c.from[row], c.from[at], c.to[row], c.to[at]);
    }
    int i = c.rank - 1;
    for (; i >= 0; --i) {
      if (i == inner || i == second) continue;
      const auto d = static_cast<std::size_t>(i);
      from += c.from[d];
      to += c.to[d];
      if (++index[d] < c.extent[d]) break;
      index[d] = 0;
      from -= c.from[d] * c.extent[d];
      to -= c.to[d] * c.extent[d];
    }
    if (i < 0) return;
  }
}

template <class T>
void copy_box_of(const box_copy& c, const void* from, void* to) {
  if constexpr (on_host) copy_box_host<T>(c, from, to);
  else copy_box_flat<T>(c, from, to);
}

} // namespace detail

/// Runs a copy between arrays whose elements have `size` bytes.
inline void copy_box(const box_copy& c, const void* from, void* to, std::int64_t size) {
  if (c.elements == 0) return;
  switch (size) {
    case 1: return detail::copy_box_of<raw_element<1>>(c, from, to);
    case 2: return detail::copy_box_of<raw_element<2>>(c, from, to);
    case 4: return detail::copy_box_of<raw_element<4>>(c, from, to);
    case 8: return detail::copy_box_of<raw_element<8>>(c, from, to);
    case 16: return detail::copy_box_of<raw_element<16>>(c, from, to);
    default: return;
  }
}

} // namespace cleave
