// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "solve_reference.hpp"
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/solve/cg.hpp>

#include <gtest/gtest.h>

#include <limits>

// Conjugate gradients on real grids beside a serial solve with ordinary loops: the same iterates, as many iterations.

namespace CLEAVE_SOURCE {

namespace solve = cleave::solve;
using support::serial_result;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"x"> x_dim;
inline constexpr cleave::dim<"y"> y_dim;
inline constexpr cleave::dim<"z"> z_dim;
inline constexpr cleave::dim<"step", 60> steps;

using Line = cleave::tensor<double, mesh(x_dim / data / model)>;
using Plane = cleave::tensor<double, mesh(x_dim / data, y_dim / model)>;
using Space = cleave::tensor<double, mesh(x_dim / data, y_dim / model, z_dim)>;
using Number = cleave::tensor<double, mesh()>;
using Count = cleave::tensor<int, mesh()>;
using History = cleave::tensor<double, mesh(steps)>;

/// -(d^2/dx^2 + ...), times the square of the spacing, with zeros outside.
template <class... D>
struct laplacian {
  constexpr cleave::value operator()(const cleave::value& u) const {
    cleave::value all = 2.0 * sizeof...(D) * u;
    ((all = all - shift(u, D{}, 1) - shift(u, D{}, -1)), ...);
    return all;
  }
};
using line_operator = laplacian<decltype(x_dim)>;
using plane_operator = laplacian<decltype(x_dim), decltype(y_dim)>;
using space_operator = laplacian<decltype(x_dim), decltype(y_dim), decltype(z_dim)>;

constexpr cleave::function on_plane([](auto b, auto tolerance, auto most) {
  return solve::cg(plane_operator{}, b, {.tolerance = tolerance, .iterations = most}, solve::identity{}, steps);
});

struct numbers {
  cleave::tensor<double, mesh()> residual;
  cleave::tensor<int, mesh()> iterations, ended;

  explicit numbers(const cleave::grid& g) : residual(g, {}), iterations(g, {}), ended(g, {}) {}
};

void expect_same(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  const double scale = support::serial_norm(want);
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-10 * scale) << i;
}
void expect_same(const numbers& got, const serial_result& want, double right) {
  EXPECT_EQ(got.iterations.item(), want.iterations);
  EXPECT_EQ(got.ended.item(), static_cast<int>(want.converged ? solve::ended::converged : solve::ended::at_limit));
  EXPECT_NEAR(got.residual.item(), want.history.back(), 1e-10 * right);
}

TEST(solve_cg, poisson_in_two_dimensions_with_its_history) {
  for (const cleave::grid& g : support::grids(mesh))
    for (const auto& [n, m, most] : {std::array{9, 7, 100}, std::array{5, 12, 100}, std::array{9, 7, 6}}) {
      Plane b(g, {n, m}), u(g, {n, m});
      b.fill_by([](const auto& at) { return support::wave(at[0], at[1], 0); });
      numbers got(g);
      History history(g, {60});
      on_plane(b, 1e-9, most).into(u, got.residual, got.iterations, got.ended, history);
      const std::vector<double> right = b.to_global();
      const serial_result want = support::serial_cg(support::serial_laplacian({n, m}), {}, right, 1e-9, most);
      expect_same(u.to_global(), want.solution);
      expect_same(got, want, support::serial_norm(right));
      const std::vector<double> kept = history.to_global();
      for (std::size_t i = 0; i < kept.size(); ++i)
        EXPECT_NEAR(kept[i], i < want.history.size() ? want.history[i] : 0, 1e-10 * want.history[0]) << i;
    }
}

// What a statement solves starts from zeros; the operator has no state. A function is one, too.
constexpr cleave::function in_space(space_operator{});
TEST(solve_cg, poisson_in_one_and_three_dimensions_as_statements) {
  for (const cleave::grid& g : support::grids(mesh)) {
    numbers got(g);
    Line b(g, {37}), u(g, {37});
    b.fill_by([](const auto& at) { return support::wave(at[0], 0, 0); });
    solve::cg(line_operator{}, b, {.tolerance = 1e-9}).into(u, got.residual, got.iterations, got.ended);
    const std::vector<double> line = b.to_global();
    const serial_result on_line = support::serial_cg(support::serial_laplacian({37}), {}, line, 1e-9, 1000);
    expect_same(u.to_global(), on_line.solution);
    expect_same(got, on_line, support::serial_norm(line));

    Space c(g, {6, 5, 4}), v(g, {6, 5, 4});
    c.fill_by([](const auto& at) { return support::wave(at[0], at[1], at[2]); });
    solve::cg(in_space, c, {.tolerance = 1e-9, .iterations = 200}).into(v, got.residual, got.iterations, got.ended);
    const std::vector<double> space = c.to_global();
    const serial_result wanted = support::serial_cg(support::serial_laplacian({6, 5, 4}), {}, space, 1e-9, 200);
    expect_same(v.to_global(), wanted.solution);
    expect_same(got, wanted, support::serial_norm(space));
  }
}

