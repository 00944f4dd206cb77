// SPDX-FileCopyrightText: The Cleave authors SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The passes of the search one by one, and what they cost: constant evaluation runs them some 7,000 times slower, so
// calls and allocations are counted here.
#include <cleave/expr/functions.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/expr/sort.hpp>
#include <cleave/plan/plan.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

/// Allocations of this program so far: heap.cpp.
std::size_t allocations_so_far();

namespace CLEAVE_SOURCE {

using namespace cleave;
using namespace cleave::planner;

constexpr std::string_view x = "x", y = "y";

spec layout_named(std::initializer_list<std::pair<dim_ref, std::string_view>> dims) {
  spec s;
  s.mesh.axes = {{x, 4}, {y, 2}};
  for (const auto& [d, axis] : dims) {
    placement p(d);
    if (!axis.empty()) p.axes.push_back(axis);
    s.dims.push_back(p);
  }
  return s;
}
const dim_ref batch{"batch", 256}, embed{"embed", 64}, hidden{"hidden", 128}, rows{"rows", 8}, columns{"columns", 16};

/// Residual layers of two products, as many as asked for; with activations sharded over the axis of the weights if
/// something shall move.
graph layers(int count, std::string_view over = "") {
  recorder in(layout_named({}).mesh);
  value v = in.input(element::f32, layout_named({{batch, x}, {embed, over}}));
  const value up = in.input(element::f32, layout_named({{embed, ""}, {hidden, y}})),
              down = in.input(element::f32, layout_named({{hidden, y}, {embed, ""}}));
  for (int i = 0; i < count; ++i) v = tanh(v + dot(gelu(dot(v, up, embed)), down, hidden));
  in.output(v);
  return simplify(in.take());
}

/// All that a pass works on.
struct search {
  graph g;
  sizes at;
  policy rule;
  reshard_cache cache;
  factor_table factors;
  cost_model m;
  assignment a;
  fingerprints f;

