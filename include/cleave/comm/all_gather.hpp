// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/parts.hpp>

namespace cleave::comm {

/// The last axes of some dims disappear: every device of the axes receives the shards of all. Blocks must nest.
/// Communication: MPI_Allgather, MPI_Allgatherv where blocks differ; chunked messages above the limit of counts.
class all_gather {
 public:
  all_gather(grid_state& grid, const transfer& t) : element_(t.element), port_(staged()), staged_(staged()) {
    const box from = box_of(t.global, t.from, grid.here(), grid.sizes());
    const box to = box_of(t.global, t.to, grid.here(), grid.sizes());
    elements_ = from.elements();
    const std::int64_t n = grid.sizes().product(t.axes);
    if (n == 1) return;
    group_ = grid.group_of(t.axes);
    for (std::int64_t r = 0; r < n; ++r)
      unpack_.append_unpack(box_of(t.global, t.from, grid.member(t.axes, r), grid.sizes()), to);
    // The same on all ranks of the group: all of them know all blocks.
    uniform_ = unpack_.blocks.uniform();
    large_ = unpack_.elements() > count_limit();
    if (!large_) counts_ = call_counts(unpack_.blocks);
    std::int64_t requests = 0;
    for (std::int64_t c : unpack_.blocks.count) requests += messages::pieces(c) + messages::pieces(elements_);
    if (large_) messages_.reserve(requests);
  }
  scratch_bytes needs() const {
    if (group_.size == 1) return {};
    return {unpack_.direct ? 0 : aligned(received()), staged_ ? aligned(bytes()) + aligned(received()) : 0};
  }

  void run(const void* in, void* out, const scratch& s) {
    if (group_.size == 1) return copy_bytes(out, in, bytes());
    if (unpack_.elements() == 0) return;
    void* gathered = unpack_.direct ? out : s.memory;
    char* host_gathered = s.host + (staged_ ? aligned(bytes()) : 0);
    const void* send = port_.outgoing(in, s.host, bytes());
    void* receive = port_.incoming(gathered, host_gathered);
    const MPI_Datatype type = datatype_of(element_);
    if (large_) {
      for (int r = 0; r < group_.size; ++r) {
        const auto at = static_cast<std::size_t>(r);
        char* place = element_at(receive, unpack_.blocks.offset[at], element_);
        if (r != group_.rank) messages_.receive(place, unpack_.blocks.count[at], element_, r, group_.handle);
        else if (elements_ != 0) std::memcpy(place, send, static_cast<std::size_t>(bytes()));
      }
      for (int r = 0; r < group_.size; ++r)
        if (r != group_.rank) messages_.send(send, elements_, element_, r, group_.handle);
      messages_.wait();
    } else if (uniform_) {
      check(CLEAVE_MPI_CALL(MPI_Allgather)(send, counts_.count[0], type, receive, counts_.count[0], type, group_.handle),
            "MPI_Allgather");
    } else {
      check(CLEAVE_MPI_CALL(MPI_Allgatherv)(send, static_cast<call_count>(elements_), type, receive, counts_.count.data(),
                                            counts_.offset.data(), type, group_.handle),
            "MPI_Allgatherv");
    }
    port_.arrived(gathered, host_gathered, received());
    if (!unpack_.direct) unpack_.run(gathered, out, element_);
  }

 private:
  std::int64_t bytes() const { return elements_ * size_of(element_); }
  std::int64_t received() const { return unpack_.elements() * size_of(element_); }

  element element_;
  port port_;
  bool staged_;
  bool uniform_ = true;
  bool large_ = false;
  std::int64_t elements_ = 0;
  group group_{};
  packing unpack_{};
  call_counts counts_{};
  messages messages_{};
};

} // namespace cleave::comm
