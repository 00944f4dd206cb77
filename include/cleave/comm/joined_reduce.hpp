// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/all_reduce.hpp>

#include <vector>

namespace cleave::comm {

/// All-reduces of no more than so many bytes travel together, up to so many bytes at once: beyond, copying them into one
/// message and back costs more than a message does.
inline constexpr std::int64_t joined_part = 1 << 15;
inline constexpr std::int64_t joined_total = 1 << 18;

/// Several small all-reduces over the same axes as one message.
/// Communication: one MPI_Allreduce of all of them.
class joined_reduce {
 public:
  /// Elements and where they lie in the message.
  struct part {
    std::size_t from = 0;
    std::size_t to = 0;
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
  };

  /// `like` is any of the transfers; `elements` those of all parts together.
  joined_reduce(grid_state& grid, const transfer& like, std::vector<part> parts, std::int64_t elements)
      : parts_(std::move(parts)), bytes_(aligned(elements * size_of(like.element))), all_(grid, whole(like, elements)) {}

  scratch_bytes needs() const { return {bytes_, all_.needs().host}; }

  /// `at` gives the address of a buffer.
  template <class Address>
  void run(const Address& at, const scratch& s) const {
    for (const part& p : parts_) copy_bytes(s.memory + p.offset, at(p.from), p.bytes);
    all_.run(s.memory, s.memory, s);
    for (const part& p : parts_) copy_bytes(at(p.to), s.memory + p.offset, p.bytes);
  }

 private:
  /// A value without dims that are divided, as long as the message.
  static transfer whole(const transfer& like, std::int64_t elements) {
    transfer t = like;
    t.global = {};
    t.global.rank = 1;
    t.global[0] = elements;
    t.from = {};
    t.to = {};
    t.from.unreduced = like.axes;
    t.from.combine = like.combine;
    return t;
  }

  std::vector<part> parts_;
  std::int64_t bytes_;
  all_reduce all_;
};

} // namespace cleave::comm
