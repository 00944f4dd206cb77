// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/lower/overlap_exchanges.hpp>
#include <cleave/plan/lower/scale_products.hpp>
#include <cleave/plan/price.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 { namespace lowering {

/// The positions where a step could be: before the steps `first` to `last`. The step itself is one of those between.
struct positions {
  std::size_t first = 0, last = 0;
};

/// Brings element `i` of a list before the one at `to`.
template <class T>
constexpr void bring_to(T* all, std::size_t i, std::size_t to) {
  if (to > i) std::rotate(all + i, all + i + 1, all + to);
  else std::rotate(all + to, all + i, all + i + 1);
}

/// The steps of a program while some change positions. A wait knows the step in which its move began by number, so all
/// numbers are kept until the end. Loops run over plain pointers: constant evaluation pays for each call.
class step_order {
 public:
  /// `flop` is the seconds of a flop; at most `waits` waits are added.
  constexpr step_order(emitted& e, const sizes& at, double flop, std::size_t waits) : e_(e), steps_(e.made.steps) {
    const std::size_t count = steps_.size();
    numbers_.reserve(count + waits);
    time_.reserve(count + waits + 1);
    steps_.reserve(count + waits);
    // The steps are elsewhere after that.
    const program_view p = e.made;
    const step* const steps = steps_.data();
    double time = 0;
    for (std::size_t i = 0; i < count; ++i) {
      numbers_.push_back(i);
      time_.push_back(time);
      if (steps[i].kind != step_kind::gemm) continue;
      const std::int64_t flops = pricing_of(step_kind::gemm).most_flops.call(placed(p, steps[i]), at);
      time += flop * static_cast<double>(flops) * static_cast<double>(step_iterations(p, steps[i], at));
    }
    time_.push_back(time);
    next_ = count;
  }

  constexpr std::size_t number(std::size_t position) const {
    return position < numbers_.size() ? numbers_[position] : none;
  }
  /// Where the step of this number is; the end for none.
  constexpr std::size_t position_of(std::size_t number) const {
    const std::size_t* const numbers = numbers_.data();
    const std::size_t count = numbers_.size();
    std::size_t i = number < count && numbers[number] == number ? number : 0;
    while (i < count && numbers[i] != number) ++i;
    return i;
  }
  /// Seconds of products before a position, in all iterations of the loops around them.
  constexpr double time_at(std::size_t position) const { return time_[position]; }

  /// Brings step `i`, which is no product, before the step of this number, which is another one.
  constexpr void bring_before(std::size_t i, std::size_t number) {
    const std::size_t to = position_of(number);
    if (to == i + 1) return;
    bring_to(steps_.data(), i, to);
    bring_to(numbers_.data(), i, to);
    // There is no time between it and the step before it.
    bring_to(time_.data(), i, to);
    double* const time = time_.data();
    const std::size_t now = to > i ? to - 1 : to;
    time[now] = time[now + 1];
  }
  /// Lets step `i` be waited for at a position.
  constexpr void wait_at(std::size_t position, std::size_t i) {
    const auto at = [&](auto& list) { return list.begin() + static_cast<std::ptrdiff_t>(position); };
    steps_.insert(at(steps_), wait_for(steps_[i], numbers_[i]));
    numbers_.insert(at(numbers_), next_++);
    time_.insert(at(time_), double{time_[position]});
  }
  /// Waits know positions again.
  constexpr void finish() {
    indexed_vector<std::size_t> positions(next_, none);
    std::size_t* const position = positions.data();
    const std::size_t* const numbers = numbers_.data();
    const std::size_t count = steps_.size();
    step* const steps = steps_.data();
    for (std::size_t i = 0; i < count; ++i) position[numbers[i]] = i;
    for (std::size_t i = 0; i < count; ++i)
      if (steps[i].kind == step_kind::wait) steps[i].begun = narrowed(position[steps[i].begun]);
  }

