// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/lower/allocate.hpp>
#include <cleave/plan/lower/overlap_products.hpp>
#include <cleave/plan/workspace.hpp>

#include <utility>

namespace cleave::inline v0::lowering {

/// The dim along which a move gathers blocks; no_dim: it does something else.
constexpr dim_id gathered_dim(const emitted& e, const step& s) {
  if (s.kind != step_kind::move || s.move != kind::all_gather || !moves_one_dim(e, s)) return no_dim;
  const buffer& to = e.made.buffers[s.out];
  const unsigned changed = e.made.buffers[s.in[0]].where.differs_at(to.where);
  int position = 0;
  while ((changed >> position & 1u) == 0) ++position;
  return to.type[position];
}
/// The product that can gather panel by panel what the step `i` gathers: it alone reads that. none: there is none.
constexpr std::size_t product_for_panels(const emitted& e, const memory_uses& uses, std::size_t i) {
  const indexed_vector<step>& steps = e.made.steps;
  const step& s = steps[i];
  const dim_id d = s.panels == 0 ? gathered_dim(e, s) : no_dim;
  if (d == no_dim) return none;
  const std::size_t memory = e.memory[s.out];
  if (uses.steps[memory] != 2 || e.storages[memory].role != role::workspace) return none;
  const std::size_t j = product_after(e, i);
  if (j == none || is_scaled(steps[j]) || (steps[j].k.has(d) && steps[j].batch.rank > 0)) return none;
  for (const step& other : steps)
    if (other.kind == step_kind::move && other.panels != 0 && steps[j].in.contains(other.out) &&
        gathered_dim(e, other) != d)
      return none;
  return j;
}

/// Lets products gather their operands panel by panel until the workspace is within a limit: first the product that
/// saves most, and when there are no more, in narrower panels. The plan moves the same bytes.
constexpr void gather_in_panels(emitted& e, const sizes& at, std::int64_t limit) {
  const auto needed = [&] {
    emitted copy = e;
    const program made = allocate(std::move(copy));
    return workspace(made, at);
  };
  indexed_vector<step>& steps = e.made.steps;
  bool any = false;
  std::int64_t bytes = needed();
  for (; bytes > limit; bytes = needed()) {
    const memory_uses uses = uses_of_memory(e);
    std::size_t best = none, product = none;
    std::int64_t most = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::size_t j = product_for_panels(e, uses, i);
      if (j == none || e.storages[e.memory[steps[i].out]].bytes <= most) continue;
      most = e.storages[e.memory[steps[i].out]].bytes;
      best = i;
      product = j;
    }
    if (best == none) break;
    any = true;
    steps[best].panels = steps[product].panels = 1;
    // It reads what is gathered, until it is over.
    if (!steps[product].in.contains(steps[best].in[0])) steps[product].in.push_back(steps[best].in[0]);
  }
  // The fewest panels that suffice; where none do, the fewest that take least.
  constexpr std::uint16_t most_panels = 256;
  const auto divide = [&](std::uint16_t n) {
    for (step& s : steps)
      if (s.panels != 0) s.panels = n;
  };
  std::uint16_t best = 1;
  for (std::uint16_t n = 2; any && n <= most_panels && bytes > limit; n = narrowed(2 * n)) {
    divide(n);
    const std::int64_t own = needed();
    if (own >= bytes) continue;
    bytes = own;
    best = n;
  }
  divide(best);
}

} // namespace cleave::inline v0::lowering
