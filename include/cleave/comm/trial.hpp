// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>

namespace cleave::inline v0::comm {

/// Compares two ways to do something that is done again and again: at first, and a few times of every `period`, they
/// alternate, and the shortest time of each counts. So a choice follows where the system puts processes, which it does
/// not say; virtual machines do not even know it.
class trial {
 public:
  bool is_on() const { return at_ < tries; }
  /// Whether this time is the other way's.
  bool other() const { return is_on() && at_ % 2 == 1; }
  void took(double time) { least_[at_ % 2] = std::min(least_[at_ % 2], time); }
  double least(bool of_other) const { return least_[of_other ? 1 : 0]; }
  /// Goes on to the next time. Whether a trial has ended by it.
  bool next() {
    if (++at_ == period) restart();
    return at_ == tries;
  }
  void restart() { *this = trial(); }
  /// A way takes the place of another one only if it is clearly faster.
  static bool is_better(double time, double than) { return time < 0.9 * than; }

 private:
  static constexpr int tries = 6, period = 256;
  static constexpr double never = 1e30;

  int at_ = 0;
  double least_[2] = {never, never};
};

} // namespace cleave::inline v0::comm
