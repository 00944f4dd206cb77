// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions made of others: what they mean, and the same on every mesh and layout.
#include <cleave/expr/functions.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/simulate/simulate.hpp>
#include <cleave/study/explain_plan.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

namespace CLEAVE_SOURCE {

using namespace cleave;

constexpr dim_ref a{"a"}, b{"b"};
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

/// A row-major matrix of few different numbers, so that there are ties.
host_array matrix(std::int64_t rows, std::int64_t columns, double with_nan, std::mt19937& random) {
  shape s;
  s.rank = 2;
  s[0] = rows;
  s[1] = columns;
  host_array x(s);
  for (double& v : x.data)
    v = static_cast<double>(random() % 100) < with_nan * 100 ? nan : static_cast<double>(random() % 7) - 2;
  return x;
}

/// What one row or column comes to.
using meaning = std::function<double(const std::vector<double>&)>;
double index_of(const std::vector<double>& x, bool largest) {
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::isnan(x[i])) return static_cast<double>(i);
  const auto at = largest ? std::max_element(x.begin(), x.end()) : std::min_element(x.begin(), x.end());
  return x.empty() ? 2147483647.0 : static_cast<double>(at - x.begin());
}
struct reduction_case {
  const char* name;
  std::function<value(value, dim_ref)> f;
  meaning means;
  double with_nan = 0;
};
const reduction_case cases[] = {
    {"argmax", [](value x, dim_ref d) { return argmax(x, d); }, [](const auto& x) { return index_of(x, true); }},
    {"argmin", [](value x, dim_ref d) { return argmin(x, d); }, [](const auto& x) { return index_of(x, false); }},
    {"argmax with NaN", [](value x, dim_ref d) { return argmax(x, d); },
     [](const auto& x) { return index_of(x, true); }, 0.2},
    {"argmin with NaN", [](value x, dim_ref d) { return argmin(x, d); },
     [](const auto& x) { return index_of(x, false); }, 0.2},
    {"argmax of integers", [](value x, dim_ref d) { return argmax(cast<int>(x), d); },
     [](const auto& x) { return index_of(x, true); }},
    {"argmax of bool", [](value x, dim_ref d) { return argmax(x > 3, d); },
     [](auto x) {
       for (double& v : x) v = v > 3;
       return index_of(x, true);
     }},
    {"any", [](value x, dim_ref d) { return any(x > 3, d); },
     [](const auto& x) { return std::any_of(x.begin(), x.end(), [](double v) { return v > 3; }); }},
    {"all", [](value x, dim_ref d) { return all(x < 4, d); },
     [](const auto& x) { return std::all_of(x.begin(), x.end(), [](double v) { return v < 4; }); }},
    {"all numbers", [](value x, dim_ref d) { return all(x, d); },
     [](const auto& x) { return std::all_of(x.begin(), x.end(), [](double v) { return v != 0; }); }},
    {"prod", [](value x, dim_ref d) { return prod(x, d); },
     [](const auto& x) {
       double y = 1;
       for (double v : x) y *= v;
       return y;
     }},
    {"variance", [](value x, dim_ref d) { return variance(x + 1e6, d); },
     [](const auto& x) {
       double middle = 0, y = 0;
       for (double v : x) middle += v / static_cast<double>(x.size());
       for (double v : x) y += (v - middle) * (v - middle) / static_cast<double>(x.size());
       return x.empty() ? nan : y;
     }},
};

TEST(Reductions, MeanWhatNumPyMeansOnEveryMesh) {
  std::mt19937 random(11);
  int planned = 0, tied = 0;
  for (const reduction_case& c : cases)
    for (int trial = 0; trial < 40; ++trial) {
      mesh_value m;
      for (int i = 0; i < 1 + trial % 2; ++i)
        m.axes.push_back({i == 0 ? "x" : "y", 1 + static_cast<std::int64_t>(random() % (trial % 2 == 0 ? 8 : 4))});
      recorder in(m);
      spec input, output;
      input.mesh = output.mesh = m;
      const bool over_rows = random() % 2 == 0;
      input.dims.push_back(placement(a));
      input.dims.push_back(placement(b));
      output.dims.push_back(placement(over_rows ? b : a));
      for (const axis_info& axis : m.axes) {
        if (const std::size_t where = random() % 3; where < 2) input.dims[where].axes.push_back(axis.name);
        if (random() % 2 == 0) output.dims[0].axes.push_back(axis.name);
      }
      const value x = in.input(element::f64, input), y = c.f(x, over_rows ? a : b);
      ASSERT_TRUE(in.made().found.ok()) << c.name;
      in.output(y, in.at(y).type.element, output);
      const graph g = in.take();
      sizes at = sizes_for(g);
      constexpr std::int64_t extents[] = {0, 1, 2, 3, 5, 8, 8, 12};
      at.dims[0] = extents[random() % 8];
      at.dims[1] = extents[random() % 8];
      const host_array given = matrix(at.dims[0], at.dims[1], c.with_nan, random);
      const auto wanted = evaluate(g, at, std::array{given})[0].data;
      const program p = partition(g, at, trial % 3 == 0 ? policy::bytes_first(1) : policy::time());
      if (p.found.fault == fault::layouts_tie) {
        ++tied;
        continue;
      }
      ++planned;
      ASSERT_TRUE(p.found.ok());
      const simulated got = simulate(p, at, std::array{given});
      ASSERT_EQ(got.problem, "") << c.name;
      ASSERT_EQ(got.bytes, bytes(p, at));
      const std::int64_t kept = over_rows ? at.dims[1] : at.dims[0], folded = over_rows ? at.dims[0] : at.dims[1];
      for (std::int64_t i = 0; i < kept; ++i) {
        std::vector<double> line;
        for (std::int64_t j = 0; j < folded; ++j)
          line.push_back(given.data[static_cast<std::size_t>(over_rows ? j * kept + i : i * folded + j)]);
        const double mean = c.means(line), one = wanted[static_cast<std::size_t>(i)],
                     other = got.results[0].data[static_cast<std::size_t>(i)];
        if (std::isnan(mean)) {
          EXPECT_TRUE(std::isnan(one) && std::isnan(other)) << c.name;
        } else {
          EXPECT_NEAR(one, mean, 1e-8) << c.name;
          EXPECT_NEAR(other, mean, 1e-8) << c.name;
        }
      }
    }
  EXPECT_GT(planned, 9 * tied) << tied << " ties";
}

TEST(Reductions, FaultsNameWhatIsWrong) {
  const auto fault_of = [](auto f) {
    recorder in(mesh_value{});
    spec s;
    s.dims.push_back(placement(a));
    const value x = in.input(element::f64, s), n = in.input(element::i32, s), c = in.input(element::c64, s);
    static_cast<void>(f(x, n, c));
    return in.made().found.fault;
  };
  EXPECT_EQ(fault_of([](value x, value, value) { return argmax(x, b); }), fault::dim_missing);
  EXPECT_EQ(fault_of([](value, value, value c) { return argmin(c, a); }), fault::not_for_complex);
  EXPECT_EQ(fault_of([](value, value n, value) { return variance(n, a); }), fault::not_floating);
  EXPECT_EQ(fault_of([](value, value n, value) { return prod(n, a); }), fault::none);
}

} // namespace CLEAVE_SOURCE
