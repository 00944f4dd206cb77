// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/search/exchange_dims.hpp>
#include <cleave/plan/search/find_tie.hpp>
#include <cleave/plan/search/gather_early.hpp>
#include <cleave/plan/search/improve.hpp>
#include <cleave/plan/search/look_further.hpp>
#include <cleave/plan/search/move_once.hpp>
#include <cleave/plan/search/read_apart.hpp>
#include <cleave/plan/search/start.hpp>
#include <cleave/plan/search/verify.hpp>
#include <cleave/rules/all.hpp>

#include <type_traits>
#include <utility>

namespace cleave { inline namespace v0 {

/// A strategy for every node, by node, and the fault if the choice must be left to the user.
struct choice {
  indexed_vector<strategy> by_node{};
  factor_table factors{};
  verdict found{};
  double score = 0;
};

namespace planner {

/// Checks after a pass, if that costs next to nothing: not in the compiler.
struct search_check {
  bool sound = true;
  constexpr void operator()(const cost_model& m, assignment& a) {
    if (!std::is_constant_evaluated()) sound = sound && verify(m, a) && verify_prices(m, a);
  }
};

/// The passes that change more than the neighbourhood of one node. After the ties: a slice or move that they put off
/// may be put off for one operand or for another. `g` is the graph of the model.
constexpr void change_more(graph& g, cost_model& m, assignment& a, fingerprints& f, search_check& check) {
  look_further(m, a, f);
  check(m, a);
  exchange_views(g, m, a, f);
  check(m, a);
  if (m.rule.effort > 0) {
    exchange_dims(g, m, a, f);
    check(m, a);
    move_once(m, a, f);
    check(m, a);
  }
  compute_everywhere(m, a);
  compute_as_read(m, a, f);
  check(m, a);
}

constexpr void take_strategies(const cost_model& m, assignment& a, choice& made) {
  made.score = total_price(m, a);
  for (std::size_t v = 0; v < m.count; ++v)
    if (is_transparent(m, a, v)) {
      strategy through;
      through.out = produced(m, a, v);
      a.chosen.at[v] = through;
    }
  made.by_node = std::move(a.chosen);
}

/// The same search from a point where exchanges have taken other dims along. A value may be put off or pulled before
/// that, which leads to two moves although one exchange would suffice; or after it, which is too late for others. So
/// both are tried, and the cheaper one is taken. Only for the fewest bytes.
constexpr void exchange_dims_first(graph& g, graph other, const indexed_vector<strategy>& so_far, const sizes& at,
                                   const policy& rule, reshard_cache& cache, search_check& check, choice& made) {
  choice again;
  again.factors = factors_of(other);
  cost_model m(other, at, rule, cache, all_rules, again.factors);
  assignment a(m);
  fingerprints f(m);
  for (std::size_t v = 0; v < m.count; ++v) assign(m, a, v, so_far.at[v]);
  price_all(m, a);
  if (!exchange_dims(other, m, a, f)) return;
  check(m, a);
  change_more(other, m, a, f, check);
  if (total_price(m, a) >= made.score * (1 - m.limits.equal_prices)) return;
  again.found = made.found;
  take_strategies(m, a, again);
  made = std::move(again);
  g = std::move(other);
}

} // namespace planner

/// Completes a graph and chooses how each node is computed: starts from completion, improves node by node, then by
/// changes that no single node makes cheaper. Merges become exchanges of elements in `g` if that is cheaper.
constexpr choice choose(graph& g, const sizes& at, const policy& rule) {
  choice made;
  made.factors = factors_of(g);
  planner::reshard_cache cache(at, rule);
  planner::cost_model m(g, at, rule, cache, all_rules, made.factors);
  planner::assignment a(m);
  planner::fingerprints f(m);
  planner::search_check check;
  planner::start(m, a, complete(g, made.factors));
  planner::price_all(m, a);
  check(m, a);
  planner::improve(m, a, f, m.limits.sweeps);
  check(m, a);
  planner::gather_early(m, a, f);
  check(m, a);
  if (rule.effort > 0) planner::search_wider(m, a, f);
  else planner::read_apart(m, a, f);
  check(m, a);
  if (!rule.takes_ties) made.found = planner::find_tie(m, a, f);
  if (rule.effort > 0) {
    graph untouched = g;
    const indexed_vector<strategy> so_far = a.chosen;
    planner::change_more(g, m, a, f, check);
    planner::take_strategies(m, a, made);
    planner::exchange_dims_first(g, std::move(untouched), so_far, at, rule, cache, check, made);
  } else {
    planner::change_more(g, m, a, f, check);
    planner::take_strategies(m, a, made);
  }
  if (!check.sound) made.found = {fault::internal, {}, "choose"};
  return made;
}

}} // namespace cleave::v0
