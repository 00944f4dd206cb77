// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/messages.hpp>
#include <cleave/comm/move.hpp>

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
    // Ranks of one node copy from each other; there is no latency to hide.
    if (group_.together != nullptr || !on_host || staged() || !stays_in_blocks(t, grid.sizes())) return;
    group_.pipes = nullptr;
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

}}} // namespace cleave::v0::comm
