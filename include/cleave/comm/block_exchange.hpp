// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/messages.hpp>
#include <cleave/comm/parts.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 { namespace comm {

/// Axes move from the ends of some dims to the ends of others, or, if it gathers, disappear: every device of the axes
/// sends each other device the part of its shard that the other holds in the new layout. Blocks must nest.
/// Communication: MPI_Alltoall, or MPI_Allgather if it gathers; the same with counts if blocks are uneven; messages in
/// chunks above the limit of counts, and between `begin` and `finish`.
template <bool Gathers>
class block_exchange {
 public:
  [[gnu::cold]] block_exchange(grid_state& grid, const transfer& t) : element_(t.element) {
    elements_ = held_before(grid, t).elements();
    if (grid.sizes().product(t.axes) == 1) return;
    group_ = grid.group_of(t.axes);
    // Messages in flight go by MPI, and so do those above the limit of counts: one way for both.
    group_.link = nullptr;
    if constexpr (Gathers) whole_ = rank_blocks::repeated(elements_, group_.size);
    else pack_ = blocks_given(grid, t);
    unpack_ = blocks_taken(grid, t);
    // All of them depend on sizes alone, or on blocks that all ranks of the group know, so all make the same call.
    uniform_ = Gathers ? unpack_.blocks.uniform() : even(t, grid.sizes());
    large_ = largest(t, grid.sizes()) > count_limit();
    messages_.reserve(messages::requests_for(sent()) + messages::requests_for(unpack_.blocks));
    if (!large_) send_ = call_counts(sent()), receive_ = call_counts(unpack_.blocks);
  }
  scratch_bytes needs() const {
    if (group_.size == 1) return {};
    return {packed_bytes() + unpack_.order.packed_bytes(element_), port_.host_bytes(elements_ * size(), received())};
  }
  void run(const void* in, void* out, const scratch& s) {
    if (group_.size == 1) return copy_bytes(out, in, elements_ * size());
    if (uniform_ && elements_ == 0) return;
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
  std::int64_t elements_ = 0;
  group group_{};
  packing pack_{}, unpack_{};
  /// If it gathers, nothing is packed: the whole shard, for each rank.
  rank_blocks whole_{};
  call_counts send_{}, receive_{};
  messages messages_{};
  void *arriving_ = nullptr, *out_ = nullptr;
};

using all_gather = block_exchange<true>;
using all_to_all = block_exchange<false>;

}}} // namespace cleave::v0::comm
