// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Remaps in a row: one map says what both do, element by element, and elements travel once.
#include <cleave/expr/movement.hpp>
#include <cleave/plan/plan.hpp>
#include <cleave/simulate/simulate.hpp>

#include <gtest/gtest.h>

namespace CLEAVE_SOURCE {

using namespace cleave;

constexpr std::string_view x = "x";
const dim_ref row{"row", 24}, column{"column", 16}, wider{"wider", 28};

spec over_x(dim_ref first, dim_ref second) {
  spec s;
  s.mesh.axes = {{x, 4}};
  placement p(first);
  p.axes.push_back(x);
  s.dims.push_back(p);
  s.dims.push_back(placement(second));
  return s;
}

struct chain {
  graph g;
  int remaps = 0;
  std::int64_t bytes = 0;
};
/// A function of a matrix whose rows are sharded, planned for the fewest bytes and simulated.
template <class F>
chain planned(F function, dim_ref result) {
  chain c;
  recorder in(over_x(row, column).mesh);
  const value v = function(in.input(element::f64, over_x(row, column)));
  in.output(v, element::f64, over_x(result, column));
  c.g = in.take();
  EXPECT_TRUE(c.g.found.ok());
  for (const node& n : simplify(c.g).nodes) c.remaps += n.maps != 0 ? 1 : 0;
  const sizes at = sizes_for(c.g);
  const program p = partition(c.g, at, policy::bytes_first(1));
  EXPECT_TRUE(p.found.ok());
  c.bytes = bytes(p, at);
  host_array a(shape_of(c.g.nodes[c.g.inputs[0]].type, at));
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = static_cast<double>(i + 1);
  const auto want = evaluate(c.g, at, std::array{a});
  const simulated got = simulate(p, at, std::array{a});
  EXPECT_EQ(got.problem, "");
  EXPECT_EQ(first_difference(want[0].data, got.results[0].data, 0), -1);
  return c;
}

TEST(ComposeMaps, FlipOfFlipMovesNothing) {
  const chain c = planned([](value v) { return flip(flip(v, row), row); }, row);
  EXPECT_EQ(c.remaps, 0);
  EXPECT_EQ(c.bytes, 0);
}
TEST(ComposeMaps, RollOfRollIsOneRoll) {
  const chain c = planned([](value v) { return roll(roll(v, row, 5), row, -4); }, row);
  EXPECT_EQ(c.remaps, 1);
  EXPECT_EQ(c.bytes, 16 * 8);
}
TEST(ComposeMaps, ARollThatComesBackIsNone) {
  const chain c = planned([](value v) { return roll(roll(v, row, 7), row, -7); }, row);
  EXPECT_EQ(c.remaps, 0);
  EXPECT_EQ(c.bytes, 0);
}
TEST(ComposeMaps, AShiftByNothingIsNone) {
  EXPECT_EQ(planned([](value v) { return shift(v, row, 0); }, row).remaps, 0);
}
TEST(ComposeMaps, ASliceThatTakesThePaddingOffIsNone) {
  const chain c = planned([](value v) { return slice(pad(v, row, wider, 2, 2), wider, row, 2, 26); }, row);
  EXPECT_EQ(c.remaps, 0);
  EXPECT_EQ(c.bytes, 0);
}
TEST(ComposeMaps, SliceOfPadIsOneMap) {
  const chain c = planned([](value v) { return slice(pad(v, row, wider, 2, 2), wider, row, 0, 24); }, row);
  EXPECT_EQ(c.remaps, 1);
  EXPECT_EQ(c.bytes, 2 * 16 * 8);
}
TEST(ComposeMaps, FlipsOfTwoDimsAreOneExchange) {
  const chain c = planned([](value v) { return flip(flip(v, row), column); }, row);
  EXPECT_EQ(c.remaps, 1);
}

TEST(ComposeMaps, WhatNoMapSaysStaysApart) {
  // What the slice drops, the padding must not bring back.
  const dim_ref inner{"inner", 8};
  EXPECT_EQ(planned([&](value v) { return pad(slice(v, row, inner, 8, 16), inner, row, 8, 8); }, row).remaps, 2);
  // Nor a shift what another has shifted out.
  EXPECT_EQ(planned([](value v) { return shift(shift(v, row, 3), row, -3); }, row).remaps, 2);
  // Edges of what has been rolled.
  EXPECT_EQ(planned([](value v) { return shift(roll(v, row, 3), row, 2, border::edge); }, row).remaps, 2);
}

/// A function of a vector, planned and simulated on two devices that shard it.
template <class F>
void expect_planned(F function, dim_ref along,
                    std::initializer_list<std::pair<std::string_view, std::int64_t>> extents) {
  spec s;
  s.mesh.axes = {{x, 2}};
  s.dims.push_back(placement(along));
  s.dims[0].axes.push_back(x);
  recorder in(s.mesh);
  in.output(function(in.input(element::f64, s)));
  const graph g = in.take();
  ASSERT_TRUE(g.found.ok()) << static_cast<int>(g.found.fault) << " in " << g.found.op;
  EXPECT_TRUE(verify_ops(simplify(g)));
  sizes at = sizes_for(g);
  for (const auto& [name, extent] : extents) at.dims[static_cast<std::size_t>(g.find_dim(name))] = extent;
  host_array a(shape_of(g.nodes[g.inputs[0]].type, at));
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = static_cast<double>(i + 1);
  const program p = partition(g, at);
  ASSERT_TRUE(p.found.ok());
  const simulated got = simulate(p, at, std::array{a});
  EXPECT_EQ(got.problem, "");
  EXPECT_EQ(first_difference(evaluate(g, at, std::array{a})[0].data, got.results[0].data, 0), -1);
}
/// The window has the name of the dim that the padding renamed.
TEST(ComposeMaps, AWindowIsNoDimOfWhatItReads) {
  const dim_ref tap{"tap", 5}, wide{"wide", 13}, lag{"lag", 9};
  const auto correlated = [&](value k) {
    return dot(windows(pad(k, tap, wide, 4, 4), window{wide, lag, tap}), k, tap);
  };
  expect_planned(correlated, tap, {});
}
/// Two flips become one exchange when the name between them and the broadcast is gone, which then has a dim that its
/// operand lacks.
TEST(ComposeMaps, APermutationStaysAfterABroadcastAlongItsDims) {
  const dim_ref up{"up"}, across{"across"};
  const auto turned = [&](value v) { return flip(flip(stop_gradient(broadcast(v, up, across)), up), across); };
  expect_planned(turned, up, {{"up", 7}, {"across", 3}});
}

/// All pairs of small maps: where they compose, the composed map takes what the two take.
TEST(ComposeMaps, AgreeWithOneAfterTheOtherElementByElement) {
  struct simple {
    std::int64_t stride, offset, divisor;
    bool floors;
    border outside;
    std::int64_t to;
  };
  std::vector<simple> all;
  for (const border b : {border::zero, border::periodic, border::edge, border::reflect})
    for (const std::int64_t offset : {-3, -1, 0, 2})
      for (const std::int64_t to : {4, 6, 9})
        for (const auto& [stride, divisor, floors] :
             {std::tuple(1, 1, false), std::tuple(1, 1, true), std::tuple(-1, 1, false), std::tuple(2, 1, false),
              std::tuple(1, 2, false), std::tuple(1, 2, true), std::tuple(-1, 2, true)})
          all.push_back({stride, stride < 0 ? offset + 5 : offset, divisor, floors, b, to});
  int composed = 0;
  for (const simple& a : all)
    for (const simple& b : all) {
      graph g;
      g.dims.push_back({"first", 6});
      g.dims.push_back({"middle", a.to});
      g.dims.push_back({"last", b.to});
      const auto map_of = [](const simple& s, dim_id from, dim_id to) {
        dim_map m;
        m.from = from, m.to = to, m.stride = s.stride, m.offset.constant = s.offset, m.divisor = s.divisor;
        m.floors = s.floors, m.outside = s.outside;
        return m;
      };
      const auto bound_of = [](const dim_map& m, std::int64_t extent) {
        return index_map{m.stride, m.offset.constant, m.divisor, m.floors, m.outside, extent};
      };
      const dim_map inner = map_of(a, 0, 1), outer = map_of(b, 1, 2);
      const auto both = detail::composed_map(g, inner, outer);
      if (!both) continue;
      ++composed;
      for (std::int64_t i = 0; i < b.to; ++i) {
        const std::int64_t middle = bound_of(outer, a.to).source(i);
        const std::int64_t want = middle < 0 ? -1 : bound_of(inner, 6).source(middle);
        ASSERT_EQ(bound_of(*both, 6).source(i), want) << a.stride << " " << a.offset << " " << a.divisor << " then "
                                                      << b.stride << " " << b.offset << " " << b.divisor << " at " << i;
      }
    }
  EXPECT_GT(composed, 500);
}

} // namespace CLEAVE_SOURCE
