// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/linalg/grid_factor.hpp>
#include <cleave/linalg/grid_solve.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <type_traits>
#include <vector>

// Cholesky factors of one matrix over all devices: beside the product that gives the matrix back, and beside the factor
// that one device computes. Triangular systems beside ordinary substitution.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ay, ax};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
template <class T>
using Matrix = cleave::tensor<T, mesh(row / ay, col / ax)>;

template <std::int64_t Block>
constexpr cleave::function factor([](auto a) {
  return cleave::linalg::grid_cholesky<Block>(a, mesh(row / ay, col / ax));
});

double wave(std::int64_t i, std::int64_t j) { return std::sin(0.3 + 0.7 * double(i) + 1.3 * double(j)); }
/// Symmetric, and positive definite: the diagonal dominates.
double definite(std::int64_t i, std::int64_t j, std::int64_t n) {
  return i == j ? 2 + double(n) : (wave(i, j) + wave(j, i)) / 2;
}

template <class T, std::int64_t Block>
void check(const cleave::grid& g, std::int64_t n, double tolerance) {
  Matrix<T> a(g, {n, n}), l(g, {n, n});
  // What is above the diagonal is not read.
  a.fill_by([&](const auto& at) { return static_cast<T>(at[1] > at[0] ? 1e30 : definite(at[0], at[1], n)); });
  l.fill(T(77));
  l = factor<Block>(a);
  const auto got = l.to_global();
  const auto element = [&](std::int64_t i, std::int64_t j) {
    return static_cast<double>(got[static_cast<std::size_t>(i * n + j)]);
  };
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k <= std::min(i, j); ++k) sum += element(i, k) * element(j, k);
      EXPECT_NEAR(sum, definite(i, j, n), tolerance * double(n + 2)) << i << ' ' << j;
      EXPECT_TRUE(j < i || (j > i ? element(i, j) == 0 : element(i, j) > 0));
    }
}

TEST(grid_cholesky, times_its_transpose_is_the_matrix) {
  for (const cleave::grid& g : support::grids(mesh)) {
    for (std::int64_t n : {0, 1, 5, 8, 24, 37, 64}) {
      check<double, 1>(g, n, 1e-14);
      check<double, 4>(g, n, 1e-14);
      check<double, 64>(g, n, 1e-14);
    }
    check<float, 4>(g, 37, 1e-6);
    check<double, 16>(g, 150, 1e-14);
  }
}

// With blocks as large as the matrix one device factors it; other blocks and meshes differ by rounding alone.
TEST(grid_cholesky, is_that_of_one_device) {
  constexpr std::int64_t n = 61;
  for (const cleave::grid& g : support::grids(mesh)) {
    Matrix<double> a(g, {n, n}), one(g, {n, n}), many(g, {n, n});
    a.fill_by([&](const auto& at) { return definite(at[0], at[1], n); });
    one = factor<64>(a);
    many = factor<3>(a);
    const auto want = one.to_global(), got = many.to_global();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-13);
  }
}

TEST(grid_cholesky, what_is_not_positive_definite_is_not_a_number) {
  constexpr std::int64_t n = 37;
  for (const cleave::grid& g : support::grids(mesh))
    for (std::int64_t bad : {0, 20, 36}) {
      Matrix<double> a(g, {n, n}), l(g, {n, n});
      a.fill_by([&](const auto& at) { return at[0] == bad && at[1] == bad ? -1.0 : definite(at[0], at[1], n); });
      l = factor<4>(a);
      const auto got = l.to_global();
      for (std::int64_t i = 0, e = 0; i < n; ++i)
        for (std::int64_t j = 0; j < n; ++j, ++e) EXPECT_EQ(std::isnan(got[static_cast<std::size_t>(e)]), j <= i);
    }
}

// In a statement, and of a matrix in another layout.
TEST(grid_cholesky, in_statements) {
  constexpr std::int64_t n = 29;
  for (const cleave::grid& g : support::grids(mesh)) {
    cleave::tensor<double, mesh(row, col / ay / ax)> a(g, {n, n});
    Matrix<double> b(g, {n, n}), l(g, {n, n}), want(g, {n, n});
    a.fill_by([&](const auto& at) { return definite(at[0], at[1], n); });
    b = a;
    l = cleave::linalg::grid_cholesky(a, mesh(row / ay, col / ax));
    want = factor<64>(b);
    EXPECT_EQ(l.to_global(), want.to_global());
  }
}

