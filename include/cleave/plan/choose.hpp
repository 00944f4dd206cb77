// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/plan/search/exchange_dims.hpp>
#include <cleave/plan/search/exchange_views.hpp>
#include <cleave/plan/search/find_tie.hpp>
#include <cleave/plan/search/gather_early.hpp>
#include <cleave/plan/search/look_further.hpp>
#include <cleave/plan/search/move_once.hpp>
#include <cleave/plan/search/start.hpp>
#include <cleave/plan/search/verify.hpp>
#include <cleave/rules/all.hpp>

#include <type_traits>
#include <utility>

namespace cleave::inline v0 {

/// A strategy for every node, by node, and the fault if the choice must be left to the user.
struct choice {
  indexed_vector<strategy> by_node{};
  factor_table factors{};
  verdict found{};
  double score = 0;
};

/// Completes a graph and chooses how each node is computed: starts from completion, improves node by node, then by
/// changes that no single node makes cheaper. Merges become exchanges of elements in `g` where that is cheaper.
constexpr choice choose(graph& g, const sizes& at, const policy& rule) {
  choice made;
  made.factors = factors_of(g);
  planner::reshard_cache cache(at, rule);
  planner::cost_model m(g, at, rule, cache, all_rules, made.factors);
  planner::assignment a(m);
  planner::fingerprints f(m);
  // Checked after each pass where that costs nothing to speak of: not in the compiler.
  bool sound = true;
  const auto check = [&] {
    if (!std::is_constant_evaluated()) sound = sound && planner::verify(m, a) && planner::verify_prices(m, a);
  };
  planner::start(m, a, complete(g, made.factors));
  planner::price_all(m, a);
  check();
  planner::improve(m, a, f, m.limits.sweeps);
  check();
  planner::gather_early(m, a, f);
  check();
  if (rule.effort > 0) planner::search_wider(m, a, f);
  check();
  made.found = planner::find_tie(m, a, f);
  // After the ties: what it puts off may be put off for one operand or for another.
  planner::look_further(m, a, f);
  check();
  planner::exchange_views(g, m, a, f);
  check();
  if (rule.effort > 0) planner::exchange_dims(g, m, a, f);
  check();
  if (rule.effort > 0) planner::move_once(m, a, f);
  check();
  if (!sound) made.found = {fault::internal, {}, "choose"};
  made.score = planner::total_price(m, a);
  for (std::size_t v = 0; v < m.count; ++v)
    if (planner::is_transparent(m, a, v)) {
      strategy through;
      through.out = planner::produced(m, a, v);
      a.chosen.at[v] = through;
    }
  made.by_node = std::move(a.chosen);
  return made;
}

} // namespace cleave::inline v0
