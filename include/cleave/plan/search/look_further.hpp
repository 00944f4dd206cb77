// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/search/improve.hpp>

namespace cleave::inline v0::planner {

/// Tries to compute a node from the operands that it takes sliced, as they are before the slice, and with it what
/// follows. Nothing is tried where that would repeat more work than the policy allows.
constexpr bool take_unsliced(const cost_model& m, assignment& a, fingerprints& f, std::size_t v) {
  const std::uint32_t first = m.first_slot.at[v];
  for (std::uint32_t slot = first; slot < m.first_slot.at[v + 1]; ++slot) {
    const std::size_t u = m.operand.at[slot];
    if ((m.traits.at[u] & rematerialised) != 0) continue;
    const layout need = a.need.at[m.edge_of.at[slot]], own = produced(m, a, u);
    if (need.word == own.word || own.is_partial() || reshard_price(m, u, own, need) > 0) continue;
    a.candidates.clear();
    strategy s = a.chosen.at[v];
    project(m, v, static_cast<int>(slot - first), own, s);
    add_with_forwarding(m, a, v, s, a.candidates);
    for (std::size_t i = 0; i < a.candidates.size(); ++i) {
      const strategy next = a.candidates[i];
      if (!repeats_too_much(m, a, v, next) && try_change(m, a, f, v, next, followers::cheap)) return true;
    }
  }
  return false;
}

/// A slice costs nothing, but what is computed from it may have to be moved later: sorted, reversed, gathered. Looks
/// from what costs something up to the slices that it came through, and puts each of them off where that is cheaper in
/// all. The node that reads a slice costs nothing itself, so that improving it alone would find nothing.
constexpr void slice_later(const cost_model& m, assignment& a, fingerprints& f) {
  indexed_vector<std::uint8_t> left{};
  left.assign(m.count, 0);
  bool changed = false;
  for (std::size_t v = m.count; v-- > 0;) {
    if (a.price.at[v] > 0) left.at[v] = m.limits.slices_above;
    if (left.at[v] == 0 || is_fixed(m, a, v)) continue;
    changed = take_unsliced(m, a, f, v) || changed;
    if ((m.traits.at[v] & contracting) != 0) continue;
    for (std::uint32_t slot = m.first_slot.at[v]; slot < m.first_slot.at[v + 1]; ++slot)
      if (std::uint8_t& above = left.at[m.operand.at[slot]]; above + 1 < left.at[v]) above = narrowed(left.at[v] - 1);
  }
  if (changed) improve(m, a, f, m.limits.sweeps);
}

/// Looks further around reductions and exchanges, and puts slices off. Only here, where nothing else is cheaper any
/// more, so that no plan becomes dearer by it.
constexpr void look_further(const cost_model& m, assignment& a, fingerprints& f) {
  a.looks_further = true;
  f.salt = 1;
  for (std::size_t v = 0; v < m.count; ++v)
    a.fresh.at[v] = (m.traits.at[v] & (reduces | remaps)) != 0 && (m.traits.at[v] & contracting) == 0 ? 1 : 0;
  improve(m, a, f, m.limits.sweeps);
  slice_later(m, a, f);
}

} // namespace cleave::inline v0::planner
