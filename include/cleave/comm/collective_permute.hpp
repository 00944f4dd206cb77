// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/part_messages.hpp>

namespace cleave::inline v0::comm {

/// Any layout to any other, partial values left as they are: every device receives just what it lacks, each part of a
/// source shard from one of its owners. Who sends what follows from sizes and layouts alone, so nothing has to be
/// agreed.
/// Communication: one message for each source shard that a device needs a part of; none for empty parts.
class collective_permute {
 public:
  [[gnu::cold]] collective_permute(grid_state& grid, const transfer& t)
      : t_(t), sizes_(grid.sizes()), here_(grid.here()), sharded_(t.from.sharded()), replicated_(~t.from.used()),
        parts_(grid.devices(), t.element) {
    const box have = held_before(grid, t), want = held_after(grid, t);
    parts_.keep(copy_between(intersect(want, have), have, want));
    plan_sends(have);
    plan_receives(grid.world().rank, want);
    parts_.reserve();
  }
  scratch_bytes needs() const { return parts_.needs(); }
  void run(const void* in, void* out, const scratch& s) { parts_.run(in, out, s); }

 private:
  /// Calls f(device, part) for every device that lacks a part of the shard that `owner` has, in the order of devices.
  /// Partial values travel between devices with the same coordinates on the partial axes.
  template <class F>
  void for_receivers(const coordinates& owner, const box& shard, F&& f) const {
    for (std::int64_t d = 0; d < sizes_.devices(); ++d) {
      const coordinates at = coordinates_of(d, sizes_);
      if (!same_along(t_.from.unreduced(), at, owner) || same_along(sharded_, at, owner)) continue;
      const box part = intersect(shard, box_of(t_.global, t_.to, at, sizes_));
      if (!part.empty()) f(rank_number(d), part);
    }
  }
  /// The replica of a shard that sends to its n-th receiver: they take turns.
  std::int64_t sender_of(std::int64_t n) const { return n % sizes_.product(replicated_); }

  void plan_sends(const box& have) {
    std::int64_t n = 0;
    for_receivers(here_, have, [&](int device, const box& part) {
      if (sender_of(n++) == index_along(replicated_, here_, sizes_))
        parts_.send(device, part, have, strides_of(have.extents()));
    });
  }
  [[gnu::cold]] void plan_receives(int rank, const box& want) {
    for (std::int64_t index = 0; index < sizes_.product(sharded_); ++index) {
      const coordinates owner = moved_along(sharded_, here_, index, sizes_);
      if (same_along(sharded_, owner, here_)) continue;
      const box shard = box_of(t_.global, t_.from, owner, sizes_), part = intersect(want, shard);
      if (part.empty()) continue;
      std::int64_t mine = 0, n = 0;
      for_receivers(owner, shard, [&](int device, const box&) {
        if (device == rank) mine = n;
        ++n;
      });
      parts_.receive(rank_number(device_of(moved_along(replicated_, owner, sender_of(mine), sizes_), sizes_)), part,
                     want);
    }
  }

  transfer t_;
  axis_sizes sizes_;
  coordinates here_;
  axis_set sharded_, replicated_;
  part_messages parts_;
};

} // namespace cleave::inline v0::comm
