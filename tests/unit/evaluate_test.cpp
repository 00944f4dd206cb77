// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The plain evaluator against values worked out by hand.
#include <cleave/expr/cumulative.hpp>
#include <cleave/expr/functions.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/expr/sort.hpp>
#include <cleave/simulate/evaluate.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace CLEAVE_SOURCE {

using namespace cleave;

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan = std::numeric_limits<double>::quiet_NaN();
constexpr dim_ref i{"i"}, j{"j"}, k{"k"}, n{"n"}, p{"p"}, q{"q"};

/// One-dimensional or larger arrays for arguments whose dims are named here; all on one device.
class Evaluate : public testing::Test {
 protected:
  recorder in_{mesh_value{}};
  std::vector<host_array> arguments_{};
  sizes at_{};

  value argument(element e, std::initializer_list<dim_ref> dims, std::initializer_list<std::int64_t> extents,
                 std::vector<double> data) {
    spec s;
    for (dim_ref d : dims) s.dims.push_back(placement(d));
    const value v = in_.input(e, s);
    host_array a;
    for (std::int64_t extent : extents) {
      at_.dims[in_.at(v).type[a.extents.rank]] = extent;
      a.extents[a.extents.rank++] = extent;
    }
    a.data = std::move(data);
    arguments_.push_back(a);
    return v;
  }
  void set(dim_ref d, std::int64_t extent) { at_.dims[static_cast<std::size_t>(in_.made().find_dim(d.name))] = extent; }
  void expect(value v, const std::vector<double>& wanted) {
    graph g = in_.made();
    ASSERT_TRUE(g.found.ok());
    g.outputs = {v.id};
    g.output_types = {g.nodes[v.id].type};
    g.output_layouts = {layout{}};
    const auto got = evaluate(g, at_, arguments_);
    EXPECT_EQ(first_difference(got[0].data, wanted, 1e-12), -1) << testing::PrintToString(got[0].data);
  }
};

