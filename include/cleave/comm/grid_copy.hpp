// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/all_reduce.hpp>
#include <cleave/storage/fill.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace cleave::comm {

/// A tensor of one grid as it is to be on another one.
struct grid_transfer {
  cleave::element element = cleave::element::none;
  /// Dims are in the order of the target.
  shape global{};
  layout from{};
  layout to{};
  /// For each dim its position in the source.
  std::array<int, max_rank> position{};
};

/// From any layout on one grid to any layout on another, over one communicator: every device receives just what it lacks, each
/// part of a source shard from one of its owners, which take turns. Who sends what follows from sizes and layouts alone, so
/// nothing has to be agreed. A partial source is combined by its own devices first; of a partial target the devices with
/// coordinate 0 receive the value.
/// Communication: one message for each source shard that a device needs a part of; none for empty parts. Before it, of a
/// partial source, one all-reduce of its shard.
class grid_copy {
 public:
  /// Collective over the devices of `from`.
  grid_copy(grid_state& from, grid_state& to, const grid_transfer& t)
      : element_(t.element), world_(from.everyone()), port_(staged()), staged_(staged()), combine_(t.to.combine()) {
    const source_side source(from, t);
    const target_side target(to, t);
    if (from.active()) {
      const box have = source.held(from.here());
      in_bytes_ = have.elements() * size_of(element_);
      if (t.from.unreduced() != 0) combine_first(from, t);
      plan_sends(source, target, from.here(), have);
    }
    if (to.active()) {
      const box want = target.held(to.here());
      out_bytes_ = want.elements() * size_of(element_);
      receives_ = target.receives(to.here());
      if (receives_) plan_receives(source, target, to, want);
    }
    std::int64_t requests = 0;
    for (const auto* list : {&send_, &receive_})
      for (const message& m : *list) requests += messages::pieces(m.elements);
    messages_.reserve(requests);
    packed_ = allocate(aligned(sent_ * size_of(element_)) + aligned(received_ * size_of(element_)));
    if (staged_) host_ = allocate<Kokkos::HostSpace>(aligned(sent_ * size_of(element_)) + aligned(received_ * size_of(element_)));
  }

  /// Collective over all ranks of the communicator.
  void run(const void* in, void* out) {
    const std::int64_t size = size_of(element_);
    if (first_) {
      first_->run(in, reduced_.get(), {nullptr, static_cast<char*>(first_host_.get())});
      in = reduced_.get();
    }
    // Where the memory of both overlaps, the parts that arrive must not land on those that are still to be sent.
    void* const result = out;
    const auto from = reinterpret_cast<std::uintptr_t>(in), to = reinterpret_cast<std::uintptr_t>(out);
    if (from < to + static_cast<std::uintptr_t>(out_bytes_) && to < from + static_cast<std::uintptr_t>(in_bytes_)) {
      if (!aside_) aside_ = allocate(out_bytes_);
      out = aside_.get();
    }
    char* const sending = static_cast<char*>(packed_.get());
    char* const receiving = sending + aligned(sent_ * size);
    char* const host_sending = static_cast<char*>(host_.get());
    char* const host_receiving = host_sending + aligned(sent_ * size);
    const auto place = [&](const message& m) -> void* {
      return m.copy.contiguous() ? element_at(out, m.copy.to_offset, element_) : receiving + m.offset * size;
    };
    for (const message& m : receive_)
      messages_.receive(port_.incoming(place(m), host_receiving + m.offset * size), m.elements, element_, m.peer, world_.handle);
    for (const message& m : send_)
      if (!m.copy.contiguous()) copy_box(m.copy, in, sending, size);
    for (const message& m : send_) {
      const void* part = m.copy.contiguous() ? element_at(in, m.copy.from_offset, element_) : sending + m.offset * size;
      messages_.send(port_.outgoing(part, host_sending + m.offset * size, m.elements * size), m.elements, element_, m.peer, world_.handle);
    }
    if (!receives_) fill_identity(out, out_bytes_ / size, element_, combine_);
    copy_box(keep_, in, out, size);
    messages_.wait();
    for (const message& m : receive_) {
      port_.arrived(place(m), host_receiving + m.offset * size, m.elements * size);
      if (!m.copy.contiguous()) copy_box(m.copy, receiving, out, size);
    }
    if (out != result) copy_bytes(result, out, out_bytes_);
  }

 private:
  struct message {
    int peer;
    std::int64_t elements;
    std::int64_t offset;
    box_copy copy;
  };

  /// The shards of the source, each of which has one or more owners. After the reduction the partial axes only make copies.
  struct source_side {
    const grid_state& grid;
    const grid_transfer& t;
    const axis_sizes& sizes;
    axis_set divided, copies;

    source_side(const grid_state& g, const grid_transfer& transfer)
        : grid(g), t(transfer), sizes(g.sizes()), divided(t.from.sharded()), copies(static_cast<axis_set>(127 & ~divided)) {}
    box held(const coordinates& at) const { return box_of(t.global, t.from, at, sizes); }
    std::int64_t shards() const { return sizes.product(divided); }
    std::int64_t replicas() const { return sizes.product(copies); }
    /// Which shard a device has, and which of its owners it is.
    std::int64_t shard_of(const coordinates& at) const { return index_along(at, divided); }
    std::int64_t replica_of(const coordinates& at) const { return index_along(at, copies); }
    coordinates device(std::int64_t shard, std::int64_t replica) const {
      coordinates at{};
      for (int a = max_axes - 1; a >= 0; --a) {
        std::int64_t& rest = (divided >> a & 1) != 0 ? shard : replica;
        at[static_cast<std::size_t>(a)] = static_cast<std::int32_t>(rest % sizes[a]);
        rest /= sizes[a];
      }
      return at;
    }
    /// The shard that a rank of the communicator has, -1 where it has none.
    std::int64_t shard_at(int rank) const {
      const int device = grid.device_at(rank);
      return device < 0 ? -1 : shard_of(coordinates_of(device, sizes));
    }

