// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/search/improve.hpp>

namespace cleave::inline v0::planner {

/// Whether a node is what elementwise operations make of constants and indices alone, which every device can make.
constexpr bool is_made_of_indices(const cost_model& m, std::size_t v, const indexed_vector<std::uint8_t>& made) {
  if ((m.traits.at[v] & elementwise_op) == 0 || m.first_slot.at[v] == m.first_slot.at[v + 1]) return false;
  for (std::uint32_t slot = m.first_slot.at[v]; slot < m.first_slot.at[v + 1]; ++slot)
    if (const std::size_t u = m.operand.at[slot]; (m.traits.at[u] & rematerialised) == 0 && made.at[u] == 0)
      return false;
  return true;
}
/// The one layout that all readers of a value and all results need; the own one where they differ.
constexpr layout needed_by_all(const cost_model& m, const assignment& a, std::size_t v) {
  const layout own = produced(m, a, v);
  layout all = own;
  bool any = false;
  const auto also = [&](layout need) {
    if (any && need.word != all.word) return false;
    all = need;
    return any = true;
  };
  for (std::uint32_t e = m.first_edge.at[v]; e < m.first_edge.at[v + 1]; ++e)
    if (!also(needed(m, a, m.edges.at[e]))) return own;
  for (std::uint32_t result = m.last_output.at[v]; result != 0; result = m.other_output.at[result - 1])
    if (!also(asked_of(m, a, result - 1))) return own;
  return all;
}

/// Lets devices make what is made of indices alone only where it is read. Each of them making all of it costs no
/// communication, so that no other pass sees a difference; but memory and time.
constexpr void compute_as_read(const cost_model& m, assignment& a, fingerprints& f) {
  indexed_vector<std::uint8_t> made(m.count, 0);
  for (std::size_t v = 0; v < m.count; ++v) made.at[v] = is_made_of_indices(m, v, made) ? 1 : 0;
  for (std::size_t v = m.count; v-- > 0;) {
    if (made.at[v] == 0 || is_fixed(m, a, v)) continue;
    const layout own = produced(m, a, v), need = needed_by_all(m, a, v);
    if (need.is_partial() || m.at.axes.product(need.sharded()) <= m.at.axes.product(own.sharded())) continue;
    strategy s = a.chosen.at[v];
    shard_result(m, v, need, s);
    s.forwarded = 0;
    s.partial_operands = 0;
    derive_unreduced(m.node_at(v), s);
    bool no_dearer = false;
    if (!valid(m, v, s) || try_change(m, a, f, v, s, followers::none, &no_dearer) || !no_dearer) continue;
    begin_change(a);
    set_strategy(m, a, v, s);
    keep_change(m, a);
  }
}

} // namespace cleave::inline v0::planner
