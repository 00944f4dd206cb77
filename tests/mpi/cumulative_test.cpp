// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <cmath>

// Running totals along dims that are sharded, in every order of the axes, unevenly and with empty blocks.

namespace CLEAVE_SOURCE {

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

/// The derivative of the sum of all running products, and that of its inner product with x, which is of second order:
/// products of all other elements, exact in numbers of 16 bits, and with up to three zeros in a slice.
template <class T, auto Layout, running Order>
void check_product(const cleave::grid& g, std::int64_t rows, std::int64_t cols) {
  using X = cleave::tensor<T, Layout>;
  constexpr cleave::function loss([](auto x) { return sum(cumulative_prod(x, row, Order)); });
  constexpr cleave::function slope = cleave::grad(loss);
  constexpr cleave::function curvature = cleave::grad(
      cleave::function([](auto x) { return sum(cleave::grad(decltype(loss){})(x) * x); }));
  X x(g, {rows, cols}), first(g, {rows, cols}), second(g, {rows, cols});
  x.fill_by([](const auto& at) {
    const auto k = at[0] * 5 + at[1];
    return T(at[0] % 4 == 1 && at[0] / 4 < at[1] ? 0.0f : k % 7 == 0 ? 2.0f : k % 3 == 0 ? -1.0f : 1.0f);
  });
  first = slope(x);
  support::reset_charges();
  first = slope(x);
  EXPECT_EQ(support::over_ranks(support::charged_bytes()),
            (cleave::plan<X(X)>(slope).bytes({row = rows, col = cols, ax = g.size(ax), ay = g.size(ay)})));
  second = curvature(x);
  const auto whole = x.to_global(), by = first.to_global(), twice = second.to_global();
  const bool backwards = Order == running::backward || Order == running::backward_exclusive;
  const bool exclusive = Order == running::forward_exclusive || Order == running::backward_exclusive;
  for (std::int64_t j = 0; j < cols; ++j) {
    const auto at = [&](std::int64_t k) { return static_cast<std::size_t>((backwards ? rows - 1 - k : k) * cols + j); };
    // Of the elements before an end, but for k and l.
    const auto others = [&](std::int64_t end, std::int64_t k, std::int64_t l) {
      double product = 1;
      for (std::int64_t i = 0; i < end; ++i)
        if (i != k && i != l) product *= static_cast<double>(whole[at(i)]);
      return product;
    };
    for (std::int64_t k = 0; k < rows; ++k) {
      double wanted = 0, wanted_twice = 0;
      for (std::int64_t end = k + 1; end < rows + (exclusive ? 0 : 1); ++end) {
        wanted += others(end, k, k);
        // Of x times the slope: the slope itself, and its derivative along x.
        wanted_twice += others(end, k, k);
        for (std::int64_t l = 0; l < end; ++l)
          if (l != k) wanted_twice += static_cast<double>(whole[at(l)]) * others(end, k, l);
      }
      EXPECT_EQ(static_cast<double>(by[at(k)]), wanted) << k << ", " << j << " of " << rows;
      EXPECT_EQ(static_cast<double>(twice[at(k)]), wanted_twice) << k << ", " << j << " of " << rows;
    }
  }
}
template <class T, auto Layout>
void check_products() {
  for (const cleave::grid& g : grids())
    for (const auto& [rows, cols] : {std::array<std::int64_t, 2>{13, 4}, {7, 5}, {1, 2}, {0, 3}}) {
      check_product<T, Layout, running::forward>(g, rows, cols);
      check_product<T, Layout, running::backward_exclusive>(g, rows, cols);
    }
}
TEST(cumulative, derivatives_of_products_along_one_axis) { check_products<double, mesh(row / ay, col / ax)>(); }
TEST(cumulative, derivatives_of_products_along_two_axes) { check_products<float, mesh(row / ax / ay, col)>(); }
TEST(cumulative, derivatives_of_products_of_16_bits) { check_products<cleave::half, mesh(row / ax / ay, col)>(); }

} // namespace CLEAVE_SOURCE
