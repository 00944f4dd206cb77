// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/trial.hpp>
#include <cleave/storage/wide.hpp>

#include <Kokkos_Core.hpp>

namespace cleave::inline v0 {

/// Where a map stores a result that is larger than the caches. Past them, nothing is read before it is overwritten,
/// which is faster where the cores wait for memory. Into them, a core computes on while lines are on their way. Which
/// one is faster depends on the map, the processor and how many cores are at work, so it is found by trials.
class store_choice {
 public:
  /// Before a run.
  stores begin() {
    if (trial_.is_on()) clock_.reset();
    return trial_.other() ? other_than(best_) : best_;
  }
  /// After it.
  void end() {
    if (trial_.is_on()) trial_.took(clock_.seconds());
    if (trial_.next() && trial::is_better(trial_.least(true), trial_.least(false))) best_ = other_than(best_);
  }

 private:
  stores best_ = stores::past_caches;
  trial trial_{};
  Kokkos::Timer clock_{};
};

} // namespace cleave::inline v0
