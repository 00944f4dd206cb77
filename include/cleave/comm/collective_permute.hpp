// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/part_messages.hpp>

namespace cleave { inline namespace v0 { namespace comm {

/// From any layout to any other, with partial values unchanged: every device receives only the elements that it lacks,
/// each part of a source shard from one of its owners. Senders and receivers follow from sizes and layouts alone, so
/// ranks need no negotiation.
/// Communication: one message for each source shard that a device needs a part of; none for empty parts.
class collective_permute {
 public:
  [[gnu::cold]] collective_permute(grid_state& grid, const transfer& t) : parts_(grid.devices(), t.element) {
    const box have = held_before(grid, t), want = held_after(grid, t);
    const permuted_parts all(t, grid.sizes(), grid.here());
    parts_.keep(copy_between(intersect(want, have), have, want));
    all.for_each_sent([&](std::int64_t device, const box& part) {
      parts_.send(rank_number(device), part, have, strides_of(have.extents()));
    });
    all.for_each_received(
        [&](std::int64_t device, const box& part) { parts_.receive(rank_number(device), part, want); });
    parts_.reserve();
  }
  scratch_bytes needs() const { return parts_.needs(); }
  void run(const void* in, void* out, const scratch& s) { parts_.run(in, out, s); }
  /// The same in two parts; computation may overlap between them.
  void begin(const void* in, void* out, const scratch& s) { parts_.begin(in, out, s); }
  bool progress() { return parts_.progress(); }
  void finish(void* out, const scratch& s) { parts_.finish(out, s); }

 private:
  part_messages parts_;
};

}}} // namespace cleave::v0::comm
