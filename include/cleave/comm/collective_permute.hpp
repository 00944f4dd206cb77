// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/box_messages.hpp>

namespace cleave { inline namespace v0 { namespace comm {

/// From any layout to any other, with partial values unchanged: every device receives only the elements that it lacks,
/// each part of a source shard from one of its owners. Senders and receivers follow from sizes and layouts alone, so
/// ranks need no negotiation.
/// Communication: one message for each source shard that a device needs a part of; none for empty parts.
class collective_permute : public box_messages {
 public:
  [[gnu::cold]] collective_permute(grid_state& grid, const transfer& t) : box_messages(grid.devices(), t.element) {
    const box have = held_before(grid, t), want = held_after(grid, t);
    const permuted_parts parts(t, grid.sizes(), grid.here());
    kept().push_back({copy_between(intersect(want, have), have, want)});
    parts.for_each_sent([&](std::int64_t device, const box& part) {
      add_sent(part, have, strides_of(have.extents()), rank_number(device));
    });
    parts.for_each_received(
        [&](std::int64_t device, const box& part) { add_received(part, want, rank_number(device)); });
    reserve();
  }
  /// Also if this device has no message.
  static bool communicates() { return true; }
};

}}} // namespace cleave::v0::comm
