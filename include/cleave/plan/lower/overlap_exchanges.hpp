// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/program/program_view.hpp>

namespace cleave { inline namespace v0 { namespace lowering {

/// Whether a step must come after the end of an exchange: it touches the exchange's result, or writes its operand.
constexpr bool touches(const step& other, const step& exchange, const indexed_vector<std::size_t>& memory) {
  const std::size_t brought = memory[exchange.out];
  for (std::uint16_t b : other.in)
    if (memory[b] == brought) return true;
  if (!writes(other)) return false;
  if (memory[other.out] == brought) return true;
  for (std::uint16_t b : exchange.in)
    if (memory[b] == memory[other.out]) return true;
  return false;
}

/// Whether a step reads a shard and the halo that an exchange fills. It computes the points away from the halo first,
/// so that the halo travels meanwhile.
constexpr bool reads_around(const step& other, const step& exchange, indexed_span<const buffer> buffers) {
  if (other.kind != step_kind::map || buffers[exchange.out].form != form::halo) return false;
  for (std::uint16_t b : other.in)
    if (buffers[b].form == form::view && buffers[b].of == exchange.out) return true;
  return false;
}

/// Whether an exchange may overlap with other steps. Offsets that only the run knows are read when it is made.
constexpr bool may_be_in_flight(const step& s, indexed_span<const dim_map> maps) {
  if (s.kind != step_kind::exchange || s.move == kind::none || s.keeps) return false;
  for (const dim_map& m : maps.subspan(s.first_map, s.maps))
    if (m.at_run_time != 0) return false;
  return true;
}

/// Where the exchanges `first` to `end`, which begin together, must be waited for: before which step, and whether there
/// is work until then. At the latest at the end of their loop, and before an inner loop begins that touches them.
struct wait_place {
  std::size_t before;
  bool work;
};
constexpr wait_place find_wait(const indexed_vector<step>& steps, indexed_span<const buffer> buffers,
                               const indexed_vector<std::size_t>& memory, std::size_t first, std::size_t end) {
  wait_place outer{end, false};
  std::size_t level = 0;
  bool work = false;
  for (std::size_t at = end; at < steps.size(); ++at) {
    const step& other = steps[at];
    if (level == 0 && !is_in_pass(other)) outer = {at, work};
    if (other.kind == step_kind::loop_end && level == 0) return outer;
    bool touched = false;
    for (std::size_t k = first; k < end; ++k) {
      if (!touches(other, steps[k], memory)) continue;
      touched = true;
      outer.work = outer.work || (level == 0 && reads_around(other, steps[k], buffers));
    }
    if (touched) return outer;
    if (other.kind == step_kind::loop_begin) ++level;
    if (other.kind == step_kind::loop_end) --level;
    work = work || computes(other);
  }
  return {steps.size(), work};
}

/// The end of an exchange.
constexpr step wait_for(const step& exchange, std::size_t begun) {
  step w;
  w.kind = step_kind::wait;
  w.in = exchange.in;
  if (!w.in.full()) w.in.push_back(exchange.out);
  w.out = exchange.out;
  w.begun = narrowed(begun);
  w.in_loop = exchange.in_loop;
  w.code = exchange.code;
  w.node = exchange.node;
  w.where = exchange.where;
  w.gradient = exchange.gradient;
  return w;
}

/// Lets exchanges overlap with steps that do not need them. Each is waited for just before the first step that touches
/// its result or writes its operand. Only if there is work in between, or if exchanges share messages: these are waited
/// for together. `memory` tells in which memory a buffer is. Runs before slots are shared, so that buffers live until
/// the wait.
constexpr void overlap_exchanges(indexed_vector<step>& steps, indexed_span<const buffer> buffers,
                                 indexed_span<const dim_map> maps, const indexed_vector<std::size_t>& memory) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind != step_kind::exchange || !may_be_in_flight(steps[i], maps)) continue;
    const std::size_t first = i, end = end_of_joined(steps, i);
    wait_place place = find_wait(steps, buffers, memory, first, end);
    // A pipelined pair stays together.
    if (place.before > end && place.before < steps.size() && go_together(steps[place.before - 1], steps[place.before]))
      --place.before;
    if (end == first + 1 && !place.work) continue;
    for (std::size_t k = end; k-- > first;) {
      steps[k].in_flight = true;
      steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(place.before), wait_for(steps[k], k));
    }
    i = end - 1;
  }
}

}}} // namespace cleave::v0::lowering
