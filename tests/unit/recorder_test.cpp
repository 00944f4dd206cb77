// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the recorder finds, at run time as it does in constant evaluation.
#include <cleave/expr/functions.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/sort.hpp>
#include <cleave/graph/simplify.hpp>
#include <cleave/graph/verify.hpp>
#include <cleave/ops/print.hpp>

#include <gtest/gtest.h>

#include <algorithm>

namespace CLEAVE_SOURCE {

using namespace cleave;

constexpr dim_ref b{"b"}, i{"i"}, j{"j"}, k{"k"};

constexpr mesh_value two_axes() {
  mesh_value m;
  m.axes.push_back({"x", 2});
  m.axes.push_back({"y", 4});
  return m;
}
constexpr spec placed(std::initializer_list<placement> dims) {
  spec s;
  s.mesh = two_axes();
  for (const placement& p : dims) s.dims.push_back(p);
  return s;
}
constexpr placement over(dim_ref d, std::string_view axis) {
  placement p(d);
  p.axes.push_back(axis);
  return p;
}

struct Recording : testing::Test {
  recorder in{two_axes()};
  value a = in.input(element::f32, placed({over(b, "x"), i, k}));
  value w = in.input(element::f32, placed({over(k, "y"), j}));
  value ids = in.input(element::i32, placed({over(b, "x")}));

