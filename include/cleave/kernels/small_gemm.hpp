// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/ops/scalar.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/storage/rows.hpp>

#include <algorithm>
#include <cstdint>

// Many small products, such as dot products of short rows: one parallel kernel for all of them. A call of a library for
// each would take longer than the product.

namespace cleave { inline namespace v0 {

/// Products c[b, m, n] = sum over k of a[b, m, k] * b[b, k, n], with one stride for each of m, n, k in each array.
struct small_gemm {
  std::int64_t m = 1, n = 1, k = 1;
  std::int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0, c_m = 0, c_n = 0;
  /// Over the products: strides in the three arrays. Rank 0: this kernel is not used.
  strided_dims batch{};

  bool chosen() const { return batch.rank > 0; }
};

namespace detail {

/// The lengths of dot products for which there is code that knows them.
inline constexpr int shortest_dot = 2, longest_dot = 8;

template <class T>
struct small_gemm_functor {
  const T* left;
  const T* right;
  T* result;
  small_gemm g;
  std::int64_t products, grain;

  CLEAVE_FUNCTION void operator()(std::int64_t unit) const {
    if constexpr (on_host) {
      const std::int64_t end = (unit + 1) * grain < products ? (unit + 1) * grain : products;
      for (std::int64_t p = unit * grain, line = 0; p < end; p += line) {
        line = g.batch.in_line(p, end - p);
        const T* a = left + g.batch.at(0, p);
        const T* b = right + g.batch.at(1, p);
        T* c = result + g.batch.at(2, p);
        if (dot_lines(a, b, c, line)) continue;
        for (std::int64_t i = 0; i < line; ++i) {
          multiply(a, b, c);
          a += g.batch.inner(0);
          b += g.batch.inner(1);
          c += g.batch.inner(2);
        }
      }
    } else {
      // One element of a result.
      const std::int64_t p = unit / (g.m * g.n), i = unit / g.n % g.m, j = unit % g.n;
      result[g.batch.at(2, p) + i * g.c_m + j * g.c_n] = sum_of(left + g.batch.at(0, p) + i * g.a_m,
                                                                right + g.batch.at(1, p) + j * g.b_n);
    }
  }

 private:
  /// Dot products of short contiguous rows, whose length, K or more, the compiler knows; false if they are longer.
  template <int K>
  CLEAVE_FUNCTION bool dot_lines_of(const T* a, const T* b, T* c, std::int64_t line) const {
    if constexpr (K < longest_dot)
      if (g.k != K) return dot_lines_of<K + 1>(a, b, c, line);
    if (g.k != K) return false;
    const std::int64_t next_a = g.batch.inner(0), next_b = g.batch.inner(1), next_c = g.batch.inner(2);
    for (std::int64_t i = 0; i < line; ++i) {
      T sum = T(0);
      for (int l = 0; l < K; ++l) sum = plus(sum, a[i * next_a + l], b[i * next_b + l]);
      c[i * next_c] = sum;
    }
    return true;
  }
  CLEAVE_FUNCTION bool dot_lines(const T* a, const T* b, T* c, std::int64_t line) const {
    return g.m == 1 && g.n == 1 && g.a_k == 1 && g.b_k == 1 && dot_lines_of<shortest_dot>(a, b, c, line);
  }
  CLEAVE_FUNCTION static T plus(T sum, T x, T y) {
    return combined<reduction::sum>(sum, scalar_op<op::mul, T>::of(x, y));
  }
  CLEAVE_FUNCTION T sum_of(const T* row, const T* column) const {
    T sum = T(0);
    if (g.a_k == 1 && g.b_k == 1)
      for (std::int64_t l = 0; l < g.k; ++l) sum = plus(sum, row[l], column[l]);
    else
      for (std::int64_t l = 0; l < g.k; ++l) sum = plus(sum, row[l * g.a_k], column[l * g.b_k]);
    return sum;
  }
  CLEAVE_FUNCTION void multiply(const T* a, const T* b, T* c) const {
    const bool rows = g.n > 1 && g.b_n == 1 && g.c_n == 1;
    for (std::int64_t i = 0; i < g.m; ++i) {
      T* const to = c + i * g.c_m;
      if (rows) {
        for (std::int64_t j = 0; j < g.n; ++j) to[j] = T(0);
        for (std::int64_t l = 0; l < g.k; ++l) {
          const T x = a[i * g.a_m + l * g.a_k];
          const T* const row = b + l * g.b_k;
          for (std::int64_t j = 0; j < g.n; ++j) to[j] = plus(to[j], x, row[j]);
        }
      } else {
        for (std::int64_t j = 0; j < g.n; ++j) to[j * g.c_n] = sum_of(a + i * g.a_m, b + j * g.b_n);
      }
    }
  }
};

} // namespace detail

template <class T>
void run_small_gemm(const small_gemm& g, const void* left, const void* right, void* result) {
  const std::int64_t products = g.batch.size();
  const std::int64_t grain = std::max<std::int64_t>(tuned_size(1 << 13, 16) / (g.m * g.n * g.k), 1);
  launch("cleave products", on_host ? (products + grain - 1) / grain : products * g.m * g.n,
         detail::small_gemm_functor<T>{as<T>(left), as<T>(right), as<T>(result), g, products, grain});
}

}} // namespace cleave::v0
