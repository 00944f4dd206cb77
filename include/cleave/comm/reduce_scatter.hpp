// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/operation.hpp>
#include <cleave/comm/parts.hpp>

#include <algorithm>
#include <vector>

namespace cleave::comm {

/// Partial values over the axes are combined, and every device of the axes keeps one block: the axes become the last ones of
/// some dims. Blocks must nest.
/// Communication: MPI_Reduce_scatter_block, MPI_Reduce_scatter where blocks are uneven, in chunks above the limit of counts.
class reduce_scatter {
 public:
  reduce_scatter(grid_state& grid, const transfer& t)
      : element_(t.element), combine_(t.combine), port_(staged()), staged_(staged()) {
    const box from = box_of(t.global, t.from, grid.here(), grid.sizes());
    const std::int64_t n = grid.sizes().product(t.axes);
    kept_ = box_of(t.global, t.to, grid.here(), grid.sizes()).elements();
    if (n == 1) return;
    group_ = grid.group_of(t.axes);
    for (std::int64_t r = 0; r < n; ++r)
      pack_.append_pack(box_of(t.global, t.to, grid.member(t.axes, r), grid.sizes()), from);
    // The same on all ranks of the group, whose members hold the same box.
    widest_ = *std::max_element(pack_.blocks.count.begin(), pack_.blocks.count.end());
    large_ = pack_.elements() > count_limit();
    // A piece of each block at a time; not so small that latency counts, not so large that the second buffer does.
    piece_ = large_ ? std::max<std::int64_t>(1, std::min<std::int64_t>(count_limit(), std::int64_t{1} << 24) / n) : widest_;
    counts_.count.resize(static_cast<std::size_t>(n));
  }
  scratch_bytes needs() const {
    if (group_.size == 1) return {};
    const std::int64_t piece = large_ ? aligned(piece_ * group_.size * size_of(element_)) : 0;
    return {(pack_.direct ? 0 : aligned(sent())) + piece, staged_ ? aligned(sent()) + aligned(kept_ * size_of(element_)) : 0};
  }

  void run(const void* in, void* out, const scratch& s) {
    const std::int64_t size = size_of(element_);
    if (group_.size == 1) return copy_bytes(out, in, kept_ * size);
    if (pack_.elements() == 0) return;
    const void* packed = in;
    if (!pack_.direct) {
      pack_.run(in, s.memory, element_);
      packed = s.memory;
    }
    char* piece = s.memory + (pack_.direct ? 0 : aligned(sent()));
    if (!large_) {
      char* host_out = s.host + (staged_ ? aligned(sent()) : 0);
      reduce(port_.outgoing(packed, s.host, sent()), port_.incoming(out, host_out), 0);
      return port_.arrived(out, host_out, kept_ * size);
    }
    for (std::int64_t done = 0; done < widest_; done += piece_) {
      std::int64_t at = 0;
      for (int r = 0; r < group_.size; ++r) {
        const std::int64_t n = count(r, done);
        const std::int64_t from = pack_.blocks.offset[static_cast<std::size_t>(r)] + done;
        if (n != 0) copy_bytes(piece + at * size, element_at(packed, from, element_), n * size);
        at += n;
      }
      char* host_out = s.host + (staged_ ? aligned(at * size) : 0);
      const std::int64_t mine = count(group_.rank, done);
      void* into = mine != 0 ? element_at(out, done, element_) : out;
      reduce(port_.outgoing(piece, s.host, at * size), port_.incoming(into, host_out), done);
      port_.arrived(into, host_out, mine * size);
    }
  }

 private:
  std::int64_t sent() const { return pack_.elements() * size_of(element_); }
  /// Elements of rank r's block in the piece that begins at `done`.
  std::int64_t count(int r, std::int64_t done) const {
    return std::clamp<std::int64_t>(pack_.blocks.count[static_cast<std::size_t>(r)] - done, 0, piece_);
  }
  void reduce(const void* from, void* into, std::int64_t done) {
    bool uniform = true;
    for (int r = 0; r < group_.size; ++r) {
      counts_.count[static_cast<std::size_t>(r)] = static_cast<call_count>(count(r, done));
      uniform = uniform && count(r, done) == count(0, done);
    }
    const MPI_Datatype type = reduced_datatype_of(combine_, element_);
    const MPI_Op operation = operation_of(combine_, element_);
    if (uniform) {
      check(CLEAVE_MPI_CALL(MPI_Reduce_scatter_block)(from, into, counts_.count[0], type, operation, group_.handle),
            "MPI_Reduce_scatter_block");
    } else {
      check(CLEAVE_MPI_CALL(MPI_Reduce_scatter)(from, into, counts_.count.data(), type, operation, group_.handle),
            "MPI_Reduce_scatter");
    }
  }

  element element_;
  reduction combine_;
  port port_;
  bool staged_;
  bool large_ = false;
  std::int64_t kept_ = 0, widest_ = 0, piece_ = 0;
  group group_{};
  packing pack_{};
  call_counts counts_{};
};

} // namespace cleave::comm