  void expect(fault f, std::string_view op, std::string_view dim, std::string_view axis = {}) {
    const verdict& v = in.made().found;
    EXPECT_EQ(v.fault, f);
    EXPECT_EQ(v.op, op);
    EXPECT_EQ(v.dim, dim);
    EXPECT_EQ(v.axis, axis);
  }
};

TEST_F(Recording, NotesTheLineOfOperatorsToo) {
  const value y = a + a;
  const unsigned line = __LINE__ - 1;
  EXPECT_EQ(in.at(y).where.line, line);
  EXPECT_EQ(in.at(dot(a, w, k)).where.line, __LINE__);
}
TEST_F(Recording, DotKeepsBatchThenLeftThenRight) {
  const value y = dot(a, w, k);
  EXPECT_EQ(to_string(in.at(y).type, {}, in.made().dims, in.made().mesh), "f32[b, i, j]");
  const value z = dot(y, a, i);
  EXPECT_EQ(to_string(in.at(z).type, {}, in.made().dims, in.made().mesh), "f32[b, j, k]");
  EXPECT_TRUE(verify(in.made()));
}
TEST_F(Recording, MissingContractedDim) {
  dot(a, w, j);
  expect(fault::contracted_dim_missing, "dot", "j");
}
TEST_F(Recording, NoBroadcast) {
  static_cast<void>(a + w);
  expect(fault::dims_do_not_broadcast, "add", "j");
}
TEST_F(Recording, ElementTypes) {
  static_cast<void>(a * ids);
  expect(fault::element_types_differ, "mul", "");
}
TEST_F(Recording, LiteralsTakeTheTypeOfTheTensor) {
  EXPECT_EQ(in.at(ids + 1).type.element, element::i32);
  EXPECT_EQ(in.at(a > 0).type.element, element::boolean);
  EXPECT_TRUE(in.made().found.ok());
}
TEST_F(Recording, TheFirstFaultIsKeptAndTheRestAbsorbed) {
  const value bad = dot(a, w, j);
  EXPECT_FALSE((exp(bad) + a).ok());
  softmax(bad * bad, k);
  expect(fault::contracted_dim_missing, "dot", "j");
}
TEST_F(Recording, Layouts) {
  detail::recorded_annotation(in, op::constrain, a, placed({over(b, "z")}), {});
  expect(fault::axis_not_in_mesh, "constrain", "b", "z");
}
TEST_F(Recording, ReshardPinsDimsThatAreNotNamedToo) {
  const spec only_b = placed({over(b, "y")});
  EXPECT_EQ(in.at(detail::recorded_annotation(in, op::constrain, a, only_b, {})).pinned, 0b001);
  EXPECT_EQ(in.at(detail::recorded_annotation(in, op::reshard, a, only_b, {})).pinned, 0b111);
}
TEST_F(Recording, AxisTwice) {
  in.input(element::f32, placed({over(b, "x"), over(i, "x")}));
  expect(fault::axis_used_twice, "input", "i", "x");
}
TEST_F(Recording, DimTwice) {
  in.input(element::f32, placed({over(b, "x"), b}));
  expect(fault::dim_used_twice, "input", "b");
}
TEST_F(Recording, Extents) {
  in.input(element::f32, placed({dim_ref{"n", 5}}));
  in.input(element::f32, placed({dim_ref{"n", 6}}));
  expect(fault::extents_differ, "input", "n");
}
TEST_F(Recording, SlicesWithStepsRoundUp) {
  const value five = in.input(element::f32, placed({dim_ref{"five", 5}}));
  slice(five, dim_ref{"five", 5}, dim_ref{"odd"}, 0, 5, 2);
  EXPECT_EQ(in.made().dims[static_cast<std::size_t>(in.made().find_dim("odd"))].extent, 3);
}
TEST_F(Recording, SplitsMustMultiply) {
  const value n = in.input(element::f32, placed({dim_ref{"n", 12}}));
  split(n, {"n"}, {"p", 5}, {"q", 3});
  expect(fault::extents_differ, "split", "n");
}
TEST_F(Recording, HalvesNeedAnEvenExtent) {
  rotate_halves(in.input(element::f32, placed({dim_ref{"n", 12}})), {"n"});
  EXPECT_TRUE(in.made().found.ok());
  rotate_halves(in.input(element::f32, placed({dim_ref{"m", 7}})), {"m"});
  expect(fault::extents_differ, "rotate_halves", "m");
}
TEST_F(Recording, PositionsInSortedSlices) {
  const value x = in.input(element::f32, placed({b, i})), v = in.input(element::f32, placed({j}));
  const value p = searchsorted(x, v, i);
  EXPECT_EQ(in.at(p).type.element, element::i32);
  EXPECT_EQ(in.at(p).type.rank, 2);
  searchsorted(x, 0.5, i);
  EXPECT_TRUE(in.made().found.ok());
  searchsorted(x, x, i);
  expect(fault::dim_used_twice, "searchsorted", "i");
}
TEST_F(Recording, PositionsOfOtherElements) {
  const value x = in.input(element::f32, placed({b, i})), v = in.input(element::i32, placed({j}));
  searchsorted(x, v, i);
  expect(fault::element_types_differ, "searchsorted", "");
}
TEST_F(Recording, SplitFindsTheOtherExtent) {
  const value n = in.input(element::f32, placed({dim_ref{"n", 12}}));
  const value parts = split(n, {"n"}, {"p"}, {"q", 3});
  EXPECT_EQ(in.made().dims[in.at(parts).type[0]].extent, 4);
}
TEST_F(Recording, PartialIntoNonlinear) {
  spec s = placed({b, i});
  s.unreduced.push_back("y");
  const value p = in.input(element::f32, s);
  EXPECT_TRUE((p * 2.0).ok());
  exp(p);
  expect(fault::unreduced_into_nonlinear, "exp", "", "y");
}
TEST_F(Recording, LogSumExpNeedsFloatingPointNumbers) {
  spec s = placed({b, i});
  s.unreduced.push_back("y");
  s.combine = reduction::logsumexp;
  EXPECT_TRUE(logsumexp(in.input(element::f32, s), i).ok());
  in.input(element::i32, s);
  expect(fault::not_floating, "logsumexp", "");
}
TEST_F(Recording, FunctionsOfFractionsNeedFloatingPointNumbers) {
  const value whole = in.input(element::i32, placed({b, i}));
  EXPECT_FALSE(softmax(whole, i).ok());
  expect(fault::not_floating, "softmax", "");
  EXPECT_EQ(in.made().found.where.line, __LINE__ - 2);
}
// Quotients of integers are truncated, and "or" has no differences: their parts do not add up.
TEST_F(Recording, PartialIntegersIntoAQuotient) {
  spec s = placed({b, i});
  s.unreduced.push_back("y");
  EXPECT_TRUE((in.input(element::f32, s) / 3).ok());
  EXPECT_TRUE((in.input(element::c64, s) / 3).ok());
  EXPECT_FALSE((in.input(element::u32, s) / 3).ok());
  expect(fault::unreduced_into_nonlinear, "div", "", "y");
}
TEST_F(Recording, PartialPredicatesIntoADifference) {
  spec s = placed({b, i});
  s.unreduced.push_back("y");
  const value p = in.input(element::boolean, s), n = in.input(element::i32, s);
  EXPECT_TRUE((n - n).ok());
  EXPECT_TRUE((p + p).ok());
  EXPECT_FALSE((p - p).ok());
  expect(fault::unreduced_into_nonlinear, "sub", "", "y");
}
TEST_F(Recording, EqualOperationsAreMergedAndDeadOnesDropped) {
  const value once = exp(a) + exp(a);
  log(a);
  in.output(once);
  const graph g = simplify(in.made());
  EXPECT_TRUE(verify(g));
  EXPECT_EQ(g.inputs.size(), 3u);
  EXPECT_EQ(g.nodes.size(), 5u);
}
// Nodes are merged where nothing tells them apart, field by field.
TEST_F(Recording, OperationsThatDifferInOneFieldAreNotMerged) {
  const indexed_vector<dim_map> maps(2, dim_map{});
  const node& made = in.at(dot(a, w, k));
  EXPECT_TRUE(detail::same_operation(made, made, maps));
  const auto differs = [&](auto&& change) {
    node other = made;
    change(other);
    return !detail::same_operation(made, other, maps) && !detail::same_operation(other, made, maps);
  };
  EXPECT_TRUE(differs([](node& n) { n.code = op::mul; }));
  EXPECT_TRUE(differs([](node& n) { n.scalar = 1; }));
  EXPECT_TRUE(differs([](node& n) { n.arity = 1; }));
  EXPECT_TRUE(differs([](node& n) { n.maps = 1; }));
  EXPECT_TRUE(differs([](node& n) { n.loop = 1; }));
  EXPECT_TRUE(differs([](node& n) { n.in[1] = n.in[0]; }));
  EXPECT_TRUE(differs([](node& n) { n.type.element = element::f64; }));
  EXPECT_TRUE(differs([](node& n) { n.over = 0; }));
  EXPECT_TRUE(differs([](node& n) { n.combine = reduction::max; }));
  EXPECT_TRUE(differs([](node& n) { n.which[0] = 1; }));
  EXPECT_TRUE(differs([](node& n) { n.pin.append(0, 1); }));
  EXPECT_TRUE(differs([](node& n) { n.pinned = 1; }));
  EXPECT_TRUE(differs([](node& n) { n.local = true; }));
  EXPECT_TRUE(differs([](node& n) { n.backwards = true; }));
  EXPECT_TRUE(differs([](node& n) { n.exclusive = true; }));
  EXPECT_TRUE(differs([](node& n) { n.of = 1; }));
}
TEST_F(Recording, OneValueInTwoLayoutsIsTwoValues) {
  in.output(reshard(a, placed({b, over(i, "y"), k})));
  in.output(reshard(a, placed({b, i, over(k, "y")})));
  const graph g = simplify(in.made());
  EXPECT_NE(g.outputs[0], g.outputs[1]);
}
// Two recomputations of one value are two: each is there where its region needs it.
TEST_F(Recording, BarriersAreKeptApart) {
  const source here{};
  in.output(exp(in.alias(op::barrier, a, here)) + exp(in.alias(op::barrier, a, here)));
  const graph g = simplify(in.made());
  EXPECT_EQ(std::ranges::count(g.nodes, op::barrier, &node::code), 2);
  EXPECT_EQ(std::ranges::count(g.nodes, op::exp, &node::code), 2);
}
// A comparison with numbers that may lie between the classes is no look-up.
TEST_F(Recording, OneHotValuesOfFloatingPointLabelsAreNoLookUps) {
  constexpr dim_ref classes{"class"};
  const value table = in.input(element::f32, placed({classes, j}));
  const value whole = in.input(element::i32, placed({b})), real = in.input(element::f32, placed({b}));
  const auto looked_up = [&](const value& index, const value& labels) {
    // As one_hot records it, which refuses such labels.
    const value hit = in.elementwise(op::equal, std::array{labels, index}, source{}, element::boolean, true);
    in.output(dot(cast<float>(hit), table, classes));
  };
  looked_up(iota(table, classes), whole);
  looked_up(iota<float>(table, classes), real);
  const graph g = simplify(in.made());
  ASSERT_TRUE(in.made().found.ok());
  EXPECT_EQ(g.nodes[g.outputs[0]].code, op::gather);
  EXPECT_EQ(g.nodes[g.outputs[1]].code, op::dot);
}
TEST_F(Recording, VerifySeesWhatIsBroken) {
  in.output(exp(a));
  graph g = in.take();
  ASSERT_TRUE(verify(g));
  graph late = g, twice = g, axis = g, beyond = g, gap = g;
  late.nodes[3].in[0] = 3;
  twice.nodes[0].type.dims[1] = twice.nodes[0].type.dims[0];
  // A layout cannot say that an axis shards two positions; but that it shards one and is unreduced, is none of the
  // mesh, or is the second axis of a position without a first.
  axis.nodes[0].pin.set(1, axis_list(0));
  axis.nodes[0].pin.set_partial(axis_bit(0));
  beyond.nodes[0].pin.set(1, axis_list(max_axes - 1));
  gap.nodes[0].pin = layout{1u | 1u << 4};
  EXPECT_FALSE(verify(late));
  EXPECT_FALSE(verify(twice));
  EXPECT_FALSE(verify(axis));
  EXPECT_FALSE(verify(beyond));
  EXPECT_FALSE(verify(gap));
}

} // namespace CLEAVE_SOURCE