  /// Where step `i` could begin and must be over, in its stretch of its loop.
  constexpr positions positions_of(std::size_t i) const {
    const step* const steps = steps_.data();
    const std::size_t count = steps_.size(), from = e_.memory[steps[i].in[0]], to = e_.memory[steps[i].out];
    positions p{i, i + 1};
    while (p.first > 0) {
      const step& other = steps[p.first - 1];
      if (other.kind == step_kind::loop_begin) break;
      const std::size_t begin = other.kind == step_kind::loop_end ? begin_of_loop(p.first - 1) : p.first - 1;
      if (blocks(begin, p.first, from, to)) break;
      p.first = begin;
    }
    while (p.last < count) {
      const step& other = steps[p.last];
      if (other.kind == step_kind::loop_end) break;
      const std::size_t end = other.kind == step_kind::loop_begin ? end_of_loop(p.last) : p.last + 1;
      if (blocks(p.last, end, from, to)) break;
      p.last = end;
    }
    // Not in the middle of a pass.
    while (p.first < i && is_in_pass(steps[p.first])) ++p.first;
    while (p.last > i + 1 && p.last < count && is_in_pass(steps[p.last])) --p.last;
    return p;
  }
  /// A position from which on others compute: not in the middle of passes that may run together, nor of a pipelined
  /// pair.
  constexpr std::size_t after_passes(std::size_t position, std::size_t last) const {
    while (position < last && (is_pass(position) || splits(position))) ++position;
    return position;
  }
  /// Whether a move in flight begins at a position.
  constexpr bool begins(std::size_t position) const {
    return steps_[position].kind == step_kind::move && steps_[position].in_flight;
  }
  /// The last position before the reader at `position`, and passes that make its operands, down to `first`.
  constexpr std::size_t before_passes(std::size_t position, std::size_t first) const {
    const std::size_t reader = position;
    while (position > first && ((is_pass(reader) && feeds(position - 1, position, reader)) || splits(position)))
      --position;
    return position;
  }

 private:
  constexpr bool is_pass(std::size_t i) const {
    if (i >= steps_.size()) return false;
    const step_kind kind = steps_[i].kind;
    return kind == step_kind::map || kind == step_kind::fold;
  }
  /// Whether the steps around a position belong together.
  constexpr bool splits(std::size_t position) const {
    if (position == 0 || position >= steps_.size()) return false;
    const step& s = steps_[position];
    return s.joined || (s.pieces != 0 && go_together(steps_[position - 1], s));
  }
  /// Whether pass `i` writes an operand of one of the passes `first` to `last`.
  constexpr bool feeds(std::size_t i, std::size_t first, std::size_t last) const {
    if (!is_pass(i)) return false;
    const std::size_t written = e_.memory[steps_[i].out];
    for (std::size_t k = first; k <= last; ++k)
      if (reads(e_, steps_[k], written)) return true;
    return false;
  }
  constexpr std::size_t begin_of_loop(std::size_t i) const {
    const step* const steps = steps_.data();
    const std::uint8_t loop = steps[i].in_loop;
    while (steps[i].kind != step_kind::loop_begin || steps[i].in_loop != loop) --i;
    return i;
  }
  /// Behind the mark.
  constexpr std::size_t end_of_loop(std::size_t i) const {
    const step* const steps = steps_.data();
    const std::uint8_t loop = steps[i].in_loop;
    while (steps[i].kind != step_kind::loop_end || steps[i].in_loop != loop) ++i;
    return i + 1;
  }
  /// Whether one of the steps `first` to `end` must keep its order with a step that moves data from one piece of memory
  /// to another: one of both writes memory that the other one touches.
  constexpr bool blocks(std::size_t first, std::size_t end, std::size_t from, std::size_t to) const {
    const step* const steps = steps_.data();
    const std::size_t* const of = e_.memory.data();
    for (std::size_t k = first; k < end; ++k) {
      const step& other = steps[k];
      if (reads(e_, other, to)) return true;
      if (other.kind == step_kind::loop_begin || other.kind == step_kind::loop_end) continue;
      // A wait writes the result of its move.
      const std::size_t written = of[other.out];
      if (written == to || written == from) return true;
    }
    return false;
  }

  emitted& e_;
  indexed_vector<step>& steps_;
  indexed_vector<std::size_t> numbers_{};
  /// Before each position.
  indexed_vector<double> time_{};
  std::size_t next_ = 0;
};

}}} // namespace cleave::v0::lowering
