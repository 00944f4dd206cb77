// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/language.hpp>

#include <cstdint>

namespace cleave { inline namespace v0 {

/// The communication of a piece of a plan: bytes (the busiest device's), and messages that a device waits for.
struct cost {
  std::int64_t bytes = 0;
  std::int64_t messages = 0;

  constexpr cost& operator+=(const cost& other) {
    bytes += other.bytes;
    messages += other.messages;
    return *this;
  }
  friend constexpr cost operator+(cost a, const cost& b) { return a += b; }
  friend constexpr bool operator==(const cost&, const cost&) = default;
};

/// How strategies are compared. A policy turns a price into one number, so that comparisons are total and
/// deterministic.
struct policy {
  /// Weights of a byte, a message, and a flop on one device.
  double byte = 0;
  double message = 0;
  double flop = 0;
  /// Products may be repeated on several devices up to this factor of the work done once. 0: no limit; the price of a
  /// flop decides.
  double repeat = 0;
  /// How many changes the search tries beyond the first plan that no single change improves; 0: none. It
  /// moves each value once for all of its readers, and improves the rest around it.
  int effort = 0;
  /// Whether collectives may overlap with computation.
  bool overlap = true;
  /// The bytes of workspace on a device above which products gather operands panel by panel; 0: no limit.
  std::int64_t workspace = 0;
  /// Whether equally cheap layouts that are a matter of taste are no fault: the first one is taken.
  bool takes_ties = false;

  /// Estimated seconds on a machine model. The defaults are 2 us for a message, 10 GB/s, and 100 GFLOP/s for each
  /// device.
  static constexpr policy time(double latency = 2e-6, double bandwidth = 1e10, double flop_rate = 1e11) {
    return {1 / bandwidth, latency, 1 / flop_rate, 0, 0, true, 0};
  }
  /// The fewest bytes among plans whose products are repeated at most `repeat` times, then the fewest messages.
  static constexpr policy bytes_first(double repeat) {
    // A message decides only between plans of equal bytes: no plan has a million. The effort bounds the time of the
    // wider search in large programs.
    constexpr double tie_breaker = 1e-6;
    constexpr int effort = 20000;
    return {1, tie_breaker, 0, repeat, effort, true, 0};
  }

  /// The number for bytes and messages.
  constexpr double score(const cost& c) const {
    return byte * static_cast<double>(c.bytes) + message * static_cast<double>(c.messages);
  }
};

}} // namespace cleave::v0
