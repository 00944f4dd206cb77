// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/parts.hpp>

namespace cleave::comm {

/// Axes move from the ends of some dims to the ends of others: every device of the axes sends each other device the part that
/// is its own from now on. Blocks must nest.
/// Communication: MPI_Alltoall, MPI_Alltoallv where blocks are uneven; chunked messages above the limit of counts.
class all_to_all {
 public:
  all_to_all(grid_state& grid, const transfer& t) : element_(t.element), port_(staged()), staged_(staged()) {
    const box from = box_of(t.global, t.from, grid.here(), grid.sizes());
    const box to = box_of(t.global, t.to, grid.here(), grid.sizes());
    elements_ = from.elements();
    const std::int64_t n = grid.sizes().product(t.axes);
    if (n == 1) return;
    group_ = grid.group_of(t.axes);
    for (std::int64_t r = 0; r < n; ++r) {
      const coordinates peer = grid.member(t.axes, r);
      pack_.append_pack(intersect(from, box_of(t.global, t.to, peer, grid.sizes())), from);
      unpack_.append_unpack(intersect(to, box_of(t.global, t.from, peer, grid.sizes())), to);
    }
    // Both are facts of the sizes, so that all ranks make the same call.
    even_ = even(t, grid.sizes());
    large_ = largest(t, grid.sizes()) > count_limit();
    if (!large_) {
      send_ = call_counts(pack_.blocks);
      receive_ = call_counts(unpack_.blocks);
    }
    std::int64_t requests = 0;
    for (std::int64_t c : pack_.blocks.count) requests += messages::pieces(c);
    for (std::int64_t c : unpack_.blocks.count) requests += messages::pieces(c);
    if (large_) messages_.reserve(requests);
  }
  scratch_bytes needs() const {
    if (group_.size == 1) return {};
    const std::int64_t packed = pack_.direct ? 0 : aligned(sent()), unpacked = unpack_.direct ? 0 : aligned(received());
    return {packed + unpacked, staged_ ? aligned(sent()) + aligned(received()) : 0};
  }

  void run(const void* in, void* out, const scratch& s) {
    if (group_.size == 1) return copy_bytes(out, in, elements_ * size_of(element_));
    if (even_ && elements_ == 0) return;
    const void* packed = in;
    if (!pack_.direct) {
      pack_.run(in, s.memory, element_);
      packed = s.memory;
    }
    void* arriving = unpack_.direct ? out : s.memory + (pack_.direct ? 0 : aligned(sent()));
    char* host_arriving = s.host + (staged_ ? aligned(sent()) : 0);
    const void* send = port_.outgoing(packed, s.host, sent());
    void* receive = port_.incoming(arriving, host_arriving);
    const MPI_Datatype type = datatype_of(element_);
    if (large_) {
      for (int r = 0; r < group_.size; ++r) {
        const auto at = static_cast<std::size_t>(r);
        char* place = element_at(receive, unpack_.blocks.offset[at], element_);
        if (r != group_.rank) messages_.receive(place, unpack_.blocks.count[at], element_, r, group_.handle);
        else if (unpack_.blocks.count[at] != 0)
          std::memcpy(place, element_at(send, pack_.blocks.offset[at], element_),
                      static_cast<std::size_t>(unpack_.blocks.count[at] * size_of(element_)));
      }
      for (int r = 0; r < group_.size; ++r) {
        const auto at = static_cast<std::size_t>(r);
        if (r != group_.rank)
          messages_.send(element_at(send, pack_.blocks.offset[at], element_), pack_.blocks.count[at], element_, r, group_.handle);
      }
      messages_.wait();
    } else if (even_) {
      check(CLEAVE_MPI_CALL(MPI_Alltoall)(send, send_.count[0], type, receive, receive_.count[0], type, group_.handle),
            "MPI_Alltoall");
    } else {
      check(CLEAVE_MPI_CALL(MPI_Alltoallv)(send, send_.count.data(), send_.offset.data(), type, receive, receive_.count.data(),
                                           receive_.offset.data(), type, group_.handle),
            "MPI_Alltoallv");
    }
    port_.arrived(arriving, host_arriving, received());
    if (!unpack_.direct) unpack_.run(arriving, out, element_);
  }

 private:
  std::int64_t sent() const { return pack_.elements() * size_of(element_); }
  std::int64_t received() const { return unpack_.elements() * size_of(element_); }

  element element_;
  port port_;
  bool staged_;
  bool even_ = true;
  bool large_ = false;
  std::int64_t elements_ = 0;
  group group_{};
  packing pack_{}, unpack_{};
  call_counts send_{}, receive_{};
  messages messages_{};
};

} // namespace cleave::comm