  explicit search(graph from, policy p = policy::time())
      : g(std::move(from)), at(sizes_for(g)), rule(p), cache(at, rule), factors(factors_of(g)),
        m(g, at, rule, cache, all_rules, factors), a(m), f(m) {}
  void begin() {
    start(m, a, complete(g, factors));
    price_all(m, a);
  }
  std::size_t node_of(op code) const {
    for (std::size_t v = 0; v < m.count; ++v)
      if (g.nodes[v].code == code) return v;
    return no_node;
  }
  bool sound() {
    double work = 0;
    for (std::size_t v = 0; v < m.count; ++v) work += flops_with(m, v, a.chosen.at[v]);
    return planner::verify(m, a) && verify_prices(m, a) && std::abs(a.flops - work) <= 1e-9 * work;
  }
};

/// The bytes of the plan of a graph.
std::int64_t planned_bytes(const graph& g, const policy& rule) {
  const sizes at = sizes_for(g);
  return bytes(partition(g, at, rule), at);
}
/// A product and a reduction that read the same large operand: as long as one of them reads it gathered, the other one
/// may as well.
TEST(Search, ReadersOfACopyFindOtherWays) {
  const dim_ref few{"few", 64}, inner{"inner", 4096}, many{"many", 4096};
  for (const bool greatest : {false, true}) {
    recorder in(layout_named({}).mesh);
    const value a = in.input(element::f64, layout_named({{few, x}, {inner, y}})),
                b = in.input(element::f64, layout_named({{inner, y}, {many, x}}));
    const value made = dot(a, b, inner) - (greatest ? max(b, inner) : sum(b, inner));
    in.output(made, element::f64, layout_named({{few, x}, {many, y}}));
    const graph g = in.take();
    // Far from the 100 MB of the large operand.
    EXPECT_LE(planned_bytes(g, policy::time()), planned_bytes(g, policy::bytes_first(1)) * 102 / 100);
  }
}

/// A rename is its operand under other names: results that need the same layout of both share one move.
TEST(Search, CopiesOfAValueServeItsOtherNames) {
  const dim_ref other{"other", 256};
  recorder in(layout_named({}).mesh);
  const value v = in.input(element::f32, layout_named({{batch, x}, {embed, ""}})), renamed = rename(v, batch, other);
  in.output(v, element::f32, layout_named({{batch, ""}, {embed, x}}));
  in.output(renamed, element::f32, layout_named({{other, ""}, {embed, x}}));
  in.output(sin(renamed), element::f32, layout_named({{other, x}, {embed, ""}}));
  EXPECT_EQ(planned_bytes(in.take(), policy::bytes_first(1)), 256 * 64 * 4 * 3 / 16);
}

/// A look-up takes rows from the copy of its table that a sort needs: no row is fetched, no sum is reduced.
TEST(Search, FetchedElementsComeFromCopiesOfOtherReaders) {
  const dim_ref few{"few", 24}, each{"each", 12};
  recorder in(layout_named({}).mesh);
  const value v = in.input(element::i32, layout_named({{few, x}, {each, ""}}));
  in.output(take_along(v, argsort(v, few), few), element::i32, layout_named({{few, ""}, {each, ""}}));
  EXPECT_EQ(planned_bytes(in.take(), policy::bytes_first(0)), 24 * 12 * 4 * 3 / 4);
}

/// A weighted sum of rows of a table whose rows are sharded: each device sums the rows that it has, which is a partial
/// sum, and no row moves. Products follow the change of the look-up.
TEST(Search, ProductsFollowALookUp) {
  const dim_ref word{"word", 1 << 20}, embed{"embed", 64}, bag{"bag", 4096}, item{"item", 8};
  recorder in(layout_named({}).mesh);
  const value table = in.input(element::f32, layout_named({{word, x}, {embed, ""}})),
              words = in.input(element::i32, layout_named({{bag, y}, {item, ""}})),
              weights = in.input(element::f32, layout_named({{bag, y}, {item, ""}}));
  in.output(dot(gather(table, word, words), weights, item), element::f32, layout_named({{bag, y}, {embed, ""}}));
  const graph g = in.take();
  const sizes at = sizes_for(g);
  const program p = partition(g, at);
  std::int64_t sums = 0, moves = 0;
  for (const step& s : p.steps) {
    moves += is_collective(s) ? 1 : 0;
    sums += s.move == kind::all_reduce ? 1 : 0;
  }
  EXPECT_EQ(sums, 1);
  EXPECT_EQ(moves, 1);
}

/// A layout packed in a word is what a list for each position is.
TEST(Search, LayoutsAreListsOfAxes) {
  std::mt19937 random(3);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 2000; ++round) {
    axis_list lists[max_rank];
    layout l;
    for (int step = 0; step < 12; ++step) {
      const int position = below(max_rank), axis = below(max_axes);
      unsigned used = 0;
      for (const axis_list& list : lists) used |= list.mask();
      switch (below(3)) {
        case 0:
          if ((used >> axis & 1) != 0) break;
          lists[position].push_back(axis);
          l.append(position, axis);
          break;
        case 1:
          lists[position] = {};
          l.clear(position);
          break;
        default:
          while (lists[position].contains(axis)) lists[position].pop_back();
          l.give_up(position, 1u << axis);
      }
      axis_set all = 0;
      layout again;
      for (int i = 0; i < max_rank; ++i) {
        ASSERT_EQ(l[i], lists[i]);
        ASSERT_EQ(l.axes(i), lists[i].mask());
        all = static_cast<axis_set>(all | lists[i].mask());
        again.set(i, lists[i]);
      }
      ASSERT_EQ(l.sharded(), all);
      ASSERT_EQ(l, again);
    }
  }
}

