// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Propagation of layouts by itself, on graphs so small that each layout follows from one rule. What plans cost hardly
// shows a rule that is missing, since the search makes up for it.
#include <cleave/expr/functions.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/propagate/complete.hpp>

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace CLEAVE_SOURCE {

using namespace cleave;

const dim_ref batch{"batch", 8}, embed{"embed", 16}, hidden{"hidden", 12}, one{"one", 1}, rows{"rows", 4},
    columns{"columns", 2};
using named_dims = std::initializer_list<std::pair<dim_ref, std::string_view>>;

/// A graph on a mesh of x = 4 and y = 2, and the layouts that propagation gives it.
class Complete : public testing::Test {
 protected:
  recorder in_{named({}).mesh};

  static spec named(named_dims dims) {
    spec s;
    s.mesh.axes = {{"x", 4}, {"y", 2}};
    for (const auto& [d, axes] : dims) {
      placement p(d);
      for (std::size_t i = 0; i < axes.size(); ++i) p.axes.push_back(axes.substr(i, 1));
      s.dims.push_back(p);
    }
    return s;
  }
  value input(named_dims dims) { return in_.input(element::f32, named(dims)); }
  void output(const value& v, named_dims dims) { in_.output(v, element::f32, named(dims)); }
  /// The axes of each dim, as "batch x, embed".
  std::string layout_of(const value& v) {
    EXPECT_TRUE(in_.made().found.ok()) << static_cast<int>(in_.made().found.fault);
    const layout l = complete(in_.made())[v.id];
    const tensor_type t = in_.at(v).type;
    std::string text;
    for (int i = 0; i < t.rank; ++i) {
      text.append(i == 0 ? "" : ", ").append(in_.made().dims[t[i]].name);
      for (int j = 0; j < l[i].size(); ++j) text.append(j == 0 ? " " : "").append(l[i][j] == 0 ? "x" : "y");
    }
    return text;
  }
};

TEST_F(Complete, ResultsTakeTheLayoutOfTheirOperands) {
  const value v = input({{batch, "x"}, {embed, ""}}), w = input({{embed, ""}, {hidden, "y"}});
  const value exponent = exp(v), product = dot(exponent, w, embed), total = sum(product, batch);
  EXPECT_EQ(layout_of(exponent), "batch x, embed");
  EXPECT_EQ(layout_of(product), "batch x, hidden y");
  EXPECT_EQ(layout_of(total), "hidden y");
}

TEST_F(Complete, OperandsAreOfferedTheLayoutOfWhatReadsThem) {
  // What the user wrote for the last of a chain goes all the way back, and on to what else reads the first.
  const value v = input({{batch, ""}, {embed, ""}});
  const value first = exp(v), second = tanh(first), beside = sin(first);
  const value last = constrain(second, named({{batch, "x"}, {embed, "y"}}));
  output(last + beside, {{batch, "x"}, {embed, "y"}});
  EXPECT_EQ(layout_of(second), "batch x, embed y");
  EXPECT_EQ(layout_of(first), "batch x, embed y");
  EXPECT_EQ(layout_of(beside), "batch x, embed y");
  EXPECT_EQ(layout_of(v), "batch, embed");
}

TEST_F(Complete, OneOperandOfAProductIsOfferedTheContractedDimOfTheOther) {
  const value v = input({{batch, ""}, {embed, "x"}}), w = exp(input({{embed, ""}, {hidden, ""}}));
  const value product = dot(v, w, embed);
  EXPECT_EQ(layout_of(w), "embed x, hidden");
  EXPECT_EQ(layout_of(product), "batch, hidden");
}

TEST_F(Complete, ResultsThatTheUserWroteGuideWhatIsComputed) {
  const value v = input({{batch, ""}, {embed, ""}}), computed = tanh(exp(v));
  output(computed, {{batch, "y"}, {embed, "x"}});
  EXPECT_EQ(layout_of(computed), "batch y, embed x");
}

TEST_F(Complete, WhatTheUserWroteStays) {
  const value v = input({{batch, "x"}, {embed, ""}});
  const value pinned = constrain(exp(v), named({{batch, ""}})), after = tanh(pinned);
  output(after, {{batch, "x"}, {embed, ""}});
  EXPECT_EQ(layout_of(pinned), "batch, embed");
  // The constraint names batch only: embed is free.
  const value other = constrain(exp(v), named({{batch, "x"}})), wide = other * input({{batch, "x"}, {embed, "y"}});
  output(wide, {{batch, "x"}, {embed, "y"}});
  EXPECT_EQ(layout_of(other), "batch x, embed y");
}

TEST_F(Complete, AnAxisShardsOneDim) {
  const value v = input({{batch, ""}, {embed, ""}}), computed = exp(v);
  const value left = constrain(computed, named({{batch, "x"}})), right = constrain(computed, named({{embed, "x"}}));
  output(left, {{batch, "x"}, {embed, ""}});
  output(right, {{batch, ""}, {embed, "x"}});
  EXPECT_EQ(layout_of(computed), "batch x, embed");
}

TEST_F(Complete, AnAxisShardsOneFactorOfAnOperation) {
  const value v = input({{batch, "x"}, {embed, ""}}), w = input({{embed, ""}, {hidden, "x"}});
  const value product = dot(v, w, embed);
  EXPECT_EQ(layout_of(product), "batch x, hidden");
}

TEST_F(Complete, LongerListsOfAxesContinueShorterOnes) {
  const value v = exp(input({{batch, "x"}, {embed, ""}}));
  const value w = v * input({{batch, "xy"}, {embed, ""}});
  EXPECT_EQ(layout_of(v), "batch xy, embed");
  EXPECT_EQ(layout_of(w), "batch xy, embed");
  // Neither continues the other: nobody gives way.
  const value a = exp(input({{batch, "x"}, {embed, ""}})), b = exp(input({{batch, "y"}, {embed, ""}}));
  EXPECT_EQ(layout_of(a + b), "batch, embed");
}

TEST_F(Complete, ASingleElementIsNotSharded) {
  const value v = exp(input({{one, ""}, {embed, ""}}));
  const value w = v * input({{one, "x"}, {embed, "y"}});
  EXPECT_EQ(layout_of(v), "one, embed y");
  EXPECT_EQ(layout_of(w), "one, embed y");
}

TEST_F(Complete, ABiasDoesNotDecideOverActivations) {
  // It does where nothing else does, and not where the activations are sharded over the same axis.
  const value bias = input({{embed, "x"}});
  const value free = exp(input({{batch, ""}, {embed, ""}})) + bias;
  const value taken = exp(input({{batch, ""}, {embed, ""}}));
  const value held = constrain(taken + bias, named({{batch, "x"}}));
  output(free, {{batch, ""}, {embed, ""}});
  output(held, {{batch, "x"}, {embed, ""}});
  EXPECT_EQ(layout_of(free), "batch, embed x");
  EXPECT_EQ(layout_of(taken), "batch x, embed");
  const value other = exp(input({{batch, ""}, {embed, "y"}})) + bias;
  EXPECT_EQ(layout_of(other), "batch, embed y");
}

TEST_F(Complete, CheapOperationsDecideBeforeProducts) {
  const value v = input({{batch, ""}, {embed, ""}}), w = input({{embed, ""}, {hidden, "x"}});
  const value product = dot(v, w, embed), after = product + input({{batch, "x"}, {hidden, ""}});
  EXPECT_EQ(layout_of(product), "batch x, hidden");
  EXPECT_EQ(layout_of(after), "batch x, hidden");
}

TEST_F(Complete, SplitDimsGiveTheirAxesToTheMajorPartAndTakeThemBack) {
  const value v = input({{batch, "x"}, {embed, ""}}), parts = split(v, batch, rows, columns);
  EXPECT_EQ(layout_of(parts), "rows x, columns, embed");
  const value whole = exp(input({{batch, ""}, {embed, ""}})), halves = split(whole, batch, rows, columns);
  const value wanted = constrain(halves, named({{rows, "x"}, {columns, "y"}}));
  output(wanted, {{rows, "x"}, {columns, "y"}, {embed, ""}});
  EXPECT_EQ(layout_of(halves), "rows x, columns y, embed");
  EXPECT_EQ(layout_of(whole), "batch xy, embed");
}

TEST_F(Complete, MergedDimsTakeTheAxesOfTheirParts) {
  const value v = input({{rows, "x"}, {columns, "y"}, {embed, ""}}), whole = merge(v, rows, columns, batch);
  EXPECT_EQ(layout_of(whole), "batch xy, embed");
}

} // namespace CLEAVE_SOURCE
