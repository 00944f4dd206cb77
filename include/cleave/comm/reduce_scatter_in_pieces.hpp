// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/operation.hpp>
#include <cleave/comm/pieces.hpp>

namespace cleave { inline namespace v0 { namespace comm {

/// A reduce-scatter in pieces around a ring: every block goes from the device after its owner to its owner, and each
/// device adds its partial values. The operand is overwritten.
/// Communication: as many bytes as the reduce-scatter, as messages by MPI.
template <class = void>
class reduce_scatter_in_pieces : public block_pieces {
 public:
  [[gnu::cold]] reduce_scatter_in_pieces(grid_state& grid, const transfer& t, int wanted)
      : block_pieces(grid, t, false, wanted) {
    if (!active()) return;
    const box all = held_before(grid, t), own = held_after(grid, t);
    for (int q = 0; q < pieces(); ++q) {
      unpack_.push_back(copy_from_packed(part_of(own, all, q), own, 0));
      std::int64_t most = 0;
      for (int r = 0; r < group().size; ++r) most = std::max(most, messages::requests_for(of(r, q).elements));
      received_.emplace_back().reserve(most);
    }
    std::int64_t requests = 0;
    for (int k = 0; k < count(); ++k) requests += messages::requests_for(making(k).elements);
    sent_.reserve(requests);
  }
  std::int64_t scratch_bytes() const { return packed_bytes() + (active() ? pieces() * widest_bytes() : 0); }

  /// The k-th piece to compute, k below `count`.
  const piece& making(int k) const { return of(rank_at(-1 - k / pieces()), k % pieces()); }

  void begin(void* partial, char* scratch) {
    partial_ = partial;
    packed_ = scratch;
    landing_ = scratch + packed_bytes();
    for (int q = 0; q < pieces(); ++q) receive(pieces() + q);
  }
  /// The piece `making(k)` is computed: adds the previous device's value, and sends it on. Call for ascending k.
  void made(int k) {
    const piece& p = making(k);
    if (!direct()) copy_box(p.copy, partial_, packed_, size());
    char* const mine = at(p, partial_, packed_, false);
    if (k >= pieces()) {
      received_[k % pieces()].wait();
      combine_here(landing(k), mine, p.elements, element(), reduction::sum);
      if (k + pieces() < count()) receive(k + pieces());
    } else {
      sent_.progress();
    }
    if (k < count() - pieces()) sent_.send(mine, p.elements, element(), rank_at(1), group());
  }
  /// Completes the sends, and writes this device's block.
  void finish(void* out) {
    sent_.wait();
    for (int q = 0; q < pieces(); ++q)
      copy_box(unpack_[q], at(of(group().rank, q), partial_, packed_, false), out, size());
  }

 private:
  char* landing(int k) const { return landing_ + k % pieces() * widest_bytes(); }
  void receive(int k) {
    received_[k % pieces()].receive(landing(k), making(k).elements, element(), rank_at(-1), group());
  }
  indexed_vector<box_copy> unpack_{};
  /// By the number of a piece in its block.
  indexed_vector<messages> received_{};
  messages sent_{};
  void* partial_ = nullptr;
  char *packed_ = nullptr, *landing_ = nullptr;
};

}}} // namespace cleave::v0::comm