// As the stiffness of a structure: neighbours near and far, and a diagonal over six orders of magnitude. Without the
// preconditioner it takes many times as many iterations. A start that is the solution takes none.
constexpr cleave::function stiff([](auto b, auto scale, auto start) {
  const auto apply = [=](cleave::value u) {
    const cleave::value v = scale * u;
    return scale *
           (6.2 * v - shift(v, x_dim, 1) - shift(v, x_dim, -1) - 2 * shift(v, x_dim, 7) - 2 * shift(v, x_dim, -7));
  };
  const auto precondition = [=](cleave::value r) { return r / (6.2 * scale * scale); };
  return solve::cg(apply, b, {.tolerance = 1e-11, .iterations = 300, .start = start}, precondition);
});
TEST(solve_cg, a_badly_scaled_band_with_a_preconditioner) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const std::int64_t n = 61;
    const auto scale_at = [](std::int64_t i) { return std::pow(10.0, static_cast<double>(i * 5 % 13) / 4); };
    Line b(g, {n}), scale(g, {n}), u(g, {n});
    b.fill_by([&](const auto& at) { return scale_at(at[0]) * support::wave(at[0], 1, 0); });
    scale.fill_by([&](const auto& at) { return scale_at(at[0]); });
    u.fill(0);
    const support::serial_operator apply = [&](const std::vector<double>& v) {
      std::vector<double> out(v.size());
      const auto part = [&](std::int64_t i) {
        return i < 0 || i >= n ? 0 : scale_at(i) * v[static_cast<std::size_t>(i)];
      };
      for (std::int64_t i = 0; i < n; ++i)
        out[static_cast<std::size_t>(i)] = scale_at(i) * (6.2 * part(i) - part(i - 1) - part(i + 1) - 2 * part(i - 7) -
                                                          2 * part(i + 7));
      return out;
    };
    const support::serial_operator precondition = [&](const std::vector<double>& r) {
      std::vector<double> out(r);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] /= 6.2 * std::pow(scale_at(static_cast<std::int64_t>(i)), 2);
      return out;
    };
    numbers got(g);
    stiff(b, scale, u).into(u, got.residual, got.iterations, got.ended);
    const std::vector<double> right = b.to_global();
    const serial_result want = support::serial_cg(apply, precondition, right, 1e-11, 300);
    EXPECT_TRUE(want.converged);
    expect_same(u.to_global(), want.solution);
    expect_same(got, want, support::serial_norm(right));
    EXPECT_GT(support::serial_cg(apply, {}, right, 1e-11, 1000).iterations, 3 * want.iterations);

    b.fill(0);
    u.fill(0);
    stiff(b, scale, u).into(u, got.residual, got.iterations, got.ended);
    EXPECT_EQ(got.iterations.item(), 0);
    EXPECT_EQ(got.ended.item(), static_cast<int>(solve::ended::converged));
    for (double v : u.to_global()) EXPECT_EQ(v, 0);
  }
}

// -u'' - u'' = f with u = sin(pi x) sin(2 pi y): half the spacing, a quarter of the error.
TEST(solve_cg, converges_to_the_analytic_solution_at_second_order) {
  const double pi = std::acos(-1.0);
  for (const cleave::grid& g : support::grids(mesh)) {
    double errors[3]{};
    for (int level = 0; level < 3; ++level) {
      const int n = (8 << level) - 1;
      const double h = 1.0 / (n + 1);
      const auto exact = [&](std::int64_t i, std::int64_t j) {
        return std::sin(pi * h * static_cast<double>(i + 1)) * std::sin(2 * pi * h * static_cast<double>(j + 1));
      };
      Plane b(g, {n, n}), u(g, {n, n});
      b.fill_by([&](const auto& at) { return h * h * 5 * pi * pi * exact(at[0], at[1]); });
      numbers got(g);
      History history(g, {60});
      on_plane(b, 1e-12, 500).into(u, got.residual, got.iterations, got.ended, history);
      EXPECT_EQ(got.ended.item(), static_cast<int>(solve::ended::converged));
      const std::vector<double> all = u.to_global();
      for (int i = 0; i < n; ++i)
        for (int j = 0; j < n; ++j)
          errors[level] = std::max(errors[level], std::abs(all[static_cast<std::size_t>(i * n + j)] - exact(i, j)));
    }
    EXPECT_NEAR(errors[0] / errors[1], 4, 0.15);
    EXPECT_NEAR(errors[1] / errors[2], 4, 0.05);
  }
}

