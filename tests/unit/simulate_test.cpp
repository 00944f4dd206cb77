// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The simulator notices what is wrong with a program: right programs are broken in many ways, and every break must
// show.
#include <cleave/expr/functions.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/plan/plan.hpp>
#include <cleave/plan/price.hpp>
#include <cleave/simulate/simulate.hpp>
#include <cleave/study/explain_plan.hpp>

#include <gtest/gtest.h>

#include <functional>

namespace CLEAVE_SOURCE {

using namespace cleave;

constexpr dim_ref b{"b", 8}, d{"d", 6}, h{"h", 12};

/// x + relu(x w1) w2 with activations and weights sharded so that the plan has a gather, a reduce-scatter, products and
/// a fused map; and the row sums of the result.
class Broken : public testing::Test {
 protected:
  graph g_;
  sizes at_{};
  program plan_;
  std::vector<host_array> arguments_{};

  static spec placed(const mesh_value& mesh, std::initializer_list<std::pair<dim_ref, const char*>> dims) {
    spec s;
    s.mesh = mesh;
    for (const auto& [dim, axis] : dims) {
      placement p(dim);
      if (*axis != 0) p.axes.push_back(axis);
      s.dims.push_back(p);
    }
    return s;
  }
  void SetUp() override {
    mesh_value mesh;
    mesh.axes.push_back({"x", 2});
    mesh.axes.push_back({"y", 2});
    recorder in(mesh);
    spec activations = placed(mesh, {{b, "x"}, {d, ""}});
    activations.dims[0].axes.push_back("y");
    const value x = in.input(element::f64, activations);
    const value up = in.input(element::f64, placed(mesh, {{d, ""}, {h, "y"}})),
                down = in.input(element::f64, placed(mesh, {{h, "y"}, {d, ""}}));
    const value y = x + dot(relu(dot(x, up, d)), down, h);
    in.output(y, element::f64, activations);
    in.output(sum(y, b), element::f64, placed(mesh, {{d, ""}}));
    g_ = in.take();
    at_.axes[0] = at_.axes[1] = 2;
    for (std::size_t k = 0; k < g_.dims.size(); ++k) at_.dims[k] = g_.dims[k].extent;
    plan_ = partition(g_, at_, policy::bytes_first(1));
    int n = 0;
    for (node_id i : g_.inputs) {
      host_array a(shape_of(g_.nodes[i].type, at_));
      for (double& value : a.data) value = (n = (n * 37 + 11) % 101) - 50;
      arguments_.push_back(a);
    }
  }
  /// Empty if a program gives the right values for its price.
  std::string verdict_on(const program& p) {
    const simulated got = simulate(p, at_, arguments_);
    if (!got.problem.empty()) return got.problem;
    for (std::size_t r = 0; r < g_.outputs.size(); ++r)
      if (!(p.buffers[p.arguments + r].where == g_.output_layouts[r])) return "a result lies otherwise than asked for";
    const auto wanted = evaluate(g_, at_, arguments_);
    for (std::size_t r = 0; r < wanted.size(); ++r)
      if (first_difference(wanted[r].data, got.results[r].data, 1e-12) >= 0) return "wrong values";
    if (got.bytes != bytes(p, at_)) return "wrong bytes";
    return got.flops == flops(p, at_) ? "" : "wrong flops";
  }
  std::size_t step_of(kind k) const {
    for (std::size_t i = 0; i < plan_.steps.size(); ++i)
      if (plan_.steps[i].move == k) return i;
    ADD_FAILURE() << "the plan has no " << name_of(k);
    return 0;
  }
};

TEST_F(Broken, NotToBeginWith) {
  EXPECT_EQ(verdict_on(plan_), "");
  step_of(kind::all_gather);
  step_of(kind::reduce_scatter);
  step_of(kind::all_reduce);
}
TEST_F(Broken, ByAnyStepLeftOut) {
  for (std::size_t i = 0; i < plan_.steps.size(); ++i) {
    program p = plan_;
    p.steps.erase(p.steps.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_NE(verdict_on(p), "") << "step " << i;
  }
}
TEST_F(Broken, ByOtherAxesOfAnyMove) {
  for (std::size_t i = 0; i < plan_.steps.size(); ++i)
    for (unsigned bits = 1; bits < 4; ++bits) {
      const axis_set axes = bits;
      program p = plan_;
      if (p.steps[i].kind != step_kind::move || axes == p.steps[i].axes) continue;
      p.steps[i].axes = axes;
      // A gather among more devices than needed gives the same; the planner never asks for it.
      const bool wider = (axes & plan_.steps[i].axes) == plan_.steps[i].axes && plan_.steps[i].move == kind::all_gather;
      if (!wider) {
        EXPECT_NE(verdict_on(p), "") << "step " << i << " axes " << bits;
      }
    }
}
TEST_F(Broken, ByAnotherReduction) {
  for (kind k : {kind::all_reduce, kind::reduce_scatter}) {
    program p = plan_;
    p.steps[step_of(k)].combine = reduction::max;
    EXPECT_NE(verdict_on(p), "") << name_of(k);
  }
}
TEST_F(Broken, ByAnyBufferDividedOtherwise) {
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i)
    for (int position = 0; position < plan_.buffers[i].type.rank; ++position)
      for (int axis = 0; axis < 2; ++axis) {
        program p = plan_;
        layout& l = p.buffers[i].where;
        if (((l.used() >> axis) & 1) != 0) l.clear(position);
        else l.append(position, axis);
        if (l == plan_.buffers[i].where) continue;
        EXPECT_NE(verdict_on(p), "") << "buffer " << i << " position " << position << " axis " << axis;
      }
}
TEST_F(Broken, ByTwoLiveBuffersInOneSlot) {
  int shared = 0;
  for (std::size_t i = 0; i < plan_.buffers.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const buffer &one = plan_.buffers[i], &other = plan_.buffers[j];
      if (one.role != role::workspace || other.role != role::workspace || one.index == other.index) continue;
      program p = plan_;
      p.buffers[i].index = other.index;
      // Not every pair lives at the same time; a product that overwrites its own operand always shows.
      for (const step& s : plan_.steps)
        if (s.kind == step_kind::gemm && s.out == i && (s.in[0] == j || s.in[1] == j)) {
          EXPECT_NE(verdict_on(p), "") << i << " " << j;
          ++shared;
        }
    }
  EXPECT_GT(shared, 0);
}
TEST_F(Broken, ByAnArgumentOverwritten) {
  program p = plan_;
  for (buffer& x : p.buffers)
    if (x.role == role::output && x.index == 0) x.role = role::input;
  EXPECT_NE(verdict_on(p), "");
}
TEST_F(Broken, ByOutputsInAnotherOrder) {
  program p = plan_;
  std::swap(p.buffers[p.arguments], p.buffers[p.arguments + 1u]);
  EXPECT_NE(verdict_on(p), "");
}
TEST_F(Broken, ByMissingArguments) {
  arguments_.pop_back();
  EXPECT_NE(simulate(plan_, at_, arguments_).problem, "");
}

// Quotients of integers are truncated: those of parts of a sum are not parts of its quotient.
TEST(Simulate, IntegersAreSummedBeforeTheyAreDivided) {
  for (element e : {element::f64, element::i32, element::u8}) {
    mesh_value mesh;
    mesh.axes.push_back({"x", 2});
    recorder in(mesh);
    spec sharded, whole;
    sharded.mesh = whole.mesh = mesh;
    sharded.dims.push_back(placement(b));
    sharded.dims[0].axes.push_back("x");
    const value v = in.input(e, sharded);
    in.output(dot(v, v, b) / 3, e, whole);
    in.output(sum(v, b) / 3, e, whole);
    sizes at;
    at.axes[0] = 2;
    at.dims[0] = 4;
    host_array a(shape_of(in.at(v).type, at));
    a.data = {1, 1, 2, 2};
    const program p = partition(in.made(), at);
    const simulated got = simulate(p, at, std::span(&a, 1));
    ASSERT_EQ(got.problem, "");
    EXPECT_NEAR(got.results[0].data[0], e == element::f64 ? 10.0 / 3 : 3, 1e-12) << name_of(e);
    EXPECT_NEAR(got.results[1].data[0], 2, 1e-12) << name_of(e);
  }
}

// A sum of predicates is "or": the difference of two is taken of whole ones.
TEST(Simulate, PredicatesAreSummedBeforeTheirDifference) {
  mesh_value mesh;
  mesh.axes.push_back({"x", 2});
  recorder in(mesh);
  spec sharded, whole;
  sharded.mesh = whole.mesh = mesh;
  sharded.dims.push_back(placement(b));
  sharded.dims[0].axes.push_back("x");
  const value v = in.input(element::boolean, sharded), w = in.input(element::boolean, sharded);
  in.output(any(v, b) - any(w, b), element::boolean, whole);
  sizes at;
  at.axes[0] = 2;
  at.dims[0] = 2;
  std::array<host_array, 2> a{host_array(shape_of(in.at(v).type, at)), host_array(shape_of(in.at(v).type, at))};
  a[0].data = {1, 0};
  a[1].data = {0, 1};
  const simulated got = simulate(partition(in.made(), at), at, a);
  ASSERT_EQ(got.problem, "");
  EXPECT_EQ(got.results[0].data[0], 0);
}

// Partial over an axis and sharded over it is no layout: neither is it one of rows that are sent over the axis.
TEST(Simulate, RowsAreNotPartialOverTheAxesAlongWhichTheyAreSent) {
  constexpr dim_ref row{"row"}, place{"place"};
  mesh_value mesh;
  mesh.axes.push_back({"x", 3});
  mesh.axes.push_back({"y", 2});
  recorder in(mesh);
  spec sharded, partial, table;
  sharded.mesh = partial.mesh = table.mesh = mesh;
  sharded.dims.push_back(placement(row));
  sharded.dims[0].axes.push_back("y");
  partial.dims.push_back(placement(row));
  partial.unreduced.push_back("y");
  table.dims.push_back(placement(place));
  table.dims[0].axes.push_back("x");
  const value v = in.input(element::i32, sharded);
  in.output(scatter_add(reshard(v, partial), v, place), element::i32, table);
  const graph& g = in.made();
  sizes at = sizes_for(g);
  at.axes[0] = 3;
  at.axes[1] = 2;
  for (std::size_t k = 0; k < g.dims.size(); ++k) at.dims[k] = 6;
  host_array a(shape_of(in.at(v).type, at));
  a.data = {0, 1, 1, 5, 2, 1};
  const program p = partition(g, sizes_for(g), policy::bytes_first(1));
  ASSERT_TRUE(p.found.ok());
  const simulated got = simulate(p, at, std::span(&a, 1));
  ASSERT_EQ(got.problem, "");
  EXPECT_EQ(got.results[0].data, (std::vector<double>{0, 3, 2, 0, 0, 5}));
}

// What an exchange in flight brings is read after it is waited for, and what it sends is left alone until then.
TEST(Simulate, ExchangesInFlightAreWaitedFor) {
  mesh_value mesh;
  mesh.axes.push_back({"x", 4});
  recorder in(mesh);
  spec rows, weights;
  rows.mesh = weights.mesh = mesh;
  for (dim_ref name : {b, d}) rows.dims.push_back(placement(name));
  rows.dims[0].axes.push_back("x");
  for (dim_ref name : {d, h}) weights.dims.push_back(placement(name));
  const value x = exp(in.input(element::f64, rows)), w = in.input(element::f64, weights);
  const value turned = roll(x, b, 1), product_of_x = dot(x, w, d);
  rows.dims[1] = placement(h);
  in.output(product_of_x + sum(turned * x, d), element::f64, rows);
  const graph& g = in.made();
  sizes at = sizes_for(g);
  at.axes[0] = 4;
  const program p = partition(g, at);
  ASSERT_TRUE(p.found.ok());
  std::vector<host_array> arguments;
  for (node_id i : g.inputs) {
    host_array a(shape_of(g.nodes[i].type, at));
    for (std::size_t k = 0; k < a.data.size(); ++k) a.data[k] = static_cast<double>(k % 7) / 8;
    arguments.push_back(a);
  }
  const auto verdict_on = [&](const program& q) {
    const simulated got = simulate(q, at, arguments);
    if (!got.problem.empty()) return got.problem;
    return first_difference(evaluate(g, at, arguments)[0].data, got.results[0].data, 1e-12) < 0
               ? std::string()
               : std::string("wrong values");
  };
  std::size_t begun = 0, waited = 0, product = 0;
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    if (p.steps[i].in_flight) begun = i;
    if (p.steps[i].kind == step_kind::wait) waited = i;
    if (p.steps[i].kind == step_kind::gemm) product = i;
  }
  ASSERT_TRUE(begun < product && product < waited) << begun << " " << product << " " << waited;
  EXPECT_EQ(verdict_on(p), "");
  EXPECT_NE(explain(p, at).find("each device reads the neighbours of its block, while others compute"),
            std::string::npos)
      << explain(p, at);
  program never = p, late = p, spoiled = p, overwritten = p;
  never.steps.erase(never.steps.begin() + static_cast<std::ptrdiff_t>(waited));
  EXPECT_NE(verdict_on(never), "");
  std::swap(late.steps[waited], late.steps[waited + 1]);
  EXPECT_NE(verdict_on(late), "");
  // What is sent is computed anew meanwhile, as something else; what is brought is brought twice.
  const auto add = [&](program& to, step s) {
    to.steps.insert(to.steps.begin() + static_cast<std::ptrdiff_t>(waited), s);
  };
  for (step s : p.steps)
    if (s.out == p.steps[begun].in[0]) {
      const std::span<const fused_op> same = fused_ops_of(p, s);
      s.first_op = static_cast<std::uint32_t>(spoiled.fused_ops.size());
      spoiled.fused_ops.insert(spoiled.fused_ops.end(), same.begin(), same.end());
      spoiled.fused_ops.back().code = op::sin;
      add(spoiled, s);
    }
  EXPECT_NE(verdict_on(spoiled), "");
  step again = p.steps[begun];
  again.in_flight = false;
  add(overwritten, again);
  EXPECT_NE(verdict_on(overwritten), "");
  EXPECT_TRUE(verify(p));
  for (const program* broken : {&never, &late, &spoiled, &overwritten}) EXPECT_FALSE(verify(*broken));
}

