// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/program/step.hpp>

#include <span>
#include <vector>

namespace cleave::detail {

/// Lets exchanges go on while what does not need them is computed: each is waited for just before the first step that touches its destination or
/// writes its source, at the latest at the end of its loop. Only where there is work in between. `storage` says in which memory a buffer
/// lies. Runs before slots are shared, so that buffers live until the wait.
constexpr void overlap_exchanges(std::vector<step>& steps, std::span<const dim_map> maps, const std::vector<std::size_t>& storage) {
  const auto reads_offsets = [&](const step& s) {
    bool reads = false;
    for (const dim_map& m : maps.subspan(s.first_map, s.maps)) reads = reads || m.at_run_time != 0;
    return reads;
  };
  const auto works = [](const step& s) { return s.kind == step_kind::gemm || s.kind == step_kind::map || s.kind == step_kind::fold || s.kind == step_kind::call; };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const step s = steps[i];
    if (s.kind != step_kind::exchange || s.move == kind::none || reads_offsets(s)) continue;
    const auto touches = [&](const step& other) {
      const std::size_t brought = storage[s.out];
      for (std::uint16_t b : other.in)
        if (storage[b] == brought) return true;
      if (!writes(other)) return false;
      if (storage[other.out] == brought) return true;
      for (std::uint16_t b : s.in)
        if (storage[b] == storage[other.out]) return true;
      return false;
    };
    // It ends with its loop at the latest, and before an inner loop that touches it begins.
    std::size_t at = i + 1, level = 0, outer = i + 1;
    bool busy = false, work_before = false;
    for (; at < steps.size(); ++at) {
      const step& other = steps[at];
      if (level == 0) outer = at, work_before = busy;
      if (other.kind == step_kind::loop_end && level == 0) break;
      if (touches(other)) break;
      if (other.kind == step_kind::loop_begin) ++level;
      if (other.kind == step_kind::loop_end) --level;
      busy = busy || works(other);
    }
    if (at == steps.size()) outer = at, work_before = busy;
    if (!work_before) continue;
    steps[i].in_flight = true;
    step w;
    w.kind = step_kind::wait;
    w.in = s.in;
    if (!w.in.full()) w.in.push_back(s.out);
    w.out = s.out;
    w.begun = static_cast<std::uint16_t>(i);
    w.in_loop = s.in_loop;
    w.code = s.code;
    w.node = s.node;
    w.where = s.where;
    w.gradient = s.gradient;
    steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(outer), w);
  }
}

} // namespace cleave::detail
