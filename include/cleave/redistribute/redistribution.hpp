// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/comm/messages.hpp>
#include <cleave/comm/move.hpp>
#include <cleave/comm/mpi.hpp>
#include <cleave/redistribute/distribution.hpp>
#include <cleave/tensor/storage.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

// The messages from one distribution of an array to another one, and the sums that are read of a partial tensor.

namespace cleave { inline namespace v0 { namespace detail {

using comm::distribution;

/// The shards of a tensor. A partial tensor is written on the devices with coordinate 0 only.
inline distribution shards_of(const tensor_state& t, bool written) {
  return comm::shards_of(comm::devices_of(t.grid.state()), t.global, t.where, written);
}
/// From one distribution to another one, on the host. Of equal parts, the ranks that have them take turns in sending.
class redistribution {
 public:
  redistribution(const comm::group& ranks, const distribution& from, const distribution& to)
      : ranks_(ranks), from_(from), to_(to), turns_(from) {
    ranks_.link = nullptr; // host memory, through MPI
  }

  /// The elements that this rank sends, receives and keeps, with memory for them.
  template <class T>
  struct parts;
  /// No communication. Throws std::bad_alloc on this rank alone.
  template <class T>
  void make(parts<T>& all) const {
    const int here = ranks_.rank;
    for (int r = 0; r < ranks_.size; ++r) {
      if (sender(here, r)) (r == here ? all.own : all.sent).emplace_back(r, pieces(here, r), count(pieces(here, r)));
      if (r != here && sender(r, here)) all.received.emplace_back(r, pieces(r, here), count(pieces(r, here)));
    }
    std::int64_t requests = 0;
    for (const auto* side : {&all.sent, &all.received})
      for (const message<T>& m : *side) requests += comm::messages::requests_for(m.count);
    all.under_way.reserve(requests);
  }
  /// The strides are those of the local arrays. Collective over the ranks.
  template <class T>
  void run(parts<T>& all, const T* in, const strides& in_strides, T* out, const strides& out_strides) const {
    for (message<T>& m : all.received) all.under_way.receive(m.elements.get(), m.count, element_of<T>, m.rank, ranks_);
    for (message<T>& m : all.sent) {
      pack(m, in, in_strides);
      all.under_way.send(m.elements.get(), m.count, element_of<T>, m.rank, ranks_);
    }
    for (message<T>& m : all.own) {
      pack(m, in, in_strides);
      unpack(m, out, out_strides);
    }
    all.under_way.wait();
    for (const message<T>& m : all.received) unpack(m, out, out_strides);
  }

 private:
  /// Indices that both sides have: where they begin in both local arrays.
  struct piece {
    std::int64_t from, to, count;
  };
  using piece_lists = std::array<std::vector<piece>, std::size_t{max_rank}>;
  template <class T>
  struct message {
    int rank;
    piece_lists all;
    std::int64_t count;
    std::unique_ptr<T[]> elements;
    message(int r, const piece_lists& p, std::int64_t n)
        : rank(r), all(p), count(n), elements(std::make_unique<T[]>(as_size(n))) {}
  };

  /// Whether one rank sends, or keeps, its part of the elements of another one.
  bool sender(int source, int target) const {
    return turns_.sends(source, target) && to_.has_part(target) && count(pieces(source, target)) > 0;
  }
  piece_lists pieces(int source, int target) const {
    piece_lists all;
    for (int d = 0; d < from_.rank; ++d) {
      const std::vector<range>&a = from_.along(d, source), &b = to_.along(d, target);
      std::int64_t at_a = 0, at_b = 0;
      for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        const range both = intersect(a[i], b[j]);
        if (both.size() > 0)
          all[as_size(d)].push_back({at_a + both.begin - a[i].begin, at_b + both.begin - b[j].begin, both.size()});
        if (a[i].end <= b[j].end) at_a += a[i++].size();
        else at_b += b[j++].size();
      }
    }
    return all;
  }
  std::int64_t count(const piece_lists& all) const {
    std::int64_t n = 1;
    for (int d = 0; d < from_.rank; ++d) {
      std::int64_t along = 0;
      for (const piece& p : all[as_size(d)]) along += p.count;
      n *= along;
    }
    return n;
  }
  /// Calls f(place in the local array) for all elements of the pieces, in the order of their indices.
  template <class F>
  void for_each_place(const piece_lists& all, std::int64_t piece::* begin, const strides& stride, int d,
                      std::int64_t offset, const F& f) const {
    if (d == from_.rank) return f(offset);
    for (const piece& p : all[as_size(d)])
      for (std::int64_t i = p.*begin; i < p.*begin + p.count; ++i)
        for_each_place(all, begin, stride, d + 1, offset + i * stride[d], f);
  }
  template <class T>
  void pack(message<T>& m, const T* in, const strides& stride) const {
    T* next = m.elements.get();
    for_each_place(m.all, &piece::from, stride, 0, 0, [&](std::int64_t at) { *next++ = in[at]; });
  }
  template <class T>
  void unpack(const message<T>& m, T* out, const strides& stride) const {
    const T* next = m.elements.get();
    for_each_place(m.all, &piece::to, stride, 0, 0, [&](std::int64_t at) { out[at] = *next++; });
  }

  comm::group ranks_;
  const distribution &from_, &to_;
  comm::sending_turns turns_;
};

template <class T>
struct redistribution::parts {
  std::vector<message<T>> sent{}, received{}, own{};
  comm::messages under_way{};
};

/// A shard of a partial tensor after it was reduced.
[[gnu::cold]] inline std::shared_ptr<void> reduced_shard(const tensor_state& t, const void* in) {
  grid_state& on = t.grid.state();
  std::shared_ptr<void> memory, staging, out;
  on.guarded([&] {
    const owned<comm::bound_exchange> reduce = comm::make_move<kind::all_reduce>(
        on, {t.element, t.global, t.where, t.where.reduced(), t.where.unreduced(), t.where.combine()});
    const comm::scratch_bytes needs = reduce->needs();
    comm::allocate_on_all(on.world().handle, [&] {
      memory = allocate(needs.memory);
      staging = allocate<Kokkos::HostSpace>(needs.host);
      out = allocate(t.bytes());
    });
    reduce->run_one(in, out.get(), {as<char>(memory.get()), as<char>(staging.get())});
  });
  return out;
}

}}} // namespace cleave::v0::detail
