// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/language.hpp>

#include <cstdint>
#include <limits>

// Decisions of a training loop on the host, by numbers that all ranks have.

namespace cleave { inline namespace v0 { namespace optim {

/// The mean of numbers over batches, each with a weight, such as the number of its labels.
struct running_mean {
  double total = 0, weight = 0;

  /// Adds the number of a batch.
  void add(double number, double of = 1) {
    total += number * of;
    weight += of;
  }
  /// NaN if nothing was added.
  double mean() const { return weight > 0 ? total / weight : std::numeric_limits<double>::quiet_NaN(); }
};

/// Options of `early_stopping`.
struct stopping_options {
  /// The training ends after so many evaluations without a gain.
  std::int64_t patience = 5;
  /// By how much a metric has to be better than the best one.
  double least_gain = 0;
};

/// Ends a training that does not get better (Prechelt 1998). The members are state: checkpoints hold them. A metric
/// that is NaN is no gain.
struct early_stopping {
  double best = std::numeric_limits<double>::infinity();
  std::int64_t best_step = -1;
  /// Evaluations since then.
  std::int64_t waited = 0;

  /// Takes the metric of an evaluation, of which less is better, and says whether it is the best so far.
  bool is_best(double metric, std::int64_t step, const stopping_options& o = {}) {
    const bool better = metric < best - o.least_gain || (best_step < 0 && metric < best);
    if (better) {
      best = metric;
      best_step = step;
    }
    waited = better ? 0 : waited + 1;
    return better;
  }
  /// Whether the training ends.
  bool stops(const stopping_options& o = {}) const { return waited >= o.patience; }
};

}}} // namespace cleave::v0::optim
