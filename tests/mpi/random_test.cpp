// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/simulate/scalar.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

// Random numbers and the reductions made of others, on tensors: the same bits on every mesh and layout as the
// definition gives on one device, without communication.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::mesh line_mesh{data};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"deep"> deep;

using cleave::tensor;

std::vector<cleave::grid> grids() { return support::grids(mesh); }

constexpr std::int64_t rows = 13, columns = 10, depth = 3;
constexpr std::uint32_t key = 4000000123u;

double number(cleave::op code, cleave::element e, std::uint64_t k, std::int64_t i, std::int64_t j) {
  return cleave::simulation::random_number(code, e, k, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(j));
}
/// The elements of a matrix, row by row, whatever the order in which the tensor has its dims.
template <class Tensor>
std::vector<double> by_rows(const Tensor& x, bool turned) {
  const auto got = x.to_global();
  std::vector<double> all;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      all.push_back(static_cast<double>(got[static_cast<std::size_t>(turned ? j * rows + i : i * columns + j)]));
  return all;
}

/// Every distribution into tensors of one layout, on one grid.
template <auto Layout, bool Turned = false>
void check_layout(const cleave::grid& g) {
  const std::vector<std::int64_t> extents = Turned ? std::vector{columns, rows} : std::vector{rows, columns};
  tensor<std::uint32_t, Layout> bits(g, extents);
  tensor<float, Layout> u(g, extents), z(g, extents), kept(g, extents), x(g, extents);
  tensor<double, Layout> long_u(g, extents), long_z(g, extents);
  tensor<cleave::bfloat16, Layout> short_u(g, extents);
  tensor<bool, Layout> coin(g, extents);
  x.fill(3);
  // The first calls agree on their memory; the second ones communicate nothing.
  for (int round = 0; round < 2; ++round) {
    support::reset_charges();
    bits = random_bits(key, row, col);
    u = cleave::uniform(key, row, col);
    long_u = cleave::uniform<double>(key, row, col);
    short_u = cleave::uniform<cleave::bfloat16>(key, row, col);
    z = cleave::normal<float>(cleave::fold_in(key, 3u), row, col);
    long_z = cleave::normal<double>(key, row, col);
    coin = cleave::bernoulli(key, 0.25, row, col);
    // Every element by its row and column, times what it was drawn beside.
    if constexpr (Turned) kept = x * cleave::uniform(key, row, col) + 1;
    else kept = x * uniform_like(x, key) + 1;
  }
  EXPECT_EQ(support::over_ranks(support::charged_bytes()), 0);
  const auto all_bits = by_rows(bits, Turned), all_u = by_rows(u, Turned), all_long = by_rows(long_u, Turned),
             all_short = by_rows(short_u, Turned);
  const auto all_z = by_rows(z, Turned), all_long_z = by_rows(long_z, Turned), all_coin = by_rows(coin, Turned),
             all_kept = by_rows(kept, Turned);
  const std::uint64_t row_of_key = 4503599627370496u + 3u;
  const auto folded_word = [&](std::int64_t column) {
    return static_cast<std::uint64_t>(
        number(cleave::op::random, cleave::element::u32, key, static_cast<std::int64_t>(row_of_key), column));
  };
  const std::uint64_t folded = (folded_word(0) >> 12 << 32) + folded_word(1);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto at = static_cast<std::size_t>(i * columns + j);
      const double word = number(cleave::op::random, cleave::element::u32, key, i, j),
                   f = number(cleave::op::random, cleave::element::f32, key, i, j);
      ASSERT_EQ(all_bits[at], word);
      ASSERT_EQ(all_u[at], f);
      ASSERT_EQ(all_long[at], number(cleave::op::random, cleave::element::f64, key, i, j));
      ASSERT_EQ(all_short[at], number(cleave::op::random, cleave::element::bf16, key, i, j));
      ASSERT_NEAR(all_z[at], number(cleave::op::normal, cleave::element::f32, folded, i, j), 3e-6);
      ASSERT_NEAR(all_long_z[at], number(cleave::op::normal, cleave::element::f64, key, i, j), 1e-13);
      ASSERT_EQ(all_coin[at], word < 0.25 * 4294967296.0);
      ASSERT_NEAR(all_kept[at], 3 * f + 1, 1e-6);
    }
}

// Trap 10 of traps_test.cpp.
TEST(random, the_same_bits_for_every_mesh_and_layout) {
  for (const cleave::grid& g : grids()) {
    check_layout<mesh(row, col)>(g);
    check_layout<mesh(row / data, col / model)>(g);
    check_layout<mesh(row / data / model, col)>(g);
    check_layout<mesh(row, col / model / data)>(g);
    check_layout<mesh(col / data, row / model), true>(g);
  }
  const cleave::grid line(line_mesh, MPI_COMM_WORLD, {support::ranks()});
  check_layout<line_mesh(row / data, col)>(line);
  check_layout<line_mesh(row, col / data)>(line);
}

TEST(random, normal_numbers_do_not_depend_on_the_layout) {
  for (const cleave::grid& g : grids()) {
    tensor<float, mesh(row, col, deep)> whole(g, {rows, columns, depth});
    tensor<float, mesh(row / data, deep, col / model)> sharded(g, {rows, depth, columns});
    whole = cleave::normal(key, row, col, deep);
    sharded = cleave::normal(key, row, col, deep);
    const auto a = whole.to_global(), b = sharded.to_global();
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j)
        for (std::int64_t k = 0; k < depth; ++k) {
          ASSERT_EQ(a[static_cast<std::size_t>((i * columns + j) * depth + k)],
                    b[static_cast<std::size_t>((i * depth + k) * columns + j)]);
          ASSERT_NEAR(static_cast<double>(a[static_cast<std::size_t>((i * columns + j) * depth + k)]),
                      number(cleave::op::normal, cleave::element::f32, key, i * columns + j, k), 3e-6);
        }
  }
}

