// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

// Slices sorted along divided and undivided dims on real ranks, against std::stable_sort: spread evenly, all equal, in
// order, reversed, with NaN, and in blocks that are uneven or empty.

namespace {

inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::mesh mesh{ax, ay};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"column"> column;

template <class T, auto Layout>
using tensor = cleave::tensor<T, Layout>;

std::vector<cleave::grid> grids() { return support::grids(mesh); }

/// What to sort.
enum class order_of { noise, equal, sorted, reversed, few, skewed };
constexpr order_of all_orders[] = {order_of::noise,    order_of::equal, order_of::sorted,
                                   order_of::reversed, order_of::few,   order_of::skewed};

double noise(std::int64_t i, std::int64_t j) {
  std::uint64_t x = static_cast<std::uint64_t>(i * 1000003 + j) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 31)) * 0xbf58476d1ce4e5b9u;
  return static_cast<double>((x ^ (x >> 29)) >> 40);
}
template <class T>
T element(order_of what, std::int64_t i, std::int64_t j) {
  double v = 0;
  switch (what) {
    case order_of::noise: v = std::fmod(noise(i, j), 100.0) - 50; break;
    case order_of::equal: v = 7; break;
    case order_of::sorted: v = static_cast<double>(i); break;
    case order_of::reversed: v = -static_cast<double>(i); break;
    case order_of::few: v = std::fmod(noise(i, j), 3.0); break;
    // One device has nearly all that is large.
    case order_of::skewed: v = i < 20 ? noise(i, j) : std::fmod(noise(i, j), 2.0); break;
  }
  if constexpr (std::is_floating_point_v<T>)
    if (what == order_of::noise && (i + j) % 11 == 3) return std::numeric_limits<T>::quiet_NaN();
  if constexpr (std::is_same_v<T, bool>) return std::fmod(std::abs(v), 2.0) >= 1;
  return static_cast<T>(v);
}

/// The slices of column j in order, by index.
template <class T>
std::vector<std::int64_t> places(order_of what, std::int64_t rows, std::int64_t j, bool descending) {
  std::vector<std::int64_t> at(static_cast<std::size_t>(rows));
  std::iota(at.begin(), at.end(), 0);
  const auto less = [](T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
    return a < b;
  };
  std::stable_sort(at.begin(), at.end(), [&](std::int64_t a, std::int64_t b) {
    const T x = element<T>(what, a, j), y = element<T>(what, b, j);
    return descending ? less(y, x) : less(x, y);
  });
  return at;
}

constexpr cleave::function sorted([](auto x) { return sort(x, row); });
constexpr cleave::function sorted_down([](auto x) { return sort(x, row, cleave::order::descending); });
constexpr cleave::function places_of([](auto x) { return argsort(x, row); });
constexpr cleave::function places_down([](auto x) { return argsort(x, row, cleave::order::descending); });

template <class T>
bool same(T a, T b) {
  return a == b || (a != a && b != b);
}

template <class T, auto Layout>
void check(const cleave::grid& g, std::int64_t rows, std::int64_t columns, bool row_first = true) {
  const auto extents = [&]() -> std::array<std::int64_t, 2> {
    return row_first ? std::array{rows, columns} : std::array{columns, rows};
  }();
  tensor<T, Layout> x(g, extents), up(g, extents), down(g, extents);
  tensor<int, Layout> from(g, extents), from_down(g, extents);
  for (order_of what : all_orders) {
    x.fill_by(
        [&](const auto& at) { return row_first ? element<T>(what, at[0], at[1]) : element<T>(what, at[1], at[0]); });
    up = sorted(x);
    down = sorted_down(x);
    from = places_of(x);
    from_down = places_down(x);
    const auto u = up.to_global(), d = down.to_global();
    const auto f = from.to_global(), fd = from_down.to_global();
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto rising = places<T>(what, rows, j, false), falling = places<T>(what, rows, j, true);
      for (std::int64_t i = 0; i < rows; ++i) {
        const auto at = static_cast<std::size_t>(row_first ? i * columns + j : j * rows + i);
        const auto r = rising[static_cast<std::size_t>(i)], e = falling[static_cast<std::size_t>(i)];
        ASSERT_TRUE(same<T>(u[at], element<T>(what, r, j))) << static_cast<int>(what) << " " << i << " " << j;
        ASSERT_TRUE(same<T>(d[at], element<T>(what, e, j))) << static_cast<int>(what) << " " << i << " " << j;
        ASSERT_EQ(f[at], r) << static_cast<int>(what) << " " << i << " " << j;
        ASSERT_EQ(fd[at], e) << static_cast<int>(what) << " " << i << " " << j;
      }
    }
  }
}

