// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/pieces.hpp>

namespace cleave { inline namespace v0 { namespace comm {

/// An all-gather in pieces around a ring: this device's own block is there first, then the block of the next device,
/// and so on. Every device receives each block from its owner, with two pieces in flight while it computes.
/// Communication: as many bytes as the all-gather, as messages by MPI.
template <class = void>
class gather_in_pieces : public block_pieces {
 public:
  [[gnu::cold]] gather_in_pieces(grid_state& grid, const transfer& t, int wanted)
      : block_pieces(grid, t, true, wanted) {
    if (!active()) return;
    const box own = held_before(grid, t), all = held_after(grid, t);
    keep_ = copy_between(own, own, all);
    for (int q = 0; q < pieces(); ++q)
      pack_.push_back(copy_to_packed(part_of(own, all, q), own, of(group().rank, q).offset));
    std::int64_t requests = 0;
    for (int m = 0; m < count() - pieces(); ++m) {
      const piece& p = received(m);
      received_.emplace_back().reserve(messages::requests_for(p.elements));
      requests += messages::requests_for(of(group().rank, m % pieces()).elements);
    }
    sent_.reserve(requests);
  }
  std::int64_t scratch_bytes() const { return packed_bytes(); }

  /// The k-th piece to arrive, k below `count`.
  const piece& arriving(int k) const { return of(rank_at(k / pieces()), k % pieces()); }

  /// The operand may be overwritten afterwards.
  void begin(const void* in, void* out, char* packed) {
    out_ = out;
    packed_ = packed;
    copy_box(keep_, in, out, size());
    for (std::size_t q = 0; q < pack_.size() && !direct(); ++q) copy_box(pack_[q], in, packed, size());
    for (int m = 0; m < count() - pieces(); ++m) {
      const piece& p = received(m);
      received_[m].receive(at(p, out, packed, true), p.elements, element(), rank_at(1 + m / pieces()), group());
    }
    posted_ = 0;
    post_up_to(ahead);
  }
  /// Waits for the piece `arriving(k)`. To be called for ascending k.
  void await(int k) {
    post_up_to(k + ahead);
    if (k < pieces()) {
      sent_.progress();
      return;
    }
    const int m = k - pieces();
    received_[m].wait();
    if (!direct()) copy_box(received(m).copy, packed_, out_, size());
  }
  /// After the last piece: completes the sends.
  void finish() {
    post_up_to(count());
    sent_.wait();
  }

 private:
  /// Pieces in flight at the same time.
  static constexpr int ahead = 2;

  const piece& received(int m) const { return arriving(m + pieces()); }
  void post_up_to(int end) {
    for (; posted_ < end && posted_ < count() - pieces(); ++posted_) {
      const piece& p = of(group().rank, posted_ % pieces());
      sent_.send(at(p, out_, packed_, true), p.elements, element(), rank_at(-1 - posted_ / pieces()), group());
    }
  }

  box_copy keep_{};
  indexed_vector<box_copy> pack_{};
  indexed_vector<messages> received_{};
  messages sent_{};
  int posted_ = 0;
  void* out_ = nullptr;
  char* packed_ = nullptr;
};

}}} // namespace cleave::v0::comm
