// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/gemm_call.hpp>
#include <cleave/ops/scalar.hpp>
#include <cleave/storage/box.hpp>
#include <cleave/storage/convert.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace cleave {

/// One group of dims of a product: extents in a canonical order, and strides in each of the three arrays (0 in the array that
/// lacks the group).
struct gemm_group {
  std::vector<std::int64_t> extent{};
  std::array<std::vector<std::int64_t>, 3> stride{};

  std::int64_t size() const {
    std::int64_t n = 1;
    for (std::int64_t e : extent) n *= e;
    return n;
  }
  void append(std::int64_t e, std::int64_t in_a, std::int64_t in_b, std::int64_t in_c) {
    if (e == 1) return;
    extent.push_back(e);
    stride[0].push_back(in_a);
    stride[1].push_back(in_b);
    stride[2].push_back(in_c);
  }
  /// The one stride of the group seen as a single dim of an array, or -1; 0 for a group of one element.
  std::int64_t single(std::size_t array) const {
    if (extent.empty()) return 0;
    const auto& s = stride[array];
    for (std::size_t i = 0; i + 1 < s.size(); ++i)
      if (s[i] != s[i + 1] * extent[i + 1]) return -1;
    return s.back();
  }
};

/// A product bound to sizes: which arrays are packed first, and how the library is called for each batch.
struct bound_gemm {
  std::int64_t batches = 1, m = 1, n = 1, k = 1;
  /// The product is computed as its transpose, because that is how the result lies in memory.
  bool swapped = false;
  /// a, b, c in the order of the call.
  std::array<bool, 3> packed{};
  std::array<box_copy, 3> copy{};
  std::array<std::int64_t, 3> scratch_at{};
  std::array<bool, 2> transposed{};
  std::array<std::int64_t, 3> leading{1, 1, 1};
  /// Offsets of every batch in a, b, c.
  std::array<std::vector<std::int64_t>, 3> offset{};
  std::int64_t scratch = 0;
  std::int64_t element_bytes = 0;
  std::int64_t results = 0;

  /// Elements of the left operand, the right one, the result.
  std::int64_t elements(int array) const {
    if (array == 2) return results;
    return batches * k * ((array == 0) != swapped ? m : n);
  }
  /// Bytes that such an array takes, from one cache line to the next.
  std::int64_t widened(int array) const { return aligned(elements(array) * element_bytes); }
};

namespace detail {

/// Whether an array is a matrix for the library: rows over `rows`, columns over `columns`, one of them with stride 1.
inline bool matrix_of(const gemm_group& rows, const gemm_group& columns, std::size_t array, bool may_transpose,
                      bool& transposed, std::int64_t& leading) {
  const std::int64_t r = rows.single(array), c = columns.single(array);
  if (r < 0 || c < 0) return false;
  if (c == 1 || c == 0) {
    const std::int64_t apart = r == 0 ? columns.size() : r;
    // Of a single column, any stride between the rows will do.
    if (c == 1 ? apart >= columns.size() : apart >= 1) {
      transposed = false;
      leading = std::max<std::int64_t>(apart, 1);
      return true;
    }
  }
  if (may_transpose && (r == 1 || r == 0)) {
    const std::int64_t apart = c == 0 ? rows.size() : c;
    if (r == 1 ? apart >= rows.size() : apart >= 1) {
      transposed = true;
      leading = std::max<std::int64_t>(apart, 1);
      return true;
    }
  }
  return false;
}

inline void batch_offsets(const gemm_group& batch, std::size_t array, std::vector<std::int64_t>& out) {
  out.assign(static_cast<std::size_t>(batch.size()), 0);
  for (std::size_t flat = 0; flat < out.size(); ++flat) {
    std::size_t rest = flat;
    for (std::size_t d = batch.extent.size(); d-- > 0;) {
      const auto e = static_cast<std::size_t>(batch.extent[d]);
      out[flat] += static_cast<std::int64_t>(rest % e) * batch.stride[array][d];
      rest /= e;
    }
  }
}

/// The copy between an array and a packed one with dims batch, rows, columns.
inline box_copy pack_of(const gemm_group& batch, const gemm_group& rows, const gemm_group& columns, std::size_t array, bool unpack) {
  box_copy c;
  c.elements = batch.size() * rows.size() * columns.size();
  std::int64_t step = 1;
  std::vector<std::array<std::int64_t, 3>> dims;
  for (const gemm_group* g : {&columns, &rows, &batch})
    for (std::size_t d = g->extent.size(); d-- > 0;) {
      dims.push_back({g->extent[d], g->stride[array][d], step});
      step *= g->extent[d];
    }
  for (std::size_t i = dims.size(); i-- > 0;) {
    const auto at = static_cast<std::size_t>(c.rank);
    if (c.rank > 0 && c.from[at - 1] == dims[i][unpack ? 2 : 1] * dims[i][0] && c.to[at - 1] == dims[i][unpack ? 1 : 2] * dims[i][0]) {
      c.extent[at - 1] *= dims[i][0];
      c.from[at - 1] = dims[i][unpack ? 2 : 1];
      c.to[at - 1] = dims[i][unpack ? 1 : 2];
      continue;
    }
    c.extent[at] = dims[i][0];
    c.from[at] = dims[i][unpack ? 2 : 1];
    c.to[at] = dims[i][unpack ? 1 : 2];
    ++c.rank;
  }
  return c;
}

} // namespace detail

