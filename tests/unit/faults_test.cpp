// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The faults of the recorder that recorder_test.cpp does not meet, with the dim, the axis and the user's line.
#include <cleave/expr/functions.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>

#include <gtest/gtest.h>

#include <deque>
#include <string>

namespace CLEAVE_SOURCE {

using namespace cleave;

constexpr dim_ref b{"b"}, i{"i"}, j{"j"}, n{"n"};

constexpr mesh_value one_axis(std::string_view name) {
  mesh_value m;
  m.axes.push_back({name, 2});
  return m;
}
constexpr spec spec_of(std::initializer_list<placement> dims, std::string_view axis = "x") {
  spec s;
  s.mesh = one_axis(axis);
  for (const placement& p : dims) s.dims.push_back(p);
  return s;
}
constexpr placement over_x(dim_ref d) {
  placement p(d);
  p.axes.push_back("x");
  return p;
}

struct Faults : testing::Test {
  recorder in{one_axis("x")};
  value a = in.input(element::f32, spec_of({b, i}));

  void expect(fault f, std::string_view op, std::string_view dim, unsigned line) {
    const verdict& v = in.made().found;
    EXPECT_EQ(v.fault, f);
    EXPECT_EQ(v.op, op);
    EXPECT_EQ(v.dim, dim);
    EXPECT_EQ(v.where.line, line);
    if (line != 0) {
      EXPECT_EQ(v.where.name(), "faults_test.cpp");
    }
  }
};

// The same in constant evaluation.
constexpr verdict found_when_compiling() {
  recorder in(one_axis("x"));
  const value v = in.input(element::f32, spec_of({b, i}));
  static_cast<void>(sum(v, j));
  return in.made().found;
}
constexpr unsigned line_of_sum = __LINE__ - 3;
static_assert(found_when_compiling().fault == fault::dim_missing && found_when_compiling().dim == "j" &&
              found_when_compiling().where.line == line_of_sum);

TEST_F(Faults, DimMissing) {
  static_cast<void>(sum(a, j));
  const unsigned line = __LINE__ - 1;
  expect(fault::dim_missing, "sum", "j", line);
}
TEST_F(Faults, DimMissingInEveryOpThatNamesOne) {
  const auto names_j = [](auto op) {
    recorder r(one_axis("x"));
    op(r, r.input(element::f32, spec_of({b, i})));
    EXPECT_EQ(r.made().found.fault, fault::dim_missing);
    EXPECT_EQ(r.made().found.dim, "j");
  };
  names_j([](recorder&, value v) { rename(v, j, n); });
  names_j([](recorder&, value v) { split(v, j, n, dim_ref{"k"}); });
  names_j([](recorder&, value v) { merge(v, i, j, n); });
  names_j([](recorder&, value v) { merge(v, j, i, n); });
  names_j([](recorder&, value v) { count(v, j); });
  names_j([](recorder&, value v) { constrain(v, spec_of({over_x(j)})); });
  names_j([](recorder&, value v) { reshard(v, spec_of({over_x(j)})); });
}
TEST_F(Faults, DimUsedTwiceByViews) {
  static_cast<void>(rename(a, i, b));
  const unsigned line = __LINE__ - 1;
  expect(fault::dim_used_twice, "rename", "b", line);
}
TEST_F(Faults, DimUsedTwiceByWindows) {
  // Once more under its own name, and under another one.
  for (const dim_ref to : {b, n}) {
    recorder own{one_axis("x")};
    const value x = own.input(element::f32, spec_of({b, i}));
    windows(x, window{b, b, {"k", 1}}, window{b, to, {"l", 2}, 1, 1, 1, 0});
    EXPECT_EQ(own.made().found.fault, fault::dim_used_twice);
    EXPECT_EQ(own.made().found.op, "windows");
    EXPECT_EQ(own.made().found.dim, "b");
  }
  // A dim of a window is none of the operand.
  windows(a, window{b, b, {"k", 1}}, window{{"k"}, n, {"l", 1}});
  const unsigned line = __LINE__ - 1;
  expect(fault::dim_missing, "windows", "k", line);
}
TEST_F(Faults, DimUsedTwiceInAConstraint) {
  static_cast<void>(constrain(a, spec_of({b, over_x(b)})));
  const unsigned line = __LINE__ - 1;
  expect(fault::dim_used_twice, "constrain", "b", line);
}
TEST_F(Faults, AxisUsedTwiceByAPartialValue) {
  spec s = spec_of({over_x(b), i});
  s.unreduced.push_back("x");
  static_cast<void>(reshard(a, s));
  const unsigned line = __LINE__ - 1;
  expect(fault::axis_used_twice, "reshard", "", line);
  EXPECT_EQ(in.made().found.axis, "x");
}
TEST_F(Faults, ExtentsOfARename) {
  const value fixed = in.input(element::f32, spec_of({dim_ref{"m", 4}, dim_ref{"n", 6}}));
  const value row = sum(fixed, n);
  static_cast<void>(rename(row, {"m"}, n));
  const unsigned line = __LINE__ - 1;
  expect(fault::extents_differ, "rename", "n", line);
  EXPECT_EQ(in.made().found.expected, 6);
  EXPECT_EQ(in.made().found.got, 4);
}
TEST_F(Faults, ElementTypes) {
  const value whole = in.input(element::i32, spec_of({b, i}));
  static_cast<void>(dot(a, whole, i));
  const unsigned line = __LINE__ - 1;
  expect(fault::element_types_differ, "dot", "", line);
}
TEST_F(Faults, APredicateIsBool) {
  static_cast<void>(select(a, a, a));
  const unsigned line = __LINE__ - 1;
  expect(fault::element_types_differ, "select", "", line);
}
TEST_F(Faults, AResultOfAnotherElementType) {
  in.output(a, element::f64, spec_of({b, i}));
  expect(fault::element_types_differ, "assignment", "", 0);
}
TEST_F(Faults, AResultWithMoreDimsOrFewer) {
  in.output(a, element::f32, spec_of({b, i, j}));
  expect(fault::assignment_to_other_dims, "assignment", "j", 0);
  recorder other(one_axis("x"));
  other.output(other.input(element::f32, spec_of({b, i})), element::f32, spec_of({b}));
  EXPECT_EQ(other.made().found.fault, fault::assignment_to_other_dims);
  EXPECT_EQ(other.made().found.dim, "i");
}
TEST_F(Faults, TwoConstraintsThatConflict) {
  const value once = constrain(a, spec_of({over_x(b)}));
  static_cast<void>(constrain(once, spec_of({over_x(i)})));
  EXPECT_TRUE(in.made().found.ok());
  static_cast<void>(constrain(once, spec_of({b})));
  const unsigned line = __LINE__ - 1;
  expect(fault::pinned_layouts_conflict, "constrain", "b", line);
}
TEST_F(Faults, Meshes) {
  static_cast<void>(constrain(a, spec_of({b}, "y")));
  const unsigned line = __LINE__ - 1;
  expect(fault::meshes_differ, "constrain", "", line);
}
TEST_F(Faults, SpecificationsThatWereRejectedWhereTheyWereWritten) {
  spec s = spec_of({b});
  s.well_formed = false;
  static_cast<void>(constrain(a, s));
  EXPECT_EQ(in.made().found.fault, fault::already_reported);
}
TEST_F(Faults, MoreDimsThanAGraphHas) {
  std::deque<std::string> names;
  for (int d = 2; d < max_dims; ++d)
    in.input(element::f32, spec_of({dim_ref{names.emplace_back(1, static_cast<char>('!' + d))}}));
  EXPECT_TRUE(in.made().found.ok());
  static_cast<void>(rename(a, b, dim_ref{"one more"}));
  const unsigned line = __LINE__ - 1;
  expect(fault::too_many_dims, "rename", "one more", line);
}
TEST_F(Faults, MoreDimsThanATensorHas) {
  const value four = in.input(element::f32, spec_of({{{"p"}}, {{"q"}}, {{"r"}}, {{"s"}}}));
  const value four_more = in.input(element::f32, spec_of({{{"t"}}, {{"u"}}, {{"v"}}, {{"w"}}}));
  const value eight = dot(four, four_more);
  EXPECT_TRUE(in.made().found.ok());
  static_cast<void>(dot(eight, in.input(element::f32, spec_of({j}))));
  const unsigned line = __LINE__ - 1;
  expect(fault::rank_too_high, "dot", "", line);
}
TEST_F(Faults, SplitOfATensorWithAllTheDimsThatItMayHave) {
  const value most = in.input(element::f32,
                              spec_of({{{"p"}}, {{"q"}}, {{"r"}}, {{"s"}}, {{"t"}}, {{"u"}}, {{"v"}}, {{"w"}}}));
  EXPECT_TRUE(in.made().found.ok());
  EXPECT_FALSE(split(most, dim_ref{"w"}, dim_ref{"major"}, dim_ref{"minor", 2}).ok());
  const unsigned line = __LINE__ - 1;
  expect(fault::rank_too_high, "split", "", line);
}
TEST_F(Faults, SplitIntoAllTheDimsThatATensorMayHave) {
  const value seven = in.input(element::f32, spec_of({{{"p"}}, {{"q"}}, {{"r"}}, {{"s"}}, {{"t"}}, {{"u"}}, {{"v"}}}));
  const value eight = split(seven, dim_ref{"r"}, dim_ref{"major"}, dim_ref{"minor", 2});
  ASSERT_TRUE(eight.ok());
  const tensor_type& t = in.at(eight).type;
  std::string names;
  for (int i = 0; i < t.rank; ++i) names += std::string(in.made().dims[t[i]].name) + " ";
  EXPECT_EQ(names, "p q major minor s t u v ");
}
TEST_F(Faults, MoreOperationsThanAGraphHas) {
  value v = a;
  while (in.made().nodes.size() < no_node) v = -v;
  EXPECT_TRUE(in.made().found.ok());
  v = -v;
  EXPECT_FALSE(v.ok());
  EXPECT_EQ(in.made().found.fault, fault::too_many_nodes);
}

// A loop that starts from a refused value adds nothing to the fault.
TEST_F(Faults, LoopsFromRefusedValues) {
  const value wrong = sum(a, j);
  const unsigned line = __LINE__ - 1;
  const auto half = [](const value& x) { return 0.5 * x; };
  static_cast<void>(repeat_times(3, wrong, half));
  static_cast<void>(repeat_until(wrong, half, [](const value& x) { return x < 1; }, 5));
  static_cast<void>(scan(i, wrong, a, [](const value& x, const value&) { return x; }));
  expect(fault::dim_missing, "sum", "j", line);
}

} // namespace CLEAVE_SOURCE
