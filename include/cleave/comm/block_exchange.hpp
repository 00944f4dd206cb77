// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/messages.hpp>
#include <cleave/comm/node_group.hpp>
#include <cleave/comm/parts.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 { namespace comm {

/// Axes move from the ends of some dims to the ends of others, or, if it gathers, disappear: every device of the axes
/// sends each other device the part of its shard that the other holds in the new layout. Blocks must nest.
/// Communication: MPI_Alltoall, or MPI_Allgather if it gathers; the same with counts if blocks are uneven; messages in
/// chunks above the limit of counts, and between `begin` and `finish`; or the same through shared memory.
template <bool Gathers>
class block_exchange {
 public:
  [[gnu::cold]] block_exchange(grid_state& grid, const transfer& t) : element_(t.element) {
    const box from = held_before(grid, t), to = held_after(grid, t);
    elements_ = from.elements();
    const std::int64_t n = grid.sizes().product(t.axes);
    if (n == 1) return;
    group_ = grid.group_of(t.axes);
    // Messages in flight go by MPI, and so do those above the limit of counts: one way for both.
    group_.pipes = nullptr;
    if constexpr (Gathers) whole_ = rank_blocks::repeated(elements_, group_.size);
    for (std::int64_t r = 0; r < n; ++r) {
      const coordinates peer = grid.member(t.axes, r);
      if constexpr (!Gathers) pack_.append_pack(intersect(from, held_after(grid, t, peer)), from);
      const box part = intersect(to, held_before(grid, t, peer));
      unpack_.append_unpack(part, to);
      if (r == group_.rank) own_copy_ = copy_between(part, from, to);
    }
    // All of them depend on sizes alone, or on blocks that all ranks of the group know, so all make the same call.
    uniform_ = Gathers ? unpack_.blocks.uniform() : even(t, grid.sizes());
    widest_ = Gathers ? unpack_.blocks.widest() : uniform_ ? pack_.blocks.widest() : widest_of(grid, t, n);
    large_ = largest(t, grid.sizes()) > count_limit();
    if (group_.together != nullptr) group_.together->reserve(widest_ * (Gathers ? 1 : n) * size());
    if (!on_node()) messages_.reserve(messages::requests_for(sent()) + messages::requests_for(unpack_.blocks));
    if (!large_) send_ = call_counts(sent()), receive_ = call_counts(unpack_.blocks);
  }
  scratch_bytes needs() const {
    if (group_.size == 1) return {};
    return {on_node() ? 0 : packed_bytes() + unpack_.order.packed_bytes(element_),
            port_.host_bytes(elements_ * size(), received())};
  }
  void run(const void* in, void* out, const scratch& s) {
    if (group_.size == 1) return copy_bytes(out, in, elements_ * size());
    if (uniform_ && elements_ == 0) return;
    if (on_node()) return run_on_node(in, out);
    void* const arriving = arriving_in(out, s);
    port_.call(packed(in, s), elements_ * size(), arriving, received(), s.host,
               [&](const void* from, void* into) { call(from, into); });
    if (!unpack_.direct()) unpack_.run(arriving, out, element_);
  }
  /// The same in two parts, between which computation may overlap: of host memory, which MPI reads and writes itself.
  void begin(const void* in, void* out, const scratch& s) {
    wait_for_kernels();
    out_ = out;
    arriving_ = arriving_in(out, s);
    messages_.start(packed(in, s), sent(), arriving_, unpack_.blocks, element_, group_, port_.copier());
  }
  bool communicates() const { return sent().widest() != 0 || unpack_.elements() != 0; }
  void progress() { messages_.progress(); }
  void finish() {
    messages_.wait();
    if (!unpack_.direct()) unpack_.run(arriving_, out_, element_);
  }

