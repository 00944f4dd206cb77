// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/interop/errors.hpp>
#include <cleave/layout/box.hpp>
#include <cleave/tensor/tensor.hpp>

#include <array>
#include <cstdint>
#include <string_view>

// For all wrappers of other libraries' data: if one rank finds a fault of its part, all ranks throw it.

namespace cleave { inline namespace v0 { namespace interop { namespace detail {

/// The fault that a rank finds, in numbers: the first one is its kind, 0 if there is none. The last one is for the
/// rank.
using finding = std::array<std::int64_t, 6>;

/// The finding of the lowest rank that has one, on all ranks. `any` becomes true on all ranks where it is on one.
/// Collective over the communicator of the grid: one all-reduce of two numbers.
[[gnu::cold]] inline finding agreed(const grid& g, const finding& mine, bool& any) {
  grid_state& on = g.state();
  const comm::group& all = on.everyone();
  const std::int64_t told[2] = {mine[0] == 0 ? -all.size : -all.rank, any ? 1 : 0};
  std::int64_t most[2] = {};
  finding first = mine;
  on.guarded([&] {
    comm::check(MPI_Allreduce(told, most, 2, MPI_INT64_T, MPI_MAX, all.handle), "MPI_Allreduce");
    if (const int who = static_cast<int>(-most[0]); who < all.size) {
      comm::check(MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_INT64_T, who, all.handle), "MPI_Bcast");
      first.back() = who;
    }
  });
  any = most[1] != 0;
  return first;
}

/// Throws grid_error on all ranks if a communicator does not have the ranks of the grid's, in their order.
inline void require_ranks(const grid& g, MPI_Comm comm, std::string_view what) {
  int related = MPI_UNEQUAL;
  g.state().guarded(
      [&] { comm::check(MPI_Comm_compare(g.state().everyone().handle, comm, &related), "MPI_Comm_compare"); });
  bool any = related != MPI_CONGRUENT && related != MPI_IDENT;
  agreed(g, {}, any);
  if (any) raise<grid_error>(wording::foreign_ranks(what));
}

/// Memory of a shard: what `tensor` takes as a span.
template <class T, int Rank>
struct shard_span {
  using element_type = T;
  T* at = nullptr;
  std::array<std::int64_t, std::size_t{Rank}> extents{};
  std::array<std::int64_t, std::size_t{Rank}> strides{};

  static constexpr std::size_t rank() { return std::size_t{Rank}; }
  T* data_handle() const { return at; }
  std::int64_t extent(std::size_t i) const { return extents[i]; }
  std::int64_t stride(std::size_t i) const { return strides[i]; }
  /// The elements lie in the order of the dims, the last one fastest.
  void set_contiguous() {
    std::int64_t next = 1;
    for (std::size_t i = extents.size(); i-- > 0; next *= extents[i]) strides[i] = next;
  }
};

/// The indices that each rank has of an array of another library, as this rank knows them.
template <int Rank>
struct part {
  std::array<std::int64_t, std::size_t{Rank}> global{}, begin{}, extents{};
};
/// Throws shape_error on all ranks if a rank has other indices of the array than of a tensor with the same extents.
template <class Tensor>
void require_shards(const grid& g, const part<Tensor::rank>& mine, std::string_view what) {
  shape global;
  global.rank = Tensor::rank;
  for (int i = 0; i < Tensor::rank; ++i) {
    global[i] = mine.global[as_size(i)];
    global.given[i] = g.state().blocks_of(Tensor::sharding_type::value.dims[i].dim, global[i]);
  }
  box held;
  held.rank = Tensor::rank;
  if (g.state().active()) held = box_of(global, Tensor::where, g.here(), g.sizes());
  finding wrong{};
  for (int i = 0; i < Tensor::rank && wrong[0] == 0; ++i) {
    const std::int64_t begin = mine.begin[as_size(i)], end = begin + mine.extents[as_size(i)];
    const bool same = held[i].size() == end - begin && (held[i].begin == begin || held[i].size() == 0);
    if (!same) wrong = {i + 1, held[i].begin, held[i].end, begin, end};
  }
  bool any = false;
  wrong = agreed(g, wrong, any);
  if (wrong[0] == 0) return;
  const std::string_view dim = Tensor::sharding_type::value.dims[wrong[0] - 1].dim.name;
  raise<shape_error>(wording::foreign_block(what, wrong[5], dim, wrong[1], wrong[2], wrong[3], wrong[4]));
}

}}}} // namespace cleave::v0::interop::detail
