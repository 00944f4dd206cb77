// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/search/improve.hpp>

namespace cleave { inline namespace v0 { namespace planner {

/// Whether the layout of a value was written by the user, up to cheap ops in between; those of products are ours.
constexpr bool written_by_user(const cost_model& m, std::size_t v, int depth) {
  if (depth == 0) return false;
  const node& n = m.node_at(v);
  const op_class what = class_of(n.code);
  if (what == op_class::annotation || n.code == op::input) return true;
  if (what != op_class::elementwise && what != op_class::view) return false;
  for (int k = 0; k < n.arity; ++k) {
    const std::size_t u = n.in[k];
    // A broadcast operand, such as a bias, has no say.
    if (m.node_at(u).type.rank >= n.type.rank && written_by_user(m, u, depth - 1)) return true;
  }
  return false;
}

/// An elementwise op whose operands are sharded differently, and following either costs the same: only the order of the
/// operands would decide.
constexpr verdict find_tie(const cost_model& m, assignment& a, fingerprints& f) {
  for (std::size_t v = 0; v < m.count; ++v) {
    if ((m.traits.at[v] & elementwise_op) == 0) continue;
    const node& n = m.node_at(v);
    // Nobody can constrain a value of a derivative.
    if (n.arity < 2 || n.gradient || !must_move(m, a, v)) continue;
    // The operands that have a say, and whether the node follows one of them already.
    static_vector<strategy, max_arity> ways;
    bool follows = false;
    for (int k = 0; k < n.arity; ++k) {
      const std::size_t u = n.in[k];
      const layout own = a.chosen.at[u].out;
      if (own.used() == 0 || own.is_partial() || m.node_at(u).type.rank != n.type.rank) continue;
      if (!written_by_user(m, u, m.limits.written_through)) continue;
      strategy s;
      project(m, v, k, own, s);
      derive_unreduced(n, s);
      if (!valid(m, v, s)) continue;
      if (s.divides_like(a.chosen.at[v])) follows = true;
      else ways.push_back(s);
    }
    for (std::size_t w = 0; w < ways.count; ++w) {
      bool tie = false;
      if (follows) try_change(m, a, f, v, ways.items[w], followers::cheap, &tie);
      if (!tie) continue;
      int i = 0;
      while (ways.items[w].out[i] == a.chosen.at[v].out[i]) ++i;
      return {fault::layouts_tie, n.where, name_of(n.code), m.g.dims[n.type[i]].name};
    }
  }
  return {};
}

}}} // namespace cleave::v0::planner
