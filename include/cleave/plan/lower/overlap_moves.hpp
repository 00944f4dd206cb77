// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/overlap.hpp>
#include <cleave/plan/lower/step_order.hpp>
#include <cleave/program/buckets.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 { namespace lowering {

/// A move between devices that could overlap with computation.
struct flight {
  std::size_t number = none;
  positions where{};
  std::int64_t bytes = 0;
  move_times times{};
  /// The seconds of products after which it should be over.
  double until = 0;
};

constexpr bool may_fly(const step& s) {
  return s.kind == step_kind::move && s.pieces == 0 && s.panels == 0 && is_collective(s);
}

/// The cost of a move in flight, with the iterations of its loops.
constexpr move_times times_in_flight(const emitted& e, const step& s, const sizes& at, const policy& price) {
  const program_view p = e.made;
  const cost moved = step_cost(p, s, at);
  if (moved.bytes == 0) return {};
  const std::int64_t others = at.axes.product(s.axes) - 1;
  return static_cast<double>(step_iterations(p, s, at)) *
         times_of({moved, s.move == kind::all_reduce ? 2 * others : others}, price);
}
/// The same for all that is known of the move at a position.
constexpr flight flight_at(const emitted& e, const step_order& order, std::size_t i, const sizes& at,
                           const policy& price) {
  const step& s = e.made.steps[i];
  const positions p = order.positions_of(i);
  const buffer& value = e.made.buffers[s.out];
  return {order.number(i),
          {order.after_passes(p.first, p.last), order.before_passes(p.last, p.first)},
          largest_elements(value, e.made.maps, at) * size_of(value.type.element),
          times_in_flight(e, s, at, price)};
}

/// A move is waited for when it should have been over for long, or when its result is needed: its memory is free then.
/// Networks may be much slower than assumed.
constexpr double end_of_flight(double start, double end) { return start + 4 * (end - start); }

/// All-reduces that can be combined, in the order in which their operands are made.
using reduce_list = indexed_span<flight>;

/// The number of their messages if they begin together.
constexpr std::int64_t messages_of(const reduce_list& all) {
  std::int64_t messages = 0, bucket = 0;
  for (const flight& f : all) {
    if (f.bytes > comm::bucketed_value_bytes) {
      ++messages;
      continue;
    }
    if (bucket == 0 || bucket + f.bytes > comm::bucket_bytes) ++messages, bucket = 0;
    bucket += f.bytes;
  }
  return messages;
}
/// Calls f(group) for each of at most `groups` groups that have about as many bytes.
template <class F>
constexpr void for_each_group(std::int64_t groups, const reduce_list& all, F&& f) {
  std::int64_t total = 0, sum = 0, cut = 0;
  for (const flight& r : all) total += r.bytes;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    sum += all[i].bytes;
    if (sum * groups < total * (cut + 1) && i + 1 < all.size()) continue;
    f(all.subspan(begin, i + 1 - begin));
    begin = i + 1;
    ++cut;
  }
}
/// Where a group begins: as soon as its last operand is there; none if one of them is needed before.
constexpr std::size_t start_of(const reduce_list& group) {
  std::size_t first = 0, last = none;
  for (const flight& f : group) first = std::max(first, f.where.first), last = std::min(last, f.where.last);
  return first <= last ? first : none;
}
/// The seconds that groups add to the computation: messages, which follow one another on the network, and the time that
/// they take a device. Negative: one of them cannot begin together. Notes until when each should be over.
constexpr double added_by(const step_order& order, std::int64_t groups, const reduce_list& all) {
  double idle = 0, own = 0, late = 0;
  bool possible = true;
  for_each_group(groups, all, [&](reduce_list some) {
    const std::size_t start = start_of(some);
    possible = possible && start != none;
    if (!possible) return;
    const double messages = static_cast<double>(messages_of(some));
    double travel = messages * some[0].times.latency_in_flight;
    for (const flight& f : some) travel += f.times.bytes;
    const double begin = order.time_at(start);
    idle = std::max(idle, begin) + travel;
    for (flight& f : some) {
      late = std::max(late, idle - order.time_at(f.where.last));
      f.until = end_of_flight(begin, idle);
    }
    own += messages * some[0].times.own;
  });
  return possible ? late + own : -1;
}

inline constexpr std::int64_t most_groups = 16;

/// The number of groups in which all-reduces should begin; 0: running them one after the other with the computation
/// takes no longer. Every message costs its latency. Of the numbers of groups that differ by a fiftieth the largest one
/// is better: it hides more if the network is slower than assumed.
constexpr std::int64_t choose_groups(const step_order& order, const reduce_list& all) {
  if (all.empty()) return 0;
  double apart = static_cast<double>(messages_of(all)) * all[0].times.latency, least = 0;
  for (const flight& f : all) apart += f.times.bytes;
  std::int64_t best = 0;
  for (std::int64_t n = 1; n <= most_groups && n <= std::ssize(all); ++n) {
    const double added = added_by(order, n, all);
    if (added < 0 || added >= apart || (best != 0 && added > 1.02 * least)) continue;
    if (best == 0 || added < least) least = added;
    best = n;
  }
  return best;
}
/// Brings all-reduces to the position where the last of them can begin.
constexpr void begin_together(emitted& e, step_order& order, const reduce_list& group) {
  // Positions have changed since, but not those that are between the operands and the readers.
  std::size_t start = 0;
  for (const flight& f : group) {
    const positions p = order.positions_of(order.position_of(f.number));
    start = std::max(start, order.after_passes(p.first, p.last));
  }
  const auto is_one = [&](std::size_t number) {
    for (const flight& f : group)
      if (f.number == number) return true;
    return false;
  };
  while (is_one(order.number(start))) ++start;
  const std::size_t next = order.number(start);
  for (const flight& f : group) {
    order.bring_before(order.position_of(f.number), next);
    e.made.steps[order.position_of(f.number)].in_flight = true;
  }
}

