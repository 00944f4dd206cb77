// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/comm/transport.hpp>

namespace cleave { inline namespace v0 { namespace comm {

/// Messages in flight between ranks: by the link of the group to those that it reaches, by MPI to the others. Memory
/// for the requests is reused from run to run. Messages of a pair of ranks arrive in the order in which they were sent.
class messages {
 public:
  /// With a separate tag, messages of MPI may be sent in another order than other messages of the same ranks.
  explicit messages(int tag = 1) : tag_(tag) {}
  messages(messages&&) = default;
  messages& operator=(messages&&) = default;
  /// After a failure some may still be open: MPI then writes to no freed memory.
  ~messages() {
    if (!requests_.empty()) abandon();
  }

  /// The number of requests for a message of this many elements, and for a message of each block.
  static std::int64_t requests_for(std::int64_t elements) { return (elements + count_limit() - 1) / count_limit(); }
  static std::int64_t requests_for(const rank_blocks& blocks) {
    std::int64_t n = 0;
    for (std::int64_t c : blocks.counts()) n += requests_for(c);
    return n;
  }
  void reserve(std::int64_t requests) {
    requests_.reserve(as_size(requests));
    receives_.reserve(as_size(requests));
  }

  void send(const void* from, std::int64_t elements, element e, int to, const group& g) {
    if (is_linked(to, g)) return send_by_link(from, elements * size_of(e), to, g);
    for_each_call(elements, [&](std::int64_t first, call_count n) {
      check(CLEAVE_MPI_CALL(MPI_Isend)(element_at(from, first, e), n, datatype_of(e), to, tag_, g.handle,
                                       next_request(false)),
            "MPI_Isend");
    });
  }
  void receive(void* into, std::int64_t elements, element e, int from, const group& g) {
    if (is_linked(from, g)) return receive_by_link(into, elements * size_of(e), from, g);
    for_each_call(elements, [&](std::int64_t first, call_count n) {
      check(CLEAVE_MPI_CALL(MPI_Irecv)(element_at(into, first, e), n, datatype_of(e), from, tag_, g.handle,
                                       next_request(true)),
            "MPI_Irecv");
    });
  }
  /// Whether messages to and from a rank go by the link, so that boxes need not be packed before.
  static bool is_linked(int rank, const group& g) { return g.rank_in_link(rank) >= 0; }
  /// To and from linked ranks: boxes in memory, whose addresses must stay valid until all has arrived.
  void send(const box_copy& box, const void* from, element e, int to, const group& g) {
    send_by_link(from, box.elements * size_of(e), to, g, &box, size_of(e));
  }
  void receive(const box_copy& box, void* into, element e, int from, const group& g) {
    receive_by_link(into, box.elements * size_of(e), from, g, &box, size_of(e));
  }
  /// Sends block r of `to` to rank r of a group, for all r, and receives its block as block r of `from`. `copy(into,
  /// from, bytes)` copies the block that stays here. Empty blocks are not sent.
  template <class Copy>
  void exchange(const void* in, const rank_blocks& to, void* out, const rank_blocks& from, element e, const group& g,
                const Copy& copy) {
    start(in, to, out, from, e, g, copy);
    wait();
  }
  /// The same without waiting for completion.
  template <class Copy>
  void start(const void* in, const rank_blocks& to, void* out, const rank_blocks& from, element e, const group& g,
             const Copy& copy) {
    for (int r = 0; r < g.size; ++r)
      if (r != g.rank) receive(element_at(out, from.offset(r), e), from.count(r), e, r, g);
    for (int r = 0; r < g.size; ++r)
      if (r != g.rank) send(element_at(in, to.offset(r), e), to.count(r), e, r, g);
    if (to.count(g.rank) != 0)
      copy(element_at(out, from.offset(g.rank), e), element_at(in, to.offset(g.rank), e),
           to.count(g.rank) * size_of(e));
  }
  /// Makes progress: many MPI libraries transfer long messages only inside calls. Returns whether all are complete.
  bool progress() {
    if (open_ != 0) link_->progress();
    if (requests_.empty()) return open_ == 0;
    int done = 0;
    check(MPI_Testall(count(), requests_.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (done != 0) forget();
    return done != 0 && open_ == 0;
  }
  void wait() {
    if (open_ != 0) link_->wait(open_);
    if (requests_.empty()) return;
    check(MPI_Waitall(count(), requests_.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
    forget();
  }

 private:
  void send_by_link(const void* from, std::int64_t bytes, int to, const group& g, const box_copy* box = nullptr,
                    std::int64_t element_bytes = 1) {
    link_ = g.link;
    if (bytes != 0) link_->send(g.in_link[to], from, bytes, box, element_bytes, open_);
  }
  void receive_by_link(void* into, std::int64_t bytes, int from, const group& g, const box_copy* box = nullptr,
                       std::int64_t element_bytes = 1) {
    link_ = g.link;
    if (bytes != 0) link_->receive(g.in_link[from], into, bytes, box, element_bytes, open_);
  }
  MPI_Request* next_request(bool receives) {
    requests_.push_back(MPI_REQUEST_NULL);
    receives_.push_back(receives);
    return &requests_.back();
  }
  int count() const { return as_int(requests_.size()); }
  void forget() {
    requests_.clear();
    receives_.clear();
  }
  /// The others may no longer answer, so this does not wait.
  [[gnu::cold]] void abandon() {
    int finalized = 0;
    MPI_Finalized(&finalized);
    for (std::size_t k = 0; k < requests_.size() && finalized == 0; ++k) {
      if (requests_[k] == MPI_REQUEST_NULL) continue;
      int done = 0;
      if (receives_[k]) MPI_Cancel(&requests_[k]);
      MPI_Test(&requests_[k], &done, MPI_STATUS_IGNORE);
      if (done == 0) MPI_Request_free(&requests_[k]);
    }
    forget();
  }

  int tag_;
  indexed_vector<MPI_Request> requests_{};
  indexed_vector<bool> receives_{};
  /// Messages by the link that are not complete.
  std::int64_t open_ = 0;
  message_link* link_ = nullptr;
};

}}} // namespace cleave::v0::comm
