// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/grid_state.hpp>
#include <cleave/comm/staging.hpp>
#include <cleave/layout/box.hpp>
#include <cleave/program/step.hpp>
#include <cleave/storage/box.hpp>
#include <cleave/storage/element_type.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/storage/rows.hpp>

#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

// Rows of a divided table: who has the row at a place, and where. Places are data, so routes are found when the step runs.

namespace cleave::comm {

/// The two tensors that share rows and the places, on one device: the table (or what rows are added to), and the rows by place.
struct row_tensors {
  tensor_type table{}, rows{}, places{};
  layout table_where{}, rows_where{}, places_where{};
  dim_id along = no_dim;
  sizes at{};

  box shard(const tensor_type& t, const layout& l, const coordinates& c) const { return box_of(shape_of(t, at), l, c, at.axes); }
  axis_list divided() const { return table_where[table.find(along)]; }
  std::int64_t extent() const { return at[along]; }
  std::int64_t block() const { return block_extent(extent(), at.axes.product(divided())); }

  /// Over the places of a device: their strides among the places, in the rows, and, for dims that the table has too, in the table.
  strided_dims over_places(const coordinates& c) const {
    const shape p = shard(places, places_where, c).extents(), r = shard(rows, rows_where, c).extents(), t = shard(table, table_where, c).extents();
    const auto ps = strides_of(p), rs = strides_of(r), ts = strides_of(t);
    strided_dims d;
    for (int i = 0; i < places.rank; ++i) {
      const int in_table = table.find(places[i]);
      d.add(p[i], ps[static_cast<std::size_t>(i)], rs[static_cast<std::size_t>(rows.find(places[i]))], in_table < 0 ? 0 : ts[static_cast<std::size_t>(in_table)]);
    }
    return d;
  }
  /// Over the elements of one row: strides in the rows and in the table of a device.
  strided_dims over_row(const coordinates& c) const {
    const shape r = shard(rows, rows_where, c).extents(), t = shard(table, table_where, c).extents();
    const auto rs = strides_of(r), ts = strides_of(t);
    strided_dims d;
    for (int i = 0; i < rows.rank; ++i)
      if (!places.has(rows[i])) d.add(r[i], rs[static_cast<std::size_t>(i)], ts[static_cast<std::size_t>(table.find(rows[i]))]);
    return d;
  }
  std::int64_t stride_along(const coordinates& c) const {
    return strides_of(shard(table, table_where, c).extents())[static_cast<std::size_t>(table.find(along))];
  }
};

/// Places as the host sees them.
inline std::vector<std::int64_t> places_on_host(const void* data, std::int64_t n, element e) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(n), -1);
  if (n == 0) return places;
  std::vector<char> bytes(static_cast<std::size_t>(n * size_of(e)));
  wait_for_kernels();
  copy_bytes<Kokkos::HostSpace, memory_space>(bytes.data(), data, n * size_of(e));
  with_element(e, [&](auto zero) {
    using T = decltype(zero);
    // Braces, since nvcc loses the end of a lambda whose discarded branch is a bare loop.
    if constexpr (std::is_integral_v<T>) {
      for (std::size_t i = 0; i < places.size(); ++i) {
        T value{};
        std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
        // Unsigned numbers beyond what a table can have are in no table.
        places[i] = static_cast<std::int64_t>(value);
      }
    }
  });
  return places;
}

/// Numbers from the host where kernels can read them, in memory that is kept.
class device_numbers {
 public:
  const std::int64_t* put(const std::vector<std::int64_t>& numbers) {
    if constexpr (on_host) {
      return numbers.data();
    } else {
      const auto bytes = static_cast<std::int64_t>(numbers.size() * sizeof(std::int64_t));
      if (bytes > bytes_) memory_ = allocate(bytes), bytes_ = bytes;
      copy_bytes<memory_space, Kokkos::HostSpace>(memory_.get(), numbers.data(), bytes);
      return static_cast<const std::int64_t*>(memory_.get());
    }
  }

 private:
  std::shared_ptr<void> memory_{};
  std::int64_t bytes_ = 0;
};

/// A step that finds out when it runs what goes where, bound to a grid: look-ups, sorting. Behind this, since only programs that have such
/// a step need the code.
class data_routed {
 public:
  virtual ~data_routed() = default;
  virtual void run(const void* const* in, void* out) = 0;
};

