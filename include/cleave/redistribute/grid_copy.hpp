// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/box_messages.hpp>
#include <cleave/comm/move.hpp>
#include <cleave/redistribute/distribution.hpp>
#include <cleave/storage/element_type.hpp>

#include <cstdint>
#include <memory>

namespace cleave { inline namespace v0 { namespace comm {

/// A tensor of one grid and its layout on another one.
struct grid_transfer {
  cleave::element element = cleave::element::none;
  /// Dims are in the order of the target.
  shape global{};
  /// The blocks of the source.
  fixed_array<const block_table*, max_rank> given{};
  layout from{};
  layout to{};
  /// For each dim its position in the source.
  fixed_array<int, max_rank> position{};
};

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
    shape before = t.global;
    for (int d = 0; d < before.rank; ++d) before.given[d] = t.given[d];
    const distribution source = shards_of(from, before, t.from, false), target = shards_of(to, t.global, t.to, true);
    const sending_turns turns(source);
    const auto sends = [&](int a, int b) { return target.has_part(b) && turns.sends(a, b); };
    const int here = ranks.rank;
    const box have = source.part(here), want = target.part(here);
    const strides stride = strides_of_shard(have, t);
    if (source.has_part(here)) {
      in_bytes_ = have.elements() * size_of(element_);
      if (!t.from.unreduced().empty()) combine_first(*source_grid, t);
    }
    if (const int device = to.device_at[here]; device >= 0) {
      out_bytes_ = box_of(t.global, t.to, coordinates_of(device, to.sizes), to.sizes).elements() * size_of(element_);
      receives_ = target.has_part(here);
    }
    for (int r = 0; r < ranks.size; ++r) {
      if (const box part = intersect(have, target.part(r)); sends(here, r) && !part.empty()) {
        if (r != here) parts_.add_sent(part, have, stride, r);
        else
          parts_.kept().push_back({make_copy(part.extents(), stride, position_in(have, part, stride),
                                             strides_of(want.extents()), position_in(want, part))});
      }
      if (const box part = intersect(source.part(r), want); r != here && sends(r, here) && !part.empty())
        parts_.add_received(part, want, r);
    }
    parts_.reserve();
    const scratch_bytes needs = parts_.needs();
    packed_ = allocate(needs.memory);
    host_ = allocate<Kokkos::HostSpace>(needs.host);
  }

  /// Collective over all ranks of the communicator.
  void run(const void* in, void* out) {
    if (first_) {
      first_->run_one(in, reduced_.get(), {nullptr, as<char>(first_host_.get())});
      in = reduced_.get();
    }
    // If both overlap in memory, received parts must not overwrite parts that are still to be sent.
    void* const result = out;
    if (share_bytes(in, in_bytes_, out, out_bytes_)) {
      if (!aside_) aside_ = allocate(out_bytes_);
      out = aside_.get();
    }
    if (!receives_) fill_identity(out, out_bytes_ / size_of(element_), element_, combine_);
    parts_.run(in, out, {as<char>(packed_.get()), as<char>(host_.get())});
    if (out != result) copy_bytes(result, out, out_bytes_);
  }

 private:
  /// Strides of the array of a shard of the source, in the order of the target's dims.
  static strides strides_of_shard(const box& have, const grid_transfer& t) {
    shape stored = have.extents();
    for (int i = 0; i < t.global.rank; ++i) stored[t.position[i]] = have[i].size();
    const strides in_memory = strides_of(stored);
    strides stride{};
    for (int i = 0; i < t.global.rank; ++i) stride[i] = in_memory[t.position[i]];
    return stride;
  }
  void combine_first(grid_state& from, const grid_transfer& t) {
    first_ = make_move<kind::all_reduce>(from, {t.element, t.global, t.from, t.from.reduced(), t.from.unreduced(),
                                                t.from.combine()});
    reduced_ = allocate(in_bytes_);
    first_host_ = allocate<Kokkos::HostSpace>(first_->needs().host);
  }
  element element_;
  reduction combine_;
  bool receives_ = true;
  std::int64_t in_bytes_ = 0, out_bytes_ = 0;
  owned<bound_exchange> first_{};
  box_messages parts_;
  std::shared_ptr<void> reduced_{}, first_host_{}, packed_{}, host_{}, aside_{};
};

}}} // namespace cleave::v0::comm
