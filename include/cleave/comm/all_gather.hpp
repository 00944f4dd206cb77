// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/messages.hpp>
#include <cleave/comm/node_group.hpp>
#include <cleave/comm/parts.hpp>

namespace cleave { inline namespace v0 { namespace comm {

/// The last axes of some dims disappear: every device of the axes receives the shards of all. Blocks must nest.
/// Communication: MPI_Allgather; MPI_Allgatherv if blocks differ; messages in chunks above the limit of counts; or the
/// same through shared memory.
class all_gather {
 public:
  [[gnu::cold]] all_gather(grid_state& grid, const transfer& t)
      : element_(t.element), elements_(held_before(grid, t).elements()) {
    const std::int64_t n = grid.sizes().product(t.axes);
    if (n == 1) return;
    group_ = grid.group_of(t.axes);
    const box to = held_after(grid, t);
    for (std::int64_t r = 0; r < n; ++r) {
      const box block = held_before(grid, t, grid.member(t.axes, r));
      unpack_.append_unpack(block, to);
      if (r == group_.rank) own_copy_ = copy_between(block, block, to);
    }
    if (group_.together != nullptr) group_.together->reserve(unpack_.blocks.widest() * size_of(element_));
    // All ranks of the group know all blocks, so they make the same call.
    if (unpack_.elements() > count_limit()) own_ = rank_blocks::repeated(elements_, group_.size);
    else counts_ = call_counts(unpack_.blocks);
    if (is_large()) messages_.reserve(messages::requests_for(unpack_.blocks) + messages::requests_for(own_));
  }
  scratch_bytes needs() const {
    if (group_.size == 1) return {};
    return {on_node() ? 0 : unpack_.order.packed_bytes(element_), port_.host_bytes(bytes(), received())};
  }

  void run(const void* in, void* out, const scratch& s) {
    if (group_.size == 1) return copy_bytes(out, in, bytes());
    if (unpack_.elements() == 0) return;
    if (on_node()) return gather_on_node(in, out);
    void* const gathered = unpack_.direct() ? out : s.memory;
    port_.call(in, bytes(), gathered, received(), s.host, [&](const void* from, void* into) { gather(from, into); });
    if (!unpack_.direct()) unpack_.run(gathered, out, element_);
  }

 private:
  /// Shared memory needs no packing.
  bool on_node() const { return group_.together != nullptr && !port_.staged(); }
  std::int64_t bytes() const { return elements_ * size_of(element_); }
  std::int64_t received() const { return unpack_.elements() * size_of(element_); }
  bool is_large() const { return !own_.counts().empty(); }

  /// Every device writes the others' shards to their places in the result.
  void gather_on_node(const void* in, void* out) {
    const auto& blocks = unpack_.blocks;
    const std::int64_t size = size_of(element_);
    const stores results = stores_of(received());
    traffic().collective(2, group_.size, (blocks.end() - elements_) * size);
    const stores slots = group_.together->slot_stores(blocks.widest() * size);
    copy_box(own_copy_, in, out, size, results);
    group_.together->gather(
        blocks.widest(), elements_, size, [&](int r) { return blocks.count(r); },
        [&](std::int64_t first, std::int64_t n, void* to) {
          node_group::copy_to_slot(to, element_at(in, first, element_), n * size, slots);
        },
        [&](int r, std::int64_t first, std::int64_t n, const void* from) {
          unpack_range(unpack_.copies[r], first, n, from, out, size, results);
        });
  }
  void gather(const void* from, void* into) {
    const MPI_Datatype type = datatype_of(element_);
    if (is_large()) {
      messages_.exchange(from, own_, into, unpack_.blocks, element_, group_, port_.copier());
    } else if (unpack_.blocks.uniform()) {
      check(CLEAVE_MPI_CALL(MPI_Allgather)(from, counts_.count[0], type, into, counts_.count[0], type, group_.handle),
            "MPI_Allgather");
    } else {
      check(CLEAVE_MPI_CALL(MPI_Allgatherv)(from, as_count(elements_), type, into, counts_.count.data(),
                                            counts_.offset.data(), type, group_.handle),
            "MPI_Allgatherv");
    }
  }

  element element_;
  std::int64_t elements_;
  port port_{};
  group group_{};
  packing unpack_{};
  /// The block of this rank, from the operand to the result.
  box_copy own_copy_{};
  call_counts counts_{};
  /// The blocks that this device sends to each rank, if the collective uses messages; else empty.
  rank_blocks own_{};
  messages messages_{};
};

}}} // namespace cleave::v0::comm