/// What the planner compares is the price of what it then does.
TEST(Search, ScoresOfPathsAreThoseOfTheirHops) {
  std::mt19937 random(5);
  axis_sizes sizes;
  sizes[0] = 2, sizes[1] = 3, sizes[2] = 4;
  const auto some = [&] {
    layout l;
    axis_set partial = 0;
    for (int axis = 0; axis < 3; ++axis) {
      const auto where = static_cast<int>(random() % 5);
      if (where < 3) l.append(where, axis);
      if (where == 3) partial = static_cast<axis_set>(partial | axis_bit(axis));
    }
    l.set_partial(partial);
    return l;
  };
  for (int n = 0; n < 3000; ++n) {
    shape s;
    s.rank = 3;
    for (int i = 0; i < 3; ++i) s[i] = static_cast<std::int64_t>(1 + random() % 24);
    const layout from = some(), to = some();
    const path p = find_path(s, 4, from, to, sizes, policy::time());
    ASSERT_EQ(p.hops.empty() ? from : p.hops.back().to, to);
    ASSERT_EQ(path_score(s, 4, from, to, sizes, policy::time()), p.score);
  }
}

/// Projecting the layout that an operand must have gives the strategy back.
TEST(Search, ProjectionsAreTheReverseOfNeeds) {
  search s(layers(2));
  s.begin();
  for (std::size_t v = 0; v < s.m.count; ++v)
    for (int k = 0; k < s.g.nodes[v].arity; ++k) {
      strategy again = s.a.chosen.at[v];
      project(s.m, v, k, required(s.m, v, again, k), again);
      EXPECT_TRUE(again.divides_like(s.a.chosen.at[v])) << "node " << v << " operand " << k;
    }
}

TEST(Search, StartsWithWhatCompletionSaysAndKeepsSumsPartial) {
  search s(layers(1));
  s.begin();
  EXPECT_TRUE(s.sound());
  // The second product contracts what is sharded over y, so that it is partial; the sum after it is reduced.
  std::size_t last = 0;
  for (std::size_t v = 0; v < s.m.count; ++v)
    if (s.g.nodes[v].code == op::dot) last = v;
  EXPECT_EQ(s.a.chosen.at[last].out.unreduced(), axis_bit(1));
  EXPECT_EQ(s.a.chosen.at[s.node_of(op::tanh)].out.unreduced(), 0);
}

// Of two lists of axes that shard what is contracted, one the beginning of the other, the product begins with the
// longer.
TEST(Search, StartsWithTheLongerOfTwoListsOfAContractedDim) {
  recorder in(layout_named({}).mesh);
  spec longer = layout_named({{embed, x}, {hidden, ""}});
  longer.dims[0].axes.push_back(y);
  in.output(dot(in.input(element::f32, layout_named({{batch, ""}, {embed, x}})), in.input(element::f32, longer), embed),
            element::f32, layout_named({{batch, ""}, {hidden, ""}}));
  search s(simplify(in.take()));
  s.begin();
  EXPECT_EQ(s.a.chosen.at[s.node_of(op::dot)].over.sharded(), axis_bit(0) | axis_bit(1));
}

// Several fields are often shifted along the same maps: these exchanges have one price.
TEST(Search, ExchangesAlongEqualMapsArePricedOnce) {
  recorder in(layout_named({}).mesh);
  const spec where = layout_named({{batch, x}, {embed, ""}});
  const value u = in.input(element::f32, where), v = in.input(element::f32, where);
  in.output(roll(u, batch, 1) * roll(v, batch, 1) + roll(u, batch, 2), element::f32, where);
  search s(simplify(in.take()));
  std::vector<std::uint32_t> kinds;
  for (std::size_t n = 0; n < s.m.count; ++n)
    if (s.g.nodes[n].code == op::roll) kinds.push_back(s.m.exchange_kind.at[n]);
  std::sort(kinds.begin(), kinds.end());
  ASSERT_EQ(kinds.size(), 3u);
  EXPECT_EQ(std::unique(kinds.begin(), kinds.end()) - kinds.begin(), 2);
}