/// Variable all-to-all of elements, by peer in the order of a group.
class row_exchange {
 public:
  /// How many elements go to each peer; the peers tell each other.
  std::vector<std::int64_t> counts_from(const std::vector<std::int64_t>& to, const group& g) const {
    std::vector<std::int64_t> from(to.size(), 0);
    check(CLEAVE_MPI_CALL(MPI_Alltoall)(to.data(), 1, MPI_INT64_T, from.data(), 1, MPI_INT64_T, g.handle), "MPI_Alltoall");
    return from;
  }
  /// The elements of each on the host of all, in the order of the group.
  void gather(const void* mine, void* out, const std::vector<std::int64_t>& from, element e, const group& g) {
    block_counts blocks;
    for (std::int64_t n : from) blocks.append(n);
    const auto rank = static_cast<std::size_t>(g.rank);
    const MPI_Datatype type = datatype_of(e);
    if (blocks.total() <= count_limit()) {
      const call_counts counts(blocks);
      check(CLEAVE_MPI_CALL(MPI_Allgatherv)(mine, counts.count[rank], type, out, counts.count.data(), counts.offset.data(), type, g.handle), "MPI_Allgatherv");
      return;
    }
    for (std::size_t r = 0; r < from.size(); ++r)
      if (r != rank) messages_.receive(element_at(out, blocks.offset[r], e), from[r], e, static_cast<int>(r), g.handle);
    for (std::size_t r = 0; r < from.size(); ++r)
      if (r != rank) messages_.send(mine, from[rank], e, static_cast<int>(r), g.handle);
    std::memcpy(element_at(out, blocks.offset[rank], e), mine, static_cast<std::size_t>(from[rank] * size_of(e)));
    messages_.wait();
  }
  template <class Space = memory_space>
  void run(const void* in, const std::vector<std::int64_t>& to, void* out, const std::vector<std::int64_t>& from, std::int64_t each, element e, const group& g) {
    if (std::is_same_v<Space, memory_space> && staged()) {
      std::vector<char> sending(bytes_of(to, each, e)), receiving(bytes_of(from, each, e));
      copy_bytes<Kokkos::HostSpace, memory_space>(sending.data(), in, static_cast<std::int64_t>(sending.size()));
      through<Kokkos::HostSpace>(sending.data(), to, receiving.data(), from, each, e, g);
      copy_bytes<memory_space, Kokkos::HostSpace>(out, receiving.data(), static_cast<std::int64_t>(receiving.size()));
    } else {
      through<Space>(in, to, out, from, each, e, g);
    }
  }

 private:
  static std::size_t bytes_of(const std::vector<std::int64_t>& counts, std::int64_t each, element e) {
    std::int64_t n = 0;
    for (std::int64_t c : counts) n += c;
    return static_cast<std::size_t>(n * each * size_of(e));
  }
  template <class Space>
  void through(const void* in, const std::vector<std::int64_t>& to, void* out, const std::vector<std::int64_t>& from, std::int64_t each, element e, const group& g) {
    std::int64_t sent = 0, received = 0, requests = 0;
    for (std::size_t r = 0; r < to.size(); ++r) requests += messages::pieces(to[r] * each) + messages::pieces(from[r] * each);
    messages_.reserve(requests);
    for (std::size_t r = 0; r < from.size(); ++r) {
      if (from[r] != 0 && static_cast<int>(r) != g.rank) messages_.receive(element_at(out, received * each, e), from[r] * each, e, static_cast<int>(r), g.handle);
      received += from[r];
    }
    received = 0;
    for (std::size_t r = 0; r < to.size(); ++r) {
      if (static_cast<int>(r) == g.rank) {
        std::int64_t into = 0;
        for (std::size_t before = 0; before < r; ++before) into += from[before];
        copy_bytes<Space, Space>(element_at(out, into * each, e), element_at(in, sent * each, e), to[r] * each * size_of(e));
      } else if (to[r] != 0) {
        messages_.send(element_at(in, sent * each, e), to[r] * each, e, static_cast<int>(r), g.handle);
      }
      sent += to[r];
    }
    messages_.wait();
  }

  messages messages_{};
};

} // namespace cleave::comm
