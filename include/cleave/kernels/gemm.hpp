// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/kernels/gemm_call.hpp>
#include <cleave/kernels/small_gemm.hpp>
#include <cleave/kernels/vector_products.hpp>
#include <cleave/ops/scalar.hpp>
#include <cleave/program/product_form.hpp>
#include <cleave/storage/box.hpp>
#include <cleave/storage/element_type.hpp>
#include <cleave/storage/memory.hpp>

#include <algorithm>
#include <array>
#include <utility>

namespace cleave { inline namespace v0 {

/// A product bound to sizes: which arrays are packed first, and how the library is called for each batch.
struct bound_gemm {
  std::int64_t batches = 1, m = 1, n = 1, k = 1;
  /// The product is computed as its transpose, because the result is stored transposed.
  bool swapped = false;
  /// One array of the call: a, b or c.
  struct operand {
    bool packed = false, transposed = false;
    std::int64_t leading = 1;
    box_copy copy{};
    std::int64_t scratch_at = 0;
    /// The offset of every batch.
    indexed_vector<std::int64_t> offset{};
  };
  operand array[3];
  /// Many small products, which one kernel computes instead.
  small_gemm small{};
  /// The result is alpha times the product, plus beta times its old value.
  double alpha = 1, beta = 0;
  std::int64_t scratch = 0;
  std::int64_t element_bytes = 0;
  std::int64_t results = 0;

  /// Elements of the left operand, the right one, the result.
  std::int64_t elements(int which) const {
    if (which == 2) return results;
    return batches * k * ((which == 0) != swapped ? m : n);
  }
  /// Bytes that such an array takes, from one cache line to the next.
  std::int64_t widened(int which) const { return aligned(elements(which) * element_bytes); }
};

namespace detail {

/// Where each batch of an array begins.
inline void batch_offsets(const gemm_group& batch, int array, indexed_vector<std::int64_t>& out) {
  out.resize(as_size(batch.size()));
  std::int64_t flat = 0;
  for (std::int64_t& offset : out) {
    offset = 0;
    std::int64_t rest = flat++;
    for (int d = batch.rank; d-- > 0; rest /= batch.extent[d])
      offset += rest % batch.extent[d] * batch.stride[array][d];
  }
}

/// The kernel for many small products.
[[gnu::cold]] inline small_gemm bind_small_gemm(const gemm_group& batch, const gemm_group& m, const gemm_group& n,
                                                const gemm_group& k) {
  small_gemm g{m.size(),    n.size(),    k.size(),    m.single(0), k.single(0),
               k.single(1), n.single(1), m.single(2), n.single(2)};
  strided_dims over;
  for (int d = 0; d < batch.rank; ++d)
    over.add(batch.extent[d], batch.stride[0][d], batch.stride[1][d], batch.stride[2][d]);
  g.batch = over.merged();
  return g;
}

/// The copy between an array and a packed one with dims batch, rows, columns.
[[gnu::cold]] inline box_copy pack_of(const gemm_group& batch, const gemm_group& rows, const gemm_group& columns,
                                      int array, bool unpack) {
  shape extents;
  strides own{};
  for (const gemm_group* g : {&batch, &rows, &columns})
    for (int d = 0; d < g->rank; ++d) {
      own[extents.rank] = g->stride[array][d];
      extents[extents.rank++] = g->extent[d];
    }
  const strides packed = strides_of(extents);
  return unpack ? make_copy(extents, packed, 0, own, 0) : make_copy(extents, own, 0, packed, 0);
}

} // namespace detail

/// Decides how a product is computed. Operands that are no matrices in memory are packed, the result unpacked.
[[gnu::cold]] inline bound_gemm bind_gemm(product_groups groups, std::int64_t element_bytes) {
  auto& [batch, m, n, k] = groups;
  bound_gemm g;
  g.element_bytes = element_bytes;
  g.results = batch.size() * m.size() * n.size();
  const product_form form = form_of_product(groups, CLEAVE_DIRECT_BLAS == 0);
  if (form.small) g.small = detail::bind_small_gemm(batch, m, n, k);
  g.batches = batch.size();
  // c^T = b^T a^T
  g.swapped = form.swapped;
  if (g.swapped) std::swap(m, n);
  g.m = m.size();
  g.n = n.size();
  g.k = k.size();
  if (form.small) return g;
  const gemm_group *const rows[3] = {&m, &k, &m}, *const columns[3] = {&k, &n, &n};
  for (int x = 0; x < 3; ++x) {
    bound_gemm::operand& o = g.array[x];
    const int stored = form.stored(x);
    o.packed = form.array[x].packed;
    o.transposed = form.array[x].transposed;
    o.leading = form.array[x].leading;
    detail::batch_offsets(batch, stored, o.offset);
    if (!o.packed) continue;
    o.copy = detail::pack_of(batch, *rows[x], *columns[x], stored, x == 2);
    o.transposed = false;
    o.leading = columns[x]->size() < 1 ? 1 : columns[x]->size();
    std::int64_t next = 0;
    for (std::int64_t& offset : o.offset) {
      offset = next;
      next += rows[x]->size() * columns[x]->size();
    }
    o.scratch_at = g.scratch;
    g.scratch += aligned(o.copy.elements * element_bytes);
  }
  return g;
}

/// Products of elements that no library has: one result for each unit.
template <class T>
struct plain_gemm_functor {
  const T* a;
  const T* b;
  T* c;
  std::int64_t n, k;
  std::int64_t a_row, a_column, b_row, b_column, c_row;
  T alpha, beta;