TEST_F(Evaluate, DotsOverOneDim) {
  const value a = argument(element::f32, {i, k}, {2, 3}, {1, 2, 3, 4, 5, 6}),
              b = argument(element::f32, {k, j}, {3, 2}, {1, 0, 0, 1, 1, 1});
  expect(dot(a, b, k), {4, 5, 10, 11});
}
TEST_F(Evaluate, DotsWithBatchDimsInAnyOrder) {
  const value a = argument(element::f64, {i, n}, {2, 2}, {1, 2, 3, 4}),
              b = argument(element::f64, {n, i, j}, {2, 2, 1}, {1, 10, 100, 1000});
  // n is contracted, i a batch dim: i = 0: 1*1 + 2*100, i = 1: 3*10 + 4*1000.
  expect(dot(a, b, n), {201, 4030});
}
TEST_F(Evaluate, DotsOverNothingAndOverAnEmptyDim) {
  const value a = argument(element::f32, {i}, {2}, {1, 2}), b = argument(element::f32, {j}, {2}, {3, 4});
  const value c = argument(element::f32, {i, k}, {2, 0}, {}), d = argument(element::f32, {k}, {0}, {});
  expect(dot(a, b), {3, 4, 6, 8});
  expect(dot(c, d, k), {0, 0});
}
TEST_F(Evaluate, IntegerProductsWrap) {
  const value a = argument(element::u8, {k}, {2}, {200, 100}), b = argument(element::u8, {k}, {2}, {2, 3});
  expect(dot(a, b, k), {700 - 2 * 256});
  const value c = argument(element::i32, {i}, {2}, {2147483647, -2147483648.0});
  expect(c + 1, {-2147483648.0, -2147483647});
  expect(-c, {-2147483647, -2147483648.0});
  expect(abs(c), {2147483647, -2147483648.0});
  expect(c / argument(element::i32, {}, {}, {-1}), {-2147483647, -2147483648.0});
  expect(sum(c, i), {-1});
}
TEST_F(Evaluate, IntegersDivideTowardsZeroAndByZeroGiveZero) {
  const value a = argument(element::i32, {i}, {4}, {7, -7, 7, 5}), b = argument(element::i32, {i}, {4}, {2, 2, -2, 0});
  expect(a / b, {3, -3, -3, 0});
  expect(pow(b, a), {128, 0, -128, 0});
}
TEST_F(Evaluate, LargeIntegersKeepAllTheirDigits) {
  const value a = argument(element::i64, {}, {}, {4503599627370497.0});
  expect(a * 3 - a * 2, {4503599627370497.0});
}
TEST_F(Evaluate, ReducesInEveryWay) {
  const value a = argument(element::f32, {i, j}, {2, 3}, {1, -2, 3, 4, 5, -6});
  const auto by = [&](reduction r, dim_ref d) { return in_.reduce(r, a, std::array{d}, {}); };
  expect(by(reduction::sum, i), {5, 3, -3});
  expect(by(reduction::max, j), {3, 5});
  expect(by(reduction::min, j), {-2, -6});
  expect(by(reduction::prod, j), {-6, -120});
  expect(sum(a), {5});
  expect(mean(a, j), {2.0 / 3, 1});
}
TEST_F(Evaluate, ReducesNothingToTheIdentity) {
  const value real = argument(element::f32, {i, j}, {2, 0}, {}), whole = argument(element::i32, {i, j}, {2, 0}, {}),
              yes = argument(element::boolean, {i, j}, {2, 0}, {});
  const auto by = [&](value v, reduction r) { return in_.reduce(r, v, std::array{j}, {}); };
  expect(by(real, reduction::sum), {0, 0});
  expect(by(real, reduction::max), {-inf, -inf});
  expect(by(real, reduction::min), {inf, inf});
  expect(by(real, reduction::prod), {1, 1});
  expect(by(whole, reduction::max), {-2147483648.0, -2147483648.0});
  expect(by(whole, reduction::min), {2147483647, 2147483647});
  expect(by(yes, reduction::max), {0, 0});
  expect(by(yes, reduction::min), {1, 1});
}
// The greatest integers of 64 bits are no doubles; the nearest ones, which stand for them, must not wrap.
TEST_F(Evaluate, LeastUpperBoundsOf64Bits) {
  for (element e : {element::i64, element::u64}) {
    const double greatest = std::ldexp(1.0, e == element::i64 ? 63 : 64);
    const value a = argument(e, {i}, {3}, {5, 7, 3}), none = argument(e, {j}, {0}, {});
    expect(in_.reduce(reduction::min, a, std::array{i}, {}), {3});
    expect(in_.reduce(reduction::min, none, std::array{j}, {}), {greatest});
    const value before = cumulative_min(a, i, running::forward_exclusive);
    expect(cumulative_min(a, i), {5, 5, 3});
    expect(before, {greatest, 5, 5});
    expect(minimum(minimum(before, before), 8), {8, 5, 5});
    expect(broadcast(in_.reduce(reduction::min, none, std::array{j}, {}), i), {greatest, greatest, greatest});
  }
}
TEST_F(Evaluate, ZerosHaveDimsAndElementTypeOfAnother) {
  const value a = argument(element::i8, {i, j}, {2, 3}, {1, 2, 3, 4, 5, 6}), zeros = zeros_like(a);
  expect(zeros, {0, 0, 0, 0, 0, 0});
  EXPECT_EQ(in_.at(zeros).type, in_.at(a).type);
}
TEST_F(Evaluate, SumsOfBoolAreOr) {
  const value a = argument(element::boolean, {i, j}, {2, 3}, {1, 1, 0, 0, 0, 0});
  expect(in_.reduce(reduction::sum, a, std::array{j}, {}), {1, 0});
  expect(!a, {0, 0, 1, 1, 1, 1});
}
TEST_F(Evaluate, NotANumberGoesThroughMaximaAndRelu) {
  const value a = argument(element::f32, {i}, {3}, {1, nan, 3}), b = argument(element::f32, {i}, {3}, {nan, 2, 2});
  expect(maximum(a, b), {nan, nan, 3});
  expect(minimum(a, b), {nan, nan, 2});
  expect(relu(a), {1, nan, 3});
  expect(max(a, i), {nan});
  expect(a == a, {1, 0, 1});
}
TEST_F(Evaluate, Functions) {
  const value a = argument(element::f32, {i}, {3}, {-1, 0, 2});
  expect(gelu(a), {-0.15880800939172324, 0, 1.954597694087775});
  expect(sigmoid(a), {0.2689414213699951, 0.5, 0.8807970779778823});
  expect(sign(a), {-1, 0, 1});
  expect(floor(a * 0.75), {-1, 0, 1});
  expect(rsqrt(abs(a)), {1, inf, 0.7071067811865475});
  expect(softmax(a, i), {0.04201006613406605, 0.11419519938459449, 0.8437947344813395});
  expect(logsumexp(a, i), {2.1698460195562915});
}
TEST_F(Evaluate, CastsAndSelects) {
  const value a = argument(element::f32, {i}, {4}, {-1.5, 0, 300.7, nan});
  expect(cast(a, element::i32), {-1, 0, 300, 0});
  expect(cast(a, element::u8), {0, 0, 255, 0});
  // Integers have no -0.
  expect(1.0 / cast(cast(a / 2, element::i32), element::f64),
         {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(), 1.0 / 150,
          std::numeric_limits<double>::infinity()});
  expect(1.0 / cast(-cast(a, element::i32), element::f64),
         {1, std::numeric_limits<double>::infinity(), -1.0 / 300, std::numeric_limits<double>::infinity()});
  expect(cast(a, element::boolean), {1, 0, 1, 1});
  expect(select(a > 0, a, -1.0), {-1, -1, 300.7, -1});
}
TEST_F(Evaluate, BroadcastsByNameInTheOrderOfTheWiderOperand) {
  const value a = argument(element::f32, {i, j}, {2, 3}, {1, 2, 3, 4, 5, 6}),
              b = argument(element::f32, {i}, {2}, {10, 20});
  expect(b - a, {9, 8, 7, 16, 15, 14});
}
TEST_F(Evaluate, IndicesCountsAndOneHot) {
  const value labels = argument(element::i32, {i}, {2}, {2, 0});
  const value hot = one_hot(labels, j);
  set(j, 3);
  expect(hot, {0, 0, 1, 1, 0, 0});
  expect(count(labels, i, j), {6});
  expect(in_.iota(j, element::f32, {}), {0, 1, 2});
}
TEST_F(Evaluate, PadsWithANumber) {
  const value a = argument(element::f32, {i}, {2}, {1, 2});
  const value apart = pad(a, i, j, 1, 2, 1, 9), beside = pad(a, i, k, 1, 2, 0, 9);
  set(j, 6);
  set(k, 5);
  expect(apart, {9, 1, 9, 2, 9, 9});
  expect(beside, {9, 1, 2, 9, 9});
}
TEST_F(Evaluate, NegatesTheFirstHalfThatItExchanges) {
  const value a = argument(element::f32, {i}, {4}, {1, 2, 3, 4});
  const value turned = rotate_halves(a, i);
  for (std::size_t d = 0; d < in_.made().dims.size(); ++d)
    if (in_.made().dims[d].name.starts_with("half")) at_.dims[d] = 2;
  expect(turned, {-3, -4, 1, 2});
}
TEST_F(Evaluate, LargestElementsAreDistinctWhereAllAreTheLeast) {
  const value a = argument(element::f32, {i}, {3}, {-inf, 1, -inf});
  const auto [values, indices] = top_k(a, i, dim_ref{"place", 3});
  set({"place", 3}, 3);
  expect(values, {1, -inf, -inf});
  expect(indices, {1, 0, 2});
}
// Against JAX: program 2347 of seed 1 of against_jax.py.
TEST_F(Evaluate, LargestElementsOfIntegersMayBeNegative) {
  for (const element e : {element::i8, element::i32, element::i64}) {
    const value a = argument(e, {i}, {4}, {-3, 4, -1, -2});
    const auto [values, indices] = top_k(a, i, dim_ref{"place", 3});
    set({"place", 3}, 3);
    expect(values, {4, -1, -2});
    expect(indices, {1, 2, 3});
  }
}
TEST_F(Evaluate, SortsEitherWay) {
  const value a = argument(element::f32, {i, j}, {2, 3}, {2, 3, 1, 5, 4, 5});
  expect(sort(a, j), {1, 2, 3, 4, 5, 5});
  expect(sort(a, j, order::descending), {3, 2, 1, 5, 5, 4});
  expect(argsort(a, j), {2, 0, 1, 1, 0, 2});
  expect(argsort(a, j, order::descending), {1, 0, 2, 0, 2, 1});
}
TEST_F(Evaluate, ViewsAndAnnotationsKeepElements) {
  const value a = argument(element::f32, {n}, {6}, {1, 2, 3, 4, 5, 6});
  const value parts = split(a, n, p, q);
  set(p, 2);
  set(q, 3);
  expect(parts, {1, 2, 3, 4, 5, 6});
  expect(sum(parts, p), {5, 7, 9});
  // The parts of a merge in another order are laid side by side first.
  const value turned = dot(parts, argument(element::f32, {}, {}, {1}));
  const value renamed = rename(turned, q, j);
  set(j, 3);
  expect(merge(renamed, p, j, n), {1, 2, 3, 4, 5, 6});
  expect(constrain(parts, spec{}), {1, 2, 3, 4, 5, 6});
}
TEST_F(Evaluate, RenamesSeveralDimsAtOnce) {
  std::vector<double> counted(27);
  for (std::size_t m = 0; m < counted.size(); ++m) counted[m] = static_cast<double>(m);
  const value a = argument(element::f32, {i, j, p}, {3, 3, 3}, counted);
  // Each dim is known by its sums over the others: 9 times 13, and 81, 27 or 9 more or less.
  const auto check = [&](const value& x, dim_ref first, dim_ref second, dim_ref third) {
    const value sums[3] = {sum(sum(x, second), third), sum(sum(x, first), third), sum(sum(x, first), second)};
    for (const auto& d : in_.made().dims) set(dim_ref{d.name}, 3);
    expect(sums[0], {36, 117, 198});
    expect(sums[1], {90, 117, 144});
    expect(sums[2], {108, 117, 126});
  };
  check(a, i, j, p);
  // Chains, in which each name must be free before it is taken.
  check(rename(a, i, j, j, n), j, n, p);
  check(rename(a, j, n, i, j), j, n, p);
  check(rename(a, i, i, j, q), i, q, p);
  // Circles of two and of three, and back.
  check(rename(a, i, j, j, i), j, i, p);
  const value turned = rename(a, i, j, j, p, p, i);
  check(turned, j, p, i);
  check(rename(turned, j, i, p, j, i, p), i, j, p);
  // A circle beside a chain.
  check(rename(a, i, p, p, i, j, k), p, k, i);
}
/// Extents follow from other extents by factors of any size.
TEST_F(Evaluate, RepeatsMoreOftenThanAByteCounts) {
  const value a = argument(element::f64, {i}, {2}, {3, 4});
  const value often = repeat(a, i, j, 200);
  at_.dims[static_cast<std::size_t>(in_.made().find_dim("j"))] = dynamic;
  ASSERT_TRUE(derive_extents(in_.made().rules, at_));
  ASSERT_EQ(at_.dims[static_cast<std::size_t>(in_.made().find_dim("j"))], 400);
  std::vector<double> wanted(400, 3);
  std::fill(wanted.begin() + 200, wanted.end(), 4);
  expect(often, wanted);
}
TEST_F(Evaluate, ResultsComeInTheOrderAskedFor) {
  const value a = argument(element::f32, {i, j}, {2, 3}, {1, 2, 3, 4, 5, 6});
  spec s;
  s.dims.push_back(placement(j));
  s.dims.push_back(placement(i));
  in_.output(a, element::f32, s);
  const auto got = evaluate(in_.made(), at_, arguments_);
  EXPECT_EQ(got[0].data, (std::vector<double>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(got[0].extents[0], 3);
}
TEST_F(Evaluate, RefusesArgumentsThatDoNotFit) {
  argument(element::f32, {i}, {3}, {1, 2, 3});
  const auto complaint = [&](std::span<const host_array> arguments) {
    try {
      evaluate(in_.made(), at_, arguments);
    } catch (const evaluation_error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(complaint({}), "cleave: the program has 1 arguments, but 0 arrays were given");
  arguments_[0].extents[0] = 2;
  EXPECT_EQ(complaint(arguments_), "cleave: the array for argument 0 does not have the extents of the argument");
}

} // namespace CLEAVE_SOURCE
