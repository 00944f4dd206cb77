// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/functions.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/layout/layout.hpp>
#include <cleave/storage/flat_loops.hpp>
#include <cleave/storage/memory.hpp>

#include <cstdint>

// Rows at any offsets of two arrays: look-ups, and sums at indices.

namespace cleave { inline namespace v0 {

/// Loops over the elements of a row, or over indices: extents, and strides in up to three arrays.
struct strided_dims {
  int rank = 0;
  std::int64_t extent[max_rank] = {};
  std::int64_t stride[3][max_rank] = {};

  void add(std::int64_t n, std::int64_t a, std::int64_t b, std::int64_t c = 0) {
    extent[rank] = n;
    stride[0][rank] = a;
    stride[1][rank] = b;
    stride[2][rank] = c;
    ++rank;
  }
  std::int64_t size() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= extent[i];
    return n;
  }
  CLEAVE_FUNCTION std::int64_t at(int array, std::int64_t flat) const {
    std::int64_t offset = 0;
    for (int i = rank - 1; i > 0; --i) {
      offset += flat % extent[i] * stride[array][i];
      flat /= extent[i];
    }
    return rank > 0 ? offset + flat * stride[array][0] : 0;
  }
  /// The stride of the innermost loop.
  CLEAVE_FUNCTION std::int64_t inner(int array) const { return stride[array][rank - 1]; }
  /// The number of iterations from `flat` on, at most so many, of the innermost loop.
  CLEAVE_FUNCTION std::int64_t in_line(std::int64_t flat, std::int64_t most) const {
    const std::int64_t n = extent[rank - 1], left = rank == 1 ? n - flat : n - flat % n;
    return left < most ? left : most;
  }
  /// Without dims of extent 1, and with neighbours merged that are contiguous in all arrays.
  strided_dims merged() const {
    strided_dims d;
    for (int i = 0; i < rank; ++i) {
      if (extent[i] == 1) continue;
      const int last = d.rank - 1;
      bool merges = last >= 0;
      for (int a = 0; merges && a < 3; ++a) merges = d.stride[a][last] == extent[i] * stride[a][i];
      if (!merges) {
        d.add(extent[i], stride[0][i], stride[1][i], stride[2][i]);
        continue;
      }
      d.extent[last] *= extent[i];
      for (int a = 0; a < 3; ++a) d.stride[a][last] = stride[a][i];
    }
    if (d.rank == 0) d.add(1, 1, 1);
    return d;
  }
};

namespace detail {

/// Elements that a unit of parallel work takes: on devices one, on the host as many as are worth it.
inline constexpr std::int64_t rows_grain = on_host ? tuned_size(1 << 14, 32) : 1;
/// Of sums, which run over all rows, a thread's part of a row.
inline std::int64_t sums_grain(std::int64_t length) {
  if constexpr (!on_host) return 1;
  const std::int64_t threads = launch_threads(), each = (length + threads - 1) / threads;
  return (each + vector_block - 1) / vector_block * vector_block;
}

template <class From, class To, class F>
CLEAVE_FUNCTION void along_line(const From* from, std::int64_t from_stride, To* to, std::int64_t to_stride,
                                std::int64_t n, const F& f) {
  std::int64_t i = 0;
  if (from_stride == 1 && to_stride == 1)
    for (; i + vector_block <= n; i += vector_block) {
      CLEAVE_INDEPENDENT
      for (int j = 0; j < vector_block; ++j) f(to[i + j], from[i + j]);
    }
  for (; i < n; ++i) f(to[i * to_stride], from[i * from_stride]);
}
template <class T>
struct put_element {
  CLEAVE_FUNCTION void operator()(T& to, const T& from) const { to = from; }
};
template <class From, class To>
struct add_element {
  CLEAVE_FUNCTION void operator()(To& to, const From& from) const {
    // Sums of integers wrap.
    if constexpr (std::is_integral_v<To> && !std::is_same_v<To, bool>)
      to = static_cast<To>(static_cast<std::uint64_t>(to) + static_cast<std::uint64_t>(from));
    else to = to + static_cast<To>(from);
  }
};

/// Rows and where they go. Array 0 of a row is the target's, array 1 the source's.
template <class From, class To>
struct rows_functor {
  const From* from;
  To* to;
  const std::int64_t* source;
  const std::int64_t* target;
  strided_dims row;
  std::int64_t length;

  /// Where row r is; packed rows follow one another.
  CLEAVE_FUNCTION std::int64_t place(const std::int64_t* offsets, std::int64_t r) const {
    return offsets == nullptr ? r * length : offsets[r];
  }
};
/// A stretch of the elements of all rows.
template <class T>
struct copy_rows_functor : rows_functor<T, T> {
  std::int64_t total;