// What an exchange moves counts as often as its loop runs.
TEST(Search, PricesOfExchangesCountIterations) {
  recorder in(layout_named({}).mesh);
  const value v = in.input(element::f32, layout_named({{batch, x}, {embed, ""}}));
  in.output(repeat_times(7, v, [](const value& h) { return tanh(roll(h, batch, 1)); }), element::f32,
            layout_named({{batch, x}, {embed, ""}}));
  search s(simplify(in.take()));
  s.begin();
  const std::size_t rolled = s.node_of(op::roll);
  ASSERT_NE(rolled, std::size_t{no_node});
  const strategy& chosen = s.a.chosen.at[rolled];
  const double once = s.rule.score(s.m.rules(rolled).moves.call(placed(s.m, rolled, chosen), s.at));
  EXPECT_GT(once, 0);
  EXPECT_DOUBLE_EQ(step_price(s.m, rolled, chosen), 7 * once);
  // Asked again it is remembered.
  EXPECT_DOUBLE_EQ(step_price(s.m, rolled, chosen), 7 * once);
}

/// Candidates of v * 2, for a strategy that shards the rows over x, where v is partial over both axes.
std::vector<strategy> forwarding(reduction how) {
  recorder in(layout_named({}).mesh);
  in.output(exp(in.input(element::f32, layout_named({{batch, ""}, {embed, ""}}))) * 2.0, element::f32,
            layout_named({{batch, x}, {embed, ""}}));
  search s(simplify(in.take()));
  s.begin();
  const std::size_t doubled = s.node_of(op::mul);
  s.a.chosen.at[s.node_of(op::exp)].out = layout{};
  s.a.chosen.at[s.node_of(op::exp)].out.set_partial(axis_bit(0) | axis_bit(1), how);
  strategy rows;
  rows.out.append(0, 0);
  indexed_vector<strategy> found;
  add_with_forwarding(s.m, s.a, doubled, rows, found);
  for (const strategy& each : found) EXPECT_TRUE(valid(s.m, doubled, each));
  return found;
}
TEST(Search, PartialSumsAreForwardedOverTheAxesThatAStrategyLeaves) {
  const std::vector<strategy> found = forwarding(reduction::sum);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].forwarded, 0);
  EXPECT_EQ(found[1].forwarded, axis_bit(1));
  EXPECT_EQ(found[1].out.unreduced(), axis_bit(1));
}
// A product with a negative number makes the largest element the least.
TEST(Search, PartialMaximaAreNotForwardedThroughProducts) { EXPECT_EQ(forwarding(reduction::max).size(), 1u); }

TEST(Search, StrategiesUseEachAxisOnce) {
  search s(layers(1));
  s.begin();
  const std::size_t product = s.node_of(op::dot);
  strategy sent;
  EXPECT_TRUE(valid(s.m, product, sent));
  sent.over.append(0, 0);
  EXPECT_TRUE(valid(s.m, product, sent));
  // Rows are sent over axes that shard what is reduced, and sums are forwarded over others.
  strategy elsewhere = sent, twice = sent, both = sent;
  elsewhere.sent = axis_bit(1);
  twice.forwarded = axis_bit(0);
  both.out.append(0, 0);
  for (const strategy& wrong : {elsewhere, twice, both}) EXPECT_FALSE(valid(s.m, product, wrong));
}

// Rows travel over axes that shard the indices. The table may be sharded over them along the rows alone.
TEST(Search, RowsAreSentOverAxesThatShardNoOtherDimOfTheTable) {
  recorder in(layout_named({}).mesh);
  const value updates = in.input(element::f32, layout_named({{batch, x}, {embed, ""}})),
              places = in.input(element::i32, layout_named({{batch, x}}));
  in.output(scatter_add(updates, places, rows), element::f32, layout_named({{rows, x}, {embed, ""}}));
  search s(simplify(in.take()));
  s.begin();
  const std::size_t added = s.node_of(op::scatter_add);
  ASSERT_NE(added, std::size_t{no_node});
  const int along = s.g.nodes[added].type.find(s.g.nodes[added].which[0]);
  ASSERT_GE(along, 0);
  strategy rows_over_x, columns_over_x;
  rows_over_x.over.append(0, 0);
  rows_over_x.sent = axis_bit(0);
  columns_over_x = rows_over_x;
  rows_over_x.out.append(along, 0);
  columns_over_x.out.append(1 - along, 0);
  EXPECT_TRUE(valid(s.m, added, rows_over_x));
  EXPECT_FALSE(valid(s.m, added, columns_over_x));
}

