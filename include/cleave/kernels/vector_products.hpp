// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/storage/memory.hpp>
#include <cleave/storage/wide.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace cleave { inline namespace v0 {

/// A row-major matrix in memory, or its transpose. Stored rows are `leading` elements apart.
struct matrix_ref {
  const void* at = nullptr;
  std::int64_t leading = 1;
  bool transposed = false;
};

// Products of a matrix and a vector, in vector code: every element of the matrix is read once, so they are
// memory-bound. Libraries take longer for matrices that are in the caches, and their calls add to that if products are
// many.

#if defined(CLEAVE_X86_VECTORS)
template <class T>
inline constexpr bool has_vector_products = std::is_same_v<T, float> || std::is_same_v<T, double>;
#else
template <class T>
inline constexpr bool has_vector_products = false;
#endif
/// The most elements of a matrix for which this code is used; larger ones are left to the threads of a library, except
/// those of many contiguous rows.
inline constexpr std::int64_t most_of_vector_product = tuned_size(1 << 18, 64), many_rows = tuned_size(256, 2);
/// Multiplications that are worth a thread of their own.
inline constexpr std::int64_t least_of_thread = tuned_size(1 << 13, 16);

/// result[i] = alpha * sum over l of matrix(i, l) * vector[l] + beta * result[i].
template <class T>
struct vector_product;

#if defined(CLEAVE_X86_VECTORS)

template <class T>
struct vector_product {
  const T* matrix;
  const T* vector;
  T* result;
  std::int64_t rows, depth;
  /// Between the elements of a row of the matrix, or of a column of it; the others follow one another.
  std::int64_t leading;
  /// Whether those of a row follow one another. Else those of a column do.
  bool by_rows;
  std::int64_t vector_stride, result_stride;
  T alpha, beta;

  /// The row-major product c = alpha a b + beta c of an m x k matrix and a k x n one, of which m or n is 1.
  vector_product(std::int64_t m, std::int64_t n, std::int64_t k, const matrix_ref& a, const matrix_ref& b, T* c,
                 std::int64_t c_leading, T by, T by_old)
      : matrix(as<T>(n == 1 ? a.at : b.at)), vector(as<T>(n == 1 ? b.at : a.at)), result(c), rows(n == 1 ? m : n),
        depth(k), leading(n == 1 ? a.leading : b.leading), by_rows(n == 1 ? !a.transposed : b.transposed),
        vector_stride(n == 1         ? (b.transposed ? 1 : b.leading)
                      : a.transposed ? a.leading
                                     : 1),
        result_stride(n == 1 ? c_leading : 1), alpha(by), beta(by_old) {}

  /// If `shared`, threads share the results.
  void run(bool shared) const { shared ? launch("cleave gemv", (rows + grain() - 1) / grain(), *this) : run(0, rows); }
  void operator()(std::int64_t unit) const { run(unit * grain(), std::min(rows, (unit + 1) * grain())); }

 private:
  using wide = detail::wide<T>;
  static constexpr std::int64_t lanes = detail::wide_bytes / std::int64_t{sizeof(T)}, columns = 8 * lanes;
  /// Vectors of sums: several, since each waits for its last addition, and since reads are then adjacent.
  static constexpr int chains = 4;

  /// Results that are worth a thread: of columns whole vectors of them.
  std::int64_t grain() const {
    const std::int64_t step = by_rows ? 2 : columns;
    return (least_of_thread / std::max<std::int64_t>(depth, 1) / step + 1) * step;
  }
  /// The results `i` to `end`.
  void run(std::int64_t i, std::int64_t end) const {
    if (by_rows) {
      for (; i + 2 <= end; i += 2) add_rows<2>(i);
      if (i < end) add_rows<1>(i);
    } else {
      for (; i + columns <= end; i += columns) add_columns<8>(i);
      for (; i + lanes <= end; i += lanes) add_columns<1>(i);
      for (; i < end; ++i) {
        T sum = T(0);
        for (std::int64_t l = 0; l < depth; ++l) sum += matrix[l * leading + i] * vector[l * vector_stride];
        put(i, sum);
      }
    }
  }
  void put(std::int64_t i, T sum) const {
    T& to = result[i * result_stride];
    to = beta == T(0) ? alpha * sum : alpha * sum + beta * to;
  }
  /// Some rows, which share the reads of the vector. The partial sums of each are added in a fixed order.
  template <int Rows>
  void add_rows(std::int64_t first) const {
    const T* const row = matrix + first * leading;
    T parts[Rows][lanes] = {}, rest[Rows] = {};
    std::int64_t l = 0;
    if (vector_stride == 1) {
      wide sums[Rows][chains] = {};
      for (; l + chains * lanes <= depth; l += chains * lanes)
        for (int i = 0; i < Rows * chains; ++i)
          add_product(sums[i % Rows][i / Rows], row + i % Rows * leading, vector, l + i / Rows * lanes);
      for (; l + lanes <= depth; l += lanes)
        for (int r = 0; r < Rows; ++r) add_product(sums[r][0], row + r * leading, vector, l);
      for (int r = 0; r < Rows; ++r) {
        const wide all = (sums[r][0] + sums[r][1]) + (sums[r][2] + sums[r][3]);
        std::memcpy(parts[r], &all, sizeof parts[r]);
      }
    }
    for (; l < depth; ++l)
      for (int r = 0; r < Rows; ++r) rest[r] += vector[l * vector_stride] * row[r * leading + l];
    for (int r = 0; r < Rows; ++r) {
      for (std::int64_t n = lanes / 2; n > 0; n /= 2)
        for (std::int64_t j = 0; j < n; ++j) parts[r][j] += parts[r][j + n];
      put(first + r, parts[r][0] + rest[r]);
    }
  }
  /// Prefetches operands 8 KiB ahead: processors do it too late.
  static void add_product(wide& sum, const T* a, const T* b, std::int64_t at) {
    prefetch_line(a + at + 8192 / sizeof(T));
    wide x, y;
    std::memcpy(&x, a + at, sizeof x);
    std::memcpy(&y, b + at, sizeof y);
    sum += x * y;
  }
  /// As many results as vectors have lanes, some times.
  template <int Vectors>
  void add_columns(std::int64_t first) const {
    wide sums[Vectors] = {};
    const T* from = matrix + first;
    for (std::int64_t l = 0; l < depth; ++l, from += leading) {
      const T x = vector[l * vector_stride];
      for (int v = 0; v < Vectors; ++v) {
        wide y;
        std::memcpy(&y, from + v * lanes, sizeof y);
        sums[v] += x * y;
      }
    }
    T parts[Vectors * lanes];
    std::memcpy(parts, sums, sizeof parts);
    for (std::int64_t j = 0; j < Vectors * lanes; ++j) put(first + j, parts[j]);
  }
};

#endif

/// Whether the row-major product of an m x k matrix and a k x n one is one of a vector that one thread computes.
template <class T>
constexpr bool is_vector_product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return has_vector_products<T> && (m == 1 || n == 1) && m * n * k <= most_of_vector_product;
}

}} // namespace cleave::v0