 private:
  /// Shared memory needs no packing.
  bool on_node() const { return group_.together != nullptr && !port_.staged(); }
  std::int64_t size() const { return size_of(element_); }
  /// The blocks that this device sends to each rank.
  const rank_blocks& sent() const { return Gathers ? whole_ : pack_.blocks; }
  std::int64_t received() const { return unpack_.elements() * size(); }
  std::int64_t packed_bytes() const { return pack_.order.packed_bytes(element_); }
  const void* packed(const void* in, const scratch& s) const {
    if (pack_.direct()) return in;
    pack_.run(in, s.memory, element_);
    return s.memory;
  }
  void* arriving_in(void* out, const scratch& s) const { return unpack_.direct() ? out : s.memory + packed_bytes(); }
  /// The elements of the longest block between any two devices of the group.
  [[gnu::cold]] static std::int64_t widest_of(const grid_state& grid, const transfer& t, std::int64_t devices) {
    std::int64_t most = 0;
    for (std::int64_t from = 0; from < devices; ++from) {
      const box held = held_before(grid, t, grid.member(t.axes, from));
      for (std::int64_t to = 0; to < devices; ++to)
        most = std::max(most, intersect(held, held_after(grid, t, grid.member(t.axes, to))).elements());
    }
    return most;
  }
  /// Every device gives the others its parts, which they unpack into their results.
  void run_on_node(const void* in, void* out) {
    const stores results = stores_of(received()), slots = group_.together->slot_stores(elements_ * size());
    const auto taken = [&](int r) { return unpack_.blocks.count(r); };
    const auto take = [&](int r, std::int64_t first, std::int64_t n, const void* from) {
      unpack_range(unpack_.copies[r], first, n, from, out, size(), results);
    };
    traffic().collective(Gathers ? 2 : 3, group_.size, received() - taken(group_.rank) * size());
    copy_box(own_copy_, in, out, size(), results);
    if constexpr (Gathers)
      group_.together->gather(
          widest_, elements_, size(), taken,
          [&](std::int64_t first, std::int64_t n, void* to) {
            node_group::copy_to_slot(to, element_at(in, first, element_), n * size(), slots);
          },
          take);
    else
      group_.together->exchange(
          widest_, size(), [&](int r) { return pack_.blocks.count(r); }, taken,
          [&](int r, std::int64_t first, std::int64_t n, void* to) {
            pack_range(pack_.copies[r], first, n, in, to, size(), slots);
          },
          take);
  }
  void call(const void* from, void* into) {
    const MPI_Datatype type = datatype_of(element_);
    const call_count each = large_ ? 0 : send_.count[0], arriving = large_ ? 0 : receive_.count[0];
    if (large_) {
      messages_.exchange(from, sent(), into, unpack_.blocks, element_, group_, port_.copier());
    } else if constexpr (Gathers) {
      if (uniform_)
        check(CLEAVE_MPI_CALL(MPI_Allgather)(from, each, type, into, arriving, type, group_.handle), "MPI_Allgather");
      else
        check(CLEAVE_MPI_CALL(MPI_Allgatherv)(from, each, type, into, receive_.count.data(), receive_.offset.data(),
                                              type, group_.handle),
              "MPI_Allgatherv");
    } else {
      if (uniform_)
        check(CLEAVE_MPI_CALL(MPI_Alltoall)(from, each, type, into, arriving, type, group_.handle), "MPI_Alltoall");
      else
        check(CLEAVE_MPI_CALL(MPI_Alltoallv)(from, send_.count.data(), send_.offset.data(), type, into,
                                             receive_.count.data(), receive_.offset.data(), type, group_.handle),
              "MPI_Alltoallv");
    }
  }

  element element_;
  port port_{};
  /// Whether all blocks have one size, and whether they are too large for one call.
  bool uniform_ = true, large_ = false;
  std::int64_t elements_ = 0, widest_ = 0;
  group group_{};
  packing pack_{}, unpack_{};
  /// If it gathers, nothing is packed: the whole shard, for each rank.
  rank_blocks whole_{};
  /// The part that stays on this rank, from the operand to the result.
  box_copy own_copy_{};
  call_counts send_{}, receive_{};
  messages messages_{};
  void *arriving_ = nullptr, *out_ = nullptr;
};

using all_gather = block_exchange<true>;
using all_to_all = block_exchange<false>;

}}} // namespace cleave::v0::comm
