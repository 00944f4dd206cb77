// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/owned.hpp>
#include <cleave/comm/peer_arrays.hpp>

namespace cleave::inline v0::comm {

/// Operands of a move between ranks that share memory, each of which the others read where it is, in one copy. Shared
/// pages take two, and every part of them is waited for; but they need no memory of others, and cost less for what is
/// small or used once.
class direct_reads {
 public:
  direct_reads() = default;
  /// Above, what computes with an operand would wait for the tables of small pages: memory that others read has no huge
  /// ones. A pass in place over 32 MiB took 1.5 times as long on a Zen 4 core, and one over 8 MiB as long as before.
  static constexpr std::int64_t most_copied = 8 << 20;
  /// Above, reductions gain nothing: what they add up is more than they copy.
  static constexpr std::int64_t most_reduced = 4 << 20;

  /// `bytes`: the longest operand of the group, the same on all ranks.
  [[gnu::cold]] direct_reads(const group& g, std::int64_t bytes, std::int64_t most = most_copied) {
    if (on_host && g.together != nullptr && bytes >= least_bytes && bytes <= most)
      peers_ = owned<peer_arrays>(new peer_arrays(g, true));
  }

  /// Until `close`, all ranks may read the operand of each rank. False on all ranks if one of them cannot give its own,
  /// or has not given it before. Collective over the group.
  bool open(const void* mine, std::int64_t bytes) { return peers_ && peers_->open(mine, bytes, false); }
  const void* of(int r) const { return peers_->of(r); }
  void close() { peers_->close(); }

 private:
  /// Below, waiting for one another counts more than a copy.
  static constexpr std::int64_t least_bytes = 256 << 10;

  owned<peer_arrays> peers_{};
};

} // namespace cleave::inline v0::comm