// An indefinite operator, and a right-hand side that is not a number.
TEST(solve_cg, a_breakdown_is_reported) {
  struct indefinite {
    constexpr cleave::value operator()(const cleave::value& u) const { return shift(u, x_dim, 1) - 3 * u; }
  };
  for (const cleave::grid& g : support::grids(mesh)) {
    numbers got(g);
    Line b(g, {17}), u(g, {17});
    b.fill(1);
    solve::cg(indefinite{}, b).into(u, got.residual, got.iterations, got.ended);
    EXPECT_EQ(got.ended.item(), static_cast<int>(solve::ended::broke_down));
    EXPECT_EQ(got.iterations.item(), 1);
    EXPECT_DOUBLE_EQ(got.residual.item(), std::sqrt(17.0));
    for (double v : u.to_global()) EXPECT_EQ(v, 0);

    b.fill_by([](const auto& at) { return at[0] == 3 ? std::nan("") : 1.0; });
    solve::cg(indefinite{}, b).into(u, got.residual, got.iterations, got.ended);
    EXPECT_EQ(got.ended.item(), static_cast<int>(solve::ended::broke_down));
    EXPECT_EQ(got.iterations.item(), 0);
  }
}

// Right-hand sides whose squares leave the range of their type, and an operator that gives an infinite number.
template <class T>
void expect_breakdown(const cleave::grid& g, T size) {
  cleave::tensor<T, mesh(x_dim / data / model)> b(g, {64}), u(g, {64});
  cleave::tensor<T, mesh()> residual(g, {});
  numbers got(g);
  b.fill(size);
  solve::cg(line_operator{}, b).into(u, residual, got.iterations, got.ended);
  EXPECT_EQ(got.ended.item(), static_cast<int>(solve::ended::broke_down)) << size;
}
TEST(solve_cg, squares_beyond_the_range_are_a_breakdown) {
  struct infinite {
    constexpr cleave::value operator()(const cleave::value& u) const {
      return select(iota(u, x_dim) == 5, std::numeric_limits<double>::infinity(), u);
    }
  };
  for (const cleave::grid& g : support::grids(mesh)) {
    for (const double size : {1e200, 1e-200, 1e-160, std::numeric_limits<double>::infinity()})
      expect_breakdown<double>(g, size);
    for (const float size : {1e20F, 1e-24F, std::numeric_limits<float>::infinity()}) expect_breakdown<float>(g, size);
    Line b(g, {17}), u(g, {17});
    numbers got(g);
    b.fill(1e-100);
    solve::cg(line_operator{}, b).into(u, got.residual, got.iterations, got.ended);
    EXPECT_EQ(got.ended.item(), static_cast<int>(solve::ended::converged));
    b.fill(0);
    solve::cg(line_operator{}, b).into(u, got.residual, got.iterations, got.ended);
    EXPECT_EQ(got.ended.item(), static_cast<int>(solve::ended::converged));
    b.fill(1);
    solve::cg(infinite{}, b).into(u, got.residual, got.iterations, got.ended);
    EXPECT_EQ(got.ended.item(), static_cast<int>(solve::ended::broke_down));
    for (double v : u.to_global()) EXPECT_EQ(v, 0);
    EXPECT_THROW(static_cast<void>(solve::cg(line_operator{}, b, {.iterations = 3000000000.0})), cleave::number_error);
    EXPECT_THROW(static_cast<void>(solve::cg(line_operator{}, b, {.iterations = 10.5})), cleave::number_error);
  }
}

// Before the loop the norm of b and how many of its elements are not 0; in each iteration the halo and two numbers.
constexpr auto plan = cleave::plan<std::tuple<Plane, Number, Count, Count, History>(Plane, double, int)>(on_plane);
static_assert(plan.count(cleave::kind::exchange) == 1 && plan.count(cleave::kind::all_reduce) == 4);
static_assert(plan.collectives() == 5);

TEST(solve_cg, each_iteration_moves_the_halo_and_two_numbers) {
  const support::only_mpi transport;
  for (const cleave::grid& g : support::grids(mesh)) {
    const int n = 12;
    Plane b(g, {n, n}), u(g, {n, n});
    b.fill_by([](const auto& at) { return support::wave(at[0], at[1], 0); });
    numbers got(g);
    History history(g, {60});
    on_plane(b, 1e-30, 0).into(u, got.residual, got.iterations, got.ended, history);
    support::reset_charges();
    on_plane(b, 1e-30, 0).into(u, got.residual, got.iterations, got.ended, history);
    const std::int64_t before = support::over_ranks(support::charged_bytes());
    support::reset_charges();
    on_plane(b, 1e-30, 5).into(u, got.residual, got.iterations, got.ended, history);
    const std::int64_t all = support::over_ranks(support::charged_bytes());
    const auto sizes = [&](std::int64_t x, std::int64_t y) {
      return plan.bytes({x_dim = x, y_dim = y, data = g.size(data), model = g.size(model)});
    };
    // The plan counts 16 iterations.
    EXPECT_EQ(all - before, 5 * (sizes(n, n) - before) / 16);
  }
}

} // namespace CLEAVE_SOURCE
