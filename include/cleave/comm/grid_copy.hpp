// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/all_reduce.hpp>
#include <cleave/comm/box_messages.hpp>
#include <cleave/storage/elements.hpp>

#include <cstdint>
#include <memory>
#include <optional>

namespace cleave { inline namespace v0 { namespace comm {

/// A tensor of one grid and its layout on another one.
struct grid_transfer {
  cleave::element element = cleave::element::none;
  /// Dims are in the order of the target.
  shape global{};
  layout from{};
  layout to{};
  /// For each dim its position in the source.
  fixed_array<int, max_rank> position{};
};

/// The devices of a grid among the ranks of a communicator.
struct device_ranks {
  axis_sizes sizes{};
  /// Whether this rank is a device, and its coordinates.
  bool active = false;
  coordinates here{};
  /// The rank of each device, and the device of each rank; -1: none.
  indexed_vector<int> rank_of{}, device_at{};
};
/// The devices of a grid among the ranks that it was made from.
[[gnu::cold]] inline device_ranks devices_of(const grid_state& g) {
  device_ranks made{g.sizes(), g.active(), g.here(), {}, {}};
  made.device_at.resize(as_size(g.everyone().size), -1);
  for (std::int64_t d = 0; d < g.sizes().devices(); ++d) {
    made.rank_of.push_back(g.rank_of(d));
    made.device_at[g.rank_of(d)] = rank_number(d);
  }
  return made;
}

/// From any layout on one grid to any layout on another, over one communicator: every device receives only the elements
/// that it lacks, each part of a source shard from one of its owners, which alternate. Senders and receivers follow
/// from sizes and layouts alone, so ranks need no negotiation. A partial source is first reduced by its own devices; of
/// a partial target the devices with coordinate 0 receive the value.
/// Communication: one message for each source shard that a device needs a part of; none for empty parts. Before it, if
/// the source is partial, one all-reduce of its shard.
class grid_copy {
 public:
  /// Both grids are made from one communicator. Collective over the devices of `from`.
  grid_copy(grid_state& from, grid_state& to, const grid_transfer& t)
      : grid_copy(from.everyone(), devices_of(from), devices_of(to), &from, t) {}
  /// The devices of two grids are among `ranks`. `source_grid` is the grid of `from`, on its devices. Collective over
  /// the devices of `from`.
  grid_copy(const group& ranks, const device_ranks& from, const device_ranks& to, grid_state* source_grid,
            const grid_transfer& t)
      : element_(t.element), combine_(t.to.combine()), parts_(ranks, t.element) {
    const source_side source(from, t);
    const target_side target(to, t);
    if (from.active) {
      const box have = source.held(from.here);
      in_bytes_ = have.elements() * size_of(element_);
      if (!t.from.unreduced().empty()) combine_first(*source_grid, t);
      plan_sends(source, target, from.here, have);
    }
    if (to.active) {
      const box want = target.held(to.here);
      out_bytes_ = want.elements() * size_of(element_);
      receives_ = target.receives(to.here);
      if (receives_) plan_receives(source, target, ranks.rank, want);
    }
    parts_.reserve();
    const scratch_bytes needs = parts_.needs();
    packed_ = allocate(needs.memory);
    host_ = allocate<Kokkos::HostSpace>(needs.host);
  }

  /// Collective over all ranks of the communicator.
  void run(const void* in, void* out) {
    if (first_) {
      first_->run(in, reduced_.get(), {nullptr, as<char>(first_host_.get())});
      in = reduced_.get();
    }
    // If both overlap in memory, received parts must not overwrite parts that are still to be sent.
    void* const result = out;
    if (overlap(in, in_bytes_, out, out_bytes_)) {
      if (!aside_) aside_ = allocate(out_bytes_);
      out = aside_.get();
    }
    if (!receives_) fill_identity(out, out_bytes_ / size_of(element_), element_, combine_);
    parts_.run(in, out, {as<char>(packed_.get()), as<char>(host_.get())});
    if (out != result) copy_bytes(result, out, out_bytes_);
  }

 private:
  static bool overlap(const void* a, std::int64_t a_bytes, const void* b, std::int64_t b_bytes) {
    const auto first = reinterpret_cast<std::intptr_t>(a), second = reinterpret_cast<std::intptr_t>(b);
    return first < second + b_bytes && second < first + a_bytes;
  }

  /// The shards of the source, each of which has one or more owners. After the reduction the partial axes only make
  /// replicas.
  struct source_side {
    const device_ranks& devices;
    const grid_transfer& t;
    const axis_sizes& sizes;
    axis_set sharded;

