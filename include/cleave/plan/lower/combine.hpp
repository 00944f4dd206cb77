// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/lower/overlap_exchanges.hpp>
#include <cleave/program/buckets.hpp>
#include <cleave/program/program_view.hpp>

#include <algorithm>

namespace cleave { inline namespace v0 { namespace lowering {

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

}}} // namespace cleave::v0::lowering

namespace cleave { inline namespace v0 { namespace lowering {

/// Whether an exchange that comes later may share the messages of the exchanges `first` to `end`: they have the same
/// devices, and overlap with other steps until all of them are waited for, at the same place. So each has memory of its
/// own, with or without the others. Halos need not have one place: they are short compared with the computation.
constexpr bool can_share_messages(const indexed_vector<step>& steps, indexed_span<const buffer> buffers,
                                  const indexed_vector<std::size_t>& memory, std::size_t first, std::size_t end,
                                  std::size_t late) {
  const bool halo = buffers[steps[late].out].form == form::halo;
  if (steps[first].axes != steps[late].axes || (buffers[steps[first].out].form == form::halo) != halo) return false;
  for (std::size_t k = first; k < end; ++k)
    if (touches(steps[k], steps[late], memory)) return false;
  if (halo) return true;
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

}}} // namespace cleave::v0::lowering
