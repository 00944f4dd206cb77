// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "solve_reference.hpp"
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/solve/bicgstab.hpp>
#include <cleave/solve/cg.hpp>
#include <cleave/solve/chebyshev.hpp>
#include <cleave/solve/gmres.hpp>
#include <cleave/solve/power.hpp>

#include <gtest/gtest.h>

// The other iterative methods on real grids beside serial ones: the same iterates, as many iterations.

namespace CLEAVE_SOURCE {

namespace solve = cleave::solve;
using support::serial_result;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"x"> x_dim;
inline constexpr cleave::dim<"y"> y_dim;
inline constexpr cleave::dim<"step", 50> steps;

using Line = cleave::tensor<double, mesh(x_dim / data / model)>;
using Plane = cleave::tensor<double, mesh(x_dim / data, y_dim / model)>;
using Single = cleave::tensor<float, mesh(x_dim / data, y_dim / model)>;
using Number = cleave::tensor<double, mesh()>;
using Count = cleave::tensor<int, mesh()>;
using History = cleave::tensor<double, mesh(steps)>;

// Diffusion, and a wind that blows from lower indices: not symmetric.
struct convection_diffusion {
  constexpr cleave::value operator()(const cleave::value& u) const {
    return 4 * u - 1.7 * shift(u, x_dim, 1) - 0.3 * shift(u, x_dim, -1) - 1.4 * shift(u, y_dim, 1) -
           0.6 * shift(u, y_dim, -1);
  }
};
/// Two steps of Jacobi.
struct two_steps {
  constexpr cleave::value operator()(const cleave::value& r) const {
    return 0.5 * r - 0.0625 * convection_diffusion{}(r);
  }
};
support::serial_operator serial_convection(int n, int m) {
  return [=](const std::vector<double>& u) {
    std::vector<double> out(u.size());
    const auto at = [&](int i, int j) {
      return i < 0 || j < 0 || i >= n || j >= m ? 0.0 : u[static_cast<std::size_t>(i * m + j)];
    };
    for (int i = 0; i < n; ++i)
      for (int j = 0; j < m; ++j)
        out[static_cast<std::size_t>(i * m + j)] = 4 * at(i, j) - 1.7 * at(i - 1, j) - 0.3 * at(i + 1, j) -
                                                   1.4 * at(i, j - 1) - 0.6 * at(i, j + 1);
    return out;
  };
}

struct numbers {
  Number residual;
  Count iterations, ended;
  History history;

  explicit numbers(const cleave::grid& g) : residual(g, {}), iterations(g, {}), ended(g, {}), history(g, {50}) {}

  void expect(const serial_result& want, double right) const {
    EXPECT_EQ(iterations.item(), want.iterations);
    EXPECT_EQ(ended.item(), static_cast<int>(want.converged ? solve::ended::converged : solve::ended::at_limit));
    EXPECT_NEAR(residual.item(), want.history.back(), 1e-10 * right);
  }
  void expect_history(const serial_result& want) const {
    const std::vector<double> kept = history.to_global();
    for (std::size_t i = 0; i < kept.size(); ++i)
      EXPECT_NEAR(kept[i], i < want.history.size() ? want.history[i] : 0, 1e-9 * want.history[0]) << i;
  }
};
template <class Tensor>
void expect_same(const Tensor& u, const std::vector<double>& want) {
  const std::vector<double> got = u.to_global();
  const double scale = support::serial_norm(want);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-10 * scale) << i;
}
Plane waves(const cleave::grid& g, int n, int m) {
  Plane b(g, {n, m});
  b.fill_by([](const auto& at) { return support::wave(at[0], at[1], 0); });
  return b;
}

constexpr cleave::function by_bicgstab([](auto b, auto most) {
  return solve::bicgstab(convection_diffusion{}, b, {.tolerance = 1e-10, .iterations = most}, two_steps{}, steps);
});
constexpr cleave::function by_gmres([](auto b, auto start, auto most) {
  return solve::gmres<8>(convection_diffusion{}, b, {.tolerance = 1e-10, .iterations = most, .start = start},
                         two_steps{}, steps);
});
TEST(solve_methods, convection_and_diffusion) {
  for (const cleave::grid& g : support::grids(mesh))
    for (const auto& [n, m, most] : {std::array{9, 7, 45}, std::array{5, 12, 45}, std::array{9, 7, 5}}) {
      const Plane b = waves(g, n, m);
      const std::vector<double> right = b.to_global();
      const support::serial_operator a = serial_convection(n, m);
      const support::serial_operator twice = [&](const std::vector<double>& r) {
        return support::serial_sum(support::serial_sum(std::vector<double>(r.size()), 0.5, r), -0.0625, a(r));
      };
      Plane u(g, {n, m});
      numbers got(g);
      by_bicgstab(b, most).into(u, got.residual, got.iterations, got.ended, got.history);
      const serial_result want = support::serial_bicgstab(a, twice, right, 1e-10, most);
      EXPECT_EQ(want.converged, most == 45);
      expect_same(u, want.solution);
      got.expect(want, support::serial_norm(right));
      got.expect_history(want);

      u.fill(0);
      by_gmres(b, u, most).into(u, got.residual, got.iterations, got.ended, got.history);
      const serial_result also = support::serial_gmres(a, twice, right, 1e-10, most, 8);
      EXPECT_EQ(also.converged, most == 45);
      expect_same(u, also.solution);
      got.expect(also, support::serial_norm(right));
      got.expect_history(also);
    }
}

