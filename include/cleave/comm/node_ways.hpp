// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/trial.hpp>
#include <cleave/comm/node_group.hpp>

namespace cleave::inline v0::comm {

/// How a collective goes through the memory of a node.
struct node_way {
  /// How slots are written.
  stores slots = stores::in_caches;
};

/// The way of one collective of a node. Cores that share a cache exchange data in it. Between other cores, what one has
/// in its caches is slow to read for the other: on two Zen 4 cores that share none, a megabyte takes a third of the
/// time through memory. Which of the two is the case is found by trials.
class node_ways {
 public:
  node_ways() = default;
  /// `bytes` of the longest operand, the same on all ranks.
  node_ways(const group& g, std::int64_t bytes) : node_(g.together) {
    if (node_ == nullptr || bytes < least_bytes) return;
    best_ = node_->usual();
    tries_ = node_->tries_ways();
  }

  /// The way of a call that begins, the same on all ranks of the node.
  node_way begin() {
    if (!tries_ || !trial_.is_on()) return {best_};
    node_->time_waits(true);
    start_ = MPI_Wtime();
    return {trial_.other() ? other_than(best_) : best_};
  }
  /// Collective over the ranks of the node at the end of a trial.
  void end() {
    if (!tries_) return;
    if (trial_.is_on()) trial_.took(MPI_Wtime() - start_ - node_->time_waits(false));
    if (trial_.next()) decide();
  }

 private:
  /// Below, waiting for one another counts more than where the bytes are.
  static constexpr std::int64_t least_bytes = 32 << 10;

  [[gnu::cold]] void decide() {
    const double mine[2] = {trial_.least(false), trial_.least(true)};
    double best = 0, other = 0;
    node_->tell(mine, sizeof mine, [&](int, const void* from) {
      double times[2];
      std::memcpy(times, from, sizeof times);
      best += times[0];
      other += times[1];
    });
    if (trial::is_better(other, best)) best_ = other_than(best_);
    node_->set_usual(best_);
  }

  node_group* node_ = nullptr;
  bool tries_ = false;
  stores best_ = stores::in_caches;
  trial trial_{};
  double start_ = 0;
};

} // namespace cleave::inline v0::comm