/// The bytes that a device receives: of both redistributions what it does not have, of each panel the corner, its rows
/// and its columns, and two numbers.
std::int64_t bytes_of_factor(std::int64_t n, std::int64_t nb, std::int64_t rows, std::int64_t cols, std::int64_t p,
                             std::int64_t q) {
  const auto sharded = [&](std::int64_t i, std::int64_t parts) { return i / ((n + parts - 1) / parts); };
  const auto cyclic = [&](std::int64_t i, std::int64_t parts) { return i / nb % parts; };
  std::int64_t in_block[2] = {0, 0}, in_turn[2] = {0, 0}, arrive[2] = {0, 0}, leave[2] = {0, 0};
  const std::int64_t parts[2] = {rows, cols}, me[2] = {p, q};
  for (int d = 0; d < 2; ++d)
    for (std::int64_t i = 0; i < n; ++i) {
      const bool block = sharded(i, parts[d]) == me[d], turn = cyclic(i, parts[d]) == me[d];
      in_block[d] += block, in_turn[d] += turn, arrive[d] += turn && !block, leave[d] += block && !turn;
    }
  // Rows first and back last, while the columns are in their blocks.
  std::int64_t elements = (arrive[0] + leave[0]) * in_block[1] + (arrive[1] + leave[1]) * in_turn[0];
  for (std::int64_t k = 0; k * nb < n; ++k) {
    const std::int64_t w = std::min(nb, n - k * nb);
    if (k % cols == q && k % rows != p) elements += w * w;
    for (std::int64_t i = k * nb + w; i < n; ++i) {
      if (cyclic(i, rows) == p && k % cols != q) elements += w; // its rows of the panel
      if (cyclic(i, cols) == q && cyclic(i, rows) != p) elements += w;
    }
  }
  const std::int64_t all = rows * cols;
  return 8 * elements + 2 * (all - 1) * 8 / all;
}
constexpr auto factor_plan = cleave::plan<Matrix<double>(Matrix<double>)>(factor<4>);
constexpr auto float_plan = cleave::plan<Matrix<float>(Matrix<float>)>(factor<4>);
static_assert(2 * float_plan.bytes({row = 64, col = 64, ay = 4, ax = 2}) ==
              factor_plan.bytes({row = 64, col = 64, ay = 4, ax = 2}));
