// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/kernels/indexed_rows.hpp>
#include <cleave/kernels/small_gemm.hpp>

#include <algorithm>
#include <cstdint>

// Many small products, such as the rows of a sparse matrix with a vector, whose one operand is rows of a table at
// indices: one pass that reads the table at the indices.

namespace cleave { inline namespace v0 {

/// result[p, j] = sum over l of values[p, l] * table[indices[p, l], j]. Indices and results follow one another, and so
/// do the elements of a row; those of values are strided.
struct indexed_products {
  std::int64_t products = 0, k = 1, n = 1;
  std::int64_t values_p = 0, values_k = 0, result_p = 0;

  /// These products as they are read from a look-up, of which they take operand `looked_up`. `k` 0: they are others.
  indexed_products(const small_gemm& g, int looked_up, const indexed_rows& rows) {
    const bool right = looked_up == 1;
    const std::int64_t free = right ? g.m : g.n, rows_k = right ? g.b_k : g.a_k, rows_n = right ? g.b_n : g.a_m,
                       result_n = right ? g.c_n : g.c_m;
    k = 0;
    if (!g.chosen() || g.batch.rank != 1 || free != 1) return;
    products = g.batch.size();
    n = right ? g.n : g.m;
    const bool of_rows = (n == 1 || (rows_n == 1 && result_n == 1)) && (g.k == 1 || rows_k == n) &&
                         g.batch.inner(looked_up) == g.k * n;
    const bool of_table = rows.count == products * g.k && rows.length == n && rows.over.rank == 1 &&
                          rows.over.inner(1) == n && rows.over.inner(2) == 0 &&
                          (n == 1 ? rows.block.stride == 1 : rows.row.rank == 1 && rows.row.inner(1) == 1);
    if (!of_rows || !of_table) return;
    values_p = g.batch.inner(1 - looked_up);
    values_k = right ? g.a_k : g.b_k;
    result_p = g.batch.inner(2);
    k = g.k;
  }
};

namespace detail {

template <class T, class I>
struct indexed_products_functor {
  const T* values;
  const I* indices;
  const T* table;
  T* result;
  indexed_products g;
  index_block block;
  std::int64_t grain;

  CLEAVE_FUNCTION void operator()(std::int64_t unit) const {
    std::int64_t p = unit * grain;
    const std::int64_t end = p + grain < g.products ? p + grain : g.products;
    if (g.n > 1) return add_rows(p, end);
    if (g.values_k == 1 && dots_of<shortest_dot>(p, end)) return;
    for (; p < end; ++p) {
      T sum = T(0);
      for (std::int64_t l = 0; l < g.k; ++l) sum = plus(sum, value(p, l), element_at(indices[p * g.k + l]));
      result[p * g.result_p] = sum;
    }
  }
  CLEAVE_FUNCTION static T plus(T sum, T x, T y) {
    return combined<reduction::sum>(sum, scalar_op<op::mul, T>::of(x, y));
  }
  CLEAVE_FUNCTION T value(std::int64_t p, std::int64_t l) const { return values[p * g.values_p + l * g.values_k]; }

 private:
  CLEAVE_FUNCTION T element_at(I index) const {
    const std::uint64_t r = block.row_of(index);
    return block.has(r) ? table[r] : T(0);
  }
  /// Sums whose length, K or more, the compiler knows; false if they are longer.
  template <int K>
  CLEAVE_FUNCTION bool dots_of(std::int64_t p, std::int64_t end) const {
    if constexpr (K < longest_dot)
      if (g.k != K) return dots_of<K + 1>(p, end);
    if (g.k != K) return false;
    for (; p < end; ++p) {
      const T* const v = values + p * g.values_p;
      const I* const index = indices + p * K;
      T sum = T(0);
      for (int l = 0; l < K; ++l) sum = plus(sum, v[l], element_at(index[l]));
      result[p * g.result_p] = sum;
    }
    return true;
  }
  CLEAVE_FUNCTION void add_rows(std::int64_t p, std::int64_t end) const {
    for (; p < end; ++p) {
      T* const to = result + p * g.result_p;
      for (std::int64_t j = 0; j < g.n; ++j) to[j] = T(0);
      for (std::int64_t l = 0; l < g.k; ++l) {
        const T x = value(p, l);
        const std::uint64_t r = block.row_of(indices[p * g.k + l]);
        if (block.has(r)) {
          const T* const row = table + block.offset(r);
          for (std::int64_t j = 0; j < g.n; ++j) to[j] = plus(to[j], x, row[j]);
        } else {
          for (std::int64_t j = 0; j < g.n; ++j) to[j] = plus(to[j], x, T(0));
        }
      }
    }
  }
};

/// A row that another device sent: which one, for which index.
struct far_row {
  std::int64_t index, row;

  friend bool operator<(const far_row& a, const far_row& b) { return a.index < b.index; }
};

/// Products some of whose rows came from other devices, on the host. A unit has those that begin in its part of `far`,
/// which is in the order of the indices.
template <class T, class I>
struct far_products_functor {
  indexed_products_functor<T, I> near;
  const T* fetched;
  const far_row* far;
  std::int64_t count, grain;

  void operator()(std::int64_t unit) const {
    const std::int64_t end = (unit + 1) * grain < count ? (unit + 1) * grain : count;
    std::int64_t f = unit * grain;
    while (f > 0 && f < end && product(f) == product(f - 1)) ++f;
    while (f < end) f = compute(f);
  }

 private:
  std::int64_t product(std::int64_t f) const { return far[f].index / near.g.k; }
  /// The product of a far row; the first far row of another one.
  std::int64_t compute(std::int64_t f) const {
    const indexed_products& g = near.g;
    const std::int64_t p = product(f);
    T* const to = near.result + p * g.result_p;
    for (std::int64_t j = 0; j < g.n; ++j) to[j] = T(0);
    for (std::int64_t l = 0; l < g.k; ++l) {
      const T x = near.value(p, l);
      const std::uint64_t r = near.block.row_of(near.indices[p * g.k + l]);
      const T* row = near.block.has(r) ? near.table + near.block.offset(r) : nullptr;
      if (f < count && far[f].index == p * g.k + l) row = fetched + far[f++].row * g.n;
      for (std::int64_t j = 0; j < g.n; ++j) to[j] = near.plus(to[j], x, row == nullptr ? T(0) : row[j]);
    }
    return f;
  }
};

} // namespace detail

/// Products whose rows are those of this device's block of the table, 0 if it lacks the index; then products of rows
/// that other devices sent.
template <class T, class I>
void run_indexed_products(const indexed_products& g, const index_block& block, const T* values, const I* indices,
                          const T* table, T* result, const T* fetched, const indexed_vector<detail::far_row>& far) {
  const std::int64_t grain = std::max<std::int64_t>(tuned_size(1 << 13, 16) / (g.n * g.k), 1);
  const detail::indexed_products_functor<T, I> near{values, indices, table, result, g, block, on_host ? grain : 1};
  launch("cleave products", (g.products + near.grain - 1) / near.grain, near);
  if constexpr (on_host) {
    constexpr std::int64_t far_grain = 1 << 8;
    const std::int64_t count = std::ssize(far);
    if (count > 0)
      launch("cleave products", (count + far_grain - 1) / far_grain,
             detail::far_products_functor<T, I>{near, fetched, far.data(), count, far_grain});
  }
}

}} // namespace cleave::v0