  KOKKOS_FUNCTION void operator()(std::int64_t flat) const {
    const std::int64_t i = flat / n, j = flat % n;
    T sum = T(0);
    for (std::int64_t l = 0; l < k; ++l)
      sum = combined<reduction::sum>(sum, scalar_op<op::mul, T>::of(a[i * a_row + l * a_column],
                                                                    b[l * b_row + j * b_column]));
    if constexpr (std::is_floating_point_v<T>) {
      sum *= alpha;
      if (beta != T(0)) sum += beta * c[i * c_row + j];
    }
    c[i * c_row + j] = sum;
  }
};

namespace detail {

/// A factor of a product as one of its elements; products of others than real floating-point numbers are not scaled.
template <class T>
T factor_of(double x) {
  if constexpr (std::is_floating_point_v<T>) return static_cast<T>(x);
  else return T(x != 0 ? 1 : 0);
}

/// One matrix product: of the library if it has one for the element type and its integers are long enough.
template <class T>
void multiply(const bound_gemm& g, const void* left, const void* right, void* result) {
  const auto& [a, b, c] = g.array;
  const T alpha = factor_of<T>(g.alpha), beta = factor_of<T>(g.beta);
  const matrix_ref first{left, a.leading, a.transposed}, second{right, b.leading, b.transposed};
  if constexpr (on_host && has_vector_products<T>)
    if (g.m == 1 || g.n == 1) {
      const vector_product<T> all(g.m, g.n, g.k, first, second, as<T>(result), c.leading, alpha, beta);
      if (const bool small = is_vector_product<T>(g.m, g.n, g.k); small || (all.by_rows && all.rows >= many_rows))
        return all.run(!small || std::ssize(c.offset) == 1);
    }
  if constexpr (has_library_gemm<T>)
    if (g.k > 0 && library_takes({g.m, g.n, g.k, a.leading, b.leading, c.leading}))
      return gemm_call<T>(g.m, g.n, g.k, first, second, as<T>(result), c.leading, alpha, beta);
  const auto row = [](const bound_gemm::operand& o) { return o.transposed ? 1 : o.leading; };
  const auto column = [](const bound_gemm::operand& o) { return o.transposed ? o.leading : 1; };
  launch("cleave gemm", g.m * g.n,
         plain_gemm_functor<T>{as<T>(left), as<T>(right), as<T>(result), g.n, g.k, row(a), column(a), row(b), column(b),
                               c.leading, alpha, beta});
}

/// Some batches of a product, by threads of the host.
struct batches_functor {
  const bound_gemm& g;
  const char *a, *b;
  char* c;
  void (*one)(const bound_gemm&, const void*, const void*, void*);
  std::int64_t grain;