TEST(grid_cholesky, bytes_are_those_of_the_formula) {
  const support::only_mpi alone;
  for (const cleave::grid& g : support::grids(mesh))
    for (std::int64_t n : {32, 37}) {
      Matrix<double> a(g, {n, n}), l(g, {n, n});
      a.fill_by([&](const auto& at) { return definite(at[0], at[1], n); });
      l = factor<4>(a);
      support::reset_charges();
      l = factor<4>(a);
      const std::int64_t rows = g.size(ay), cols = g.size(ax);
      const std::int64_t busy = support::charged_bytes();
      EXPECT_EQ(busy, bytes_of_factor(n, 4, rows, cols, support::rank() / cols, support::rank() % cols));
      // The price is that of the busiest device.
      std::int64_t most = 0;
      MPI_Allreduce(&busy, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
      EXPECT_EQ(factor_plan.bytes({row = n, col = n, ay = rows, ax = cols}), most);
    }
}

inline constexpr cleave::dim<"side"> side;
template <class T>
using Sides = cleave::tensor<T, mesh(row / ay, side / ax)>;
template <class T>
using Unknowns = cleave::tensor<T, mesh(col / ay, side / ax)>;
using cleave::linalg::transpose;

template <std::int64_t Block, transpose Form = transpose::no>
constexpr cleave::function solution([](auto l, auto b) {
  return cleave::linalg::grid_triangular_solve<Block, Form>(l, b, mesh(row / ay, col / ax), side);
});

/// Well-conditioned and not symmetric.
double lower(std::int64_t i, std::int64_t j, std::int64_t n) {
  return i == j ? 2 + std::abs(wave(i, i)) : wave(i, j) / static_cast<double>(n);
}

/// The solution by ordinary substitution.
std::vector<double> substituted(std::int64_t n, std::int64_t m, bool transposed) {
  std::vector<double> x(static_cast<std::size_t>(n * m));
  const auto at = [&](std::int64_t i, std::int64_t j) -> double& { return x[static_cast<std::size_t>(i * m + j)]; };
  for (std::int64_t step = 0; step < n; ++step)
    for (std::int64_t j = 0; j < m; ++j) {
      const std::int64_t i = transposed ? n - 1 - step : step;
      double rest = wave(j, i);
      for (std::int64_t k = transposed ? i + 1 : 0; k < (transposed ? n : i); ++k)
        rest -= (transposed ? lower(k, i, n) : lower(i, k, n)) * at(k, j);
      at(i, j) = rest / lower(i, i, n);
    }
  return x;
}

template <class T, std::int64_t Block, transpose Form>
void check_solution(const cleave::grid& g, std::int64_t n, std::int64_t m, double tolerance) {
  constexpr bool transposed = Form == transpose::yes;
  Matrix<T> l(g, {n, n});
  std::conditional_t<transposed, Unknowns<T>, Sides<T>> b(g, {n, m});
  std::conditional_t<transposed, Sides<T>, Unknowns<T>> x(g, {n, m});
  // What is above the diagonal is not read.
  l.fill_by([&](const auto& at) { return static_cast<T>(at[1] > at[0] ? 1e30 : lower(at[0], at[1], n)); });
  b.fill_by([](const auto& at) { return static_cast<T>(wave(at[1], at[0])); });
  x.fill(T(77));
  x = solution<Block, Form>(l, b);
  const auto got = x.to_global();
  const auto want = substituted(n, m, transposed);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(static_cast<double>(got[i]), want[i], tolerance);
}

TEST(grid_triangular_solve, is_ordinary_substitution) {
  for (const cleave::grid& g : support::grids(mesh)) {
    for (std::int64_t n : {0, 1, 5, 24, 37})
      for (std::int64_t m : {1, 3, 16}) {
        check_solution<double, 1, transpose::no>(g, n, m, 1e-14);
        check_solution<double, 1, transpose::yes>(g, n, m, 1e-14);
        check_solution<double, 4, transpose::no>(g, n, m, 1e-14);
        check_solution<double, 4, transpose::yes>(g, n, m, 1e-14);
        check_solution<double, 64, transpose::no>(g, n, m, 1e-14);
        check_solution<double, 64, transpose::yes>(g, n, m, 1e-14);
      }
    check_solution<float, 4, transpose::no>(g, 37, 5, 1e-6);
    check_solution<float, 4, transpose::yes>(g, 37, 5, 1e-6);
    check_solution<double, 16, transpose::no>(g, 150, 40, 1e-14);
    check_solution<double, 16, transpose::yes>(g, 150, 40, 1e-14);
  }
}

// Operands are matrices by their dims, whatever the order in memory.
TEST(grid_triangular_solve, dims_in_any_order) {
  for (const cleave::grid& g : support::grids(mesh)) {
    constexpr std::int64_t n = 7, m = 3;
    cleave::tensor<double, mesh(col / ax, row / ay)> turned(g, {n, n});
    cleave::tensor<double, mesh(side / ax, row)> turned_sides(g, {m, n});
    Matrix<double> a(g, {n, n}), want(g, {n, n}), got(g, {n, n});
    a.fill_by([](const auto& at) { return at[1] > at[0] ? 1e30 : definite(at[0], at[1], n); });
    turned.fill_by([](const auto& at) { return at[0] > at[1] ? 1e30 : definite(at[1], at[0], n); });
    want = factor<2>(a);
    got = factor<2>(turned);
    EXPECT_EQ(got.to_global(), want.to_global());
    Sides<double> b(g, {n, m});
    Unknowns<double> x(g, {n, m}), y(g, {n, m});
    b.fill_by([](const auto& at) { return wave(at[1], at[0]); });
    turned_sides.fill_by([](const auto& at) { return wave(at[0], at[1]); });
    turned.fill_by([](const auto& at) { return at[0] > at[1] ? 1e30 : lower(at[1], at[0], n); });
    a.fill_by([](const auto& at) { return at[1] > at[0] ? 1e30 : lower(at[0], at[1], n); });
    x = solution<2, transpose::no>(a, b);
    y = solution<2, transpose::no>(turned, turned_sides);
    EXPECT_EQ(y.to_global(), x.to_global());
  }
}

// Equations with a symmetric matrix, by its factor and two solves, in one plan.
constexpr cleave::function solved_by_factor([](auto a, auto b) {
  constexpr auto layout = mesh(row / ay, col / ax);
  auto l = cleave::linalg::grid_cholesky<8>(a, layout);
  auto y = cleave::linalg::grid_triangular_solve<8>(l, b, layout, side);
  return cleave::linalg::grid_triangular_solve<8, transpose::yes>(l, y, layout, side);
});
TEST(grid_triangular_solve, solves_with_the_cholesky_factor) {
  for (const cleave::grid& g : support::grids(mesh))
    for (std::int64_t n : {1, 37, 90}) {
      constexpr std::int64_t m = 5;
      Matrix<double> a(g, {n, n});
      Sides<double> b(g, {n, m}), x(g, {n, m});
      a.fill_by([&](const auto& at) { return definite(at[0], at[1], n); });
      b.fill_by([](const auto& at) { return wave(at[1], at[0]); });
      x = solved_by_factor(a, b);
      const auto got = x.to_global();
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t j = 0; j < m; ++j) {
          double sum = 0;
          for (std::int64_t k = 0; k < n; ++k) sum += definite(i, k, n) * got[static_cast<std::size_t>(k * m + j)];
          EXPECT_NEAR(sum, wave(j, i), 1e-12);
        }
    }
}