TEST(Simulate, TakesPartialArgumentsApartAndPutsThemTogether) {
  mesh_value mesh;
  mesh.axes.push_back({"x", 3});
  for (reduction how : {reduction::sum, reduction::max, reduction::min, reduction::prod, reduction::logsumexp})
    for (element e : {element::f64, element::i32, element::u8, element::i64, element::u64, element::boolean}) {
      // Terms of a sum that wraps at 2^64 are no doubles.
      if (e == element::u64 && how == reduction::sum) continue;
      if (!is_floating(e) && how == reduction::logsumexp) continue;
      recorder in(mesh);
      spec partial, whole;
      partial.mesh = whole.mesh = mesh;
      partial.dims.push_back(placement(b));
      whole.dims.push_back(placement(b));
      partial.unreduced.push_back("x");
      partial.combine = how;
      in.output(in.input(e, partial), e, whole);
      sizes at;
      at.axes[0] = 3;
      at.dims[0] = 8;
      const program p = partition(in.made(), at);
      host_array a(shape_of(in.at({&in, 0}).type, at));
      const double least = e == element::u8 || e == element::u64 ? 0 : -3;
      for (std::size_t k = 0; k < a.data.size(); ++k) a.data[k] = simulation::stored(e, static_cast<double>(k) + least);
      const simulated got = simulate(p, at, std::span(&a, 1));
      ASSERT_EQ(got.problem, "");
      EXPECT_EQ(first_difference(got.results[0].data, a.data, 0), -1) << name_of(how) << " " << name_of(e);
      EXPECT_EQ(got.bytes, 2 * 2 * 8 * size_of(e) / 3);
    }
}

} // namespace CLEAVE_SOURCE
