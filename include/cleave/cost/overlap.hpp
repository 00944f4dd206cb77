// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/policy.hpp>

#include <cstdint>

namespace cleave { inline namespace v0 {

/// A product and the all-gather before it, or the reduce-scatter after it, for given sizes.
struct overlapping {
  /// The communication of the whole collective, and the work of the product.
  cost moved{};
  std::int64_t flops = 0;
  /// The devices that take part: each has one block.
  std::int64_t devices = 1;
};

/// In how many pieces each block travels while the product is computed piece by piece, and the seconds that this saves.
/// 0 pieces: the collective and the product one after the other take no longer.
struct overlap_choice {
  std::uint8_t pieces = 0;
  double saved = 0;
};

inline constexpr int most_pieces = 8;

/// The weights of a policy for seconds; those of `policy::time()` if it has none.
constexpr policy in_seconds(const policy& rule) { return rule.flop > 0 ? rule : policy::time(); }

/// A move between devices that could overlap with computation.
struct move_in_flight {
  /// The communication of its blocking collective, and the messages of a device when it overlaps.
  cost moved{};
  std::int64_t messages = 0;
};
/// Its times, in seconds: its bytes; the latency, blocking and overlapped; and the time of a device to send and receive
/// overlapped messages, which nothing hides.
struct move_times {
  double bytes = 0, latency = 0, latency_in_flight = 0, own = 0;

  constexpr double apart() const { return bytes + latency; }
  constexpr double travel() const { return bytes + latency_in_flight; }
  friend constexpr move_times operator*(double times, const move_times& t) {
    return {times * t.bytes, times * t.latency, times * t.latency_in_flight, times * t.own};
  }
};
constexpr move_times times_of(const move_in_flight& m, const policy& price) {
  const auto messages = [&](std::int64_t n) { return price.message * static_cast<double>(n); };
  return {price.byte * static_cast<double>(m.moved.bytes), messages(m.moved.messages), messages(2),
          messages(m.messages)};
}

/// Estimated by the weights of a policy; those of `policy::time()` if it has no price for time. Every message costs its
/// latency, and every piece of the product as much again, for it is a call of its own. The first piece of a product of
/// devices that wait has nothing to hide behind. Among choices that differ by a fiftieth, more pieces are better: they
/// hide more if the machine differs from its model.
constexpr overlap_choice choose_pieces(const overlapping& o, const policy& rule) {
  if (o.devices < 2 || o.flops == 0 || o.moved.bytes == 0) return {};
  const policy price = in_seconds(rule);
  const double compute = price.flop * static_cast<double>(o.flops),
               move = price.byte * static_cast<double>(o.moved.bytes);
  const double apart = compute + move + price.message * static_cast<double>(o.moved.messages);
  const auto together = [&](int pieces) {
    const double all = static_cast<double>(pieces) * static_cast<double>(o.devices);
    const double travel = move + price.message * (all - pieces) + compute / all;
    return (travel > compute ? travel : compute) + price.message * all;
  };
  double least = apart;
  for (int pieces = 1; pieces <= most_pieces; pieces *= 2)
    if (const double t = together(pieces); t < least) least = t;
  if (!(least < apart)) return {};
  overlap_choice best;
  for (int pieces = 1; pieces <= most_pieces; pieces *= 2)
    if (const double t = together(pieces); t < apart && t <= 1.02 * least)
      best = {static_cast<std::uint8_t>(pieces), apart - t};
  return best;
}

}} // namespace cleave::v0
