// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/linalg/linalg.hpp>

#include <gtest/gtest.h>

#include <cmath>

// Cholesky factors and triangular systems on real grids: products of what was computed give back what was given.

namespace CLEAVE_SOURCE {

using cleave::linalg::cholesky;
using cleave::linalg::transpose;
using cleave::linalg::triangle;
using cleave::linalg::triangular_solve;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"other"> other;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"rhs"> rhs;

using cleave::tensor;

std::vector<cleave::grid> grids() { return support::grids(mesh); }

double wave(std::int64_t i, std::int64_t j, std::int64_t k) {
  return std::sin(0.3 + 0.7 * static_cast<double>(i) + 1.3 * static_cast<double>(j) + 0.9 * static_cast<double>(k));
}
/// Symmetric, and positive definite: the diagonal dominates.
double definite(std::int64_t b, std::int64_t i, std::int64_t j, std::int64_t n) {
  return i == j ? 2 + static_cast<double>(n) : (wave(b, i, j) + wave(b, j, i)) / 2;
}

constexpr cleave::function factor([](auto a) { return cholesky(a, row, col); });
constexpr cleave::function squared([](auto a) {
  auto l = cholesky(a, row, col);
  return rename(dot(l, rename(l, row, other), col), other, col);
});

template <class T, class A>
void check_factors(double tolerance) {
  for (const cleave::grid& g : grids())
    for (const auto& [batches, n] :
         {std::pair<std::int64_t, std::int64_t>{3, 5}, {0, 4}, {2, 0}, {2, 1}, {1, 57}, {5, 24}}) {
      A a(g, {batches, n, n}), l(g, {batches, n, n}), again(g, {batches, n, n});
      a.fill_by([&](const auto& at) { return static_cast<T>(definite(at[0], at[1], at[2], n)); });
      l = factor(a);
      again = squared(a);
      const auto lower = l.to_global(), got = again.to_global();
      for (std::int64_t b = 0, e = 0; b < batches; ++b)
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j < n; ++j, ++e) {
            EXPECT_NEAR(static_cast<double>(got[static_cast<std::size_t>(e)]),
                        static_cast<double>(static_cast<T>(definite(b, i, j, n))),
                        tolerance * static_cast<double>(n + 2));
            const T here = lower[static_cast<std::size_t>(e)];
            EXPECT_TRUE(j < i || (j > i ? here == T(0) : here > T(0)));
          }
    }
}
TEST(linalg, factors_of_a_divided_batch) {
  check_factors<double, tensor<double, mesh(batch / data / model, row, col)>>(1e-14);
}
TEST(linalg, factors_of_divided_rows_and_columns) {
  check_factors<double, tensor<double, mesh(batch, row / data, col / model)>>(1e-14);
}
TEST(linalg, factors_in_float) { check_factors<float, tensor<float, mesh(batch / model, row / data, col)>>(1e-6); }

// Neither rows nor columns side by side in memory, and rows side by side.
TEST(linalg, factors_in_every_order_of_dims) {
  using Last = tensor<double, mesh(row, col, batch / data)>;
  using Turned = tensor<double, mesh(batch / model, col, row)>;
  using Plain = tensor<double, mesh(batch / data, row, col)>;
  for (const cleave::grid& g : grids())
    for (std::int64_t n : {3, 40}) {
      Plain a(g, {4, n, n}), l(g, {4, n, n});
      Last last(g, {n, n, 4});
      Turned turned(g, {4, n, n});
      a.fill_by([&](const auto& at) { return definite(at[0], at[1], at[2], n); });
      last.fill_by([&](const auto& at) { return definite(at[2], at[0], at[1], n); });
      turned.fill_by([&](const auto& at) { return definite(at[0], at[2], at[1], n); });
      l = factor(a);
      last = factor(last);
      turned = factor(turned);
      const auto want = l.to_global(), one = last.to_global(), two = turned.to_global();
      for (std::int64_t b = 0; b < 4; ++b)
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            const double w = want[static_cast<std::size_t>((b * n + i) * n + j)];
            EXPECT_NEAR(one[static_cast<std::size_t>((i * n + j) * 4 + b)], w, 1e-13);
            EXPECT_NEAR(two[static_cast<std::size_t>((b * n + j) * n + i)], w, 1e-13);
          }
    }
}

TEST(linalg, what_is_not_positive_definite_is_not_a_number) {
  using A = tensor<double, mesh(batch / data, row, col)>;
  for (const cleave::grid& g : grids())
    for (std::int64_t n : {4, 50}) {
      A a(g, {3, n, n});
      a.fill_by([&](const auto& at) {
        return at[0] == 1 && at[1] == n - 2 && at[2] == n - 2 ? -1.0 : definite(at[0], at[1], at[2], n);
      });
      a = factor(a);
      const auto got = a.to_global();
      for (std::int64_t b = 0, e = 0; b < 3; ++b)
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t j = 0; j < n; ++j, ++e)
            EXPECT_EQ(std::isnan(got[static_cast<std::size_t>(e)]), b == 1 && j <= i);
    }
}

