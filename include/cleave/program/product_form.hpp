// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/program/addressing.hpp>
#include <cleave/program/step.hpp>

#include <utility>

// How a product is computed: by which kernel, and which arrays are packed first because they are no matrices in memory.

namespace cleave { inline namespace v0 {

/// One group of dims of a product: extents in a canonical order, and strides in each of the three arrays (0 in the
/// array that lacks the group).
struct gemm_group {
  int rank = 0;
  std::int64_t extent[max_rank]{};
  std::int64_t stride[3][max_rank]{};

  constexpr std::int64_t size() const {
    std::int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= extent[i];
    return n;
  }
  constexpr void append(std::int64_t e, std::int64_t in_a, std::int64_t in_b, std::int64_t in_c) {
    if (e == 1) return;
    extent[rank] = e;
    stride[0][rank] = in_a;
    stride[1][rank] = in_b;
    stride[2][rank] = in_c;
    ++rank;
  }
  /// The one stride of the group seen as a single dim of an array, or -1; 0 for a group of one element.
  constexpr std::int64_t single(int array) const {
    if (rank == 0) return 0;
    const std::int64_t* const s = stride[array];
    for (int i = 0; i + 1 < rank; ++i)
      if (s[i] != s[i + 1] * extent[i + 1]) return -1;
    return s[rank - 1];
  }
};

/// How a product is computed.
struct product_form {
  /// One array of the call of the library: a, b or c.
  struct operand {
    bool packed = false, transposed = false;
    std::int64_t leading = 1, elements = 0;
  };
  operand array[3];
  /// Many small products, which one kernel computes instead.
  bool small = false;
  /// The product is computed as its transpose, because the result is stored transposed.
  bool swapped = false;

  /// Which array of the product is one of the call: the left operand, the right one, the result.
  constexpr int stored(int x) const { return swapped && x < 2 ? 1 - x : x; }
  constexpr std::int64_t packed_bytes(std::int64_t element_bytes) const {
    std::int64_t n = 0;
    for (const operand& o : array) n += o.packed ? aligned(o.elements * element_bytes) : 0;
    return n;
  }
};

/// Multiplications of a product up to which the kernel for many small products is faster than calls of a library.
inline constexpr std::int64_t most_small_multiplications = 1024;
/// Fewer products than this are left to the library.
inline constexpr std::int64_t least_small_products = 8;

namespace detail {

/// Whether an array is a matrix for the library: rows over `rows`, columns over `columns`, one of them with stride 1.
[[gnu::cold]] constexpr bool matrix_of(const gemm_group& rows, const gemm_group& columns, int array, bool may_transpose,
                                       product_form::operand& o) {
  const std::int64_t r = rows.single(array), c = columns.single(array);
  if (r < 0 || c < 0) return false;
  // Of a single column, any stride between the rows will do.
  const auto fits = [&](std::int64_t next, std::int64_t other, std::int64_t length, bool transposed) {
    if (next != 0 && next != 1) return false;
    const std::int64_t apart = other == 0 ? length : other;
    if (apart < (next == 1 ? length : 1)) return false;
    o.transposed = transposed;
    o.leading = apart < 1 ? 1 : apart;
    return true;
  };
  return fits(c, r, columns.size(), false) || (may_transpose && fits(r, c, rows.size(), true));
}

/// Whether the kernel for small products takes them: they are many, each takes few multiplications, and none of their
/// dims is scattered in memory.
[[gnu::cold]] constexpr bool are_small_products(const gemm_group& batch, const gemm_group& m, const gemm_group& n,
                                                const gemm_group& k) {
  const std::int64_t multiplications = m.size() * n.size() * k.size();
  return batch.size() >= least_small_products && multiplications != 0 &&
         multiplications <= most_small_multiplications && m.single(0) >= 0 && k.single(0) >= 0 && k.single(1) >= 0 &&
         n.single(1) >= 0 && m.single(2) >= 0 && n.single(2) >= 0;
}

} // namespace detail

/// The dims of a product on a device, with the strides of its arrays.
struct product_groups {
  gemm_group batch{}, m{}, n{}, k{};
};
/// The arrays are the left operand, the right one and the result.
[[gnu::cold]] constexpr product_groups groups_of_product(const step& s, const buffer* const (&of)[3],
                                                         const addressing (&at)[3]) {
  const auto group = [&](const tensor_type& dims) {
    gemm_group g;
    for (int i = 0; i < dims.rank; ++i) {
      std::int64_t n = 1, along[3] = {};
      for (int x = 0; x < 3; ++x) {
        const int position = of[x]->type.find(dims[i]);
        if (position < 0) continue;
        n = at[x].extents[position];
        along[x] = at[x].stride[as_size(position)];
      }
      g.append(n, along[0], along[1], along[2]);
    }
    return g;
  };
  const gemm_dims dims = as_gemm(s);
  return {group(dims.batch), group(dims.m), group(dims.n), group(dims.k)};
}

/// Decides how a product is computed. `packs_vectors`: the library takes a single column for a contiguous vector,
/// whatever its stride.
[[gnu::cold]] constexpr product_form form_of_product(product_groups g, bool packs_vectors) {
  auto& [batch, m, n, k] = g;
  product_form f;
  f.small = detail::are_small_products(batch, m, n, k);
  if (f.small) return f;
  auto& [a, b, c] = f.array;
  if (!detail::matrix_of(m, n, 2, false, c)) {
    f.swapped = detail::matrix_of(n, m, 2, false, c);
    if (f.swapped) std::swap(m, n);
    else c.packed = true;
  }
  a.packed = !detail::matrix_of(m, k, f.stored(0), true, a);
  b.packed = !detail::matrix_of(k, n, f.stored(1), true, b);
  if (packs_vectors && n.size() == 1 && !a.transposed && !b.transposed) {
    b.packed = b.packed || b.leading != 1;
    c.packed = c.packed || c.leading != 1;
  }
  a.elements = batch.size() * m.size() * k.size();
  b.elements = batch.size() * k.size() * n.size();
  c.elements = batch.size() * m.size() * n.size();
  return f;
}

/// Bytes that a product packs whose two operands and result have these buffers and strides. If Kokkos Kernels is called
/// instead of a BLAS, it also packs columns with strides.
[[gnu::cold]] constexpr std::int64_t scratch_of_product(const step& s, const buffer* const (&of)[3],
                                                        const addressing (&address)[3]) {
  const element stored = of[2]->type.element, wide = accumulator_of(stored);
  std::int64_t bytes = form_of_product(groups_of_product(s, of, address), false).packed_bytes(size_of(wide));
  // 16-bit numbers are multiplied as float.
  for (const addressing& x : address) bytes += wide == stored ? 0 : aligned(x.extents.elements() * size_of(wide));
  return bytes;
}
/// The same of a product of a program on a device.
template <class Buffers, class Maps>
[[gnu::cold]] constexpr std::int64_t scratch_of_product(const step& s, const Buffers& buffers, const Maps& maps,
                                                        const sizes& at, const coordinates& here) {
  const buffer* const of[3] = {&buffers[s.in[0]], &buffers[s.in[1]], &buffers[s.out]};
  addressing address[3];
  for (int x = 0; x < 3; ++x) address[x] = addressing_of(*of[x], buffers, maps, at, here);
  return scratch_of_product(s, of, address);
}

}} // namespace cleave::v0
