// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elements under other indices: chains of random slices, paddings, shifts, windows and concatenations on random meshes,
// layouts and extents must give what the plain evaluator gives, and move what they were priced at; so must their
// gradients.
#include "../random_movement.hpp"

#include <cleave/simulate/simulate.hpp>

#include <gtest/gtest.h>

namespace CLEAVE_SOURCE {

using namespace cleave;

using random_programs::random_movement;

void check(random_movement& p, unsigned seed, double tolerance = 0) {
  const graph& g = p.made();
  ASSERT_TRUE(g.found.ok()) << "seed " << seed;
  const sizes at = p.at();
  const policy rule = seed % 2 == 0 ? policy::time() : policy::bytes_first(0);
  const program planned = partition(g, at, rule);
  ASSERT_TRUE(planned.found.ok()) << "seed " << seed << " fault " << static_cast<int>(planned.found.fault) << "\n"
                                  << to_string(g);
  const std::vector<host_array> in = p.data();
  const std::vector<host_array> want = evaluate(g, at, in);
  const simulated got = simulate(planned, at, in, seed);
  ASSERT_EQ(got.problem, "") << "seed " << seed << "\n" << to_string(g) << explain(planned, at);
  for (std::size_t r = 0; r < want.size(); ++r) {
    const std::int64_t where = first_difference(want[r].data, got.results[r].data, tolerance);
    ASSERT_EQ(where, -1) << "seed " << seed << " result " << r << " place " << where << "\n"
                         << to_string(g) << explain(planned, at);
  }
  for (std::size_t s = 0; s < planned.steps.size(); ++s)
    ASSERT_EQ(got.step_bytes[s], step_bytes(planned, planned.steps[s], at)) << "seed " << seed << " step " << s << "\n"
                                                                            << to_string(g) << explain(planned, at);
}

TEST(movement, random_programs_mean_what_they_say) {
  for (unsigned seed = 0; seed < 1500 && !::testing::Test::HasFatalFailure(); ++seed) {
    random_movement p(seed);
    p.build(4);
    p.operate();
    p.finish();
    check(p, seed, 1e-12);
  }
}

// Both ends are the one element there is, whether extents are known when the gradient is recorded or not.
TEST(movement, gradient_of_the_edge_of_one_element) {
  for (const std::int64_t from : {dynamic, std::int64_t{1}})
    for (const std::int64_t to : {dynamic, std::int64_t{3}})
      for (const std::int64_t low : {0, 1, 2}) {
        recorder in{mesh_value{}};
        spec s;
        s.dims.push_back(placement(dim_ref{"e", from}));
        const value x = in.input(element::f64, s);
        const auto f = [&](value v) {
          const value around =
              sum(windows(v, window{{"e", from}, {"n", to}, {"k", 2}, 1, 1, low, 3 - low, border::edge}), dim_ref{"k"});
          return sum(around * around);
        };
        const auto [y, pullback] = vjp(f, x);
        in.output(pullback(in.constant(1, element::f64, {})));
        ASSERT_TRUE(in.made().found.ok());
        sizes at = sizes_for(in.made());
        at.dims[in.at(x).type[0]] = 1;
        at.dims[static_cast<std::size_t>(in.made().find_dim("n"))] = 3;
        host_array one(shape_of(in.at(x).type, at));
        one.data = {0.5};
        // Three times (2 x)^2.
        EXPECT_NEAR(evaluate(in.made(), at, std::span(&one, 1))[0].data[0], 3 * 8 * 0.5, 1e-12)
            << from << " " << to << " " << low;
      }
}

/// The gradient of a random program, against central differences along a direction in the plain evaluator, and
/// partitioned.
TEST(movement, gradients_of_random_programs) {
  int tried = 0;
  for (unsigned seed = 0; seed < 1000 && !::testing::Test::HasFatalFailure(); ++seed) {
    random_movement p(seed);
    p.build(3);
    p.differentiate();
    if (!p.possible()) continue;
    ++tried;
    check(p, seed, 1e-11);
    const graph& g = p.made();
    const sizes at = p.at();
    std::vector<host_array> in = p.data();
    const std::vector<host_array> all = evaluate(g, at, in);
    std::mt19937 random(seed);
    std::vector<double> direction(in[0].data.size());
    double slope = 0;
    for (std::size_t i = 0; i < direction.size(); ++i) {
      direction[i] = std::uniform_real_distribution<double>(-1, 1)(random);
      slope += direction[i] * all[1].data[i];
    }
    const double step = 1e-5;
    std::vector<host_array> up = in, down = in;
    for (std::size_t i = 0; i < direction.size(); ++i)
      up[0].data[i] += step * direction[i], down[0].data[i] -= step * direction[i];
    const double differences = (evaluate(g, at, up)[0].data[0] - evaluate(g, at, down)[0].data[0]) / (2 * step);
    ASSERT_NEAR(slope, differences, 1e-5 * (1 + std::fabs(differences))) << "seed " << seed << "\n" << to_string(g);
  }
  EXPECT_GT(tried, 500);
}

// In groups, with stride, dilation and padding, against nested loops.
TEST(movement, convolutions_are_what_they_say) {
  constexpr std::int64_t rows = 11, groups = 2, ins = 3, outs = 2, taps = 3, stride = 2, dilation = 2, low = 3,
                         high = 2;
  constexpr std::int64_t made = (rows + low + high - dilation * (taps - 1) - 1) / stride + 1;
  mesh_value mesh;
  mesh.axes.push_back({"x", 4});
  recorder in(mesh);
  const dim_ref row{"row", rows}, to{"to", made}, tap{"tap", taps}, channel{"channel", groups * ins},
      group{"group", groups}, each{"in", ins}, out{"out", outs};
  spec image, kernel, result;
  image.mesh = kernel.mesh = result.mesh = mesh;
  image.dims = {placement(row), placement(channel)};
  image.dims[0].axes.push_back("x");
  kernel.dims = {placement(tap), placement(group), placement(each), placement(out)};
  result.dims = {placement(to), placement(group), placement(out)};
  result.dims[0].axes.push_back("x");
  const value x = in.input(element::f64, image), w = in.input(element::f64, kernel);
  const value y = dot(windows(split(x, channel, group, each), window{row, to, tap, stride, dilation, low, high}), w,
                      tap, each);
  in.output(y, element::f64, result);
  const graph g = in.take();
  ASSERT_TRUE(g.found.ok());
  const sizes at = sizes_for(g);
  std::vector<host_array> data;
  for (node_id i : g.inputs) {
    host_array a(shape_of(g.nodes[i].type, at));
    for (std::size_t k = 0; k < a.data.size(); ++k) a.data[k] = std::sin(static_cast<double>(k) + 0.1);
    data.push_back(a);
  }
  const simulated got = simulate(partition(g, at), at, data);
  ASSERT_EQ(got.problem, "");
  for (std::int64_t t = 0; t < made; ++t)
    for (std::int64_t c = 0; c < groups; ++c)
      for (std::int64_t o = 0; o < outs; ++o) {
        double sum = 0;
        for (std::int64_t k = 0; k < taps; ++k)
          for (std::int64_t i = 0; i < ins; ++i) {
            const std::int64_t r = t * stride + k * dilation - low;
            if (r < 0 || r >= rows) continue;
            sum += data[0].data[static_cast<std::size_t>(r * groups * ins + c * ins + i)] *
                   data[1].data[static_cast<std::size_t>(((k * groups + c) * ins + i) * outs + o)];
          }
        ASSERT_NEAR(got.results[0].data[static_cast<std::size_t>((t * groups + c) * outs + o)], sum, 1e-13);
      }
}

} // namespace CLEAVE_SOURCE