// The kernel for GPUs, which nothing on the host calls.
TEST(linalg, factors_in_teams) {
  const std::int64_t n = 19, matrices = 3;
  using memory = Kokkos::View<double*, Kokkos::LayoutRight, cleave::memory_space>;
  const memory shared("shared", static_cast<std::size_t>(matrices * n * n));
  const auto one = support::read(shared), two = support::read(shared);
  for (std::int64_t b = 0; b < matrices; ++b)
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j <= i; ++j)
        one((b * n + i) * n + j) = two((b * n + i) * n + j) = b == 1 && i == 7 && j == 7 ? -1 : definite(b, i, j, n);
  support::write(shared, one);
  cleave::linalg::square_matrices m{n, n, 1, {}};
  m.batch.add(matrices, n * n, 0);
  Kokkos::parallel_for("teams", Kokkos::TeamPolicy<cleave::execution_space>(static_cast<int>(matrices), 1),
                       cleave::linalg::factor_in_teams<double>{m, shared});
  const auto teams = support::read(shared);
  for (std::int64_t b = 0; b < matrices; ++b) {
    double* const l = two.data() + b * n * n;
    if (!cleave::linalg::factor_plainly(n, l, m.row_step, m.column_step))
      cleave::linalg::not_a_number_below(n, l, m.row_step, m.column_step);
  }
  for (std::size_t e = 0; e < one.size(); ++e)
    EXPECT_TRUE(std::isnan(two(e)) ? std::isnan(teams(e)) : std::abs(teams(e) - two(e)) < 1e-14) << e;
}

TEST(linalg, warm_calls_take_nothing_from_the_heap) {
  using A = tensor<double, mesh(batch / data / model, row, col)>;
  using B = tensor<double, mesh(batch / data / model, row)>;
  using X = tensor<double, mesh(batch / data / model, col)>;
  constexpr cleave::function f([](auto a, auto b) { return triangular_solve(cholesky(a, row, col), b, row, col); });
  for (const cleave::grid& g : grids())
    for (std::int64_t n : {4, 60}) {
      A a(g, {5, n, n});
      B b(g, {5, n});
      X x(g, {5, n});
      a.fill_by([&](const auto& at) { return definite(at[0], at[1], at[2], n); });
      b.fill(1);
      for (int i = 0; i < 2; ++i) x = f(a, b);
      const std::int64_t before = support::allocations();
      x = f(a, b);
      if (support::heap_is_left_alone) {
        EXPECT_EQ(support::allocations(), before);
      }
    }
}

/// dot(l, x) against the right-hand side, for a matrix whose other half is not to be read.
template <triangle Which, transpose Transposed, class L, class B, class X>
void check_systems() {
  constexpr cleave::function solve([](auto l, auto b) { return triangular_solve<Which, Transposed>(l, b, row, col); });
  for (const cleave::grid& g : grids())
    for (const auto& [n, m] : {std::pair<std::int64_t, std::int64_t>{5, 3}, {1, 4}, {0, 2}, {3, 0}, {31, 9}}) {
      L l(g, {2, n, n});
      B b(g, {n, 2, m});
      X x(g, {n, 2, m});
      const auto matrix = [n = n](std::int64_t at, std::int64_t i, std::int64_t j) {
        return i == j ? 2 + static_cast<double>(n) / 4 : wave(at, i, j);
      };
      l.fill_by([&](const auto& at) { return matrix(at[0], at[1], at[2]); });
      b.fill_by([](const auto& at) { return wave(at[1], at[0], at[2] + 50); });
      x = solve(l, b);
      const auto got = x.to_global();
      for (std::int64_t s = 0; s < 2; ++s)
        for (std::int64_t i = 0; i < n; ++i)
          for (std::int64_t k = 0; k < m; ++k) {
            double total = 0;
            for (std::int64_t j = 0; j < n; ++j) {
              const std::int64_t r = Transposed == transpose::no ? i : j, c = Transposed == transpose::no ? j : i;
              if (Which == triangle::lower ? r >= c : r <= c)
                total += matrix(s, r, c) * got[static_cast<std::size_t>((j * 2 + s) * m + k)];
            }
            EXPECT_NEAR(total, wave(s, i, k + 50), 1e-11);
          }
    }
}
TEST(linalg, systems_lower) {
  check_systems<triangle::lower, transpose::no, tensor<double, mesh(batch / data, row, col)>,
                tensor<double, mesh(row, batch / data, rhs / model)>,
                tensor<double, mesh(col, batch / data, rhs / model)>>();
}
TEST(linalg, systems_upper) {
  check_systems<triangle::upper, transpose::no, tensor<double, mesh(batch, row / data, col)>,
                tensor<double, mesh(row / data, batch, rhs)>, tensor<double, mesh(col / model, batch, rhs)>>();
}
TEST(linalg, systems_lower_transposed) {
  check_systems<triangle::lower, transpose::yes, tensor<double, mesh(batch, row, col / model)>,
                tensor<double, mesh(col / data, batch / model, rhs)>,
                tensor<double, mesh(row, batch, rhs / data / model)>>();
}
TEST(linalg, systems_upper_transposed) {
  check_systems<triangle::upper, transpose::yes, tensor<double, mesh(batch, row, col)>,
                tensor<double, mesh(col, batch, rhs / model)>, tensor<double, mesh(row / data, batch, rhs)>>();
}