// Each device looks up the rows that it has, or rows are fetched: both at once would add each row up once a device.
TEST(Search, OwnersThatLookUpTheirRowsFetchNone) {
  recorder in(layout_named({}).mesh);
  const value table = in.input(element::f32, layout_named({{rows, y}, {embed, ""}})),
              indices = in.input(element::i32, layout_named({{batch, x}}));
  in.output(gather(table, rows, indices));
  search s(simplify(in.take()));
  s.begin();
  const std::size_t found = s.node_of(op::gather);
  ASSERT_NE(found, std::size_t{no_node});
  const layout own = produced(s.m, s.a, s.g.nodes[found].in[0]);
  strategy fetched, owned;
  project(s.m, found, 0, own, fetched);
  EXPECT_EQ(fetched.taken[0].mask(), axis_bit(1));
  EXPECT_TRUE(valid(s.m, found, fetched));
  owned.over.append(0, 1);
  project(s.m, found, 0, own, owned);
  derive_unreduced(s.g.nodes[found], owned);
  EXPECT_TRUE(owned.taken.empty());
  EXPECT_TRUE(valid(s.m, found, owned));
  EXPECT_EQ(step_price(s.m, found, owned), 0);
  owned.taken = fetched.taken;
  EXPECT_FALSE(valid(s.m, found, owned));
}

// What a window sees around an index lies on one device: its dim is sharded nowhere.
TEST(Search, DimsOfWindowsAreNoFactors) {
  recorder in(layout_named({}).mesh);
  const value v = in.input(element::f32, layout_named({{batch, x}, {embed, ""}}));
  in.output(windows(v, window{batch, {"seen", 256}, {"tap", 3}, 1, 1, 1, 1}));
  const graph g = in.take();
  const node& n = g.nodes[g.outputs[0]];
  factor_list list;
  rules::factors_of_remap(g, n, list);
  EXPECT_EQ(list.size(), 2u);
  for (const factor& f : list) EXPECT_NE(g.dims[n.type[f.at[in_result]]].name, "tap");
}

// A dim that is promised to divide is sharded by whole rows, whatever its extent.
TEST(Search, PromisedDimsAreSplitByWholeRows) {
  recorder in(layout_named({}).mesh);
  const value v = in.input(element::f32, layout_named({{{"whole", 48}, x}}));
  in.output(split(v, {"whole"}, {"major", 6}, {"minor", 8}));
  graph g = in.take();
  const node& n = g.nodes[g.outputs[0]];
  for (const dim_id d : {n.type[0], n.type[1]}) g.dims[d].extent = dynamic;
  const axis_list over_x(0);
  EXPECT_FALSE(rules::parts_of_view(g, n, over_x).exact && rules::parts_of_view(g, n, over_x).major == over_x);
  g.dims[n.type[0]].divisible = true;
  EXPECT_TRUE(rules::parts_of_view(g, n, over_x).exact);
  EXPECT_EQ(rules::parts_of_view(g, n, over_x).major, over_x);
}

TEST(Search, ChangesAreTakenBackWhole) {
  search s(layers(3));
  s.begin();
  const std::vector<strategy> before = s.a.chosen;
  const std::vector<layout> needs = s.a.need;
  for (std::size_t v = 0; v < s.m.count; ++v) {
    if (is_fixed(s.m, s.a, v)) continue;
    find_candidates(s.m, s.a, v, s.a.candidates);
    for (const strategy& c : std::vector<strategy>(s.a.candidates)) {
      begin_change(s.a);
      ripple(s.m, s.a, v, c, true);
      take_back(s.m, s.a);
    }
  }
  EXPECT_EQ(s.a.chosen, before);
  EXPECT_EQ(s.a.need, needs);
}

TEST(Search, ImprovementsNeverCostMoreAndKeepPrices) {
  for (int n : {1, 2, 5}) {
    search s(layers(n));
    s.begin();
    const double before = total_price(s.m, s.a);
    improve(s.m, s.a, s.f, s.m.limits.sweeps);
    EXPECT_LE(total_price(s.m, s.a), before);
    EXPECT_TRUE(s.sound());
  }
}

