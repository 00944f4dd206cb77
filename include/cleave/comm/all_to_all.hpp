// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/messages.hpp>
#include <cleave/comm/node_group.hpp>
#include <cleave/comm/parts.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 { namespace comm {

/// Axes move from the ends of some dims to the ends of others: every device of the axes sends each other device the
/// part that the other holds in the new layout. Blocks must nest.
/// Communication: MPI_Alltoall; MPI_Alltoallv if blocks are uneven; messages in chunks above the limit of counts; or
/// the same through shared memory.
class all_to_all {
 public:
  [[gnu::cold]] all_to_all(grid_state& grid, const transfer& t) : element_(t.element) {
    const box from = held_before(grid, t), to = held_after(grid, t);
    elements_ = from.elements();
    const std::int64_t n = grid.sizes().product(t.axes);
    if (n == 1) return;
    group_ = grid.group_of(t.axes);
    for (std::int64_t r = 0; r < n; ++r) {
      const coordinates peer = grid.member(t.axes, r);
      pack_.append_pack(intersect(from, held_after(grid, t, peer)), from);
      const box part = intersect(to, held_before(grid, t, peer));
      unpack_.append_unpack(part, to);
      if (r == group_.rank) own_copy_ = copy_between(part, from, to);
    }
    // Both depend on sizes alone, so all ranks make the same call.
    even_ = even(t, grid.sizes());
    if (group_.together != nullptr) {
      widest_ = even_ ? pack_.blocks.widest() : widest_of(grid, t, n);
      group_.together->reserve(widest_ * n * size_of(element_));
    }
    large_ = largest(t, grid.sizes()) > count_limit();
    if (large_) messages_.reserve(messages::requests_for(pack_.blocks) + messages::requests_for(unpack_.blocks));
    else send_ = call_counts(pack_.blocks), receive_ = call_counts(unpack_.blocks);
  }
  scratch_bytes needs() const {
    if (group_.size == 1) return {};
    const std::int64_t packed = on_node() ? 0 : packed_bytes() + unpack_.order.packed_bytes(element_);
    return {packed, port_.host_bytes(sent(), received())};
  }

  void run(const void* in, void* out, const scratch& s) {
    if (group_.size == 1) return copy_bytes(out, in, elements_ * size_of(element_));
    if (even_ && elements_ == 0) return;
    if (on_node()) return exchange_on_node(in, out);
    if (!pack_.direct()) pack_.run(in, s.memory, element_);
    const void* const packed = pack_.direct() ? in : s.memory;
    void* const arriving = unpack_.direct() ? out : s.memory + packed_bytes();
    port_.call(packed, sent(), arriving, received(), s.host,
               [&](const void* from, void* into) { exchange(from, into); });
    if (!unpack_.direct()) unpack_.run(arriving, out, element_);
  }

 private:
  /// Shared memory needs no packing.
  bool on_node() const { return group_.together != nullptr && !port_.staged(); }
  std::int64_t sent() const { return pack_.elements() * size_of(element_); }
  std::int64_t received() const { return unpack_.elements() * size_of(element_); }
  std::int64_t packed_bytes() const { return pack_.order.packed_bytes(element_); }

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
  /// Every device packs parts for the others, which unpack them into their results.
  void exchange_on_node(const void* in, void* out) {
    const std::int64_t size = size_of(element_);
    const stores results = stores_of(elements_ * size);
    traffic().collective(3, group_.size, received() - unpack_.blocks.count(group_.rank) * size);
    const stores slots = group_.together->slot_stores(elements_ * size);
    copy_box(own_copy_, in, out, size, results);
    group_.together->exchange(
        widest_, size, [&](int r) { return pack_.blocks.count(r); }, [&](int r) { return unpack_.blocks.count(r); },
        [&](int r, std::int64_t first, std::int64_t n, void* to) {
          pack_range(pack_.copies[r], first, n, in, to, size, slots);
        },
        [&](int r, std::int64_t first, std::int64_t n, const void* from) {
          unpack_range(unpack_.copies[r], first, n, from, out, size, results);
        });
  }
  void exchange(const void* from, void* into) {
    const MPI_Datatype type = datatype_of(element_);
    if (large_) {
      messages_.exchange(from, pack_.blocks, into, unpack_.blocks, element_, group_, port_.copier());
    } else if (even_) {
      check(CLEAVE_MPI_CALL(MPI_Alltoall)(from, send_.count[0], type, into, receive_.count[0], type, group_.handle),
            "MPI_Alltoall");
    } else {
      check(CLEAVE_MPI_CALL(MPI_Alltoallv)(from, send_.count.data(), send_.offset.data(), type, into,
                                           receive_.count.data(), receive_.offset.data(), type, group_.handle),
            "MPI_Alltoallv");
    }
  }

  element element_;
  port port_{};
  bool even_ = true;
  bool large_ = false;
  std::int64_t elements_ = 0, widest_ = 0;
  group group_{};
  packing pack_{}, unpack_{};
  /// The part that stays on this rank, from the operand to the result.
  box_copy own_copy_{};
  call_counts send_{}, receive_{};
  messages messages_{};
};

}}} // namespace cleave::v0::comm
