// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/search/forced.hpp>
#include <cleave/plan/search/improve.hpp>
#include <cleave/plan/search/look_further.hpp>
#include <cleave/plan/search/move_once.hpp>
#include <cleave/plan/search/start.hpp>
#include <cleave/rules/all.hpp>

#include <type_traits>
#include <utility>

namespace cleave { inline namespace v0 {

namespace planner {

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
      const std::size_t u = m.operand.at[m.first_slot.at[v] + as_size(k)];
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

} // namespace planner

/// A strategy for every node, by node, and the fault if the choice must be left to the user.
struct choice {
  indexed_vector<strategy> by_node{};
  factor_table factors{};
  /// Of values that are read in several layouts besides their own: in the order in which the copies are made.
  indexed_vector<std::pair<std::size_t, layout>> copies{};
  verdict found{};
  double score = 0;
};

namespace planner {

/// The invariant of each pass of the search: every node can be computed with its strategy, nodes without a choice
/// follow the others, and cached data equal recomputed ones.
constexpr bool verify(const cost_model& m, const assignment& a) {
  for (std::size_t v = 0; v < m.count; ++v) {
    const strategy& s = a.chosen.at[v];
    const std::uint32_t t = a.moves_before_loop.at[v] == 0 ? m.traits.at[v]
                                                           : m.traits.at[v] & ~(follows_others | fixed_strategy);
    if ((t & follows_others) != 0 && !(s == following(m, a, v))) return false;
    if ((t & (fixed_strategy | may_be_transparent)) == 0 && !valid(m, v, s)) return false;
    for (std::uint32_t slot = m.first_slot.at[v]; slot < m.first_slot.at[v + 1]; ++slot)
      if (!(a.need.at[m.edge_of.at[slot]] == required(m, v, s, static_cast<int>(slot - m.first_slot.at[v]))))
        return false;
  }
  return true;
}
/// The same of prices, once there are any.
constexpr bool verify_prices(const cost_model& m, assignment& a) {
  for (std::size_t v = 0; v < m.count; ++v)
    if (a.price.at[v] != copies_price(m, a, v) + step_price(m, v, a.chosen.at[v]) ||
        a.work.at[v] != flops_with(m, v, a.chosen.at[v]))
      return false;
  return true;
}

} // namespace planner

/// Completes a graph and chooses how each node is computed: starts from completion, improves node by node, then by
/// changes that no single node makes cheaper. Merges become exchanges of elements in `g` if that is cheaper.
constexpr choice choose(graph& g, const sizes& at, const policy& rule) {
  using namespace planner;
  choice made;
  made.factors = factors_of(g);
  reshard_cache cache(at, rule);
  cost_model m(g, at, rule, cache, all_rules, made.factors);
  assignment a(m);
  fingerprints f(m);
  // After each pass, if that costs next to nothing: not in the compiler.
  bool sound = true;
  const auto check = [&] {
    if (!std::is_constant_evaluated()) sound = sound && planner::verify(m, a) && verify_prices(m, a);
  };
  start(m, a, complete(g, made.factors));
  price_all(m, a);
  check();
  improve(m, a, f, m.limits.sweeps);
  check();
  gather_early(m, a, f);
  check();
  read_apart(m, a, f);
  check();
  // The passes after this put slices and moves off, maybe for one operand or for another.
  if (!rule.takes_ties) made.found = find_tie(m, a, f);
  look_further(m, a, f);
  check();
  exchange_views(g, m, a, f);
  check();
  if (rule.effort > 0) {
    move_once(m, a, f);
    check();
  }
  compute_everywhere(m, a);
  compute_as_read(m, a, f);
  check();
  made.score = total_price(m, a);
  for (std::size_t v = 0; v < m.count; ++v) {
    if ((m.traits.at[v] & may_be_transparent) != 0 && is_transparent(m, a, v))
      a.chosen.at[v] = {.out = produced(m, a, v)};
    if (a.price.at[v] == 0 || (m.traits.at[v] & (rematerialised | read_through)) != 0) continue;
    const layout own = produced(m, a, v);
    const std::size_t found = find_copies(m, a, v, own);
    if (found < 2) continue;
    order_copies(m, a, v, own, found);
    for (std::size_t i = 0; i < found; ++i) made.copies.push_back({v, a.copies.at[i]});
  }
  made.by_node = std::move(a.chosen);
  if (!sound) made.found = {fault::internal, {}, "choose"};
  return made;
}

}} // namespace cleave::v0
