// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/overlap.hpp>
#include <cleave/plan/lower/step_order.hpp>
#include <cleave/program/buckets.hpp>

#include <algorithm>

namespace cleave::inline v0::lowering {

/// What a move costs in flight, with the iterations of its loops.
constexpr move_times times_in_flight(const emitted& e, const step& s, const sizes& at, const policy& price) {
  const program_view p = e.made;
  const cost moved = step_cost(p, s, at);
  if (moved.bytes == 0) return {};
  const std::int64_t others = at.axes.product(s.axes) - 1;
  move_times t = times_of({moved, s.move == kind::all_reduce ? 2 * others : others}, price);
  const double times = static_cast<double>(step_iterations(p, s, at));
  return {times * t.apart, times * t.travel, times * t.own};
}

/// An all-reduce that could go on while others compute.
struct reduce_candidate {
  std::size_t number = none;
  places where{};
  std::int64_t bytes = 0;
  move_times times{};
};
/// Several of them that could begin together, as one message or more, in the order in which their operands are made.
struct reduce_group {
  std::size_t begin = 0, end = 0;
  /// The seconds of products after which they should be over.
  double until = 0;
};
/// A move is waited for when it should have been over for long, or where its result is needed: what it holds is free
/// then. Networks may be much slower than they are taken for.
constexpr double end_of_flight(double start, double end) { return start + 4 * (end - start); }
/// The first place from `start` on, up to `last`, at which so many seconds are over.
constexpr std::size_t place_after(const step_order& order, std::size_t start, std::size_t last, double time) {
  std::size_t place = last;
  while (place > start && order.time_at(place - 1) >= time) --place;
  return place == last ? last : order.after_passes(place, last);
}

/// The messages that all-reduces of such lengths are.
constexpr std::int64_t messages_of(indexed_span<const reduce_candidate> all) {
  std::int64_t messages = 0, bucket = 0;
  for (const reduce_candidate& c : all) {
    if (c.bytes > comm::bucketed_value_bytes) {
      ++messages;
      continue;
    }
    if (bucket == 0 || bucket + c.bytes > comm::bucket_bytes) ++messages, bucket = 0;
    bucket += c.bytes;
  }
  return messages;
}
/// Cuts all-reduces into groups of about as many bytes.
constexpr indexed_vector<reduce_group> cut_into(std::int64_t groups, indexed_span<const reduce_candidate> all) {
  std::int64_t total = 0, sum = 0;
  for (const reduce_candidate& c : all) total += c.bytes;
  indexed_vector<reduce_group> cut;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    sum += all[i].bytes;
    const bool full = sum * groups >= total * (std::ssize(cut) + 1);
    if (!full && i + 1 < all.size()) continue;
    cut.push_back({begin, i + 1});
    begin = i + 1;
  }
  return cut;
}
/// Where a group begins: as soon as its last operand is there; none if one of them is needed before.
constexpr std::size_t start_of(indexed_span<const reduce_candidate> group) {
  std::size_t first = 0, last = none;
  for (const reduce_candidate& c : group) first = std::max(first, c.where.first), last = std::min(last, c.where.last);
  return first <= last ? first : none;
}
/// The seconds that groups add to what computes: messages, which follow one another on the network, and what they take
/// a device. Negative: one of them cannot begin together. Notes until when each should be waited for.
constexpr double added_by(const step_order& order, indexed_vector<reduce_group>& groups,
                          indexed_span<const reduce_candidate> all) {
  double idle = 0, own = 0, late = 0;
  for (reduce_group& g : groups) {
    const auto some = all.subspan(g.begin, g.end - g.begin);
    const std::size_t start = start_of(some);
    if (start == none) return -1;
    double travel = 0, needed = -1, each = 0;
    for (const reduce_candidate& c : some) {
      const double then = order.time_at(c.where.last);
      if (needed < 0 || then < needed) needed = then;
      travel += c.times.travel;
      each = c.times.own;
    }
    idle = std::max(idle, order.time_at(start)) + travel;
    g.until = end_of_flight(order.time_at(start), idle);
    late = std::max(late, idle - needed);
    own += each * static_cast<double>(messages_of(some));
  }
  return late + own;
}

/// A move that begins in flight, by its number, and the seconds of products after which it should be over.
struct flight {
  std::size_t number = none;
  double until = 0;
};

inline constexpr std::int64_t most_groups = 16;

/// All-reduces that are alike begin in a few groups as soon as their operands are made, where that takes less time.
/// Every message costs its latency. Of the numbers of groups that differ by a fiftieth the largest one is better: it
/// hides more where the network is slower than it is taken for.
constexpr void start_reduces(emitted& e, step_order& order, indexed_vector<flight>& flights,
                             indexed_span<const reduce_candidate> all) {
  double apart = 0, least = 0;
  for (const reduce_candidate& c : all) apart += c.times.apart;
  indexed_vector<reduce_group> best;
  for (std::int64_t n = 1; n <= most_groups && n <= std::ssize(all); ++n) {
    indexed_vector<reduce_group> groups = cut_into(n, all);
    const double added = added_by(order, groups, all);
    if (added < 0 || added >= apart || (!best.empty() && added > 1.02 * least)) continue;
    if (best.empty() || added < least) least = added;
    best = std::move(groups);
  }
  for (const reduce_group& g : best) {
    const auto some = all.subspan(g.begin, g.end - g.begin);
    const auto is_one = [&](std::size_t number) {
      for (const reduce_candidate& c : some)
        if (c.number == number) return true;
      return false;
    };
    // Places have moved since, but not those that are between the operands and the readers.
    std::size_t start = 0, last = none;
    for (const reduce_candidate& c : some) {
      const places p = order.places_of(order.place_of(c.number));
      start = std::max(start, order.after_passes(p.first, p.last));
      last = std::min(last, p.last);
    }
    if (start > last) continue;
    while (is_one(order.number(start))) ++start;
    const std::size_t next = order.number(start);
    for (const reduce_candidate& c : some) {
      const std::size_t i = order.place_of(c.number);
      order.bring_before(i, next);
      e.made.steps[order.place_of(c.number)].in_flight = true;
      flights.push_back({c.number, g.until});
    }
  }
}

