// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/messages.hpp>
#include <cleave/comm/operation.hpp>
#include <cleave/program/move_scratch.hpp>

#include <algorithm>
#include <utility>

namespace cleave { inline namespace v0 { namespace comm {

/// A reduction of partial values by exchange of blocks: every rank sends each other rank one block, and receives its
/// own block from all others. It combines them in the order of the ranks, so the result depends neither on time nor on
/// other values that are reduced in the same call.
class block_reduction {
 public:
  block_reduction() = default;
  /// `blocks` of the operand, one for each rank of the group.
  [[gnu::cold]] block_reduction(const group& ranks, element e, reduction how, rank_blocks blocks)
      : ranks_(ranks), element_(e), how_(how), blocks_(std::move(blocks)) {
    std::int64_t requests = 0;
    for (int r = 0; r < ranks_.size; ++r)
      if (r != ranks_.rank) requests += messages::requests_for(blocks_.count(r)) + messages::requests_for(mine());
    messages_.reserve(requests);
  }

  /// Memory for the blocks received from the others.
  std::int64_t scratch_bytes() const { return aligned((ranks_.size - 1) * mine() * size()); }
  std::int64_t received_bytes() const { return (ranks_.size - 1) * mine() * size(); }
  std::int64_t mine() const { return blocks_.count(ranks_.rank); }

  void begin(const void* in, char* arriving) {
    arriving_ = arriving;
    for (int r = 0; r < ranks_.size; ++r)
      if (r != ranks_.rank) messages_.receive(arriving_from(r), mine(), element_, r, ranks_);
    for (int r = 0; r < ranks_.size; ++r)
      if (r != ranks_.rank)
        messages_.send(element_at(in, blocks_.offset(r), element_), blocks_.count(r), element_, r, ranks_);
  }
  /// Whether all blocks have been sent and received.
  bool progress() { return messages_.progress(); }
  void wait() { messages_.wait(); }
  /// After that: writes the block of this rank, possibly in place in the operand.
  void combine(const void* in, void* out) const {
    const char* const own = element_at(in, blocks_.offset(ranks_.rank), element_);
    const bool first = ranks_.rank == 0;
    char* const sum = first ? as<char>(out) : arriving_from(0);
    if (first && out != own) copy_bytes(out, own, mine() * size());
    for (int r = 1; r < ranks_.size; ++r) add(r == ranks_.rank ? own : arriving_from(r), sum);
    if (!first) copy_bytes(out, sum, mine() * size());
  }

 private:
  std::int64_t size() const { return size_of(element_); }
  char* arriving_from(int r) const { return arriving_ + (r < ranks_.rank ? r : r - 1) * mine() * size(); }
  void add(const void* from, void* into) const { combine_here(from, into, mine(), element_, how_); }

  group ranks_{};
  element element_ = element::none;
  reduction how_ = reduction::sum;
  rank_blocks blocks_{};
  messages messages_{};
  char* arriving_ = nullptr;
};

}}} // namespace cleave::v0::comm
