// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/vector_products.hpp>
#include <cleave/storage/blas.hpp>
#include <cleave/storage/memory.hpp>
#if !CLEAVE_DIRECT_BLAS
#include <cleave/kernels/gemm_kokkos.hpp>
#endif

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>

// Products through the BLAS that Kokkos Kernels was built with, called directly: KokkosBlas::gemm calls the same
// function, but writes the name of its profiling region to the heap on every call and takes seconds to compile.

#if CLEAVE_DIRECT_BLAS

#define CLEAVE_BLAS_FUNCTIONS(name_gemm, NAME_GEMM, name_gemv, NAME_GEMV, T)                                           \
  extern "C" void cleave_##name_gemm(const char*, const char*, const int*, const int*, const int*, const T*, const T*, \
                                     const int*, const T*, const int*, const T*, T*, const int*)                       \
      CLEAVE_BLAS_SYMBOL(name_gemm, NAME_GEMM);                                                                        \
  extern "C" void cleave_##name_gemv(const char*, const int*, const int*, const T*, const T*, const int*, const T*,    \
                                     const int*, const T*, T*, const int*) CLEAVE_BLAS_SYMBOL(name_gemv, NAME_GEMV);   \
  template <>                                                                                                          \
  struct blas_functions<T> {                                                                                           \
    static constexpr auto gemm = &cleave_##name_gemm;                                                                  \
    static constexpr auto gemv = &cleave_##name_gemv;                                                                  \
  }

namespace cleave { inline namespace v0 {

namespace detail {
template <class T>
struct blas_functions;
CLEAVE_BLAS_FUNCTIONS(sgemm, SGEMM, sgemv, SGEMV, float);
CLEAVE_BLAS_FUNCTIONS(dgemm, DGEMM, dgemv, DGEMV, double);
CLEAVE_BLAS_FUNCTIONS(cgemm, CGEMM, cgemv, CGEMV, Kokkos::complex<float>);
CLEAVE_BLAS_FUNCTIONS(zgemm, ZGEMM, zgemv, ZGEMV, Kokkos::complex<double>);
} // namespace detail

/// c[m, n] = alpha * a[m, k] * b[k, n] + beta * c[m, n], none of the extents 0, all numbers within int.
template <class T>
void blas_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const matrix_ref& a, const matrix_ref& b, T* c,
               std::int64_t leading, const T& alpha = T(1), const T& beta = T(0)) {
  const auto rows = static_cast<int>(m), columns = static_cast<int>(n), depth = static_cast<int>(k);
  const auto lda = static_cast<int>(a.leading), ldb = static_cast<int>(b.leading), ldc = static_cast<int>(leading);
  const T* left = as<T>(a.at);
  const T* right = as<T>(b.at);
  const int next = 1;
  // BLAS stores columns one after the other: it sees the transpose of a row-major matrix.
  if (n == 1)
    detail::blas_functions<T>::gemv(a.transposed ? "N" : "T", a.transposed ? &rows : &depth,
                                    a.transposed ? &depth : &rows, &alpha, left, &lda, right,
                                    b.transposed ? &next : &ldb, &beta, c, &ldc);
  else if (m == 1)
    detail::blas_functions<T>::gemv(b.transposed ? "T" : "N", b.transposed ? &depth : &columns,
                                    b.transposed ? &columns : &depth, &alpha, right, &ldb, left,
                                    a.transposed ? &lda : &next, &beta, c, &next);
  else
    detail::blas_functions<T>::gemm(b.transposed ? "T" : "N", a.transposed ? "T" : "N", &columns, &rows, &depth, &alpha,
                                    right, &ldb, left, &lda, &beta, c, &ldc);
}

}} // namespace cleave::v0

#endif

namespace cleave { inline namespace v0 {

/// Elements that the library of products knows.
template <class T>
inline constexpr bool has_library_gemm = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                                         std::is_same_v<T, Kokkos::complex<float>> ||
                                         std::is_same_v<T, Kokkos::complex<double>>;

/// Whether the library's integers hold all of these; if not, a plain kernel computes the product.
inline bool library_takes(std::initializer_list<std::int64_t> numbers) {
  for (std::int64_t n : numbers)
    if (n > std::numeric_limits<int>::max()) return false;
  return true;
}

/// c[m, n] = alpha * a[m, k] * b[k, n] + beta * c[m, n], none of the extents 0, all numbers within int.
template <class T>
void gemm_call(std::int64_t m, std::int64_t n, std::int64_t k, const matrix_ref& a, const matrix_ref& b, T* c,
               std::int64_t leading, const T& alpha = T(1), const T& beta = T(0)) {
#if CLEAVE_DIRECT_BLAS
  blas_gemm(m, n, k, a, b, c, leading, alpha, beta);
#else
  kokkos_gemm(m, n, k, a, b, c, leading, alpha, beta);
#endif
}

}} // namespace cleave::v0
