// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/ops/print.hpp>
#include <cleave/plan/price.hpp>
#include <cleave/plan/workspace.hpp>

#include <cstdio>
#include <string>

/// A whole plan as text, one line a step, so that the plans of two versions of the library can be compared with diff:
/// what each step is, what it reads and writes in which layout, its bytes and how often it runs. The first line has the
/// price by which strategies were compared.
inline std::string plan_text(const std::string& name, const cleave::program& p, const cleave::sizes& at,
                             const cleave::policy& rule) {
  std::string text = "plan " + name + "\n";
  if (!p.found.ok())
    return text + "  fault " + std::to_string(static_cast<int>(p.found.fault)) + " in " + std::string(p.found.op) +
           "\n";
  const std::int64_t all_bytes = bytes(p, at), all_messages = messages(p, at), all_flops = flops(p, at);
  char price[64];
  std::snprintf(price, sizeof price, "%.9g",
                rule.score({all_bytes, all_messages}) + rule.flop * static_cast<double>(all_flops));
  text.append("  price ")
      .append(price)
      .append(" bytes ")
      .append(std::to_string(all_bytes))
      .append(" messages ")
      .append(std::to_string(all_messages));
  text.append(" flops ")
      .append(std::to_string(all_flops))
      .append(" workspace ")
      .append(std::to_string(workspace(p, at)))
      .append("\n");
  const auto shown = [&](std::uint16_t b) { return to_string(p.buffers[b].type, p.buffers[b].where, p.dims, p.mesh); };
  constexpr const char* kinds[] = {"map",     "fold", "gemm", "call", "move", "exchange", "gather",
                                   "scatter", "scan", "sort", "wait", "loop", "end"};
  for (const cleave::step& s : p.steps) {
    text.append("  ").append(kinds[static_cast<int>(s.kind)]);
    if (s.move != cleave::kind::none)
      text.append(" ").append(name_of(s.move)).append(" over ").append(to_string(s.axes, p.mesh));
    text.append(" ").append(name_of(s.code)).append(":");
    for (std::uint16_t b : s.in) text.append(" ").append(shown(b));
    if (writes(s)) text.append(" -> ").append(shown(s.out));
    if (const std::int64_t moved = step_bytes(p, s, at); moved != 0)
      text.append(" ").append(std::to_string(moved)).append(" bytes");
    if (s.in_loop != 0) text.append(" x ").append(std::to_string(step_iterations(p, s, at)));
    if (s.in_flight) text.append(" in flight");
    if (s.joined) text.append(" joined");
    text += "\n";
  }
  return text;
}