/// All-reduces by what they have in common and by loop, in the order in which their operands are made.
constexpr indexed_vector<flight> overlap_reduces(emitted& e, step_order& order, const sizes& at, const policy& price) {
  indexed_vector<flight> flights;
  const indexed_vector<step>& steps = e.made.steps;
  const indexed_vector<buffer>& buffers = e.made.buffers;
  indexed_vector<std::size_t> numbers;
  for (std::size_t i = 0; i < steps.size(); ++i)
    if (steps[i].kind == step_kind::move && steps[i].move == kind::all_reduce) numbers.push_back(order.number(i));
  indexed_vector<bool> done(numbers.size(), false);
  for (std::size_t k = 0; k < numbers.size(); ++k) {
    if (done[k]) continue;
    const step one = steps[order.place_of(numbers[k])];
    indexed_vector<reduce_candidate> all;
    for (std::size_t m = k; m < numbers.size(); ++m) {
      const std::size_t i = order.place_of(numbers[m]);
      const step& s = steps[i];
      if (done[m] || s.in_loop != one.in_loop ||
          !reduce_alike(one, buffers[one.out].type.element, s, buffers[s.out].type.element))
        continue;
      done[m] = true;
      const places p = order.places_of(i);
      const buffer& value = buffers[s.out];
      const reduce_candidate c{numbers[m],
                               {order.after_passes(p.first, p.last), order.before_passes(p.last, p.first)},
                               largest_elements(value, e.made.maps, at) * size_of(value.type.element),
                               times_in_flight(e, s, at, price)};
      if (c.times.apart == 0 || c.where.first >= c.where.last) continue;
      std::size_t before = all.size();
      while (before > 0 && all[before - 1].where.first > c.where.first) --before;
      all.insert(all.begin() + static_cast<std::ptrdiff_t>(before), c);
    }
    if (!all.empty()) start_reduces(e, order, flights, all);
  }
  return flights;
}

/// Another move begins where its operand is there; if its result takes memory that its operand did not, so late that it
/// should be over in time.
struct flight_choice {
  bool pays = false;
  std::size_t start = 0;
  double until = 0;
};
constexpr flight_choice choose_flight(const emitted& e, const step_order& order, std::size_t i, const move_times& t) {
  const places p = order.places_of(i);
  const std::size_t end = order.before_passes(p.last, p.first);
  flight_choice c{false, order.after_passes(p.first, p.last), 0};
  if (c.start >= end || t.apart == 0) return c;
  const double late = t.travel - (order.time_at(end) - order.time_at(c.start));
  c.pays = t.own + (late > 0 ? late : 0) < t.apart;
  if (e.made.steps[i].move != kind::reduce_scatter) {
    const double until = end_of_flight(0, t.travel);
    std::size_t later = end;
    while (later > c.start && order.time_at(end) - order.time_at(later) < until) --later;
    later = order.after_passes(later, end);
    if (order.time_at(end) - order.time_at(later) >= t.travel) c.start = later;
  }
  c.until = end_of_flight(order.time_at(c.start), order.time_at(c.start) + t.travel);
  return c;
}

/// Lets moves between devices go on while products are computed, where the price says that this takes less time: they
/// begin where their operands are there, and are waited for before the first step that needs them. Everything else
/// stays in its order, and every device begins moves in the same order. Small all-reduces that begin together are one
/// message, as others are.
constexpr void overlap_moves(emitted& e, const sizes& at, const policy& rule) {
  const policy price = in_seconds(rule);
  bool any = false, products = false;
  for (const step& s : e.made.steps) {
    any = any || (s.kind == step_kind::move && is_collective(s) && s.pieces == 0);
    products = products || s.kind == step_kind::gemm;
  }
  if (!any || !products) return;
  step_order order(e, at, price.flop);
  const indexed_vector<step>& steps = e.made.steps;
  indexed_vector<flight> flights = overlap_reduces(e, order, at, price);
  indexed_vector<std::size_t> numbers;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const step& s = steps[i];
    if (s.kind == step_kind::move && s.move != kind::all_reduce && is_collective(s) && s.pieces == 0)
      numbers.push_back(order.number(i));
  }
  for (std::size_t number : numbers) {
    const std::size_t i = order.place_of(number);
    const flight_choice c = choose_flight(e, order, i, times_in_flight(e, steps[i], at, price));
    if (!c.pays) continue;
    if (c.start != i && c.start != i + 1) order.bring_before(i, order.number(c.start));
    e.made.steps[order.place_of(number)].in_flight = true;
    flights.push_back({number, c.until});
  }
  for (const flight& f : flights) {
    const std::size_t i = order.place_of(f.number);
    const std::size_t needed = order.before_passes(order.places_of(i).last, i + 1);
    order.wait_at(place_after(order, i + 1, needed, f.until), i);
  }
  order.finish();
}

} // namespace cleave::inline v0::lowering