   private:
    std::int64_t index_along(const coordinates& at, axis_set axes) const {
      std::int64_t index = 0;
      for (int a = 0; a < max_axes; ++a)
        if ((axes >> a & 1) != 0) index = index * sizes[a] + at[static_cast<std::size_t>(a)];
      return index;
    }
  };
  struct target_side {
    const grid_state& grid;
    const grid_transfer& t;

    target_side(const grid_state& g, const grid_transfer& transfer) : grid(g), t(transfer) {}
    box held(const coordinates& at) const { return box_of(t.global, t.to, at, grid.sizes()); }
    bool receives(const coordinates& at) const {
      for (std::size_t a = 0; a < max_axes; ++a)
        if ((t.to.unreduced() >> a & 1) != 0 && at[a] != 0) return false;
      return true;
    }
    /// Calls f(rank, part) for every rank that lacks a part of a shard, in the order of devices.
    template <class F>
    void for_receivers(const source_side& source, std::int64_t shard, const box& have, F&& f) const {
      for (std::int64_t d = 0; d < grid.sizes().devices(); ++d) {
        const coordinates at = coordinates_of(d, grid.sizes());
        if (!receives(at)) continue;
        const box part = intersect(have, held(at));
        if (part.elements() != 0 && source.shard_at(grid.rank_of(d)) != shard) f(grid.rank_of(d), part);
      }
    }
  };

  /// Strides of the source's shard, in the order of the target's dims.
  static std::array<std::int64_t, max_rank> source_strides(const grid_transfer& t, const box& have) {
    shape stored = have.extents();
    for (int i = 0; i < t.global.rank; ++i) stored[t.position[static_cast<std::size_t>(i)]] = have[i].size();
    const auto in_memory = strides_of(stored);
    std::array<std::int64_t, max_rank> stride{};
    for (std::size_t i = 0; i < static_cast<std::size_t>(t.global.rank); ++i) stride[i] = in_memory[static_cast<std::size_t>(t.position[i])];
    return stride;
  }
  static std::int64_t offset_of(const box& part, const box& shard, const std::array<std::int64_t, max_rank>& stride) {
    std::int64_t flat = 0;
    for (int i = 0; i < shard.rank; ++i) flat += (part[i].begin - shard[i].begin) * stride[static_cast<std::size_t>(i)];
    return part.elements() == 0 ? 0 : flat;
  }

  void combine_first(grid_state& from, const grid_transfer& t) {
    transfer whole;
    whole.element = t.element;
    whole.global = t.global;
    whole.from = t.from;
    whole.to = t.from.reduced();
    whole.axes = t.from.unreduced();
    whole.combine = t.from.combine();
    first_.emplace(from, whole);
    reduced_ = allocate(in_bytes_);
    first_host_ = allocate<Kokkos::HostSpace>(first_->needs().host);
  }
  void plan_sends(const source_side& source, const target_side& target, const coordinates& here, const box& have) {
    const auto stride = source_strides(target.t, have);
    const std::int64_t replicas = source.replicas(), mine = source.replica_of(here);
    std::int64_t turn = 0;
    target.for_receivers(source, source.shard_of(here), have, [&](int rank, const box& part) {
      if (turn++ % replicas != mine) return;
      send_.push_back({rank, part.elements(), sent_,
                       make_copy(part.extents(), stride, offset_of(part, have, stride), strides_of(part.extents()), sent_)});
      sent_ += part.elements();
    });
  }
  void plan_receives(const source_side& source, const target_side& target, const grid_state& to, const box& want) {
    const int here = to.everyone().rank;
    const std::int64_t own = source.shard_at(here);
    const auto stride = strides_of(want.extents());
    for (std::int64_t shard = 0; shard < source.shards(); ++shard) {
      const box have = source.held(source.device(shard, 0));
      const box part = intersect(want, have);
      if (part.elements() == 0) continue;
      if (shard == own) {
        const auto from = source_strides(target.t, have);
        keep_ = make_copy(part.extents(), from, offset_of(part, have, from), stride, offset_of(part, want, stride));
        continue;
      }
      std::int64_t turn = 0, count = 0;
      target.for_receivers(source, shard, have, [&](int rank, const box&) {
        if (rank == here) turn = count;
        ++count;
      });
      const coordinates owner = source.device(shard, turn % source.replicas());
      receive_.push_back({source.grid.rank_of(device_of(owner, source.sizes)), part.elements(), received_,
                          make_copy(part.extents(), strides_of(part.extents()), received_, stride, offset_of(part, want, stride))});
      received_ += part.elements();
    }
  }

  element element_;
  group world_;
  port port_;
  bool staged_;
  reduction combine_;
  bool receives_ = true;
  std::int64_t in_bytes_ = 0, out_bytes_ = 0;
  std::optional<all_reduce> first_{};
  box_copy keep_{};
  std::vector<message> send_{}, receive_{};
  std::int64_t sent_ = 0, received_ = 0;
  messages messages_{};
  std::shared_ptr<void> reduced_{}, first_host_{}, packed_{}, host_{}, aside_{};
};

} // namespace cleave::comm