/// Decides how a product is computed. Operands that are no matrices in memory are packed, the result unpacked.
inline bound_gemm bind_gemm(const gemm_group& batch, gemm_group m, gemm_group n, const gemm_group& k, std::int64_t element_bytes) {
  bound_gemm g;
  g.element_bytes = element_bytes;
  g.results = batch.size() * m.size() * n.size();
  bool ignored = false;
  std::array<std::size_t, 3> array{0, 1, 2};
  if (!detail::matrix_of(m, n, 2, false, ignored, g.leading[2])) {
    if (detail::matrix_of(n, m, 2, false, ignored, g.leading[2])) {
      // c^T = b^T a^T
      g.swapped = true;
      std::swap(m, n);
      array = {1, 0, 2};
    } else {
      g.packed[2] = true;
    }
  }
  g.batches = batch.size();
  g.m = m.size();
  g.n = n.size();
  g.k = k.size();
  g.packed[0] = !detail::matrix_of(m, k, array[0], true, g.transposed[0], g.leading[0]);
  g.packed[1] = !detail::matrix_of(k, n, array[1], true, g.transposed[1], g.leading[1]);
  if (!CLEAVE_DIRECT_BLAS && g.n == 1 && !g.transposed[0] && !g.transposed[1]) {
    // Kokkos Kernels takes a single column for a contiguous vector, whatever lies between its elements.
    g.packed[1] = g.packed[1] || g.leading[1] != 1;
    g.packed[2] = g.packed[2] || g.leading[2] != 1;
  }
  const std::array<const gemm_group*, 3> rows{&m, &k, &m}, columns{&k, &n, &n};
  for (std::size_t x = 0; x < 3; ++x) {
    detail::batch_offsets(batch, array[x], g.offset[x]);
    if (!g.packed[x]) continue;
    g.copy[x] = detail::pack_of(batch, *rows[x], *columns[x], array[x], x == 2);
    g.leading[x] = std::max<std::int64_t>(columns[x]->size(), 1);
    if (x < 2) g.transposed[x] = false;
    for (std::size_t b = 0; b < g.offset[x].size(); ++b)
      g.offset[x][b] = static_cast<std::int64_t>(b) * rows[x]->size() * columns[x]->size();
    g.scratch_at[x] = g.scratch;
    g.scratch += aligned(g.copy[x].elements * element_bytes);
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

  KOKKOS_FUNCTION void operator()(std::int64_t flat) const {
    const std::int64_t i = flat / n, j = flat % n;
    T sum = T(0);
    for (std::int64_t l = 0; l < k; ++l)
      sum = combined<reduction::sum>(sum, scalar_op<op::mul, T>::of(a[i * a_row + l * a_column], b[l * b_row + j * b_column]));
    c[i * c_row + j] = sum;
  }
};

/// Runs a product; k = 0 gives zeros.
template <class T>
void run_gemm(const bound_gemm& g, const void* left, const void* right, void* result, char* scratch) {
  if (g.results == 0) return;
  if (g.k == 0) return zero_bytes(result, g.results * g.element_bytes);
  std::array<const void*, 2> in{g.swapped ? right : left, g.swapped ? left : right};
  void* out = result;
  for (std::size_t x = 0; x < 2; ++x)
    if (g.packed[x]) {
      copy_box(g.copy[x], in[x], scratch + g.scratch_at[x], g.element_bytes);
      in[x] = scratch + g.scratch_at[x];
    }
  if (g.packed[2]) out = scratch + g.scratch_at[2];
  for (std::size_t b = 0; b < static_cast<std::size_t>(g.batches); ++b) {
    const T* a_at = static_cast<const T*>(in[0]) + g.offset[0][b];
    const T* b_at = static_cast<const T*>(in[1]) + g.offset[1][b];
    T* c_at = static_cast<T*>(out) + g.offset[2][b];
    if constexpr (has_library_gemm<T>)
      if (library_takes({g.m, g.n, g.k, g.leading[0], g.leading[1], g.leading[2]})) {
        gemm_call<T>(g.m, g.n, g.k, {a_at, g.leading[0], g.transposed[0]}, {b_at, g.leading[1], g.transposed[1]}, c_at, g.leading[2]);
        continue;
      }
    const plain_gemm_functor<T> f{a_at,
                                  b_at,
                                  c_at,
                                  g.n,
                                  g.k,
                                  g.transposed[0] ? 1 : g.leading[0],
                                  g.transposed[0] ? g.leading[0] : 1,
                                  g.transposed[1] ? 1 : g.leading[1],
                                  g.transposed[1] ? g.leading[1] : 1,
                                  g.leading[2]};
    launch("cleave gemm", g.m * g.n, f);
  }
  if (g.packed[2]) copy_box(g.copy[2], out, result, g.element_bytes);
}

/// A product of 16-bit numbers: all three arrays in float, where the library adds up.
template <class T>
  requires(!std::is_same_v<T, computed<T>>)
void run_gemm(const bound_gemm& g, const void* left, const void* right, void* result, char* scratch) {
  using F = computed<T>;
  F* wide[3] = {};
  for (int x = 0; x < 3; ++x) {
    wide[x] = static_cast<F*>(static_cast<void*>(scratch));
    scratch += g.widened(x);
  }
  const std::int64_t a = g.elements(0), b = g.elements(1), c = g.elements(2);
  convert_elements(static_cast<const T*>(left), wide[0], a);
  convert_elements(static_cast<const T*>(right), wide[1], b);
  run_gemm<F>(g, wide[0], wide[1], wide[2], scratch);
  convert_elements(wide[2], static_cast<T*>(result), c);
}

} // namespace cleave
