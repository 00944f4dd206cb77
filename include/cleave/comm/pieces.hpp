// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/messages.hpp>
#include <cleave/comm/move.hpp>
#include <cleave/comm/operation.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 { namespace comm {

/// The least bytes of a message for which a collective is split into pieces: a shorter one consists of latency alone.
/// Tests set it low.
inline std::int64_t& least_piece() {
  static std::int64_t bytes = 20000;
  return bytes;
}

/// A collective whose blocks are adjacent along one dim, and are sent in pieces while a product computes with those
/// that have arrived. Every device has one block, which is split into `pieces` parts.
///
/// Whether it is split follows from sizes, layouts and the transport alone, so all devices of the group agree.
class block_pieces {
 public:
  /// One piece: its position along the dim, in the array of all blocks, and in memory.
  struct piece {
    range along{};
    /// The copy from that array to the packed pieces, or back.
    box_copy copy{};
    std::int64_t elements = 0;
    /// Its first element in the packed array.
    std::int64_t offset = 0;
  };

  /// `all` is the layout of the array of all blocks, `one` that of a block.
  [[gnu::cold]] block_pieces(grid_state& grid, const transfer& t, bool gathers, int wanted) : element_(t.element) {
    const std::int64_t n = grid.sizes().product(t.axes);
    if (n < 2) return;
    group_ = grid.group_of(t.axes);
    const unsigned changed = t.from.differs_at(t.to);
    for (int i = 0; i < t.global.rank; ++i)
      if ((changed >> i & 1u) != 0) dim_ = i;
    // Other transports have no latency to hide.
    if (is_direct(group_) || !on_host || staged() || !stays_in_blocks(t, grid.sizes())) return;
    group_.link = nullptr;
    const box all = gathers ? held_after(grid, t) : held_before(grid, t);
    indexed_vector<box> blocks;
    std::int64_t widest = 0;
    for (std::int64_t r = 0; r < n; ++r) {
      const coordinates at = grid.member(t.axes, r);
      blocks.push_back(gathers ? held_before(grid, t, at) : held_after(grid, t, at));
      widest = std::max(widest, blocks.back().elements() * size_of(element_));
    }
    pieces_ = as_int(std::min<std::int64_t>(wanted, widest / least_piece()));
    for (std::int64_t r = 0; r < n; ++r)
      for (int q = 0; q < pieces_; ++q) append(blocks[r], all, q, gathers);
  }

  /// Pieces of each block; 0: the collective runs as a whole.
  int pieces() const { return pieces_; }
  bool active() const { return pieces_ > 0; }
  /// Pieces of all blocks.
  int count() const { return pieces_ * group_.size; }
  /// The position of the dim.
  int dim() const { return dim_; }
  const piece& of(int rank, int q) const { return all_[rank * pieces_ + q]; }
  /// Piece q of this device's block.
  box part_of(box own, const box& all, int q) const {
    const range along = of(group_.rank, q).along;
    own[dim_] = {along.begin + all[dim_].begin, along.end + all[dim_].begin};
    return own;
  }
  const comm::group& group() const { return group_; }
  /// The rank at this distance after this one, or before it.
  int rank_at(int distance) const { return ((group_.rank + distance) % group_.size + group_.size) % group_.size; }
  cleave::element element() const { return element_; }
  std::int64_t size() const { return size_of(element_); }
  /// Whether every piece is contiguous in the array of all blocks.
  bool direct() const { return direct_; }
  std::int64_t packed_bytes() const { return direct_ ? 0 : aligned(elements_ * size()); }
  std::int64_t widest_bytes() const { return aligned(widest_ * size()); }
  /// The memory of a piece for messages: in the array itself, or packed.
  char* at(const piece& p, void* array, char* packed, bool gathers) const {
    const std::int64_t in_array = gathers ? p.copy.to_offset : p.copy.from_offset;
    return direct_ ? element_at(array, in_array, element_) : element_at(packed, p.offset, element_);
  }

 private:
  [[gnu::cold]] void append(const box& block, const box& all, int q, bool gathers) {
    const range along = block[dim_];
    box part = block;
    part[dim_] = {along.begin + along.size() * q / pieces_, along.begin + along.size() * (q + 1) / pieces_};
    piece p;
    p.along = {part[dim_].begin - all[dim_].begin, part[dim_].end - all[dim_].begin};
    p.elements = part.elements();
    p.offset = elements_;
    p.copy = gathers ? copy_from_packed(part, all, p.offset) : copy_to_packed(part, all, p.offset);
    direct_ = direct_ && p.copy.contiguous();
    elements_ += p.elements;
    widest_ = std::max(widest_, p.elements);
    all_.push_back(p);
  }

  cleave::element element_;
  comm::group group_{};
  int dim_ = 0, pieces_ = 0;
  bool direct_ = true;
  std::int64_t elements_ = 0, widest_ = 0;
  indexed_vector<piece> all_{};
};

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
