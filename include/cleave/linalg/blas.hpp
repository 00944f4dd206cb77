// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/shards.hpp>

#include <cstdint>
#include <limits>

#if CLEAVE_DIRECT_BLAS

// Products, triangular solves and rank-k updates through the BLAS that products use, for matrices given by their two
// steps, one of which is 1. As for products, the names here are ours, and those of BLAS are for the linker.

#define CLEAVE_BLAS_TRIANGLES(name_trsm, NAME_TRSM, name_syrk, NAME_SYRK, name_gemm, NAME_GEMM, T)                     \
  extern "C" void cleave_add_##name_gemm(const char*, const char*, const int*, const int*, const int*, const T*,       \
                                         const T*, const int*, const T*, const int*, const T*, T*, const int*)         \
      CLEAVE_BLAS_SYMBOL(name_gemm, NAME_GEMM);                                                                        \
  extern "C" void cleave_##name_trsm(const char*, const char*, const char*, const char*, const int*, const int*,       \
                                     const T*, const T*, const int*, T*, const int*)                                   \
      CLEAVE_BLAS_SYMBOL(name_trsm, NAME_TRSM);                                                                        \
  extern "C" void cleave_##name_syrk(const char*, const char*, const int*, const int*, const T*, const T*, const int*, \
                                     const T*, T*, const int*) CLEAVE_BLAS_SYMBOL(name_syrk, NAME_SYRK);               \
  template <>                                                                                                          \
  struct blas_triangles<T> {                                                                                           \
    static constexpr auto trsm = &cleave_##name_trsm;                                                                  \
    static constexpr auto syrk = &cleave_##name_syrk;                                                                  \
    static constexpr auto gemm = &cleave_add_##name_gemm;                                                              \
  }

namespace cleave { inline namespace v0 { namespace linalg {

namespace detail {
template <class T>
struct blas_triangles;
CLEAVE_BLAS_TRIANGLES(strsm, STRSM, ssyrk, SSYRK, sgemm, SGEMM, float);
CLEAVE_BLAS_TRIANGLES(dtrsm, DTRSM, dsyrk, DSYRK, dgemm, DGEMM, double);
} // namespace detail

/// A matrix in memory: element (i, j) is at i * row_step + j * column_step.
template <class T>
struct stepped {
  T* at;
  std::int64_t row_step, column_step;

  stepped part(std::int64_t i, std::int64_t j) const {
    return {at + i * row_step + j * column_step, row_step, column_step};
  }
  stepped turned() const { return {at, column_step, row_step}; }
  /// As BLAS has them: columns one after the other.
  bool by_columns() const { return row_step == 1; }
  std::int64_t leading() const { return by_columns() ? column_step : row_step; }
  /// Whether BLAS can be told of `rows` x `columns` of it.
  bool fits(std::int64_t rows, std::int64_t columns) const {
    const std::int64_t most = std::numeric_limits<int>::max(), along = by_columns() ? rows : columns;
    return (row_step == 1 || column_step == 1) && leading() >= along && leading() <= most && rows <= most &&
           columns <= most;
  }
};

/// A number that `fits` has found to be one of BLAS.
constexpr int blas_int(std::int64_t n) { return static_cast<int>(n); }

/// x = t^-1 x in place, t n x n and triangular, x n x m.
template <class T>
void blas_solve(std::int64_t n, std::int64_t m, stepped<const T> t, bool lower, stepped<T> x) {
  // BLAS reads a matrix that is stored by rows as its transpose; the system x^T t^T = b^T has t on the right.
  const bool left = x.by_columns(), transposed = t.by_columns() != left;
  const int rows = blas_int(left ? n : m), columns = blas_int(left ? m : n), ldt = blas_int(t.leading()),
            ldx = blas_int(x.leading());
  const T one(1);
  const bool stored_lower = lower == t.by_columns();
  detail::blas_triangles<T>::trsm(left ? "L" : "R", stored_lower ? "L" : "U", transposed ? "T" : "N", "N", &rows,
                                  &columns, &one, t.at, &ldt, x.at, &ldx);
}

/// The lower half of c -= a a^T, c n x n, a n x k.
template <class T>
void blas_downdate(std::int64_t n, std::int64_t k, stepped<T> a, stepped<T> c) {
  const int order = blas_int(n), depth = blas_int(k), lda = blas_int(a.leading()), ldc = blas_int(c.leading());
  const T minus(-1), one(1);
  detail::blas_triangles<T>::syrk(c.by_columns() ? "L" : "U", a.by_columns() ? "N" : "T", &order, &depth, &minus, a.at,
                                  &lda, &one, c.at, &ldc);
}

/// A row-major matrix, or its transpose, whose rows as stored are `leading` apart.
template <class T>
struct row_major {
  T* at;
  std::int64_t leading;
  bool transposed = false;
};
/// c = alpha a b + beta c, c m x n, a m x k, b k x n.
template <class T>
void blas_add_product(std::int64_t m, std::int64_t n, std::int64_t k, T alpha, row_major<const T> a,
                      row_major<const T> b, T beta, row_major<T> c) {
  // BLAS sees c as its transpose b^T a^T.
  const int rows = blas_int(n), columns = blas_int(m), depth = blas_int(k), lda = blas_int(a.leading),
            ldb = blas_int(b.leading), ldc = blas_int(c.leading);
  detail::blas_triangles<T>::gemm(b.transposed ? "T" : "N", a.transposed ? "T" : "N", &rows, &columns, &depth, &alpha,
                                  b.at, &ldb, a.at, &lda, &beta, c.at, &ldc);
}

}}} // namespace cleave::v0::linalg

#endif