/// Where a value is sharded and all that is made of it must be whole, it is gathered once, before.
TEST(Search, GathersEarlyWhatSeveralNeedWhole) {
  recorder in(layout_named({}).mesh);
  const value v = in.input(element::f32, layout_named({{batch, x}, {embed, ""}}));
  in.output(exp(v), element::f32, layout_named({{batch, ""}, {embed, ""}}));
  in.output(sin(v), element::f32, layout_named({{batch, ""}, {embed, ""}}));
  in.output(v * v, element::f32, layout_named({{batch, ""}, {embed, ""}}));
  search s(simplify(in.take()));
  s.begin();
  improve(s.m, s.a, s.f, s.m.limits.sweeps);
  gather_early(s.m, s.a, s.f);
  EXPECT_TRUE(s.sound());
  const layout whole;
  EXPECT_EQ(total_price(s.m, s.a),
            path_score(shape_of(s.g.nodes[0].type, s.at), 4, s.a.chosen.at[0].out, whole, s.at.axes, s.rule));
}

/// The axes of three lists, each axis in one of them or in none, in every order.
std::vector<std::array<std::vector<int>, 3>> all_shardings(int axes) {
  std::vector<std::array<std::vector<int>, 3>> all{{}};
  for (int axis = 0; axis < axes; ++axis) {
    const auto before = all;
    for (const auto& s : before)
      for (std::size_t d = 0; d < 3; ++d)
        for (std::size_t at = 0; at <= s[d].size(); ++at) {
          auto more = s;
          more[d].insert(more[d].begin() + static_cast<std::ptrdiff_t>(at), axis);
          all.push_back(more);
        }
  }
  return all;
}
// Also where both operands must change at once: no way to compute a product between random layouts costs less than the
// one that is chosen, of those that repeat no work.
TEST(Search, FindsTheCheapestStrategyOfAProduct) {
  constexpr std::string_view names[] = {"x", "y", "z"};
  const dim_ref m{"m", 64}, n{"n", 128}, k{"k", 256};
  const auto ways = all_shardings(3);
  std::mt19937 random(11);
  const auto random_layout = [&](const dim_ref& first, const dim_ref& second) {
    const auto& chosen = ways[random() % ways.size()];
    spec s;
    s.mesh.axes = {{"x", 2}, {"y", 2}, {"z", 4}};
    for (std::size_t d = 0; d < 2; ++d) {
      placement p(d == 0 ? first : second);
      for (int axis : chosen[d]) p.axes.push_back(names[axis]);
      s.dims.push_back(p);
    }
    return s;
  };
  int moved = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const spec result = random_layout(m, n);
    recorder in(result.mesh);
    const value a = in.input(element::f32, random_layout(m, k)), b = in.input(element::f32, random_layout(k, n));
    in.output(dot(a, b, k), element::f32, result);
    const graph g = simplify(in.take());
    search s(g, policy::bytes_first(1));
    s.begin();
    const std::size_t product = s.node_of(op::dot);
    double least = total_price(s.m, s.a);
    for (const auto& way : ways) {
      strategy next;
      for (std::size_t d = 0; d < 3; ++d) {
        axis_list list;
        for (int axis : way[d]) list.push_back(axis);
        (d < 2 ? next.out : next.over).set(d < 2 ? static_cast<int>(d) : 0, list);
      }
      derive_unreduced(s.m.node_at(product), next);
      if (!valid(s.m, product, next) || repeats_too_much(s.m, s.a, product, next)) continue;
      begin_change(s.a);
      set_strategy(s.m, s.a, product, next);
      keep_change(s.m, s.a);
      least = std::min(least, total_price(s.m, s.a));
    }
    graph again = g;
    EXPECT_LE(choose(again, s.at, s.rule).score, least * (1 + 1e-9)) << "trial " << trial;
    moved += least > 0 ? 1 : 0;
  }
  EXPECT_GT(moved, 250);
}