// One matrix for a batch and several dims of right-hand sides, a single right-hand side, and right-hand sides side by
// side with the rows last.
TEST(linalg, systems_of_every_shape) {
  using L = tensor<float, mesh(row, col)>;
  for (const cleave::grid& g : grids())
    for (std::int64_t n : {4, 33}) {
      L l(g, {n, n});
      l.fill_by([&](const auto& at) {
        return at[0] == at[1] ? static_cast<float>(n) : static_cast<float>(wave(0, at[0], at[1]));
      });
      tensor<float, mesh(row)> one(g, {n});
      tensor<float, mesh(batch / data, rhs / model, row)> last(g, {3, 2, n});
      tensor<float, mesh(batch / data, row, rhs)> middle(g, {3, n, 2});
      tensor<float, mesh(col)> x_one(g, {n});
      tensor<float, mesh(batch / data, rhs / model, col)> x_last(g, {3, 2, n});
      tensor<float, mesh(batch / data, col, rhs)> x_middle(g, {3, n, 2});
      one.fill_by([](const auto& at) { return static_cast<float>(wave(at[0], 0, 0)); });
      last.fill_by([](const auto& at) { return static_cast<float>(wave(at[2], 0, 0)); });
      middle.fill_by([](const auto& at) { return static_cast<float>(wave(at[1], 0, 0)); });
      x_one = triangular_solve(l, one, row, col);
      x_last = triangular_solve(l, last, row, col);
      x_middle = triangular_solve(l, middle, row, col);
      const auto want = x_one.to_global(), a = x_last.to_global(), b = x_middle.to_global();
      for (std::int64_t i = 0; i < n; ++i) {
        float total = 0;
        for (std::int64_t j = 0; j <= i; ++j)
          total += (i == j ? static_cast<float>(n) : static_cast<float>(wave(0, i, j))) *
                   want[static_cast<std::size_t>(j)];
        EXPECT_NEAR(total, wave(i, 0, 0), 1e-5);
        for (std::int64_t k = 0; k < 6; ++k) {
          EXPECT_NEAR(a[static_cast<std::size_t>(k * n + i)], want[static_cast<std::size_t>(i)], 1e-5);
          EXPECT_NEAR(b[static_cast<std::size_t>((k / 2 * n + i) * 2 + k % 2)], want[static_cast<std::size_t>(i)],
                      1e-5);
        }
      }
    }
}

TEST(linalg, gradients_are_those_of_the_log_determinant) {
  using A = tensor<double, mesh(batch / data, row, col)>;
  constexpr cleave::function log_determinant([](auto a) {
    // The product of the squared diagonal is the determinant; its cotangent is the inverse.
    auto l = cholesky(a, row, col);
    return sum(2 * log(select(l > 0, l, 1)) * cast<double>(l > 1));
  });
  const std::int64_t n = 3;
  for (const cleave::grid& g : grids()) {
    A a(g, {2, n, n});
    // The diagonal of the factor is above 1, and nothing else is.
    a.fill_by([&](const auto& at) { return definite(at[0], at[1], at[2], n); });
    const auto slope = cleave::grad(log_determinant)(a).make().to_global();
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          double total = 0;
          for (std::int64_t k = 0; k < n; ++k)
            total += definite(b, i, k, n) * slope[static_cast<std::size_t>((b * n + k) * n + j)];
          EXPECT_NEAR(total, i == j ? 1 : 0, 1e-12);
        }
  }
}

TEST(linalg, matrices_are_square) {
  using A = tensor<double, mesh(batch / data, row, col)>;
  for (const cleave::grid& g : grids()) {
    A a(g, {2, 3, 4}), l(g, {2, 3, 4});
    EXPECT_THROW(l = factor(a), cleave::shape_error);
  }
}

