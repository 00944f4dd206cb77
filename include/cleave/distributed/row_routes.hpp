// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/grid_state.hpp>
#include <cleave/comm/messages.hpp>
#include <cleave/comm/staging.hpp>
#include <cleave/layout/box.hpp>
#include <cleave/program/step.hpp>
#include <cleave/storage/box.hpp>
#include <cleave/storage/element_type.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/storage/rows.hpp>

#include <cstring>
#include <memory>
#include <numeric>
#include <type_traits>

// Rows of a sharded table: which device has the row at an index, and where. Indices are data, so routes are found when
// the step runs.

namespace cleave { inline namespace v0 { namespace comm {

/// The three tensors of a look-up on one device: the table (or what rows are added to), the rows, and the indices of
/// the rows in the table.
struct row_tensors {
  tensor_type table{}, rows{}, indices{};
  layout table_where{}, rows_where{}, indices_where{};
  dim_id along = no_dim;
  sizes at{};

  box shard(const tensor_type& t, const layout& l, const coordinates& c) const {
    return box_of(shape_of(t, at), l, c, at.axes);
  }
  box table_shard(const coordinates& c) const { return shard(table, table_where, c); }
  box rows_shard(const coordinates& c) const { return shard(rows, rows_where, c); }
  box indices_shard(const coordinates& c) const { return shard(indices, indices_where, c); }
  /// The elements of the largest shard of the table, on all devices alike.
  std::int64_t largest_table_shard() const {
    return largest_shape(shape_of(table, at), table_where, at.axes).elements();
  }
  /// The block of the table's dim that a device has.
  range block(const coordinates& c) const { return table_shard(c)[table.find(along)]; }
  std::int64_t stride_along(const coordinates& c) const {
    return strides_of(table_shard(c).extents())[table.find(along)];
  }

  /// Over the indices that a device has: their strides among the indices, in the rows, and, for dims that the table has
  /// too, in the table's shard of its owner.
  strided_dims over_indices(const coordinates& here, const coordinates& owner) const {
    const shape extents = indices_shard(here).extents();
    const strides in_indices = strides_of(extents), in_rows = strides_of(rows_shard(here).extents()),
                  in_table = strides_of(table_shard(owner).extents());
    strided_dims d;
    for (int i = 0; i < indices.rank; ++i) {
      const int of_table = table.find(indices[i]);
      d.add(extents[i], in_indices[i], in_rows[rows.find(indices[i])], of_table < 0 ? 0 : in_table[of_table]);
    }
    return d;
  }
  /// Over the elements of one row: strides in the rows of a device, and in the table's shard of its owner.
  strided_dims over_row(const coordinates& here, const coordinates& owner) const {
    const shape extents = rows_shard(here).extents();
    const strides in_rows = strides_of(extents), in_table = strides_of(table_shard(owner).extents());
    strided_dims d;
    for (int i = 0; i < rows.rank; ++i)
      if (!indices.has(rows[i])) d.add(extents[i], in_rows[i], in_table[table.find(rows[i])]);
    return d;
  }
};

/// Allocates the memory of a step when it runs. Collective over the grid in checked mode: all devices throw
/// memory_error where one of them has no memory. Else only that one throws, and the others wait for it.
template <class F>
void allocate_everywhere(grid_state& grid, std::int64_t bytes, F&& allocate) {
  if (!grid.checked().calls) return allocate();
  grid.agree_on_memory(finds_memory(allocate), bytes, "what travels between devices");
}

/// The sum of counts.
inline std::int64_t total_of(const indexed_vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

/// Numbers from the host where kernels can read them, in memory that is kept.
class device_numbers {
 public:
  const std::int64_t* put(const indexed_vector<std::int64_t>& numbers) {
    if constexpr (on_host) {
      return numbers.data();
    } else {
      std::int64_t* const copy = memory_.at_least(std::ssize(numbers));
      copy_bytes<memory_space, Kokkos::HostSpace>(copy, numbers.data(), bytes_of<std::int64_t>(std::ssize(numbers)));
      return copy;
    }
  }

 private:
  kept_memory<std::int64_t> memory_{};
};

/// A step whose messages depend on values, bound to a grid: look-ups, sorting. Behind this, since only
/// programs that have such a step need the code.
class data_routed {
 public:
  virtual ~data_routed() = default;
  virtual void run(const void* const* in, void* out) = 0;
};

/// Variable all-to-all of elements, by peer in the order of a group.
class row_exchange {
 public:
  /// How many elements come from each peer, given how many go to each; the peers tell each other.
  indexed_vector<std::int64_t> counts_from(const indexed_vector<std::int64_t>& to, const group& g) const {
    indexed_vector<std::int64_t> from(to.size(), 0);
    check(CLEAVE_MPI_CALL(MPI_Alltoall)(to.data(), 1, MPI_INT64_T, from.data(), 1, MPI_INT64_T, g.handle),
          "MPI_Alltoall");
    return from;
  }
  /// The elements of each on the host of all, in the order of the group.
  void gather(const void* mine, void* out, const indexed_vector<std::int64_t>& from, element e, const group& g) {
    const rank_blocks blocks(from);
    if (blocks.end() > count_limit()) {
      messages_.exchange(mine, rank_blocks::repeated(blocks.count(g.rank), g.size), out, blocks, e, g,
                         copy_in<Kokkos::HostSpace>);
      return;
    }
    const call_counts counts(blocks);
    const MPI_Datatype type = datatype_of(e);
    check(CLEAVE_MPI_CALL(MPI_Allgatherv)(mine, as_count(blocks.count(g.rank)), type, out, counts.count.data(),
                                          counts.offset.data(), type, g.handle),
          "MPI_Allgatherv");
  }
  /// Sends to[r] rows to peer r and receives from[r] rows from it, for all peers, in their order; a row has `each`
  /// elements.
  template <class Space = memory_space>
  void run(const void* in, const indexed_vector<std::int64_t>& to, void* out, const indexed_vector<std::int64_t>& from,
           std::int64_t each, element e, const group& g) {
    const rank_blocks sent(to, each), received(from, each);
    messages_.reserve(messages::requests_for(sent) + messages::requests_for(received));
    if (std::is_same_v<Space, memory_space> && staged()) {
      auto sending = indexed_vector<char>::filled(sent.end() * size_of(e)),
           receiving = indexed_vector<char>::filled(received.end() * size_of(e));
      copy_bytes<Kokkos::HostSpace, memory_space>(sending.data(), in, sent.end() * size_of(e));
      messages_.exchange(sending.data(), sent, receiving.data(), received, e, g, copy_in<Kokkos::HostSpace>);
      copy_bytes<memory_space, Kokkos::HostSpace>(out, receiving.data(), received.end() * size_of(e));
    } else {
      messages_.exchange(in, sent, out, received, e, g, copy_in<Space>);
    }
  }
  /// The same for numbers on the host, one a row.
  template <class X>
  indexed_vector<X> exchanged(const indexed_vector<X>& in, const indexed_vector<std::int64_t>& to,
                              const indexed_vector<std::int64_t>& from, const group& g) {
    auto out = indexed_vector<X>::filled(total_of(from));
    run<Kokkos::HostSpace>(in.data(), to, out.data(), from, 1, element_of<X>, g);
    return out;
  }

 private:
  template <class Space>
  static void copy_in(void* to, const void* from, std::int64_t bytes) {
    copy_bytes<Space, Space>(to, from, bytes);
  }

  messages messages_{};
};

}}} // namespace cleave::v0::comm