// In float, without a preconditioner, as a statement: the residual is what it says. Vectors of more than 256 KiB change
// memory with one another where the loops, one in the other, carry them.
TEST(solve_methods, gmres_in_float_as_a_statement) {
  using Float = cleave::tensor<float, mesh()>;
  for (const cleave::grid& g : support::grids(mesh))
    for (const std::int64_t rows : {8, 16384}) {
      Single b(g, {rows, 9}), u(g, {rows, 9}), r(g, {rows, 9});
      b.fill_by([](const auto& at) { return static_cast<float>(support::wave(at[0], at[1], 0)); });
      Float residual(g, {});
      Count iterations(g, {}), ended(g, {});
      solve::gmres<5>(convection_diffusion{}, b, {.tolerance = 1e-4, .iterations = 60})
          .into(u, residual, iterations, ended);
      if (rows == 8) {
        EXPECT_EQ(ended.item(), static_cast<int>(solve::ended::converged));
      }
      constexpr cleave::function left([](auto b, auto u) { return b - convection_diffusion{}(u); });
      r = left(b, u);
      double all = 0;
      for (float v : r.to_global()) all += static_cast<double>(v) * static_cast<double>(v);
      EXPECT_NEAR(residual.item(), std::sqrt(all), 1e-5 + 1e-3 * std::sqrt(all)) << rows << " rows";
    }
}

struct line_operator {
  constexpr cleave::value operator()(const cleave::value& u) const {
    return 2.0 * u - shift(u, x_dim, 1) - shift(u, x_dim, -1);
  }
};
/// The eigenvalues of line_operator lie between these.
double lowest(int n) { return 2 - 2 * std::cos(std::acos(-1.0) / (n + 1)); }

TEST(solve_methods, chebyshev_between_the_eigenvalues) {
  const int n = 12;
  for (const cleave::grid& g : support::grids(mesh)) {
    Line b(g, {n}), u(g, {n});
    b.fill_by([](const auto& at) { return support::wave(at[0], 0, 0); });
    const std::vector<double> right = b.to_global();
    numbers got(g);
    for (const int most : {500, 4}) {
      solve::chebyshev(line_operator{}, b, {lowest(n), 4 - lowest(n)}, {.tolerance = 1e-9, .iterations = most})
          .into(u, got.residual, got.iterations, got.ended);
      const serial_result want = support::serial_chebyshev(support::serial_laplacian({n}), right, lowest(n),
                                                           4 - lowest(n), 1e-9, most);
      EXPECT_EQ(want.converged, most == 500);
      expect_same(u, want.solution);
      got.expect(want, support::serial_norm(right));
    }
    // Eigenvalues above the highest: the residual grows until it is not finite.
    solve::chebyshev(line_operator{}, b, {lowest(n), 1.0}, {.tolerance = 1e-9, .iterations = 100000})
        .into(u, got.residual, got.iterations, got.ended);
    EXPECT_EQ(got.ended.item(), static_cast<int>(solve::ended::broke_down));
  }
}

constexpr cleave::function strongest([](auto start) {
  return solve::power_iteration(line_operator{}, start, {.tolerance = 1e-9, .iterations = 5000}, steps);
});
TEST(solve_methods, power_iteration_finds_the_largest_eigenvalue) {
  const int n = 7;
  for (const cleave::grid& g : support::grids(mesh)) {
    Line start(g, {n}), v(g, {n});
    start.fill_by([](const auto& at) { return support::wave(at[0], 0, 0); });
    Number eigenvalue(g, {});
    numbers got(g);
    strongest(start).into(v, eigenvalue, got.residual, got.iterations, got.ended, got.history);
    EXPECT_EQ(got.ended.item(), static_cast<int>(solve::ended::converged));
    EXPECT_NEAR(eigenvalue.item(), 4 - lowest(n), 1e-12);
    EXPECT_LE(got.residual.item(), 1e-9);
    const std::vector<double> all = v.to_global();
    const double pi = std::acos(-1.0), sign = all[0] < 0 ? -1 : 1;
    for (int i = 0; i < n; ++i)
      EXPECT_NEAR(all[static_cast<std::size_t>(i)],
                  sign * (i % 2 == 0 ? 1 : -1) * std::sin(pi * (i + 1) / (n + 1)) * std::sqrt(2.0 / (n + 1)), 1e-8);
    const std::vector<double> history = got.history.to_global();
    for (std::size_t i = 1; i < history.size(); ++i) EXPECT_LT(history[i], history[i - 1]);
    // The operator maps zeros to zeros, and there is no direction to begin with.
    start.fill(0);
    strongest(start).into(v, eigenvalue, got.residual, got.iterations, got.ended, got.history);
    EXPECT_EQ(got.ended.item(), static_cast<int>(solve::ended::broke_down));
    EXPECT_EQ(got.iterations.item(), 0);
  }
}