// QR factors of tall matrices: of columns that are nearly parallel too.
constexpr cleave::function tall([](auto a) { return cleave::linalg::tall_qr(a, row, col, other); });
template <class T, class A, class Q, class R>
void check_tall(double nearly, double tolerance) {
  for (const cleave::grid& g : grids())
    for (const auto& [batches, m, n] : {std::array<std::int64_t, 3>{1, 57, 8}, {3, 6, 6}, {2, 9, 1}, {0, 5, 2}}) {
      A a(g, {batches, m, n});
      Q q(g, {batches, m, n});
      R r(g, {batches, n, n});
      const auto element = [&, n = n](std::int64_t b, std::int64_t i, std::int64_t j) {
        return static_cast<T>(wave(b, i, 0) + nearly * std::cos(static_cast<double>((i + 1) * (j + 1 + n * b))));
      };
      a.fill_by([&](const auto& at) { return element(at[0], at[1], at[2]); });
      tall(a).into(q, r);
      const auto columns = q.to_global(), upper = r.to_global();
      const auto q_at = [&, m = m, n = n](std::int64_t b, std::int64_t i, std::int64_t k) {
        return static_cast<double>(columns[static_cast<std::size_t>((b * m + i) * n + k)]);
      };
      const auto r_at = [&, n = n](std::int64_t b, std::int64_t k, std::int64_t j) {
        return static_cast<double>(upper[static_cast<std::size_t>((b * n + k) * n + j)]);
      };
      for (std::int64_t b = 0; b < batches; ++b) {
        for (std::int64_t k = 0; k < n; ++k)
          for (std::int64_t j = 0; j < n; ++j) {
            double product = 0;
            for (std::int64_t i = 0; i < m; ++i) product += q_at(b, i, k) * q_at(b, i, j);
            ASSERT_NEAR(product, k == j ? 1 : 0, tolerance);
            ASSERT_TRUE(k == j ? r_at(b, k, j) > 0 : k < j || r_at(b, k, j) == 0);
          }
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (std::int64_t k = 0; k < n; ++k) sum += q_at(b, i, k) * r_at(b, k, j);
            ASSERT_NEAR(sum, static_cast<double>(element(b, i, j)), 4 * tolerance);
          }
      }
    }
}
TEST(linalg, tall_factors) {
  using A = tensor<double, mesh(batch, row / data / model, col)>;
  using Q = tensor<double, mesh(batch, row / data / model, other)>;
  using R = tensor<double, mesh(batch, other, col)>;
  check_tall<double, A, Q, R>(1, 1e-14);
  check_tall<double, A, Q, R>(1e-4, 1e-14);
  check_tall<double, A, Q, R>(1e-11, 1e-14);
}
TEST(linalg, tall_factors_of_divided_columns) {
  check_tall<double, tensor<double, mesh(batch, row / data, col / model)>,
             tensor<double, mesh(batch, row / data, other)>, tensor<double, mesh(batch, other / model, col)>>(1e-6,
                                                                                                              1e-14);
}
TEST(linalg, tall_factors_in_float) {
  check_tall<float, tensor<float, mesh(batch / data, row / model, col)>,
             tensor<float, mesh(batch / data, row / model, other)>, tensor<float, mesh(batch / data, other, col)>>(
      1e-2, 1e-5);
}
TEST(linalg, tall_factors_that_do_not_exist_are_not_numbers) {
  const cleave::grid g = grids().front();
  // The second matrix has a column of zeros.
  tensor<double, mesh(batch, row / data, col)> a(g, {2, 5, 2});
  tensor<double, mesh(batch, row / data, other)> q(g, {2, 5, 2});
  tensor<double, mesh(batch, other, col)> r(g, {2, 2, 2});
  a.fill_by([](const auto& at) { return at[0] == 1 && at[2] == 1 ? 0 : wave(at[0], at[1], at[2]); });
  tall(a).into(q, r);
  const auto upper = r.to_global(), columns = q.to_global();
  EXPECT_TRUE(std::isnan(upper[4]) && std::isnan(upper[7]) && std::isnan(columns[10]) && std::isnan(columns[19]));
  // The first one has its factors all the same.
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 2; ++j) {
      double products = 0;
      for (std::size_t k = 0; k < 5; ++k) products += columns[2 * k + i] * columns[2 * k + j];
      EXPECT_NEAR(products, i == j ? 1 : 0, 1e-14);
    }
  // Fewer rows than columns.
  tensor<double, mesh(batch, row / data, col)> wide(g, {1, 2, 3});
  tensor<double, mesh(batch, row / data, other)> q3(g, {1, 2, 3});
  tensor<double, mesh(batch, other, col)> r3(g, {1, 3, 3});
  wide.fill_by([](const auto& at) { return wave(at[0], at[1], at[2]); });
  cleave::linalg::tall_qr(wide, row, col, other).into(q3, r3);
  EXPECT_TRUE(std::isnan(r3.to_global()[0]));
}

} // namespace CLEAVE_SOURCE
