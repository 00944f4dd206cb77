// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <cmath>

// Running totals along dims that are sharded, in every order of the axes, unevenly and with empty blocks.

namespace {

inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::mesh mesh{ax, ay};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using cleave::running;

std::vector<cleave::grid> grids() { return support::grids(mesh); }

/// What a running total is, of numbers that every element type holds.
template <class T, class Combine>
std::vector<T> totals(const std::vector<T>& x, std::int64_t rows, std::int64_t cols, running order, T start,
                      Combine combine) {
  std::vector<T> result(x.size());
  const bool backwards = order == running::backward || order == running::backward_exclusive;
  const bool exclusive = order == running::forward_exclusive || order == running::backward_exclusive;
  for (std::int64_t j = 0; j < cols; ++j) {
    T total = start;
    for (std::int64_t k = 0; k < rows; ++k) {
      const auto at = static_cast<std::size_t>((backwards ? rows - 1 - k : k) * cols + j);
      const T before = total;
      total = combine(total, x[at]);
      result[at] = exclusive ? before : total;
    }
  }
  return result;
}

template <class T, auto Layout, running Order>
void check_sum(const cleave::grid& g, std::int64_t rows, std::int64_t cols) {
  using X = cleave::tensor<T, Layout>;
  constexpr cleave::function f([](auto x) { return cumulative_sum(x, row, Order); });
  X x(g, {rows, cols}), y(g, {rows, cols});
  x.fill_by([](const auto& at) { return static_cast<T>((at[0] * 7 + at[1] * 3) % 5 - 1); });
  y = f(x);
  EXPECT_EQ(y.to_global(),
            totals<T>(x.to_global(), rows, cols, Order, T(0), [](T a, T b) { return static_cast<T>(a + b); }))
      << rows << " x " << cols;
  support::reset_charges();
  y = f(x);
  EXPECT_EQ(support::over_ranks(support::charged_bytes()),
            (cleave::plan<X(X)>(f).bytes({row = rows, col = cols, ax = g.size(ax), ay = g.size(ay)})));
}
template <class T, auto Layout>
void check_orders() {
  for (const cleave::grid& g : grids())
    for (const auto& [rows, cols] : {std::array<std::int64_t, 2>{16, 6}, {7, 5}, {3, 1}, {1, 4}, {0, 3}, {5, 0}}) {
      check_sum<T, Layout, running::forward>(g, rows, cols);
      check_sum<T, Layout, running::forward_exclusive>(g, rows, cols);
      check_sum<T, Layout, running::backward>(g, rows, cols);
      check_sum<T, Layout, running::backward_exclusive>(g, rows, cols);
    }
}
// Trap 1 of traps_test.cpp: sharded, also unevenly and with empty shards, exclusive and from the other end.
TEST(cumulative, along_one_axis) { check_orders<double, mesh(row / ax, col / ay)>(); }
TEST(cumulative, along_two_axes) { check_orders<double, mesh(row / ax / ay, col)>(); }
TEST(cumulative, along_two_axes_in_the_other_order) { check_orders<float, mesh(row / ay / ax, col)>(); }
TEST(cumulative, along_a_whole_dim) { check_orders<std::int64_t, mesh(row, col / ax)>(); }

TEST(cumulative, products_and_extrema) {
  using X = cleave::tensor<double, mesh(row / ax / ay, col)>;
  constexpr cleave::function most([](auto x) { return cumulative_max(x, row); });
  constexpr cleave::function least([](auto x) { return cumulative_min(x, row, running::backward); });
  constexpr cleave::function product([](auto x) { return cumulative_prod(x, row); });
  for (const cleave::grid& g : grids()) {
    X x(g, {11, 3}), y(g, {11, 3});
    x.fill_by([](const auto& at) { return std::sin(static_cast<double>(at[0] * 5 + at[1])); });
    const auto whole = x.to_global();
    y = most(x);
    EXPECT_EQ(y.to_global(), totals<double>(whole, 11, 3, running::forward, -1e300,
                                            [](double a, double b) { return std::fmax(a, b); }));
    y = least(x);
    EXPECT_EQ(y.to_global(), totals<double>(whole, 11, 3, running::backward, 1e300,
                                            [](double a, double b) { return std::fmin(a, b); }));
    y = product(x);
    const auto got = y.to_global(),
               wanted = totals<double>(whole, 11, 3, running::forward, 1.0, [](double a, double b) { return a * b; });
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-14);
  }
}

TEST(cumulative, the_gradient_of_a_sum_is_the_sum_from_the_other_end) {
  using X = cleave::tensor<double, mesh(row / ax, col / ay)>;
  constexpr cleave::function loss([](auto x) { return sum(cumulative_sum(x, row) * x); });
  for (const cleave::grid& g : grids()) {
    X x(g, {9, 4});
    x.fill_by([](const auto& at) { return static_cast<double>(at[0] * 3 + at[1]); });
    const auto slope = cleave::grad(loss)(x).make();
    const auto whole = x.to_global(), by = slope.to_global();
    // d/dx_k of sum_i x_i sum_{j<=i} x_j: all elements once, and x_k twice.
    for (std::int64_t j = 0; j < 4; ++j) {
      double all = 0;
      for (std::int64_t i = 0; i < 9; ++i) all += whole[static_cast<std::size_t>(i * 4 + j)];
      for (std::int64_t i = 0; i < 9; ++i)
        EXPECT_NEAR(by[static_cast<std::size_t>(i * 4 + j)], all + whole[static_cast<std::size_t>(i * 4 + j)], 1e-12);
    }
  }
}

} // namespace
