// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/expr/values.hpp>
#include <cleave/layout/sharding.hpp>
#include <cleave/shards.hpp>
#include <cleave/sparse/errors.hpp>

// The steps of a product with a sparse matrix on the shards of each device: pack the elements that others read,
// exchange them, and multiply the rows. Their memory is planned as that of any value.

namespace cleave { inline namespace v0 { namespace sparse { namespace detail {

/// A vector, or several, as the kernels see it: [outer, along the dim, inner]; outer times inner is the number of
/// vectors.
template <class T>
struct vectors {
  T* data;
  std::int64_t extent, inner, count;

  CLEAVE_FUNCTION T& at(std::int64_t element, std::int64_t vector) const {
    return data[(vector / inner * extent + element) * inner + vector % inner];
  }
};
template <class T>
vectors<T> vectors_of(const shard& s, dim_ref along) {
  const int position = s.dims.find(along);
  vectors<T> v{as<T>(s.data), s.local[position], 1, 1};
  for (int i = 0; i < s.local.rank; ++i) {
    if (i > position) v.inner *= s.local[i];
    if (i != position) v.count *= s.local[i];
  }
  return v;
}
/// The row of a tensor that a device has of it.
template <class T>
T* row_of(const shard& s) {
  return as<T>(s.data);
}
/// Numbers that steer messages, on the host.
inline indexed_vector<std::int64_t> counts_of(const shard& s) {
  indexed_vector<std::int64_t> all;
  all.resize(as_size(s.local.elements()));
  wait_for_kernels();
  copy_bytes<Kokkos::HostSpace, memory_space>(all.data(), s.data, s.local.elements() * 8);
  return all;
}

template <class T>
struct gather_elements {
  const std::int32_t* list;
  vectors<const T> from;
  T* to;
  CLEAVE_FUNCTION void operator()(std::int64_t e) const { to[e] = from.at(list[e / from.count], e % from.count); }
};
/// The elements of a vector that other devices read, in the order in which they are sent. Operands: their places, how
/// many go to each device and how many columns there are, and the vector.
template <class T, class Columns>
struct pack_kernel {
  static constexpr std::string_view name = "sparse_pack";
  void operator()(const local_context&, std::span<const shard> in, const shard& out) const {
    const indexed_vector<std::int64_t> counts = counts_of(in[1]);
    const std::int64_t extent = in[2].global[in[2].dims.find(Columns::ref)];
    if (counts.back() != extent) raise<shape_error>(wording::columns_differ(counts.back(), extent, Columns::ref.name));
    std::int64_t sent = 0;
    for (std::size_t i = 0; i + 1 < counts.size(); ++i) sent += counts[i];
    const vectors<const T> x = vectors_of<const T>(in[2], Columns::ref);
    launch(name.data(), sent * x.count, gather_elements<T>{row_of<const std::int32_t>(in[0]), x, row_of<T>(out)});
  }
};

/// The elements that the own rows read and other devices have. Operands: how many go to each device, how many come from
/// each, their global columns, which are not read, and the packed elements.
template <class T, class Axis>
struct exchange_kernel {
  static constexpr std::string_view name = "sparse_exchange";
  void operator()(const local_context& here, std::span<const shard> in, const shard& out) const {
    indexed_vector<std::int64_t> sent = counts_of(in[0]), received = counts_of(in[1]);
    sent.pop_back();
    std::int64_t vectors = 1;
    for (int i = 2; i < out.local.rank; ++i) vectors *= out.local[i];
    for (std::int64_t& n : sent) n *= vectors;
    for (std::int64_t& n : received) n *= vectors;
    using view = Kokkos::View<T*, Kokkos::LayoutRight, memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    here.all_to_all(view(row_of<T>(in[3]), as_size(in[3].local.elements())), sent,
                    view(row_of<T>(out), as_size(out.local.elements())), received, Axis{});
  }
  /// The elements that arrive at the busiest device: the distinct columns of others that its rows read. A device has
  /// one row of the halo, however many devices are assumed.
  static std::int64_t bytes(std::span<const shape> shards, const axis_sizes&) {
    shape halo = shards.back();
    halo[0] = 1;
    return halo.elements() * std::int64_t{sizeof(T)};
  }
};

/// Whether a row reads own elements alone. Its entries are in the order of their columns in the whole matrix, of which
/// the own ones are a range, so that its ends tell.
CLEAVE_FUNCTION inline bool reads_own_elements(const std::int32_t* columns, std::int64_t begin, std::int64_t end,
                                               std::int64_t own) {
  return begin < end && columns[begin] < own && columns[end - 1] < own;
}
/// Brings values and columns to the caches before the rows that have them are computed. Rows are short, and processors
/// fetch too few of their lines ahead on their own: a product with 5 entries in each row takes 0.6 to
/// 0.7 of the time.
template <class T>
CLEAVE_FUNCTION void fetch_ahead([[maybe_unused]] const T* values, [[maybe_unused]] const std::int32_t* columns,
                                 [[maybe_unused]] std::int64_t begin, [[maybe_unused]] std::int64_t end) {
  KOKKOS_IF_ON_HOST((
      constexpr std::int64_t ahead = 256, line = 64 / std::int64_t{sizeof(T)};
      for (std::int64_t e = begin; e < end; e += line) {
        __builtin_prefetch(values + e + ahead);
        __builtin_prefetch(columns + e + ahead);
      }))
}
/// One row with all vectors, in the order of its columns in the whole matrix. Columns from the number of own elements
/// on are those of other devices.
template <class T>
struct multiply_rows {
  const std::int64_t* ends;
  const std::int32_t* columns;
  const T* values;
  vectors<const T> own;
  const T* others;
  vectors<T> result;