/// All-reduces begin in a few groups as soon as their operands are made: grouped by common properties, and by loop.
/// Moves that begin are added to `flights`.
constexpr void start_reduces(emitted& e, step_order& order, const sizes& at, const policy& price,
                             indexed_vector<flight>& flights) {
  const indexed_vector<step>& steps = e.made.steps;
  const indexed_vector<buffer>& buffers = e.made.buffers;
  indexed_vector<std::size_t> left;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (may_fly(steps[i]) && steps[i].move == kind::all_reduce) left.push_back(order.number(i));
  indexed_vector<flight> all;
  while (!left.empty()) {
    const step one = steps[order.position_of(left[0])];
    all.clear();
    left.remove_if([&](std::size_t number) {
      const std::size_t i = order.position_of(number);
      const step& s = steps[i];
      if (s.in_loop != one.in_loop || !reduce_alike(one, buffers[one.out].type.element, s, buffers[s.out].type.element))
        return false;
      const flight f = flight_at(e, order, i, at, price);
      if (f.times.bytes == 0 || f.where.first >= f.where.last) return true;
      std::size_t before = all.size();
      while (before > 0 && all[before - 1].where.first > f.where.first) --before;
      all.insert(all.begin() + static_cast<std::ptrdiff_t>(before), f);
      return true;
    });
    const reduce_list list(all.data(), all.size());
    const std::int64_t groups = choose_groups(order, list);
    if (groups == 0) continue;
    added_by(order, groups, list);
    for_each_group(groups, list, [&](const reduce_list& some) { begin_together(e, order, some); });
    for (const flight& f : all) flights.push_back(f);
  }
}

/// Where another move begins: when its operand is there; if its result takes memory that its operand did not, so late
/// that it should be over in time. None: running it one after the other with the computation takes no longer.
constexpr std::size_t choose_start(const emitted& e, const step_order& order, std::size_t i, const flight& f) {
  const auto [start, end] = f.where;
  if (start >= end || f.times.bytes == 0) return none;
  const double late = f.times.travel() - (order.time_at(end) - order.time_at(start));
  if (!(f.times.own + (late > 0 ? late : 0) < f.times.apart())) return none;
  if (e.made.steps[i].move == kind::reduce_scatter) return start;
  const double early = end_of_flight(0, f.times.travel());
  std::size_t later = end;
  while (later > start && order.time_at(end) - order.time_at(later) < early) --later;
  later = order.after_passes(later, end);
  return order.time_at(end) - order.time_at(later) >= f.times.travel() ? later : start;
}
constexpr void start_others(emitted& e, step_order& order, const sizes& at, const policy& price,
                            indexed_vector<flight>& flights) {
  const indexed_vector<step>& steps = e.made.steps;
  indexed_vector<std::size_t> numbers;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (may_fly(steps[i]) && steps[i].move != kind::all_reduce) numbers.push_back(order.number(i));
  for (std::size_t number : numbers) {
    const std::size_t i = order.position_of(number);
    flight f = flight_at(e, order, i, at, price);
    const std::size_t start = choose_start(e, order, i, f);
    if (start == none) continue;
    f.until = end_of_flight(order.time_at(start), order.time_at(start) + f.times.travel());
    if (start != i) order.bring_before(i, order.number(start));
    e.made.steps[order.position_of(number)].in_flight = true;
    flights.push_back(f);
  }
}

/// A move in flight is waited for at the first position at which it should be over, or where it is needed. Moves that
/// begin there begin first.
constexpr void wait_for_flight(step_order& order, const flight& f) {
  const std::size_t i = order.position_of(f.number);
  const std::size_t needed = order.before_passes(order.positions_of(i).last, i + 1);
  std::size_t position = needed;
  while (position > i + 1 && order.time_at(position - 1) >= f.until) --position;
  if (position != needed) position = order.after_passes(position, needed);
  while (position < needed && order.begins(position)) ++position;
  order.wait_at(position, i);
}

/// Overlaps moves between devices with products if the cost model predicts a gain: they begin when their operands are
/// there, and are waited for before the first step that needs them. All other steps stay in their order, and every
/// device begins moves in the same order. Small all-reduces that begin together are one message, as others are.
constexpr void overlap_moves(emitted& e, const sizes& at, const policy& rule) {
  std::size_t moves = 0, products = 0;
  for (const step& s : e.made.steps) {
    moves += may_fly(s) ? 1 : 0;
    products += s.kind == step_kind::gemm ? 1 : 0;
  }
  if (moves == 0 || products == 0) return;
  const policy price = in_seconds(rule);
  step_order order(e, at, price.flop, moves);
  indexed_vector<flight> flights;
  flights.reserve(moves);
  start_reduces(e, order, at, price, flights);
  start_others(e, order, at, price, flights);
  for (const flight& f : flights) wait_for_flight(order, f);
  order.finish();
}

}}} // namespace cleave::v0::lowering
