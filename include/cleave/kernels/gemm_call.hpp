// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/gemm_blas.hpp>
#if !CLEAVE_DIRECT_BLAS
#include <cleave/kernels/gemm_kokkos.hpp>
#endif

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <type_traits>

namespace cleave::inline v0 {

/// Elements that the library of products knows.
template <class T>
inline constexpr bool has_library_gemm = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                                         std::is_same_v<T, Kokkos::complex<float>> ||
                                         std::is_same_v<T, Kokkos::complex<double>>;

/// Whether the library's integers hold all of these; where they do not, a plain kernel computes the product.
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

} // namespace cleave::inline v0