constexpr std::array<std::int64_t, 2> shapes[] = {{64, 5}, {1, 3}, {3, 2}, {7, 1}, {0, 4}, {5, 0}, {531, 3}};

TEST(sort, along_a_divided_dim) {
  for (const cleave::grid& g : grids())
    for (const auto& [rows, columns] : shapes) check<double, mesh(row / ax, column)>(g, rows, columns);
}
TEST(sort, along_a_dim_divided_over_two_axes) {
  for (const cleave::grid& g : grids())
    for (const auto& [rows, columns] : shapes) check<float, mesh(row / ay / ax, column)>(g, rows, columns);
}
TEST(sort, with_both_dims_divided) {
  for (const cleave::grid& g : grids())
    for (const auto& [rows, columns] : shapes) check<int, mesh(column / ay, row / ax)>(g, rows, columns, false);
}
TEST(sort, along_an_undivided_dim) {
  for (const cleave::grid& g : grids())
    for (const auto& [rows, columns] : shapes) check<std::int64_t, mesh(row, column / ax)>(g, rows, columns);
}
TEST(sort, of_predicates) {
  for (const cleave::grid& g : grids()) check<bool, mesh(row / ax, column)>(g, 37, 2);
}

// Evenly spread elements move about as many bytes as the price says: which device has the most is chance.
TEST(sort, charge_near_the_price) {
  using X = tensor<float, mesh(row / ax, column)>;
  constexpr auto plan = cleave::plan<X(X)>(sorted);
  for (const cleave::grid& g : grids()) {
    if (g.size(ax) != support::ranks()) continue;
    X x(g, {4096, 32}), y(g, {4096, 32});
    x.fill_by([](const auto& at) { return static_cast<float>(noise(at[0], at[1])); });
    y = sorted(x);
    support::reset_charges();
    y = sorted(x);
    const std::int64_t priced = plan.bytes({row = 4096, column = 32, ax = g.size(ax), ay = g.size(ay)});
    const std::int64_t charged = support::over_ranks(support::charged_bytes());
    EXPECT_LE(charged, priced * 103 / 100);
    EXPECT_GE(charged, priced * 9 / 10);
  }
}

constexpr cleave::function weighted([](auto x, auto w) { return sum(sort(x, row) * w); });
TEST(sort, gradient_goes_to_where_elements_were) {
  using X = tensor<double, mesh(row / ax, column)>;
  constexpr cleave::function slope([](auto x, auto w) { return cleave::grad(weighted)(x, w); });
  for (const cleave::grid& g : grids())
    for (const auto& [rows, columns] : shapes) {
      X x(g, {rows, columns}), w(g, {rows, columns}), dx(g, {rows, columns});
      x.fill_by([](const auto& at) { return element<double>(order_of::few, at[0], at[1]); });
      w.fill_by([](const auto& at) { return noise(at[1], at[0]); });
      dx = slope(x, w);
      const auto got = dx.to_global();
      for (std::int64_t j = 0; j < columns; ++j) {
        const auto from = places<double>(order_of::few, rows, j, false);
        for (std::int64_t i = 0; i < rows; ++i)
          ASSERT_EQ(got[static_cast<std::size_t>(from[static_cast<std::size_t>(i)] * columns + j)], noise(j, i));
      }
    }
}

// What argsort gives, looked up: the sorted elements.
constexpr cleave::function looked_up([](auto x) { return take_along(x, argsort(x, row), row); });
TEST(sort, places_are_looked_up) {
  using X = tensor<double, mesh(row / ax, column)>;
  for (const cleave::grid& g : grids()) {
    X x(g, {41, 3}), y(g, {41, 3}), z(g, {41, 3});
    x.fill_by([](const auto& at) { return noise(at[0], at[1]); });
    y = sorted(x);
    z = looked_up(x);
    ASSERT_EQ(y.to_global(), z.to_global());
  }
}

} // namespace
