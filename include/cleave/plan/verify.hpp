// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/graph/verify.hpp>
#include <cleave/plan/step.hpp>

namespace cleave {

/// Whether a program can run: every step reads what an argument or an earlier step has written and nothing has
/// overwritten, writes no argument, and every result is written.
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
  for (const step& s : p.steps) {
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
    *memory(p.buffers[s.out]) = s.out;
  }
  for (int r : result)
    if (r < 0) return false;
  return true;
}

} // namespace cleave