// Numbers whose squares are none are no reason to stop.
constexpr cleave::function strongest_scaled([](auto start, auto scale) {
  return solve::power_iteration([=](const cleave::value& x) { return scale * line_operator{}(x); }, start,
                                {.tolerance = 1e-9, .iterations = 5000}, steps);
});
TEST(solve_methods, power_iteration_of_small_and_large_operators) {
  const cleave::grid g = support::grids(mesh).front();
  const int n = 7;
  Line start(g, {n}), v(g, {n});
  start.fill_by([](const auto& at) { return support::wave(at[0], 0, 0); });
  Number eigenvalue(g, {});
  numbers want(g), got(g);
  strongest_scaled(start, 1.0).into(v, eigenvalue, want.residual, want.iterations, want.ended, want.history);
  for (const double scale : {0x1p-660, 0x1p-1000, 0x1p600}) {
    strongest_scaled(start, scale).into(v, eigenvalue, got.residual, got.iterations, got.ended, got.history);
    EXPECT_EQ(got.ended.item(), static_cast<int>(solve::ended::converged));
    EXPECT_EQ(got.iterations.item(), want.iterations.item());
    EXPECT_NEAR(eigenvalue.item() / scale, 4 - lowest(n), 1e-12);
  }
}

// A method that breaks down returns what it had before.
struct singular {
  constexpr cleave::value operator()(const cleave::value& x) const {
    const cleave::value number = cast<double>(iota(x, x_dim));
    return select(number > 2.5, 0.0 * x, (1.0 + number) * x);
  }
};
constexpr cleave::function singular_by_gmres([](auto b) {
  return solve::gmres<30>(singular{}, b, {.tolerance = 1e-10, .iterations = 200});
});
constexpr cleave::function singular_by_cg([](auto b) {
  return solve::cg(singular{}, b, {.tolerance = 1e-10, .iterations = 200});
});
constexpr cleave::function growing_by_chebyshev([](auto b) {
  return solve::chebyshev([](const cleave::value& x) { return 1e200 * x; }, b, {1.0, 4.0},
                          {.tolerance = 1e-10, .iterations = 200});
});
TEST(solve_methods, what_breaks_down_keeps_its_solution) {
  for (const cleave::grid& g : support::grids(mesh)) {
    Line b(g, {4}), x(g, {4});
    b.fill(1);
    Number residual(g, {});
    Count iterations(g, {}), ended(g, {});
    singular_by_gmres(b).into(x, residual, iterations, ended);
    EXPECT_EQ(ended.item(), static_cast<int>(solve::ended::broke_down));
    EXPECT_LE(residual.item(), 2.002);
    for (const double each : x.to_global()) EXPECT_TRUE(std::isfinite(each));
    singular_by_cg(b).into(x, residual, iterations, ended);
    EXPECT_NE(ended.item(), static_cast<int>(solve::ended::converged));
    EXPECT_TRUE(std::isfinite(residual.item()));
    for (const double each : x.to_global()) EXPECT_TRUE(std::isfinite(each));
    growing_by_chebyshev(b).into(x, residual, iterations, ended);
    EXPECT_EQ(ended.item(), static_cast<int>(solve::ended::broke_down));
    EXPECT_EQ(residual.item(), 2);
    EXPECT_EQ(x.to_global(), std::vector<double>(4, 0.0));
  }
}

// Halos of the operator and of the preconditioner, and numbers: BiCGStab needs each twice in an iteration, and five
// numbers. GMRES needs them once in an iteration, with the products with the basis, twice, and a number, and once in a
// cycle, with two numbers. Before the loop there are two numbers; with a start there is one halo.
using Solution = std::tuple<Plane, Number, Count, Count, History>;
constexpr auto bicgstab_plan = cleave::plan<Solution(Plane, int)>(by_bicgstab);
static_assert(bicgstab_plan.count(cleave::kind::exchange) == 4 && bicgstab_plan.count(cleave::kind::all_reduce) == 7);
constexpr auto gmres_plan = cleave::plan<Solution(Plane, Plane, int)>(by_gmres);
static_assert(gmres_plan.count(cleave::kind::exchange) == 5 && gmres_plan.count(cleave::kind::all_reduce) == 8);
static_assert(bicgstab_plan.collectives() == 11 && gmres_plan.collectives() == 13);

} // namespace CLEAVE_SOURCE
