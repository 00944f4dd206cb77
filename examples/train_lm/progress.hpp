// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How far a run is: one line that is written again and again on a terminal, else a line for every 5 % of the steps.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <unistd.h>

namespace lm {

/// Whether someone watches. Open MPI gives every rank a terminal of its own, wherever its output goes; then what counts is
/// the output of mpirun, which is our parent on the first node.
inline bool on_terminal() {
  if (isatty(STDOUT_FILENO) == 0) return false;
  std::error_code none;
  const auto parents = std::filesystem::read_symlink("/proc/" + std::to_string(getppid()) + "/fd/1", none);
  return none || parents.string().starts_with("/dev/pts/") || parents.string().starts_with("/dev/tty");
}

class progress {
 public:
  progress(bool speaks, std::int64_t steps, std::int64_t tokens_of_a_step)
      : speaks_(speaks), terminal_(speaks && on_terminal()), steps_(steps), tokens_(tokens_of_a_step), start_(MPI_Wtime()) {}
  ~progress() { leave(); }
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  double seconds() const { return MPI_Wtime() - start_; }

  /// `validation` is what was measured last, 0 before that.
  void show(std::int64_t step, double loss, double validation) {
    if (!speaks_) return;
    const bool due = step == 1 || step == steps_ || step * 20 / steps_ != (step - 1) * 20 / steps_;
    if (!terminal_ && !due) return;
    const double passed = seconds(), rate = static_cast<double>(step * tokens_) / std::max(passed, 1e-9);
    const double left = passed / static_cast<double>(step) * static_cast<double>(steps_ - step);
    if (terminal_) {
      std::string bar(24, '.');
      std::fill_n(bar.begin(), step * static_cast<std::int64_t>(bar.size()) / steps_, '#');
      std::printf("\r[%s] ", bar.c_str());
    }
    // As wide as the last number, so that lines stand under each other.
    const std::string all = std::to_string(steps_);
    std::printf("step %*lld/%s  loss %.4f", static_cast<int>(all.size()), static_cast<long long>(step), all.c_str(), loss);
    if (validation > 0) std::printf("  validation %.4f", validation);
    // Blanks at the end cover a longer line.
    std::printf("  %.0f tokens/s  %s left%s", rate, time(left).c_str(), terminal_ ? "   " : "\n");
    std::fflush(stdout);
    open_ = terminal_;
  }
  /// Leaves the line of the bar, so that something else may be printed.
  void leave() {
    if (open_) std::printf("\n");
    open_ = false;
  }

 private:
  static std::string time(double seconds) {
    const auto whole = static_cast<long long>(std::ceil(seconds));
    return whole < 100 ? std::to_string(whole) + " s" : std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  }

  bool speaks_, terminal_, open_ = false;
  std::int64_t steps_, tokens_;
  double start_;
};

} // namespace lm