/// The bytes that a device moves: of the redistributions what it does not have, of each panel its rows, and of each
/// block its unknowns, which are broadcast, or reduced among all that have the same columns.
std::int64_t bytes_of_solve(std::int64_t n, std::int64_t m, std::int64_t nb, std::int64_t rows, std::int64_t cols,
                            std::int64_t p, std::int64_t q, bool transposed) {
  const auto sharded = [](std::int64_t i, std::int64_t extent, std::int64_t parts) {
    return i / ((extent + parts - 1) / parts);
  };
  const auto cyclic = [&](std::int64_t i, std::int64_t parts) { return i / nb % parts; };
  std::int64_t right = 0, held_rows = 0, block_columns = 0, rows_arrive = 0, rows_leave = 0, columns_arrive = 0;
  for (std::int64_t j = 0; j < m; ++j) right += sharded(j, m, cols) == q;
  for (std::int64_t i = 0; i < n; ++i) {
    const bool block_row = sharded(i, n, rows) == p, turn_row = cyclic(i, rows) == p,
               block_column = sharded(i, n, cols) == q, turn_column = cyclic(i, cols) == q;
    held_rows += turn_row, block_columns += block_column;
    rows_arrive += turn_row && !block_row, rows_leave += block_row && !turn_row;
    columns_arrive += turn_column && !block_column;
  }
  std::int64_t elements = rows_arrive * block_columns + columns_arrive * held_rows + (rows_arrive + rows_leave) * right;
  std::int64_t reduced = 0;
  for (std::int64_t k = 0; k * nb < n; ++k) {
    const std::int64_t w = std::min(nb, n - k * nb);
    for (std::int64_t i = k * nb; i < n; ++i)
      if (cyclic(i, rows) == p && k % cols != q) elements += w;
    if (transposed) reduced += 2 * (rows - 1) * (8 * w * right) / rows;
    else if (k % rows != p) elements += w * right;
  }
  return 8 * elements + reduced;
}
constexpr auto solve_plan = cleave::plan<Unknowns<double>(Matrix<double>, Sides<double>)>(solution<4>);
constexpr auto transposed_plan = cleave::plan<Sides<double>(Matrix<double>, Unknowns<double>)>(
    solution<4, transpose::yes>);
static_assert(solve_plan.collectives() == 0 && transposed_plan.collectives() == 0);

TEST(grid_triangular_solve, bytes_are_those_of_the_formula) {
  const support::only_mpi alone;
  for (const cleave::grid& g : support::grids(mesh))
    for (std::int64_t n : {32, 37})
      for (const bool transposed : {false, true}) {
        constexpr std::int64_t m = 7;
        Matrix<double> l(g, {n, n});
        Sides<double> by_row(g, {n, m});
        Unknowns<double> by_col(g, {n, m});
        l.fill_by([&](const auto& at) { return lower(at[0], at[1], n); });
        by_row.fill(1.0);
        by_col.fill(1.0);
        const auto run = [&] {
          if (transposed) by_row = solution<4, transpose::yes>(l, by_col);
          else by_col = solution<4>(l, by_row);
        };
        run();
        support::reset_charges();
        run();
        const std::int64_t rows = g.size(ay), cols = g.size(ax), moved = support::charged_bytes();
        EXPECT_EQ(moved,
                  bytes_of_solve(n, m, 4, rows, cols, support::rank() / cols, support::rank() % cols, transposed));
        std::int64_t most = 0;
        MPI_Allreduce(&moved, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
        const auto price = [&](const auto& plan) {
          return plan.bytes({row = n, col = n, side = m, ay = rows, ax = cols});
        };
        EXPECT_EQ(transposed ? price(transposed_plan) : price(solve_plan), most);
      }
}

// In a statement, and of operands in other layouts.
TEST(grid_triangular_solve, in_statements) {
  constexpr std::int64_t n = 29, m = 3;
  for (const cleave::grid& g : support::grids(mesh)) {
    cleave::tensor<double, mesh(row, col / ay / ax)> l(g, {n, n});
    cleave::tensor<double, mesh(row / ax, side)> b(g, {n, m});
    Unknowns<double> x(g, {n, m});
    l.fill_by([&](const auto& at) { return lower(at[0], at[1], n); });
    b.fill_by([](const auto& at) { return wave(at[1], at[0]); });
    x = cleave::linalg::grid_triangular_solve(l, b, mesh(row / ay, col / ax), side);
    const auto got = x.to_global();
    const auto want = substituted(n, m, false);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-14);
  }
}

} // namespace CLEAVE_SOURCE
