// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How far a run is: one line that is written again and again on a terminal, else a line for every 5 % of the steps. And
// its numbers as a file.
#pragma once

#include "options.hpp"

#include <cleave/show/terminal.hpp>

#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iomanip>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace examples {

class progress {
 public:
  /// A step takes so many of a thing, whose rate is shown. Some steps may have been done before.
  progress(bool speaks, std::int64_t steps, std::int64_t each, std::string_view things, std::int64_t before = 0)
      : speaks_(speaks), terminal_(speaks && cleave::show::on_terminal()), steps_(steps), each_(each), before_(before),
        things_(things), start_(MPI_Wtime()) {}
  ~progress() { leave(); }
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;

  double seconds() const { return MPI_Wtime() - start_; }

  struct measure {
    const char* name;
    double number;
  };
  /// Steps may be left out between two calls. A number that is not known (NaN) is left out.
  void show(std::int64_t step, std::initializer_list<measure> measured) {
    if (!speaks_) return;
    const bool due = last_ < 0 || step == steps_ || step * 20 / steps_ != last_ * 20 / steps_;
    last_ = step;
    if (!terminal_ && !due) return;
    const double passed = seconds(), rate = static_cast<double>((step - before_) * each_) / std::max(passed, 1e-9);
    const double left = passed / static_cast<double>(step - before_) * static_cast<double>(steps_ - step);
    if (terminal_) {
      std::string bar(24, '.');
      std::fill_n(bar.begin(), step * static_cast<std::int64_t>(bar.size()) / steps_, '#');
      std::printf("\r[%s] ", bar.c_str());
    }
    // As wide as the last number, so that lines stand under each other.
    const std::string all = std::to_string(steps_);
    std::printf("step %*lld/%s", static_cast<int>(all.size()), static_cast<long long>(step), all.c_str());
    for (const measure& m : measured)
      if (!std::isnan(m.number)) std::printf("  %s %.4f", m.name, m.number);
    // Blanks at the end cover a longer line.
    std::printf("  %.0f %s/s  %s left%s", rate, things_.c_str(), time(left).c_str(), terminal_ ? "   " : "\n");
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
    return whole < 100 ? std::to_string(whole) + " s"
                       : std::to_string(whole / 60) + " min " + std::to_string(whole % 60) + " s";
  }

  bool speaks_, terminal_, open_ = false;
  std::int64_t steps_, each_, before_, last_ = -1;
  std::string things_;
  double start_;
};

/// How a number went: a line of 60 bars, each the mean of as many numbers.
class curve {
 public:
  void add(double number) { numbers_.push_back(number); }
  std::string drawn(std::string_view name) const {
    const std::size_t bars = std::min(numbers_.size(), std::size_t{60});
    std::vector<double> means(bars);
    for (std::size_t b = 0; b < bars; ++b) {
      const auto at = [&](std::size_t i) {
        return numbers_.begin() + static_cast<std::ptrdiff_t>(i * numbers_.size() / bars);
      };
      means[b] = std::accumulate(at(b), at(b + 1), 0.0) / static_cast<double>(at(b + 1) - at(b));
    }
    if (means.empty()) return {};
    const auto [low, high] = std::minmax_element(means.begin(), means.end());
    std::string line(name);
    char number[32];
    std::snprintf(number, sizeof number, " %.4f ", means.front());
    line += number;
    for (const double m : means) {
      const double height = *high > *low ? 7 * (m - *low) / (*high - *low) : 0;
      line += "\xe2\x96";
      line += static_cast<char>(0x81 + (std::isfinite(height) ? static_cast<int>(height + 0.5) : 0));
    }
    std::snprintf(number, sizeof number, " %.4f", means.back());
    return line + number;
  }

 private:
  std::vector<double> numbers_{};
};

/// Lines of numbers, written by rank 0 as they come. Collective; throws on every rank where the file cannot be written.
/// No path: no file.
class csv_log {
 public:
  csv_log(bool speaks, const std::string& path, std::string_view columns) : path_(path) {
    if (speaks && !path.empty()) file_.open(path);
    require(path.empty() || file_.is_open());
    file_ << columns << '\n' << std::setprecision(9);
  }
  /// A number that is not known (NaN) leaves its place empty. Collective; throws on every rank where the disk is full.
  void write(std::initializer_list<double> numbers) {
    if (path_.empty()) return;
    bool first = true;
    for (double x : numbers) {
      if (!first) file_ << ',';
      if (!std::isnan(x)) file_ << x;
      first = false;
    }
    // Flushed, so that a run can be watched, and what it learned until it was stopped is kept.
    file_ << std::endl;
    require(!file_.is_open() || file_.good());
  }

 private:
  /// What rank 0 finds, all ranks throw.
  void require(bool written) const {
    if (!agreed(written)) throw std::runtime_error("cannot write the log '" + path_ + "'");
  }

  std::string path_;
  std::ofstream file_{};
};

/// The loss of a step, if it is a finite number; the same on every rank. Throws otherwise.
inline double finite_loss(double loss) {
  if (!std::isfinite(loss)) throw std::runtime_error("the loss is not finite any more: try a smaller --rate");
  return loss;
}

} // namespace examples
