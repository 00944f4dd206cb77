// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/comm/operation.hpp>
#include <cleave/comm/parts.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 { namespace comm {

/// Partial values over the axes are combined, and every device of the axes keeps one block: the axes become the last
/// ones of some dims. Blocks must nest.
/// Communication: MPI_Reduce_scatter_block; MPI_Reduce_scatter if blocks are uneven; in chunks above the limit of
/// counts.
class reduce_scatter {
 public:
  reduce_scatter(grid_state& grid, const transfer& t)
      : element_(t.element), combine_(t.combine), kept_(held_after(grid, t).elements()) {
    const std::int64_t n = grid.sizes().product(t.axes);
    if (n == 1) return;
    group_ = grid.group_of(t.axes);
    pack_ = blocks_given(grid, t);
    // The same on all ranks of the group, whose members hold the same box.
    const auto [least, most] = std::minmax_element(pack_.blocks.counts().begin(), pack_.blocks.counts().end());
    widest_ = *most;
    // Open MPI 4 adds uneven blocks on the host, even for device memory.
    if (*least != widest_ && !on_host) port_ = port(true);
    large_ = pack_.elements() > count_limit();
    counts_.reserve(as_size(n));
    chunk_ = large_ ? reduced_at_once(n, count_limit()) : widest_;
  }
  scratch_bytes needs() const {
    if (group_.size == 1) return {};
    const std::int64_t chunks = large_ ? aligned(chunk_ * group_.size * size()) : 0;
    return {packed_bytes() + chunks, port_.host_bytes(sent(), kept_ * size())};
  }

  void run(const void* in, void* out, const scratch& s) {
    if (group_.size == 1) return copy_bytes(out, in, kept_ * size());
    if (pack_.elements() == 0) return;
    if (!pack_.direct()) pack_.run(in, s.memory, element_);
    const void* const packed = pack_.direct() ? in : s.memory;
    if (!large_) return reduce(packed, sent(), out, 0, s.host);
    // One chunk of every block at a time, contiguous.
    char* const chunks = s.memory + packed_bytes();
    for (std::int64_t done = 0; done < widest_; done += chunk_) {
      std::int64_t elements = 0;
      for (int r = 0; r < group_.size; ++r) {
        const std::int64_t n = count(r, done);
        if (n != 0)
          copy_bytes(element_at(chunks, elements, element_),
                     element_at(packed, pack_.blocks.offset(r) + done, element_), n * size());
        elements += n;
      }
      reduce(chunks, elements * size(), out, done, s.host);
    }
  }

 private:
  std::int64_t size() const { return size_of(element_); }
  std::int64_t sent() const { return pack_.elements() * size(); }
  std::int64_t packed_bytes() const { return pack_.order.packed_bytes(element_); }
  /// Elements of rank r's block in the chunk that begins at `done`.
  std::int64_t count(int r, std::int64_t done) const {
    return std::clamp<std::int64_t>(pack_.blocks.count(r) - done, 0, chunk_);
  }

  /// Reduces the chunks of all blocks that begin at `done`, contiguous in `from`. This device's chunk is written to
  /// `out` at `done`.
  void reduce(const void* from, std::int64_t bytes, void* out, std::int64_t done, char* host) {
    const std::int64_t mine = count(group_.rank, done);
    bool uniform = true;
    counts_.clear();
    for (int r = 0; r < group_.size; ++r) {
      counts_.push_back(as_count(count(r, done)));
      uniform = uniform && counts_.back() == counts_.front();
    }
    const MPI_Datatype type = reduced_datatype_of(combine_, element_);
    const MPI_Op operation = operation_of(combine_, element_);
    // A short block has ended before the others: no element of it is left.
    port_.call(from, bytes, mine != 0 ? element_at(out, done, element_) : out, mine * size(), host,
               [&](const void* read, void* written) {
                 if (uniform)
                   check(CLEAVE_MPI_CALL(MPI_Reduce_scatter_block)(read, written, counts_.front(), type, operation,
                                                                   group_.handle),
                         "MPI_Reduce_scatter_block");
                 else
                   check(CLEAVE_MPI_CALL(MPI_Reduce_scatter)(read, written, counts_.data(), type, operation,
                                                             group_.handle),
                         "MPI_Reduce_scatter");
               });
  }

  element element_;
  reduction combine_;
  std::int64_t kept_;
  port port_{};
  bool large_ = false;
  std::int64_t widest_ = 0, chunk_ = 0;
  group group_{};
  packing pack_{};
  indexed_vector<call_count> counts_{};
};

}}} // namespace cleave::v0::comm
