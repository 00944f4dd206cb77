// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/program/buckets.hpp>
#include <cleave/program/program_view.hpp>

#include <algorithm>

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

/// Moves all-reduces in place up to the last compatible one before them, if their operands are computed by then.
/// Adjacent ones that turn out to be small travel as one message. `memory` tells in which memory a buffer is.
constexpr void combine_all_reduces(indexed_vector<step>& steps, const indexed_vector<buffer>& buffers,
                                   const indexed_vector<std::size_t>& memory) {
  const auto alike = [&](const step& a, const step& b) {
    return reduce_alike(a, buffers[a.out].type.element, b, buffers[b.out].type.element);
  };
  for (std::size_t j = 1; j < steps.size(); ++j) {
    const step& late = steps[j];
    const std::size_t own = memory[late.out];
    if (late.kind != step_kind::move || late.move != kind::all_reduce || memory[late.in[0]] != own) continue;
    for (std::size_t i = j; i-- > 0 && steps[i].in_loop == late.in_loop && memory[steps[i].out] != own;) {
      if (!alike(steps[i], late)) continue;
      const auto at = [&](std::size_t k) { return steps.begin() + static_cast<std::ptrdiff_t>(k); };
      std::rotate(at(i + 1), at(j), at(j + 1));
      break;
    }
  }
}

/// Whether an exchange that comes later may share the messages of the exchanges `first` to `end`: they have the same
/// devices, and overlap with other steps until all of them are waited for, at the same place. So each has memory of its
/// own, with or without the others. Halos, which are short, need neither: a device waits once for all its neighbours.
constexpr bool can_share_messages(const indexed_vector<step>& steps, indexed_span<const buffer> buffers,
                                  const indexed_vector<std::size_t>& memory, std::size_t first, std::size_t end,
                                  std::size_t late) {
  const bool halo = buffers[steps[late].out].form == form::halo;
  if ((buffers[steps[first].out].form == form::halo) != halo) return false;
  for (std::size_t k = first; k < end; ++k)
    if (touches(steps[k], steps[late], memory)) return false;
  if (halo) return true;
  if (steps[first].axes != steps[late].axes) return false;
  const wait_place place = find_wait(steps, buffers, memory, first, end);
  return place.work && place.before == find_wait(steps, buffers, memory, late, late + 1).before;
}

/// Lets exchanges begin together if their operands are there and their results are not read yet, so that each device
/// gets one message from each other one. Halos move up to the exchange of a halo before them for that. Other exchanges
/// move past no step, since their results are large and would be in memory longer. `overlap_exchanges` must follow: it
/// keeps them in flight until their wait. `memory` tells in which memory a buffer is.
constexpr void combine_exchanges(indexed_vector<step>& steps, indexed_span<const buffer> buffers,
                                 indexed_span<const dim_map> maps, const indexed_vector<std::size_t>& memory) {
  const step* const all = steps.data();
  const std::size_t count = steps.size();
  for (std::size_t late = 1; late < count; ++late) {
    if (all[late].kind != step_kind::exchange || !may_be_in_flight(all[late], maps)) continue;
    const bool halo = buffers[all[late].out].form == form::halo;
    for (std::size_t i = late; i-- > 0 && steps[i].in_loop == steps[late].in_loop;) {
      if (touches(steps[i], steps[late], memory) || steps[i].kind == step_kind::loop_begin) break;
      if (may_be_in_flight(steps[i], maps) &&
          can_share_messages(steps, buffers, memory, first_joined(steps, i), i + 1, late)) {
        const auto at = [&](std::size_t k) { return steps.begin() + static_cast<std::ptrdiff_t>(k); };
        std::rotate(at(i + 1), at(late), at(late + 1));
        steps[i + 1].joined = true;
        break;
      }
      if (!halo) break;
    }
  }
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
