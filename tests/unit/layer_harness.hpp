// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layers under random meshes, layouts and extents: what formulas written out by hand give, on one device and on many,
// and gradients that are limits of differences.
#pragma once

#include "../differences.hpp"

#include <cleave/expr/gradient.hpp>
#include <cleave/plan/hints.hpp>
#include <cleave/plan/partition.hpp>
#include <cleave/simulate/simulate.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace layer_tests {

using namespace cleave;

struct size_of_dim {
  std::string_view name;
  std::int64_t extent;
};
/// An argument: its dims, by name, and the kind of its elements.
struct argument {
  std::vector<std::string_view> dims;
  element type = element::f64;
  std::int64_t below = 0; // of whole numbers
};
using function_of_values = std::function<value(std::span<const value>)>;
using formula = std::function<std::vector<double>(std::span<const host_array>)>;

struct layer {
  const char* name;
  std::vector<size_of_dim> sizes;
  std::vector<argument> arguments;
  function_of_values f;
  /// The elements of the result, in its order of dims.
  formula meant;
  /// Arguments are sin(0.7 i + 1.1 k), element i of argument k, as in tests/reference; not random ones.
  bool recorded = false;
  /// The whole number of an integer argument, then.
  double whole = 0;
  /// Whether it has gradients.
  bool differentiable = true;
};

class harness {
 public:
  explicit harness(unsigned seed) : random_(seed) {}

  /// How many programs came so far that they were simulated.
  static inline unsigned simulated_runs = 0;

  void run(const layer& l) {
    mesh_value mesh;
    mesh.axes.push_back({"x", 1 + below(3)});
    mesh.axes.push_back({"y", 1 + below(2)});
    recorder in(mesh);
    std::vector<value> arguments, variables;
    std::vector<spec> layouts;
    std::string told = l.name;
    for (const argument& a : l.arguments) {
      spec s;
      s.mesh = mesh;
      for (std::string_view d : a.dims) s.dims.push_back(placement(dim_ref{d}));
      for (int axis = 0; axis < 2; ++axis)
        if (const int where = below(static_cast<int>(a.dims.size()) + 1); where < static_cast<int>(a.dims.size()))
          s.dims[static_cast<std::size_t>(where)].axes.push_back(mesh.axes[static_cast<std::size_t>(axis)].name);
      for (const placement& p : s.dims) {
        told += " " + std::string(p.dim.name);
        for (std::string_view axis : p.axes) told += "/" + std::string(axis);
      }
      told += ";";
      arguments.push_back(in.input(a.type, s));
      if (!is_floating(a.type) || !l.differentiable) continue;
      variables.push_back(arguments.back());
      layouts.push_back(s);
    }
    const value result = l.f(arguments);
    const auto ask = [&](const value& v) {
      spec whole;
      whole.mesh = mesh;
      if (v.ok())
        for (int i = 0; i < in.at(v).type.rank; ++i)
          whole.dims.push_back(placement(dim_ref(in.made().dims[in.at(v).type[i]].name)));
      in.output(v, element::f64, whole);
    };
    ask(result);
    const value loss = sum(sin(result) + result * 0.5);
    ask(loss);
    const std::vector<value> slopes =
        cleave::detail::pulled_back(in, std::array{loss}, std::array{in.constant(1, element::f64, {})}, variables);
    for (std::size_t k = 0; k < slopes.size(); ++k) in.output(slopes[k], element::f64, layouts[k]);
    const graph g = in.take();
    ASSERT_TRUE(g.found.ok()) << told << " fault " << static_cast<int>(g.found.fault) << " " << g.found.op << " "
                              << g.found.dim;
    std::vector<named_size> sizes;
    for (const size_of_dim& s : l.sizes) sizes.push_back({s.name, s.extent});
    const cleave::sizes at = sizes_for(g, sizes);

    std::vector<host_array> data;
    for (std::size_t a = 0; a < l.arguments.size(); ++a) {
      host_array x(shape_of(g.nodes[g.inputs[a]].type, at));
      for (std::size_t i = 0; i < x.data.size() && l.recorded; ++i)
        x.data[i] = l.arguments[a].type == element::i32
                        ? l.whole
                        : std::sin(0.7 * static_cast<double>(i) + 1.1 * static_cast<double>(a));
      for (double& e : x.data)
        if (!l.recorded)
          e = l.arguments[a].below > 0 ? static_cast<double>(below(static_cast<int>(l.arguments[a].below)))
                                       : std::uniform_real_distribution<double>(-1, 1)(random_);
      data.push_back(x);
    }
    const std::vector<host_array> want = evaluate(g, at, data);
    const std::vector<double> meant = l.meant(data);
    ASSERT_EQ(want[0].data.size(), meant.size()) << told;
    for (std::size_t i = 0; i < meant.size(); ++i)
      ASSERT_NEAR(want[0].data[i], meant[i], 1e-11 * (1 + std::fabs(meant[i]))) << told << " element " << i;

    const program p = partition(g, at);
    if (p.found.fault == fault::layouts_tie) return; // two layouts of ours at one price: the user is asked
    ASSERT_TRUE(p.found.ok()) << told << " fault " << static_cast<int>(p.found.fault) << " " << p.found.op << " "
                              << p.found.dim;
    ++simulated_runs;
    const simulated got = simulate(p, at, data);
    ASSERT_EQ(got.problem, "") << told;
    for (std::size_t r = 0; r < want.size(); ++r)
      ASSERT_EQ(first_difference(want[r].data, got.results[r].data, 1e-10), -1) << told << " result " << r;
    if (l.differentiable) compare_slopes(l, g, at, data, want, told);
  }

 private:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  /// Along a random direction.
  void compare_slopes(const layer& l, const graph& g, const cleave::sizes& at, const std::vector<host_array>& data,
                      const std::vector<host_array>& want, const std::string& told) {
    std::vector<host_array> up = data, down = data;
    const double step = 1e-6;
    double slope = 0;
    std::size_t r = 2;
    for (std::size_t a = 0; a < data.size(); ++a) {
      if (!is_floating(l.arguments[a].type)) continue;
      for (std::size_t i = 0; i < data[a].data.size(); ++i) {
        const double way = std::uniform_real_distribution<double>(-1, 1)(random_);
        slope += way * want[r].data[i];
        up[a].data[i] += step * way;
        down[a].data[i] -= step * way;
      }
      ++r;
    }
    const double differences = (evaluate(g, at, up)[1].data[0] - evaluate(g, at, down)[1].data[0]) / (2 * step);
    ASSERT_NEAR(slope, differences, 1e-5 * (1 + std::fabs(differences))) << told;
  }

  std::mt19937 random_;
};

inline void check(const std::vector<layer>& layers, unsigned times) {
  harness::simulated_runs = 0;
  for (unsigned seed = 0; seed < times && !::testing::Test::HasFatalFailure(); ++seed)
    harness(seed * 977 + 5).run(layers[seed % layers.size()]);
  EXPECT_GE(harness::simulated_runs, times * 9 / 10);
}

/// A value with its dims in this order.
inline value ordered(const value& x, std::initializer_list<std::string_view> dims) {
  tensor_type t;
  t.element = x.in->at(x).type.element;
  for (std::string_view d : dims) t.append(static_cast<dim_id>(x.in->made().find_dim(d)));
  return x.in->reordered(x, t, {});
}

} // namespace layer_tests
