// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <algorithm>
#include <cstdint>

namespace cleave::inline v0 {

/// Compares two ways to do something that is done again and again: at first, and a few times of every `period`, they
/// take turns, and the shortest time of each counts. So a choice follows where the system puts processes, which it does
/// not say; virtual machines do not even know it.
class trial {
 public:
  bool is_on() const { return at_ < tries; }
  /// Whether this time is the other way's.
  bool other() const { return is_on() && is_other(at_); }
  void took(double time) { least_[is_other(at_)] = std::min(least_[is_other(at_)], time); }
  double least(bool of_other) const { return least_[of_other]; }
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
  /// One, other, other, one, one, other: both have what else takes turns.
  static constexpr bool is_other(int at) { return at % 4 == 1 || at % 4 == 2; }

  int at_ = 0;
  double least_[2] = {never, never};
};

} // namespace cleave::inline v0
