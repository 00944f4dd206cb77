// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/storage/memory.hpp>
#include <cleave/storage/wide.hpp>

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
/// The most elements of a matrix for which this code is used; larger ones are left to the threads of a library.
inline constexpr std::int64_t most_of_vector_product = std::int64_t{1} << 18;

#if defined(CLEAVE_X86_VECTORS)

/// result[i] = alpha * sum over l of matrix(i, l) * vector[l] + beta * result[i].
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

  void run() const {
    std::int64_t i = 0;
    if (by_rows) {
      for (; i < rows; ++i) put(i, row_sum(matrix + i * leading));
    } else {
      for (; i + most_columns * lanes <= rows; i += most_columns * lanes) add_columns<most_columns>(i);
      for (; i + lanes <= rows; i += lanes) add_columns<1>(i);
      for (; i < rows; ++i) {
        T sum = T(0);
        for (std::int64_t l = 0; l < depth; ++l) sum += matrix[l * leading + i] * vector[l * vector_stride];
        put(i, sum);
      }
    }
  }

 private:
  using wide = detail::wide<T>;
  static constexpr std::int64_t lanes = detail::wide_bytes / std::int64_t{sizeof(T)};
  /// Vectors of sums: several, since each waits for its last addition, and since reads are then adjacent.
  static constexpr int chains = 4, most_columns = 8;

  static void load(wide& to, const T* from) { std::memcpy(&to, from, sizeof(wide)); }
  void put(std::int64_t i, T sum) const {
    T& to = result[i * result_stride];
    to = beta == T(0) ? alpha * sum : alpha * sum + beta * to;
  }
  /// The partial sums are added in a fixed order.
  T row_sum(const T* row) const {
    T parts[lanes] = {}, rest = T(0);
    std::int64_t l = 0;
    if (vector_stride == 1) {
      wide sums[chains] = {};
      for (; l + chains * lanes <= depth; l += chains * lanes)
        for (int c = 0; c < chains; ++c) add_product(sums[c], row + l + c * lanes, vector + l + c * lanes);
      for (; l + lanes <= depth; l += lanes) add_product(sums[0], row + l, vector + l);
      const wide all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
      std::memcpy(parts, &all, sizeof parts);
    }
    for (; l < depth; ++l) rest += vector[l * vector_stride] * row[l];
    return sum_of<lanes>(parts) + rest;
  }
  /// Of numbers that the compiler keeps in registers, since it knows how many there are.
  template <std::int64_t Count>
  static T sum_of(const T* parts) {
    if constexpr (Count == 1) {
      return parts[0];
    } else {
      T halves[Count / 2];
      for (std::int64_t j = 0; j < Count / 2; ++j) halves[j] = parts[j] + parts[j + Count / 2];
      return sum_of<Count / 2>(halves);
    }
  }
  static void add_product(wide& sum, const T* a, const T* b) {
    wide x, y;
    load(x, a);
    load(y, b);
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
        load(y, from + v * lanes);
        sums[v] += x * y;
      }
    }
    T parts[Vectors * lanes];
    std::memcpy(parts, sums, sizeof parts);
    for (std::int64_t j = 0; j < Vectors * lanes; ++j) put(first + j, parts[j]);
  }
};

#endif

/// Whether the row-major product of an m x k matrix and a k x n one is one of a vector that this code takes.
template <class T>
constexpr bool is_vector_product(std::int64_t m, std::int64_t n, std::int64_t k) {
  return has_vector_products<T> && (m == 1 || n == 1) && m * n * k <= most_of_vector_product;
}

/// That product, c = alpha a b + beta c.
template <class T>
void run_vector_product([[maybe_unused]] std::int64_t m, [[maybe_unused]] std::int64_t n,
                        [[maybe_unused]] std::int64_t k, [[maybe_unused]] const matrix_ref& a,
                        [[maybe_unused]] const matrix_ref& b, [[maybe_unused]] T* c,
                        [[maybe_unused]] std::int64_t leading, [[maybe_unused]] T alpha, [[maybe_unused]] T beta) {
#if defined(CLEAVE_X86_VECTORS)
  const T *const left = as<T>(a.at), *const right = as<T>(b.at);
  if (n == 1)
    vector_product<T>{left,    right, c,   m, k, a.leading, !a.transposed, b.transposed ? 1 : b.leading,
                      leading, alpha, beta}
        .run();
  else
    vector_product<T>{right, left, c, n, k, b.leading, b.transposed, a.transposed ? a.leading : 1, 1, alpha, beta}
        .run();
#endif
}

}} // namespace cleave::v0
