// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/graph/verify.hpp>
#include <cleave/program/step.hpp>

#include <algorithm>

namespace cleave {

/// Whether a program can run: every step reads what an argument or an earlier step has written and nothing has
/// overwritten, writes no argument, and every result is written. What an exchange in flight brings is written where it is waited for,
/// and what it sends stays until then; it is over before its loop ends.
constexpr bool verify(const program& p) {
  // The buffer that was written last into each piece of memory.
  std::vector<int> slot(p.slots, -1), result(p.results, -1);
  const auto memory = [&](const buffer& b) -> int* {
    if (b.role == role::input) return nullptr;
    return b.role == role::output ? &result[b.index] : &slot[b.index];
  };
  // Views of one piece of memory under other dims hold the same elements.
  const auto elements = [&](int b) { return p.buffers[static_cast<std::size_t>(b)].type.element; };
  for (const buffer& b : p.buffers) {
    if (b.index >= (b.role == role::input ? p.arguments : b.role == role::output ? p.results : p.slots)) return false;
    if (!verify(b.where, b.type.rank, p.mesh)) return false;
  }
  std::vector<std::size_t> in_flight;
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const step& s = p.steps[i];
    if (s.kind == step_kind::wait) {
      const auto f = std::ranges::find(in_flight, s.begun);
      if (f == in_flight.end()) return false;
      in_flight.erase(f);
      const std::uint16_t brought = p.steps[s.begun].out;
      if (*memory(p.buffers[brought]) >= 0) return false;
      *memory(p.buffers[brought]) = brought;
      continue;
    }
    if (s.kind == step_kind::loop_end)
      for (std::size_t f : in_flight)
        if (p.steps[f].in_loop == s.in_loop) return false;
    for (std::uint16_t in : s.in) {
      if (in >= p.buffers.size()) return false;
      const int* have = memory(p.buffers[in]);
      if (have != nullptr && (*have < 0 || elements(*have) != elements(in))) return false;
    }
    if (!writes(s)) continue;
    if (s.out >= p.buffers.size() || p.buffers[s.out].role == role::input) return false;
    if (s.kind == step_kind::move && p.buffers[s.in[0]].type.rank != p.buffers[s.out].type.rank) return false;
    for (const tape_op& t : s.tape)
      if (t.code == op::input && t.arg >= s.in.size()) return false;
    int* const target = memory(p.buffers[s.out]);
    for (std::size_t f : in_flight) {
      if (target == memory(p.buffers[p.steps[f].out])) return false;
      for (std::uint16_t sent : p.steps[f].in)
        if (target == memory(p.buffers[sent])) return false;
    }
    *target = s.in_flight ? -1 : static_cast<int>(s.out);
    if (s.in_flight) in_flight.push_back(i);
  }
  if (!in_flight.empty()) return false;
  for (int r : result)
    if (r < 0) return false;
  return true;
}

} // namespace cleave
