// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/linalg/grid_factor.hpp>

#include <gtest/gtest.h>

#include <cmath>

// Cholesky factors of one matrix over all devices: beside the product that gives the matrix back, and beside the factor
// that one device computes.

namespace {

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

} // namespace
