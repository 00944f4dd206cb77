// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/sparse/matrix.hpp>

#if !__has_include(<KokkosSparse_spmv.hpp>)
#error \
    "cleave/sparse/kokkos_sparse.hpp: this Kokkos Kernels has no sparse part. Configure with CLEAVE_KOKKOS_SPARSE=ON."
#endif
#include <KokkosSparse_CrsMatrix.hpp>
#include <KokkosSparse_spmv.hpp>

namespace cleave { inline namespace v0 { namespace sparse {

namespace detail {

/// Where the entries of each row begin, and where those of the last one end, from where each row's end.
struct begins_of_ends {
  const std::int64_t* ends;
  std::int64_t* begins;
  CLEAVE_FUNCTION void operator()(std::int64_t i) const { begins[i] = i == 0 ? 0 : ends[i - 1]; }
};
/// Own and arrived elements in one array.
template <class T>
struct join_elements {
  vectors<const T> own;
  const T* others;
  vectors<T> to;
  CLEAVE_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t e = i / own.count, v = i % own.count;
    to.at(e, v) = e < own.extent ? own.at(e, v) : others[(e - own.extent) * own.count + v];
  }
};

/// The rows of a device by KokkosSparse::spmv, for one vector or several. Operands as those of `rows_kernel`.
template <class T, class Rows, class Columns>
struct kokkos_rows_kernel {
  static constexpr std::string_view name = "kokkos_rows";

  /// Where rows begin, and the elements of all vectors. A device has one row of the halo, however many devices are
  /// assumed.
  static constexpr std::int64_t workspace(std::span<const shape> local) {
    shape halo = local[4];
    halo[0] = 1;
    return (local[0][0] + 1) * std::int64_t{sizeof(std::int64_t)} +
           (local[3].elements() + halo.elements()) * std::int64_t{sizeof(T)};
  }
  void operator()(const local_context& here, std::span<const shard> in, const shard& out) const {
    const vectors<const T> own = vectors_of<const T>(in[3], Columns::ref);
    const vectors<T> result = vectors_of<T>(out, Rows::ref);
    if (own.count == 0 || result.extent == 0) return;
    const auto scratch = here.workspace<std::int64_t>();
    auto* const begins = scratch.data();
    const auto* const ends = row_of<const std::int64_t>(in[0]);
    launch("sparse_begins", result.extent + 1, begins_of_ends{ends, begins});

    const std::int64_t arrived = in[4].local.elements() / own.count;
    vectors<const T> all = own;
    if (arrived > 0) {
      const vectors<T> joined{as<T>(begins + result.extent + 1), own.extent + arrived, own.inner, own.count};
      launch("sparse_join", joined.extent * joined.count, join_elements<T>{own, row_of<const T>(in[4]), joined});
      all = {joined.data, joined.extent, joined.inner, joined.count};
    }
    std::int64_t entries = 0;
    wait_for_kernels();
    copy_bytes<Kokkos::HostSpace, memory_space>(&entries, ends + result.extent - 1, std::int64_t{sizeof entries});
    const crs rows(std::string(), as_int(result.extent), as_int(all.extent), entries,
                   line<const T>(row_of<const T>(in[2]), as_size(entries)),
                   line<const std::int64_t>(begins, as_size(result.extent) + 1),
                   line<const std::int32_t>(row_of<const std::int32_t>(in[1]), as_size(entries)));
    for (std::int64_t outer = 0; outer < own.count / own.inner; ++outer)
      multiply(rows, all.data + outer * all.extent * all.inner, result.data + outer * result.extent * result.inner,
               as_size(own.inner));
  }

 private:
  using device = Kokkos::Device<execution_space, memory_space>;
  using unmanaged = Kokkos::MemoryTraits<Kokkos::Unmanaged>;
  using crs = KokkosSparse::CrsMatrix<const T, const std::int32_t, device, unmanaged, const std::int64_t>;
  template <class E>
  using line = Kokkos::View<E*, typename crs::values_type::array_layout, device, unmanaged>;
  template <class E>
  using several = Kokkos::View<E**, Kokkos::LayoutRight, device, unmanaged>;

  static void multiply(const crs& rows, const T* from, T* to, std::size_t count) {
    const auto m = as_size(rows.numRows()), n = as_size(rows.numCols());
    if (count == 1)
      KokkosSparse::spmv(execution_instance(), "N", T(1), rows, line<const T>(from, n), T(0), line<T>(to, m));
    else
      KokkosSparse::spmv(execution_instance(), "N", T(1), rows, several<const T>(from, n, count), T(0),
                         several<T>(to, m, count));
  }
};

} // namespace detail

/// The rows of a matrix are multiplied by KokkosSparse::spmv, and by a library of the vendor where Kokkos Kernels was
/// built with one: `csr<double, mesh(row / ranks), col, kokkos_sparse>`. The order of the sums is theirs, so
/// the last bits of a product may depend on the number of devices. Own and arrived elements are copied to one array
/// before, and where rows begin is written. The plan counts the memory for both. KokkosSparse may allocate in each
/// call.
struct kokkos_sparse {
  template <class T, class Rows, class Columns>
  using kernel = detail::kokkos_rows_kernel<T, Rows, Columns>;
};

}}} // namespace cleave::v0::sparse