constexpr cleave::function drop([](auto x, auto step) { return dropout(x, 0.4, fold_in(7, step)); });
constexpr cleave::function squares([](auto x, auto step) { return sum(drop(x * x, step)); });

TEST(random, dropout_and_its_gradient) {
  using X = tensor<double, mesh(row / data, col / model)>;
  using Y = tensor<double, mesh(row, col / data)>;
  static_assert(cleave::plan<X(X, std::uint32_t)>(drop).collectives() == 0);
  static_assert(cleave::plan<X(X, std::uint32_t)>(cleave::grad(squares)).collectives() == 0);
  for (const cleave::grid& g : grids()) {
    X x(g, {rows, columns}), y(g, {rows, columns}), slope(g, {rows, columns});
    Y other(g, {rows, columns}), again(g, {rows, columns});
    const auto wave = [](const auto& at) { return 1.5 + std::sin(static_cast<double>(at[0] * 7 + at[1])); };
    x.fill_by(wave);
    other.fill_by(wave);
    std::size_t dropped_before = 0;
    for (std::uint32_t step = 0; step < 3; ++step) {
      y = drop(x, step);
      slope = cleave::grad(squares)(x, step);
      again = cleave::dropout(other, 0.4, cleave::fold_in(7, step));
      const auto at = x.to_global(), got = y.to_global(), by = slope.to_global(), same = again.to_global();
      std::size_t dropped = 0;
      for (std::size_t i = 0; i < at.size(); ++i) {
        dropped += got[i] == 0;
        ASSERT_NEAR(got[i], got[i] == 0 ? 0 : at[i] / 0.6, 1e-12);
        ASSERT_NEAR(by[i], got[i] == 0 ? 0 : 2 * at[i] / 0.6, 1e-12);
        ASSERT_NEAR(same[i], got[i], 1e-12);
      }
      EXPECT_GT(dropped, at.size() / 5);
      EXPECT_LT(dropped, at.size() * 3 / 5);
      dropped_before += dropped;
    }
    EXPECT_GT(dropped_before, 0u);
  }
}

TEST(random, reductions_made_of_others) {
  using X = tensor<float, mesh(row / data, col / model)>;
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const cleave::grid& g : grids()) {
    X x(g, {rows, columns});
    tensor<int, mesh(col / model)> most(g, {columns}), least(g, {columns});
    tensor<int, mesh(row / model)> along(g, {rows});
    tensor<bool, mesh(row)> some(g, {rows}), every(g, {rows});
    tensor<float, mesh(col)> product(g, {columns}), middle(g, {columns}), spread(g, {columns});
    const auto value = [&](std::int64_t i, std::int64_t j) {
      return j == 4 && i > 5 ? nan : static_cast<float>((i * 5 + j * 3) % 4) + 1;
    };
    x.fill_by([&](const auto& at) { return value(at[0], at[1]); });
    most = argmax(x, row);
    least = argmin(x, row);
    along = argmax(x, col);
    some = any(x > 3, col);
    every = all(x < 4, col);
    product = prod(x, row);
    moments(x, row).into(middle, spread);
    const auto most_at = most.to_global(), least_at = least.to_global(), along_at = along.to_global();
    const auto some_at = some.to_global(), every_at = every.to_global();
    const auto product_at = product.to_global(), middle_at = middle.to_global(), spread_at = spread.to_global();
    for (std::int64_t j = 0; j < columns; ++j) {
      int high = 0, low = 0;
      double total = 0, off = 0, times = 1;
      for (std::int64_t i = 0; i < rows; ++i) {
        if (value(i, j) > value(high, j)) high = static_cast<int>(i);
        if (value(i, j) < value(low, j)) low = static_cast<int>(i);
        total += static_cast<double>(value(i, j));
        times *= static_cast<double>(value(i, j));
      }
      for (std::int64_t i = 0; i < rows; ++i)
        off += std::pow(static_cast<double>(value(i, j)) - total / rows, 2) / rows;
      const auto at = static_cast<std::size_t>(j);
      EXPECT_EQ(most_at[at], j == 4 ? 6 : high);
      EXPECT_EQ(least_at[at], j == 4 ? 6 : low);
      if (j == 4) {
        EXPECT_TRUE(std::isnan(product_at[at]) && std::isnan(middle_at[at]) && std::isnan(spread_at[at]));
        continue;
      }
      EXPECT_NEAR(static_cast<double>(product_at[at]), times, 1e-3);
      EXPECT_NEAR(static_cast<double>(middle_at[at]), total / rows, 1e-5);
      EXPECT_NEAR(static_cast<double>(spread_at[at]), off, 1e-5);
    }
    for (std::int64_t i = 0; i < rows; ++i) {
      int high = 0;
      bool any_of = false, all_of = true;
      for (std::int64_t j = 0; j < columns; ++j) {
        if (!std::isnan(value(i, high)) && !(value(i, j) <= value(i, high))) high = static_cast<int>(j);
        any_of = any_of || value(i, j) > 3;
        all_of = all_of && value(i, j) < 4;
      }
      const auto at = static_cast<std::size_t>(i);
      EXPECT_EQ(along_at[at], high);
      EXPECT_EQ(some_at[at], any_of);
      EXPECT_EQ(every_at[at], all_of);
    }
  }
}

} // namespace CLEAVE_SOURCE
