// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/kernels/gemm.hpp>
#include <cleave/kernels/gemm_kokkos.hpp>

#include <gtest/gtest.h>

#include <vector>

// The two ways to a library's product, one matrix at a time, against plain loops.

namespace CLEAVE_SOURCE {

using cleave::matrix_ref;

struct sizes_of {
  std::int64_t m, n, k;
};

/// Calls f(a, b, c, leading of c) for all orders of the operands, with and without space between rows, and checks c.
template <class T, class F>
void check(bool columns_apart, F&& f) {
  for (const auto& [m, n, k] : {sizes_of{3, 4, 5}, {1, 4, 5}, {3, 1, 5}, {3, 4, 1}, {1, 1, 5}, {1, 1, 1}, {33, 17, 65}})
    for (const bool a_turned : {false, true})
      for (const bool b_turned : {false, true})
        for (const std::int64_t apart : {0, 3}) {
          // Kokkos Kernels wants single columns contiguous.
          const std::int64_t gap = n == 1 && !columns_apart ? 0 : apart;
          const std::int64_t lda = (a_turned ? m : k) + apart, ldb = (b_turned ? k : n) + gap, ldc = n + gap;
          const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
          std::vector<T> a(at((a_turned ? k : m) * lda)), b(at((b_turned ? n : k) * ldb)), c(at(m * ldc), T(7));
          for (std::size_t i = 0; i < a.size(); ++i) a[i] = T(static_cast<float>(i * 7 % 11) - 5);
          for (std::size_t i = 0; i < b.size(); ++i) b[i] = T(static_cast<float>(i * 5 % 13) - 6);
          const support::on_device<T> left(a), right(b), result(c);
          f(m, n, k, matrix_ref{left.data(), lda, a_turned}, matrix_ref{right.data(), ldb, b_turned}, result.data(),
            ldc);
          c = result.read();
          int wrong = 0;
          for (std::int64_t i = 0; i < m; ++i) {
            for (std::int64_t j = 0; j < n; ++j) {
              T sum(0);
              for (std::int64_t l = 0; l < k; ++l)
                sum += a[at(a_turned ? l * lda + i : i * lda + l)] * b[at(b_turned ? j * ldb + l : l * ldb + j)];
              wrong += c[at(i * ldc + j)] == sum ? 0 : 1;
            }
            for (std::int64_t j = n; j < ldc; ++j) wrong += c[at(i * ldc + j)] == T(7) ? 0 : 1;
          }
          EXPECT_EQ(wrong, 0) << m << " x " << n << " x " << k << (a_turned ? " a'" : " a") << (b_turned ? " b'" : " b")
                              << " +" << apart;
        }
}

TEST(gemm, through_kokkos_kernels) {
  check<float>(false, [](auto... call) { cleave::kokkos_gemm<float>(call...); });
}

#if CLEAVE_DIRECT_BLAS
TEST(gemm, through_blas) {
  check<float>(true, [](auto... call) { cleave::blas_gemm<float>(call...); });
  check<double>(true, [](auto... call) { cleave::blas_gemm<double>(call...); });
  check<Kokkos::complex<float>>(true, [](auto... call) { cleave::blas_gemm<Kokkos::complex<float>>(call...); });
  check<Kokkos::complex<double>>(true, [](auto... call) { cleave::blas_gemm<Kokkos::complex<double>>(call...); });
}
#endif

TEST(gemm, numbers_beyond_int_go_elsewhere) {
  EXPECT_TRUE(cleave::library_takes({1, 2147483647}));
  EXPECT_FALSE(cleave::library_takes({1, 2147483648, 3}));
}

} // namespace CLEAVE_SOURCE
