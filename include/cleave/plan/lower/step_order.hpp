// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/lower/overlap_exchanges.hpp>
#include <cleave/plan/lower/scale_products.hpp>
#include <cleave/plan/price.hpp>

#include <algorithm>

namespace cleave::inline v0::lowering {

/// The places where a step could be: before the steps `first` to `last`. The step itself is one of those between.
struct places {
  std::size_t first = 0, last = 0;
};

/// The steps of a program while some change places. Waits know by number where what they wait for began, so that all
/// numbers are kept until the end.
class step_order {
 public:
  constexpr step_order(emitted& e, const sizes& at, double flop) : e_(e), steps_(e.made.steps) {
    const program_view p = e.made;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      numbers_.push_back(i);
      const auto& flops = pricing_of(steps_[i].kind).most_flops;
      const double own = flops.given ? flop * static_cast<double>(flops.call(placed(p, steps_[i]), at)) : 0;
      work_.push_back(own * static_cast<double>(step_iterations(p, steps_[i], at)));
    }
    next_ = steps_.size();
    add_up();
  }

  constexpr std::size_t number(std::size_t place) const { return place < numbers_.size() ? numbers_[place] : none; }
  /// Where the step of this number is; the end for none.
  constexpr std::size_t place_of(std::size_t number) const {
    std::size_t i = 0;
    while (i < numbers_.size() && numbers_[i] != number) ++i;
    return i;
  }
  /// Seconds of products before a place, in all iterations of the loops around them.
  constexpr double time_at(std::size_t place) const { return time_[place]; }

  /// Brings step `i` before the step of this number, which is another one.
  constexpr void bring_before(std::size_t i, std::size_t number) {
    const std::size_t to = place_of(number);
    const auto turn = [&](auto& list) {
      const auto at = [&](std::size_t k) { return list.begin() + static_cast<std::ptrdiff_t>(k); };
      if (to > i) std::rotate(at(i), at(i + 1), at(to));
      else std::rotate(at(to), at(i), at(i + 1));
    };
    turn(steps_);
    turn(numbers_);
    turn(work_);
    add_up();
  }
  /// Lets step `i` be waited for at a place.
  constexpr void wait_at(std::size_t place, std::size_t i) {
    const auto at = [&](auto& list) { return list.begin() + static_cast<std::ptrdiff_t>(place); };
    steps_.insert(at(steps_), wait_for(steps_[i], numbers_[i]));
    numbers_.insert(at(numbers_), next_++);
    work_.insert(at(work_), 0);
    add_up();
  }
  /// Waits know places again.
  constexpr void finish() {
    indexed_vector<std::size_t> places(next_, none);
    for (std::size_t i = 0; i < numbers_.size(); ++i) places[numbers_[i]] = i;
    for (step& s : steps_)
      if (s.kind == step_kind::wait) s.begun = narrowed(places[s.begun]);
  }

  /// Where step `i` could begin and must be over, in its stretch of its loop.
  constexpr places places_of(std::size_t i) const {
    places p{i, i + 1};
    while (p.first > 0) {
      const std::size_t before = begin_of(p.first - 1);
      if (before == none || blocks(before, p.first, i)) break;
      p.first = before;
    }
    while (p.last < steps_.size()) {
      const std::size_t end = end_of(p.last);
      if (end == none || blocks(p.last, end, i)) break;
      p.last = end;
    }
    return p;
  }
  /// A place from which on others compute: not in the middle of passes that may run together, nor of what belongs
  /// together.
  constexpr std::size_t after_passes(std::size_t place, std::size_t last) const {
    while (place < last && (is_pass(place) || splits(place))) ++place;
    return place;
  }
  /// The last place before the reader at `place`, and passes that make what it reads, down to `first`.
  constexpr std::size_t before_passes(std::size_t place, std::size_t first) const {
    const std::size_t reader = place;
    while (place > first && ((is_pass(reader) && feeds(place - 1, place, reader)) || splits(place))) --place;
    return place;
  }

 private:
  constexpr void add_up() {
    time_.assign(work_.size() + 1, 0);
    for (std::size_t i = 0; i < work_.size(); ++i) time_[i + 1] = time_[i] + work_[i];
  }
  constexpr bool is_pass(std::size_t i) const {
    return i < steps_.size() && (steps_[i].kind == step_kind::map || steps_[i].kind == step_kind::fold);
  }
  /// Whether the steps around a place belong together.
  constexpr bool splits(std::size_t place) const {
    if (place == 0 || place >= steps_.size()) return false;
    return steps_[place].joined || go_together(steps_[place - 1], steps_[place]);
  }
  /// Whether pass `i` writes what one of the passes `first` to `last` reads.
  constexpr bool feeds(std::size_t i, std::size_t first, std::size_t last) const {
    if (!is_pass(i)) return false;
    for (std::size_t k = first; k <= last; ++k)
      for (std::uint16_t b : steps_[k].in)
        if (e_.memory[b] == e_.memory[steps_[i].out]) return true;
    return false;
  }
  /// Of a step at the level of a stretch: where it and the loop that it ends begins; none: the stretch does.
  constexpr std::size_t begin_of(std::size_t i) const {
    if (steps_[i].kind == step_kind::loop_begin) return none;
    if (steps_[i].kind != step_kind::loop_end) return i;
    const std::uint8_t loop = steps_[i].in_loop;
    while (steps_[i].kind != step_kind::loop_begin || steps_[i].in_loop != loop) --i;
    return i;
  }
  constexpr std::size_t end_of(std::size_t i) const {
    if (steps_[i].kind == step_kind::loop_end) return none;
    if (steps_[i].kind != step_kind::loop_begin) return i + 1;
    const std::uint8_t loop = steps_[i].in_loop;
    while (steps_[i].kind != step_kind::loop_end || steps_[i].in_loop != loop) ++i;
    return i + 1;
  }
  /// Whether the steps `first` to `end` and step `i` must keep their order: one of them writes what the other one
  /// touches.
  constexpr bool blocks(std::size_t first, std::size_t end, std::size_t i) const {
    const step& s = steps_[i];
    const std::size_t from = e_.memory[s.in[0]], to = e_.memory[s.out];
    for (std::size_t k = first; k < end; ++k) {
      const step& other = steps_[k];
      const bool marks = other.kind == step_kind::loop_begin || other.kind == step_kind::loop_end;
      for (std::uint16_t b : other.in)
        if (e_.memory[b] == to) return true;
      if (marks) continue;
      // What is waited for is written there.
      const std::size_t written = e_.memory[other.out];
      if (written == to || written == from) return true;
    }
    return false;
  }

  emitted& e_;
  indexed_vector<step>& steps_;
  indexed_vector<std::size_t> numbers_{};
  /// Of each step, and before each place.
  indexed_vector<double> work_{}, time_{};
  std::size_t next_ = 0;
};

} // namespace cleave::inline v0::lowering