  void operator()(std::int64_t unit) const {
    const std::int64_t end = std::min((unit + 1) * grain, std::ssize(g.array[2].offset));
    for (std::int64_t i = unit * grain; i < end; ++i)
      one(g, a + g.array[0].offset[i] * g.element_bytes, b + g.array[1].offset[i] * g.element_bytes,
          c + g.array[2].offset[i] * g.element_bytes);
  }
};

/// The product over an empty dim. The result need not be contiguous.
inline void zero_result(const bound_gemm& g, void* result, char* scratch) {
  const bound_gemm::operand& c = g.array[2];
  const std::int64_t row = g.n * g.element_bytes;
  if (c.packed) {
    zero_bytes(scratch + c.scratch_at, g.results * g.element_bytes);
    return copy_box(c.copy, scratch + c.scratch_at, result, g.element_bytes);
  }
  for (const std::int64_t offset : c.offset)
    for (std::int64_t i = 0; i < g.m; ++i)
      zero_bytes(as<char>(result) + (offset + i * c.leading) * g.element_bytes, row);
}
/// All batches, around the copies of packed arrays. `alone`: a product runs on one thread, so that threads share the
/// batches.
inline void run_gemm_with(const bound_gemm& g, const void* left, const void* right, void* result, char* scratch,
                          void (*one)(const bound_gemm&, const void*, const void*, void*),
                          [[maybe_unused]] bool alone) {
  if (g.results == 0) return;
  const auto& [a, b, c] = g.array;
  if (g.k == 0 && g.beta == 0) return zero_result(g, result, scratch);
  const auto packed = [&](const bound_gemm::operand& o, const void* from) -> const char* {
    if (!o.packed) return as<char>(from);
    copy_box(o.copy, from, scratch + o.scratch_at, g.element_bytes);
    return scratch + o.scratch_at;
  };
  const char* const a_at = packed(a, g.swapped ? right : left);
  const char* const b_at = packed(b, g.swapped ? left : right);
  char* const c_at = c.packed ? scratch + c.scratch_at : as<char>(result);
  const std::int64_t batches = std::ssize(c.offset);
  batches_functor some{g, a_at, b_at, c_at, one, batches};
  if constexpr (on_host)
    if (alone) some.grain = std::max<std::int64_t>(least_of_thread / std::max<std::int64_t>(g.m * g.n * g.k, 1), 1);
  if (some.grain >= batches) some.grain = batches, some(0);
  else if constexpr (on_host) launch("cleave products", (batches + some.grain - 1) / some.grain, some);
  if (c.packed) copy_box(c.copy, c_at, result, g.element_bytes);
}

} // namespace detail

/// Runs a product; of k = 0 it is zeros.
template <class T>
  requires(std::is_same_v<T, computed<T>>)
void run_gemm(const bound_gemm& g, const void* left, const void* right, void* result, char* scratch) {
  if (g.small.chosen()) return run_small_gemm<T>(g.small, left, right, result);
  detail::run_gemm_with(g, left, right, result, scratch, &detail::multiply<T>, is_vector_product<T>(g.m, g.n, g.k));
}

/// A product of 16-bit numbers: all three arrays in float, in which the library adds up.
template <class T>
  requires(!std::is_same_v<T, computed<T>>)
void run_gemm(const bound_gemm& g, const void* left, const void* right, void* result, char* scratch) {
  using F = computed<T>;
  F* wide[3] = {};
  for (int x = 0; x < 3; ++x) {
    wide[x] = as<F>(scratch);
    scratch += g.widened(x);
  }
  const std::int64_t a = g.elements(0), b = g.elements(1), c = g.elements(2);
  convert_elements(as<T>(left), wide[0], a);
  convert_elements(as<T>(right), wide[1], b);
  run_gemm<F>(g, wide[0], wide[1], wide[2], scratch);
  convert_elements(wide[2], as<T>(result), c);
}

}} // namespace cleave::v0
