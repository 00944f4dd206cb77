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

/// The element that stands for index i of a dim of n, found step by step.
std::int64_t stands_for(std::int64_t i, std::int64_t n, border outside) {
  while (i < 0 || i >= n) {
    if (outside == border::zero) return -1;
    if (outside == border::periodic) i += i < 0 ? n : -n;
    else if (outside == border::edge) i = i < 0 ? 0 : n - 1;
    else if (n == 1) i = 0;
    else i = i < 0 ? -i : 2 * (n - 1) - i;
  }
  return i;
}
// The gradient exists wherever a sum of maps can give it: always if extents are known when it is recorded; otherwise if
// no window reaches farther than the dim is long, beyond it or beyond its mirror image.
TEST(movement, gradients_of_windows_that_reach_far) {
  struct layout_of_windows {
    std::int64_t n, taps, stride, dilation, low, high;
  };
  int refused = 0, simulated_runs = 0, tried = 0;
  const auto run = [&](const layout_of_windows& l, border outside, bool fixed) {
    const std::int64_t room = l.n + l.low + l.high - l.dilation * (l.taps - 1) - 1;
    const std::int64_t made = room < 0 ? 0 : room / l.stride + 1;
    mesh_value mesh;
    mesh.axes.push_back({"x", 2});
    recorder in(mesh);
    spec s, weights;
    s.mesh = weights.mesh = mesh;
    const dim_ref from{"from", fixed ? l.n : dynamic}, to{"to"}, tap{"tap", l.taps};
    s.dims = {placement(from)};
    s.dims[0].axes.push_back("x");
    weights.dims = {placement(to), placement(tap)};
    const value x = in.input(element::f64, s), w = in.input(element::f64, weights);
    const auto f = [&](value v) {
      return sum(windows(v, window{from, to, tap, l.stride, l.dilation, l.low, l.high, outside}) * w);
    };
    in.output(vjp(f, x).second(in.constant(1, element::f64, {})), element::f64, s);
    const graph g = in.take();
    ASSERT_TRUE(g.found.ok());
    sizes at = sizes_for(g);
    at.dims[g.nodes[g.inputs[0]].type[0]] = l.n;
    at.dims[g.nodes[g.inputs[1]].type[0]] = made;
    std::int64_t first = 0, last = 0;
    std::vector<host_array> data{host_array(shape_of(g.nodes[g.inputs[0]].type, at)),
                                 host_array(shape_of(g.nodes[g.inputs[1]].type, at))};
    std::vector<double> want(static_cast<std::size_t>(l.n), 0);
    for (std::int64_t o = 0; o < made; ++o)
      for (std::int64_t k = 0; k < l.taps; ++k) {
        const std::int64_t i = o * l.stride + k * l.dilation - l.low, j = stands_for(i, l.n, outside);
        double& weight = data[1].data[static_cast<std::size_t>(o * l.taps + k)];
        weight = std::sin(static_cast<double>(7 * o + k) + 0.3);
        if (j >= 0) want[static_cast<std::size_t>(j)] += weight;
        first = std::min(first, i);
        last = std::max(last, i);
      }
    const std::int64_t beyond = outside == border::reflect ? l.n - 1 : l.n;
    const bool possible = fixed || outside == border::edge || outside == border::zero ||
                          (first >= -beyond && last < l.n + beyond);
    ++tried;
    ASSERT_EQ(derive_extents(g.rules, at), possible);
    if (!possible) {
      ++refused;
      // The extent that the error names is the next one that will do.
      for (const least_extent& rule : g.rules.least)
        if (!is_long_enough(rule, at)) {
          ASSERT_GT(least_extent_of(rule, g.rules, at), l.n);
        }
      return;
    }
    const std::vector<double> got = evaluate(g, at, data)[0].data;
    ASSERT_EQ(first_difference(want, got, 1e-13), -1);
    if (tried % 5 != 0) return;
    const simulated run = simulate(partition(g, at), at, data);
    ASSERT_EQ(run.problem, "");
    ASSERT_EQ(first_difference(want, run.results[0].data, 1e-13), -1);
    ++simulated_runs;
  };
  for (const border outside : {border::zero, border::periodic, border::reflect, border::edge})
    for (const bool fixed : {false, true})
      for (std::int64_t n = 1; n < 6; ++n)
        for (const std::int64_t taps : {1, 3})
          for (const std::int64_t stride : {1, 2, 5})
            for (const std::int64_t dilation : {1, 2})
              for (const std::int64_t low : {0, 1, 4})
                for (const std::int64_t high : {0, 2, 3}) {
                  run({n, taps, stride, dilation, low, high}, outside, fixed);
                  ASSERT_FALSE(::testing::Test::HasFatalFailure())
                      << "border " << static_cast<int>(outside) << " fixed " << fixed << " n " << n << " taps " << taps
                      << " stride " << stride << " dilation " << dilation << " low " << low << " high " << high;
                }
  EXPECT_GT(refused, 100);
  EXPECT_GT(simulated_runs, 500);
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

// By an offset that only the run knows: a device fetches no more than it lacks, although it may need everything.
TEST(movement, run_time_offsets_fetch_what_is_elsewhere) {
  mesh_value mesh;
  mesh.axes.push_back({"x", 4});
  const auto bytes_of = [&](const auto& f, bool gathered) {
    recorder in(mesh);
    const dim_ref e{"e", 16};
    spec sharded, whole, none;
    sharded.mesh = whole.mesh = none.mesh = mesh;
    sharded.dims = whole.dims = {placement(e)};
    sharded.dims[0].axes.push_back("x");
    const value x = in.input(element::f64, sharded), by = in.input(element::i32, none);
    const value y = f(x, by);
    spec result = gathered ? whole : sharded;
    result.dims[0].dim.name = in.made().dims[in.at(y).type[0]].name;
    result.dims[0].dim.extent = in.made().dims[in.at(y).type[0]].extent;
    in.output(y, element::f64, result);
    const graph g = in.take();
    EXPECT_TRUE(g.found.ok());
    const sizes at = sizes_for(g);
    const program p = partition(g, at, policy::bytes_first(0));
    std::vector<host_array> data{host_array(shape_of(g.nodes[g.inputs[0]].type, at)), host_array(shape{}, 5)};
    for (std::size_t i = 0; i < 16; ++i) data[0].data[i] = static_cast<double>(i);
    const simulated got = simulate(p, at, data);
    EXPECT_EQ(got.problem, "");
    EXPECT_EQ(first_difference(evaluate(g, at, data)[0].data, got.results[0].data, 0), -1);
    return bytes(p, at);
  };
  const auto rolled = [](const value& x, const value& by) { return roll(x, dim_ref{"e"}, by); };
  const auto sliced = [](const value& x, const value& by) {
    return dynamic_slice(x, dim_ref{"e"}, dim_ref{"part", 14}, by);
  };
  EXPECT_EQ(bytes_of(rolled, true), 12 * 8);
  EXPECT_EQ(bytes_of(rolled, false), 4 * 8);
  EXPECT_EQ(bytes_of(sliced, true), 12 * 8);
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