  CLEAVE_FUNCTION void operator()(std::int64_t unit) const {
    const std::int64_t end = (unit + 1) * rows_grain < total ? (unit + 1) * rows_grain : total;
    for (std::int64_t flat = unit * rows_grain, n = 0; flat < end; flat += n) {
      const std::int64_t r = flat / this->length, k = flat % this->length;
      n = this->row.in_line(k, end - flat);
      const std::int64_t source = this->place(this->source, r), to_stride = this->row.inner(0);
      T* const into = this->to + this->place(this->target, r) + this->row.at(0, k);
      if (source >= 0)
        along_line(this->from + source + this->row.at(1, k), this->row.inner(1), into, to_stride, n, put_element<T>{});
      else
        for (std::int64_t i = 0; i < n; ++i) into[i * to_stride] = T{};
    }
  }
};
/// A stretch of the elements of a row, in all rows one after the other.
template <class From, class To>
struct add_rows_functor : rows_functor<From, To> {
  std::int64_t rows;
  std::int64_t grain;

  CLEAVE_FUNCTION void operator()(std::int64_t unit) const {
    const std::int64_t end = (unit + 1) * grain < this->length ? (unit + 1) * grain : this->length;
    for (std::int64_t k = unit * grain, n = 0; k < end; k += n) {
      const std::int64_t in = this->row.at(1, k), out = this->row.at(0, k);
      n = this->row.in_line(k, end - k);
      for (std::int64_t r = 0; r < rows; ++r)
        if (const std::int64_t target = this->place(this->target, r); target >= 0)
          along_line(this->from + this->place(this->source, r) + in, this->row.inner(1), this->to + target + out,
                     this->row.inner(0), n, add_element<From, To>{});
    }
  }
};

} // namespace detail

/// Copies rows: row r from from[source[r] + ...] to to[target[r] + ...]; a source below 0 gives zeros, and without
/// offsets rows are packed. Of the strides of a row, array 0 is the target's and array 1 the source's. Offsets are
/// where kernels run.
template <class T>
void copy_rows(const T* from, T* to, const std::int64_t* source, const std::int64_t* target, const strided_dims& row,
               std::int64_t rows) {
  const std::int64_t length = row.size(), total = rows * length;
  if (total == 0) return;
  launch("cleave rows", (total + detail::rows_grain - 1) / detail::rows_grain,
         detail::copy_rows_functor<T>{{from, to, source, target, row.merged(), length}, total});
}
/// Adds rows: every element of a row in the order of the rows, so that the sum is the same in every run; rows whose
/// target is below 0 are left out. The sums may be wider than the rows: those of 16-bit numbers are added up in float.
template <class From, class To>
void add_rows(const From* from, To* to, const std::int64_t* source, const std::int64_t* target, const strided_dims& row,
              std::int64_t rows) {
  const std::int64_t length = row.size();
  if (length * rows == 0) return;
  const std::int64_t grain = detail::sums_grain(length);
  launch("cleave add rows", (length + grain - 1) / grain,
         detail::add_rows_functor<From, To>{{from, to, source, target, row.merged(), length}, rows, grain});
}

// The memory of the rows of a look-up in the block of a table and in the array of their indices.

/// The indices along one dim of a table that a shard of it has, and how far apart their rows are in the shard.
struct index_block {
  std::int64_t begin = 0, extent = 0, stride = 0;

  /// The row of the block for an index; at least `extent` for an index outside of it. Indices below 0, and unsigned
  /// ones beyond the size of any table, become large numbers.
  template <class I>
  CLEAVE_FUNCTION std::uint64_t row_of(I index) const {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(index)) - static_cast<std::uint64_t>(begin);
  }
  CLEAVE_FUNCTION bool has(std::uint64_t row) const { return row < static_cast<std::uint64_t>(extent); }
  CLEAVE_FUNCTION std::int64_t offset(std::uint64_t row) const { return static_cast<std::int64_t>(row) * stride; }
};

/// Where indices and rows are on one device.
struct indexed_rows {
  /// Over the indices, which follow one another: strides among themselves, in the rows, and in the table, if it has the
  /// dim too.
  strided_dims over{};
  /// Over the elements of a row: strides in the rows and in the table.
  strided_dims row{};
  index_block block{};
  std::int64_t count = 0, length = 0;
  /// The element is the outer loop: a row is one element, or neighbouring indices have neighbouring elements and those
  /// of a row are apart.
  bool by_element = false;

  indexed_rows() = default;
  indexed_rows(const strided_dims& indices, const strided_dims& elements, const index_block& b)
      : over(indices.merged()), row(elements.merged()), block(b), count(indices.size()), length(elements.size()),
        by_element(length == 1 || (row.inner(0) != 1 && over.inner(1) == 1)) {}
};

}} // namespace cleave::v0
