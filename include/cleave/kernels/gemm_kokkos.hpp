// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/kernels/vector_products.hpp>
#include <cleave/storage/blas.hpp>
#include <cleave/storage/memory.hpp>

#include <KokkosBlas3_gemm.hpp>

#include <utility>

// Products through Kokkos Kernels: for device memory, and if it was built without a BLAS. Compiling its gemm takes
// seconds.

namespace cleave { inline namespace v0 {

namespace detail {

template <class T>
using matrix_view = Kokkos::View<T**, Kokkos::LayoutRight, memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

/// Rows of `columns` elements, `leading` apart. The View ends with a padding that is never touched.
template <class T>
auto view_of(T* at, std::int64_t rows, std::int64_t columns, std::int64_t leading) {
  const matrix_view<T> padded(at, as_size(rows), as_size(leading));
  return Kokkos::subview(padded, Kokkos::ALL, std::pair<std::size_t, std::size_t>(0, as_size(columns)));
}

} // namespace detail

/// c[m, n] = alpha * a[m, k] * b[k, n] + beta * c[m, n], none of the extents 0. Of a single column b and c must be
/// contiguous.
template <class T>
void kokkos_gemm(std::int64_t m, std::int64_t n, std::int64_t k, const matrix_ref& a, const matrix_ref& b, T* c,
                 std::int64_t leading, const T& alpha = T(1), const T& beta = T(0)) {
  const auto left = detail::view_of(as<T>(a.at), a.transposed ? k : m, a.transposed ? m : k, a.leading);
  const auto right = detail::view_of(as<T>(b.at), b.transposed ? n : k, b.transposed ? k : n, b.leading);
  const auto result = detail::view_of(c, m, n, leading);
  const auto alone = lock_device_blas();
  KokkosBlas::gemm(execution_instance(), a.transposed ? "T" : "N", b.transposed ? "T" : "N", alpha, left, right, beta,
                   result);
}

}} // namespace cleave::v0
