// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/owned.hpp>
#include <cleave/base/tuned_size.hpp>
#include <cleave/comm/peer_arrays.hpp>

namespace cleave::inline v0::comm {

/// Operands of a move between ranks that share memory, each of which the others read where it is, in one copy. Shared
/// pages take two, and every part of them is waited for; but they need no memory of others, and cost less for what is
/// small or used once.
class direct_reads {
 public:
  /// Operands of so many bytes are read where they are.
  struct sizes {
    std::int64_t least, most;
  };
  /// What computes with longer ones would wait for the tables of small pages: memory that others read has no huge ones.
  /// A pass in place over 32 MiB took 1.5 times as long on a Zen 4 core, and one over 8 MiB as long as before. Shorter
  /// ones are still in the caches of those who read them when they are written again, which takes longer than a copy.
  static constexpr sizes copied{tuned_size(2 << 20, 256), 8 << 20};
  /// Reductions gain nothing from longer ones: what they add up is more than they copy.
  static constexpr sizes reduced_to_blocks{tuned_size(2 << 20, 256), 4 << 20};
  static constexpr sizes reduced_by_all{tuned_size(1 << 20, 256), 4 << 20};

  direct_reads() = default;
  /// `bytes`: the longest operand of the group, the same on all ranks.
  [[gnu::cold]] direct_reads(const group& g, std::int64_t bytes, const sizes& fit) {
    if (on_host && g.together != nullptr && bytes >= fit.least && bytes <= fit.most)
      peers_ = owned<peer_arrays>(new peer_arrays(g, true));
  }

  /// Whether there are operands that the others may read where they are.
  bool possible() const { return static_cast<bool>(peers_); }
  /// Until `close`, all ranks may read the operand of each rank. False on all ranks if one of them cannot give its own,
  /// or has not given it before. Collective over the group.
  bool open(const void* mine, std::int64_t bytes) { return peers_ && peers_->open(mine, bytes, false); }
  const void* of(int r) const { return peers_->of(r); }
  void close() { peers_->close(); }

 private:
  owned<peer_arrays> peers_{};
};

} // namespace cleave::inline v0::comm
