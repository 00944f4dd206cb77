// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Iterative methods over random layouts, on all devices of a mesh: what the plain evaluator gives, and a solution.
#include "../differences.hpp"

#include <cleave/expr/movement.hpp>
#include <cleave/simulate/simulate.hpp>
#include <cleave/solve/bicgstab.hpp>
#include <cleave/solve/cg.hpp>
#include <cleave/solve/chebyshev.hpp>
#include <cleave/solve/gmres.hpp>
#include <cleave/study/explain_plan.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace CLEAVE_SOURCE {

using namespace cleave;

constexpr dim_ref row{"row"}, col{"col"};

/// Symmetric if the wind is 0.
value apply(const value& u, const value& scale, double wind) {
  return scale * (4.5 * (scale * u) - (1 + wind) * shift(scale * u, row, 1) - (1 - wind) * shift(scale * u, row, -1) -
                  shift(scale * u, col, 1) - shift(scale * u, col, -1));
}

struct problem {
  const char* name;
  double wind;
  std::function<solve::result(const value& b, const value& scale)> f;
};
const problem problems[] = {
    {"cg", 0,
     [](const value& b, const value& scale) {
       return solve::cg([&](const value& u) { return apply(u, scale, 0); }, b, {.tolerance = 1e-9},
                        [&](const value& r) { return r / (scale * scale); });
     }},
    {"bicgstab", 0.6,
     [](const value& b, const value& scale) {
       return solve::bicgstab([&](const value& u) { return apply(u, scale, 0.6); }, b, {.tolerance = 1e-9});
     }},
    {"gmres", 0.6,
     [](const value& b, const value& scale) {
       return solve::gmres<6>([&](const value& u) { return apply(u, scale, 0.6); }, b,
                              {.tolerance = 1e-9, .start = 0.1 * b}, [&](const value& r) { return r / scale; });
     }},
    {"chebyshev", 0,
     [](const value& b, const value& scale) {
       return solve::chebyshev([&](const value& u) { return apply(u, scale, 0); }, b, {0.5, 17}, {.tolerance = 1e-9});
     }},
};

class Methods : public testing::TestWithParam<std::size_t> {
 protected:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  spec layout_of(std::vector<dim_ref> dims, const mesh_value& mesh) {
    spec s;
    s.mesh = mesh;
    for (const dim_ref& d : dims) s.dims.push_back(placement(d));
    for (int a = 0; a < mesh.size(); ++a)
      if (const int where = below(3); where < static_cast<int>(dims.size()))
        s.dims[static_cast<std::size_t>(where)].axes.push_back(mesh.axes[static_cast<std::size_t>(a)].name);
    return s;
  }

  std::mt19937 random_{17};
};

TEST_P(Methods, GivesWhatOneDeviceGives) {
  const problem& what = problems[GetParam()];
  for (int round = 0; round < 12; ++round) {
    mesh_value mesh;
    mesh.axes.push_back({"x", 1 + below(3)});
    mesh.axes.push_back({"y", 1 + below(3)});
    recorder in(mesh);
    const std::vector<dim_ref> orders[] = {{row, col}, {col, row}};
    const std::vector<dim_ref>& order = orders[below(2)];
    const value b = in.input(element::f64, layout_of(order, mesh));
    const value scale = in.input(element::f64, layout_of({row, col}, mesh));
    const solve::result s = what.f(b, scale);
    in.output(s.solution, element::f64, layout_of(order, mesh));
    in.output(apply(s.solution, scale, what.wind) - b, element::f64, layout_of(order, mesh));
    for (const auto& [v, type] :
         {std::pair(s.residual, element::f64), {s.iterations, element::i32}, {s.ended, element::i32}})
      in.output(v, type, layout_of({}, mesh));
    const graph g = in.take();
    ASSERT_TRUE(g.found.ok()) << what.name << " " << static_cast<int>(g.found.fault) << " " << g.found.op;
    sizes at = sizes_for(g, std::array{named_size{"row", 1 + below(6)}, named_size{"col", 2 + below(5)}});
    std::vector<host_array> data;
    for (node_id i : g.inputs) {
      host_array a(shape_of(g.nodes[i].type, at));
      for (double& x : a.data) x = std::uniform_real_distribution<double>(0.8, 1.2)(random_);
      data.push_back(a);
    }
    const program p = partition(g, at, round % 2 == 0 ? policy::time() : policy::bytes_first(0));
    ASSERT_TRUE(p.found.ok()) << what.name << " " << static_cast<int>(p.found.fault);
    const auto want = evaluate(g, at, data);
    const simulated got = simulate(p, at, data);
    ASSERT_EQ(got.problem, "") << what.name << explain(p, at);
    EXPECT_EQ(want[4].data[0], static_cast<double>(solve::ended::converged)) << what.name;
    EXPECT_GT(want[3].data[0], 0);
    EXPECT_EQ(want[3].data[0], got.results[3].data[0]) << what.name << explain(p, at);
    EXPECT_EQ(want[4].data[0], got.results[4].data[0]);
    for (std::size_t e = 0; e < want[0].data.size(); ++e) {
      EXPECT_NEAR(got.results[0].data[e], want[0].data[e], 1e-10) << what.name << explain(p, at);
      EXPECT_NEAR(want[1].data[e], 0, 1e-7) << what.name;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Solve, Methods, testing::Range(std::size_t{0}, std::size(problems)),
                         [](const auto& i) { return problems[i.param].name; });

// A rotation of all elements by one place: GMRES has nothing before the last vector of the basis, and then everything.
// BiCGStab breaks down at once: the image is orthogonal to what it is compared with. Both say so.
TEST(Solve, ARotationBreaksBicgstabAndNotGmres) {
  mesh_value mesh;
  mesh.axes.push_back({"x", 2});
  recorder in(mesh);
  spec divided, none;
  divided.mesh = none.mesh = mesh;
  divided.dims = {placement(row)};
  divided.dims[0].axes.push_back("x");
  const value b = in.input(element::f64, divided);
  const auto rotate = [](const value& u) { return roll(u, row, 1); };
  for (const solve::result& s :
       {solve::gmres<10>(rotate, b), solve::bicgstab(rotate, b), solve::gmres<10>(rotate, b, {.iterations = 4})}) {
    in.output(s.solution, element::f64, divided);
    in.output(s.iterations, element::i32, none);
    in.output(s.ended, element::i32, none);
  }
  const graph g = in.take();
  ASSERT_TRUE(g.found.ok());
  const sizes at = sizes_for(g, std::array{named_size{"row", 6}});
  host_array right(shape_of(g.nodes[g.inputs[0]].type, at));
  right.data[0] = 2;
  const simulated got = simulate(partition(g, at), at, std::array{right});
  ASSERT_EQ(got.problem, "");
  const auto number = [&](std::size_t result) { return got.results[result].data[0]; };
  const auto reason = [](solve::ended e) { return static_cast<double>(e); };
  EXPECT_EQ(number(1), 6);
  EXPECT_EQ(number(2), reason(solve::ended::converged));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_NEAR(got.results[0].data[i], i == 5 ? 2 : 0, 1e-13);
  EXPECT_EQ(number(4), 1);
  EXPECT_EQ(number(5), reason(solve::ended::broke_down));
  EXPECT_EQ(number(7), 4);
  EXPECT_EQ(number(8), reason(solve::ended::at_limit));
}

} // namespace CLEAVE_SOURCE