    source_side(const device_ranks& d, const grid_transfer& transfer)
        : devices(d), t(transfer), sizes(d.sizes), sharded(t.from.sharded()) {}
    box held(const coordinates& at) const { return box_of(t.global, t.from, at, sizes); }
    std::int64_t shards() const { return sizes.product(sharded); }
    std::int64_t replicas() const { return sizes.product(~sharded); }
    /// The shard of a device, and its number among the owners of the shard.
    std::int64_t shard_of(const coordinates& at) const { return index_along(sharded, at, sizes); }
    std::int64_t replica_of(const coordinates& at) const { return index_along(~sharded, at, sizes); }
    coordinates device(std::int64_t shard, std::int64_t replica) const {
      return moved_along(sharded, moved_along(~sharded, coordinates{}, replica, sizes), shard, sizes);
    }
    /// The shard that a rank of the communicator has, or -1.
    std::int64_t shard_at(int rank) const {
      const int device = devices.device_at[rank];
      return device < 0 ? -1 : shard_of(coordinates_of(device, sizes));
    }
    /// Strides of the array of a shard, in the order of the target's dims.
    strides strides_of_shard(const box& have) const {
      shape stored = have.extents();
      for (int i = 0; i < t.global.rank; ++i) stored[t.position[i]] = have[i].size();
      const strides in_memory = strides_of(stored);
      strides stride{};
      for (int i = 0; i < t.global.rank; ++i) stride[i] = in_memory[t.position[i]];
      return stride;
    }
  };
  struct target_side {
    const device_ranks& devices;
    const grid_transfer& t;

    target_side(const device_ranks& d, const grid_transfer& transfer) : devices(d), t(transfer) {}
    box held(const coordinates& at) const { return box_of(t.global, t.to, at, devices.sizes); }
    bool receives(const coordinates& at) const { return same_along(t.to.unreduced(), at, coordinates{}); }
    /// Calls f(rank, part) for every rank that lacks a part of a shard, in the order of devices.
    template <class F>
    void for_receivers(const source_side& source, std::int64_t shard, const box& have, F&& f) const {
      for (std::int64_t d = 0; d < devices.sizes.devices(); ++d) {
        const coordinates at = coordinates_of(d, devices.sizes);
        if (!receives(at)) continue;
        const box part = intersect(have, held(at));
        const int rank = devices.rank_of[d];
        if (!part.empty() && source.shard_at(rank) != shard) f(rank, part);
      }
    }
  };

  void combine_first(grid_state& from, const grid_transfer& t) {
    first_.emplace(from, transfer{t.element, t.global, t.from, t.from.reduced(), t.from.unreduced(), t.from.combine()});
    reduced_ = allocate(in_bytes_);
    first_host_ = allocate<Kokkos::HostSpace>(first_->needs().host);
  }
  void plan_sends(const source_side& source, const target_side& target, const coordinates& here, const box& have) {
    const strides stride = source.strides_of_shard(have);
    const std::int64_t replicas = source.replicas(), mine = source.replica_of(here);
    std::int64_t n = 0;
    target.for_receivers(source, source.shard_of(here), have, [&](int rank, const box& part) {
      if (n++ % replicas == mine) parts_.add_sent(part, have, stride, rank);
    });
  }
  void plan_receives(const source_side& source, const target_side& target, int here, const box& want) {
    const std::int64_t own = source.shard_at(here);
    for (std::int64_t shard = 0; shard < source.shards(); ++shard) {
      const box have = source.held(source.device(shard, 0));
      const box part = intersect(want, have);
      if (part.empty()) continue;
      if (shard == own) {
        const strides from = source.strides_of_shard(have);
        parts_.kept().push_back({make_copy(part.extents(), from, position_in(have, part, from),
                                           strides_of(want.extents()), position_in(want, part))});
        continue;
      }
      std::int64_t mine = 0, n = 0;
      target.for_receivers(source, shard, have, [&](int rank, const box&) {
        if (rank == here) mine = n;
        ++n;
      });
      const coordinates owner = source.device(shard, mine % source.replicas());
      parts_.add_received(part, want, source.devices.rank_of[device_of(owner, source.sizes)]);
    }
  }

  element element_;
  reduction combine_;
  bool receives_ = true;
  std::int64_t in_bytes_ = 0, out_bytes_ = 0;
  std::optional<all_reduce> first_{};
  box_messages parts_;
  std::shared_ptr<void> reduced_{}, first_host_{}, packed_{}, host_{}, aside_{};
};

}}} // namespace cleave::v0::comm
