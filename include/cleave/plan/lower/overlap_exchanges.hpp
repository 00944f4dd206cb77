// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_span.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/program/program.hpp>

namespace cleave::inline v0::lowering {

/// Whether a step must come after the end of an exchange: it touches what the exchange writes, or writes what it reads.
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

/// Whether a step reads a shard and the halo that an exchange fills. It computes first what lies away from the halo, so
/// that the halo travels meanwhile.
constexpr bool reads_around(const step& other, const step& exchange, indexed_span<const buffer> buffers) {
  if (other.kind != step_kind::map || buffers[exchange.out].form != form::halo) return false;
  for (std::uint16_t b : other.in)
    if (buffers[b].form == form::view && buffers[b].of == exchange.out) return true;
  return false;
}

/// Where an exchange must be waited for: before which step, and whether there is work until then. At the latest at the
/// end of its loop, and before an inner loop begins that touches it.
struct wait_place {
  std::size_t before;
  bool work;
};
constexpr wait_place find_wait(const indexed_vector<step>& steps, indexed_span<const buffer> buffers,
                               const indexed_vector<std::size_t>& memory, std::size_t begun) {
  wait_place outer{begun + 1, false};
  std::size_t level = 0;
  bool work = false;
  for (std::size_t at = begun + 1; at < steps.size(); ++at) {
    const step& other = steps[at];
    if (level == 0) outer = {at, work};
    if (other.kind == step_kind::loop_end && level == 0) return outer;
    if (touches(other, steps[begun], memory)) {
      outer.work = outer.work || (level == 0 && reads_around(other, steps[begun], buffers));
      return outer;
    }
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

/// Lets exchanges go on while what does not need them is computed. Each is waited for just before the first step that
/// touches its destination or writes its source. Only where there is work in between. `memory` tells in which memory a
/// buffer is. Runs before slots are shared, so that buffers live until the wait.
constexpr void overlap_exchanges(indexed_vector<step>& steps, indexed_span<const buffer> buffers,
                                 indexed_span<const dim_map> maps, const indexed_vector<std::size_t>& memory) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].kind != step_kind::exchange || steps[i].move == kind::none) continue;
    bool reads_offsets = false;
    for (const dim_map& m : maps.subspan(steps[i].first_map, steps[i].maps))
      reads_offsets = reads_offsets || m.at_run_time != 0;
    if (reads_offsets) continue;
    const wait_place place = find_wait(steps, buffers, memory, i);
    if (!place.work) continue;
    steps[i].in_flight = true;
    steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(place.before), wait_for(steps[i], i));
  }
}

} // namespace cleave::inline v0::lowering