  CLEAVE_FUNCTION void operator()(std::int64_t row) const {
    const std::int64_t begin = row == 0 ? 0 : ends[row - 1], end = ends[row];
    fetch_ahead(values, columns, begin, end);
    for (std::int64_t v = 0; v < own.count; ++v) {
      T total = 0;
      for (std::int64_t e = begin; e < end; ++e) {
        const std::int64_t c = columns[e];
        total += values[e] * (c < own.extent ? own.at(c, v) : others[(c - own.extent) * own.count + v]);
      }
      result.at(row, v) = total;
    }
  }
};
/// The same for one vector.
template <class T>
struct multiply_vector {
  const std::int64_t* ends;
  const std::int32_t* columns;
  const T* values;
  const T* own;
  std::int64_t extent;
  const T* others;
  T* result;

  CLEAVE_FUNCTION void operator()(std::int64_t row) const {
    const std::int64_t begin = row == 0 ? 0 : ends[row - 1], end = ends[row];
    fetch_ahead(values, columns, begin, end);
    T total = 0;
    if (reads_own_elements(columns, begin, end, extent))
      for (std::int64_t e = begin; e < end; ++e) total += values[e] * own[columns[e]];
    else
      for (std::int64_t e = begin; e < end; ++e)
        total += values[e] * (columns[e] < extent ? own[columns[e]] : others[columns[e] - extent]);
    result[row] = total;
  }
};
/// The product of the rows of a device with its part of a vector and the elements that have arrived. Operands: where
/// the entries of each row end, their columns, their values, the vector, and the elements that have arrived.
template <class T, class Rows, class Columns>
struct rows_kernel {
  static constexpr std::string_view name = "sparse_rows";
  void operator()(const local_context&, std::span<const shard> in, const shard& out) const {
    const auto* ends = row_of<const std::int64_t>(in[0]);
    const auto* columns = row_of<const std::int32_t>(in[1]);
    const T *values = row_of<const T>(in[2]), *others = row_of<const T>(in[4]);
    const vectors<const T> own = vectors_of<const T>(in[3], Columns::ref);
    const vectors<T> result = vectors_of<T>(out, Rows::ref);
    if (own.count == 1)
      launch(name.data(), result.extent,
             multiply_vector<T>{ends, columns, values, own.data, own.extent, others, result.data});
    else launch(name.data(), result.extent, multiply_rows<T>{ends, columns, values, own, others, result});
  }
};

}}}} // namespace cleave::v0::sparse::detail