TEST(Search, WhatIsRolledBackHasItsWorkAgain) {
  search s(layers(1), policy::bytes_first(1));
  s.begin();
  improve(s.m, s.a, s.f, s.m.limits.sweeps);
  ASSERT_TRUE(s.sound());
  const std::size_t product = s.node_of(op::dot);
  const std::vector<strategy> before = s.a.chosen;
  double best = total_price(s.m, s.a);
  const double work = s.a.flops;
  const bool kept = keep_if_cheaper(s.m, s.a, best, [&] {
    // On every device the whole product.
    begin_change(s.a);
    ripple(s.m, s.a, product, strategy{}, true);
    keep_change(s.m, s.a);
    EXPECT_GT(s.a.flops, work);
  });
  EXPECT_FALSE(kept);
  EXPECT_EQ(s.a.chosen, before);
  EXPECT_TRUE(s.sound());
}

/// A merge whose blocks do not nest: elements are fetched where that moves less than gathering would.
TEST(Search, MergesBecomeExchangesWhereThatIsCheaper) {
  recorder in(layout_named({}).mesh);
  const value v = in.input(element::f32, layout_named({{batch, ""}, {rows, ""}, {columns, x}}));
  const dim_ref merged{"merged", 128};
  in.output(merge(v, rows, columns, merged), element::f32, layout_named({{batch, ""}, {merged, x}}));
  search s(simplify(in.take()), policy::bytes_first(1));
  ASSERT_NE(s.node_of(op::merge), std::size_t{no_node});
  s.begin();
  const double before = total_price(s.m, s.a);
  exchange_views(s.g, s.m, s.a, s.f);
  EXPECT_LE(total_price(s.m, s.a), before);
  EXPECT_EQ(s.node_of(op::merge) == no_node, total_price(s.m, s.a) < before);
  EXPECT_TRUE(s.sound());
}

TEST(Search, FindsTiesOfOperandsThatTheUserWrote) {
  recorder in(layout_named({}).mesh);
  const value v = in.input(element::f32, layout_named({{batch, x}, {columns, ""}})),
              w = in.input(element::f32, layout_named({{batch, ""}, {columns, x}}));
  in.output(v + w);
  search s(simplify(in.take()));
  s.begin();
  improve(s.m, s.a, s.f, s.m.limits.sweeps);
  EXPECT_EQ(find_tie(s.m, s.a, s.f).fault, fault::layouts_tie);
}

TEST(Search, LayersThatAreAlikeHaveOneFingerprint) {
  search s(layers(12));
  s.begin();
  hash_neighbourhoods(s.m, s.a, s.f);
  std::vector<std::uint64_t> products;
  for (std::size_t v = 0; v < s.m.count; ++v)
    if (s.g.nodes[v].code == op::dot) products.push_back(s.f.of[v]);
  std::sort(products.begin(), products.end());
  const auto distinct = std::unique(products.begin(), products.end()) - products.begin();
  // Two a layer; those at the ends have other neighbours.
  EXPECT_LE(distinct, 10);
}

/// Work and memory grow with the nodes, and repeated layers are searched once.
TEST(Search, CostsAreLinearInTheNodes) {
  const auto costs = [](int count) {
    search s(layers(count, y));
    const std::size_t before = allocations_so_far();
    s.begin();
    improve(s.m, s.a, s.f, s.m.limits.sweeps);
    gather_early(s.m, s.a, s.f);
    struct {
      std::size_t nodes, allocations, prices;
      int tries;
    } made{s.m.count, allocations_so_far() - before, s.cache.size(), s.a.tries};
    return made;
  };
  const auto few = costs(25), many = costs(200);
  // Measured: 4 changes tried, 48 prices and 58 allocations, whatever the number of layers.
  EXPECT_GT(few.tries, 0);
  EXPECT_EQ(few.tries, many.tries);
  EXPECT_EQ(few.prices, many.prices);
  EXPECT_LE(many.allocations, few.allocations + 10);
  EXPECT_LE(few.tries, 20);
  EXPECT_LE(few.prices, 80);
  EXPECT_LE(few.allocations, 100u);
}

} // namespace CLEAVE_SOURCE
