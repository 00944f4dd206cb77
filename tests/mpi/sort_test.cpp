// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

// Slices sorted along sharded and unsharded dims on real ranks, against std::stable_sort: spread evenly, all equal, in
// order, reversed, with NaN, and in blocks that are uneven or empty.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::mesh mesh{ax, ay};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"column"> column;

using cleave::tensor;

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

inline constexpr cleave::dim<"asked"> asked;
constexpr cleave::function positions([](auto x, auto v) { return searchsorted(x, v, row); });
constexpr cleave::function positions_after([](auto x, auto v) { return searchsorted(x, v, row, cleave::side::right); });

/// The position of v in column j of rows in order, by counting.
template <class T>
int position_of(order_of what, std::int64_t rows, std::int64_t j, T v, bool after) {
  const auto less = [](T a, T b) { return b != b ? a == a : a < b; };
  int count = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    const T e = element<T>(what, i, j);
    count += after ? !less(v, e) : less(e, v);
  }
  return count;
}

template <class T, auto Sorted, auto Values, auto Result>
void check_positions(const cleave::grid& g, std::int64_t rows, std::int64_t columns) {
  tensor<T, Sorted> x(g, {rows, columns});
  tensor<T, Values> v(g, {9, columns});
  tensor<int, Result> left(g, {9, columns}), right(g, {9, columns});
  const auto value_at = [&](std::int64_t k, std::int64_t j) {
    // Elements that are there, and some that are not.
    return rows > 0 && k % 3 != 0 ? element<T>(order_of::noise, k * 5 % rows, j)
                                  : static_cast<T>(element<T>(order_of::noise, k, j) + T(1));
  };
  v.fill_by([&](const auto& at) { return value_at(at[0], at[1]); });
  for (order_of what : all_orders) {
    x.fill_by([&](const auto& at) { return element<T>(what, at[0], at[1]); });
    x = sort(x, row);
    left = positions(x, v);
    right = positions_after(x, v);
    const auto l = left.to_global(), r = right.to_global();
    left = searchsorted(x, v, row); // as a statement
    ASSERT_EQ(left.to_global(), l);
    for (std::int64_t k = 0; k < 9; ++k)
      for (std::int64_t j = 0; j < columns; ++j) {
        const auto at = static_cast<std::size_t>(k * columns + j);
        ASSERT_EQ(l[at], position_of<T>(what, rows, j, value_at(k, j), false)) << static_cast<int>(what) << " " << k;
        ASSERT_EQ(r[at], position_of<T>(what, rows, j, value_at(k, j), true)) << static_cast<int>(what) << " " << k;
      }
  }
}
TEST(searchsorted, in_sharded_and_whole_slices) {
  for (const cleave::grid& g : grids())
    for (const auto& [rows, columns] : shapes) {
      check_positions<double, mesh(row / ax, column), mesh(asked, column), mesh(asked, column)>(g, rows, columns);
      check_positions<float, mesh(row / ay / ax, column), mesh(asked / ax, column / ay), mesh(asked, column / ay)>(
          g, rows, columns);
      check_positions<int, mesh(row, column), mesh(asked / ax, column), mesh(asked / ax, column)>(g, rows, columns);
    }
}
// Counts are reduced: as many bytes as values, however many elements are sorted. A literal is one value.
constexpr auto positions_in_many = cleave::with(positions, cleave::expect<row, 1 << 20>{}, cleave::expect<asked, 64>{});
TEST(searchsorted, moves_counts) {
  using X = tensor<float, mesh(row / ax)>;
  using V = tensor<float, mesh(asked)>;
  using P = tensor<int, mesh(asked)>;
  constexpr auto plan = cleave::plan<P(X, V)>(positions_in_many);
  static_assert(plan.collectives() == 1 && plan.count(cleave::kind::all_reduce) == 1);
  static_assert(plan.bytes({row = 1 << 20, asked = 64, ax = 4, ay = 1}) == 2 * 3 * 64 * 4 / 4);
  // A sharded result takes one reduce-scatter.
  constexpr auto scattered = cleave::plan<tensor<int, mesh(asked / ax)>(X, V)>(positions_in_many);
  static_assert(scattered.collectives() == 1 && scattered.count(cleave::kind::reduce_scatter) == 1);
  for (const cleave::grid& g : grids()) {
    X x(g, {4096});
    V v(g, {64});
    P p(g, {64});
    x.fill_by([](const auto& at) { return static_cast<float>(at[0] / 2); });
    v.fill_by([](const auto& at) { return static_cast<float>(at[0]); });
    p = positions_in_many(x, v);
    support::reset_charges();
    p = positions_in_many(x, v);
    EXPECT_EQ(support::over_ranks(support::charged_bytes()),
              plan.bytes({row = 4096, asked = 64, ax = g.size(ax), ay = g.size(ay)}));
    const auto got = p.to_global();
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], 2 * static_cast<int>(i));
    cleave::tensor<int, mesh()> one(g, {});
    one = searchsorted(x, 10.0f, row, cleave::constant<cleave::side::right>{});
    EXPECT_EQ(one.to_global().at(0), 22);
  }
}

} // namespace CLEAVE_SOURCE
