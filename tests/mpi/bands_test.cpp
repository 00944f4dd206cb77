// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

// Steps over the same rows that run a band of rows at a time. In checked mode every step runs on its own, so the
// results of both have the same bits.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"ranks"> line;
inline constexpr cleave::mesh mesh{line};
inline constexpr cleave::dim<"head"> head;
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;

using matrix = cleave::tensor<float, mesh(row / line, col)>;
using wide_matrix = cleave::tensor<double, mesh(row / line, col)>;
using stack = cleave::tensor<float, mesh(head, row / line, col)>;
using column = cleave::tensor<float, mesh(row / line)>;
using bias = cleave::tensor<float, mesh(col)>;

/// Enough rows of a rank for several bands, and columns that are no whole number of blocks.
constexpr std::int64_t rows_of_a_rank = 300, cols = 2051;

cleave::grid grid_of_all() { return cleave::grid(mesh, MPI_COMM_WORLD, {support::ranks()}); }
float x_at(std::int64_t i) { return 4 * std::sin(0.37f * static_cast<float>(i % 9973)); }
template <class Tensor>
void fill(const Tensor& t) {
  t.fill_by([](const auto& at) {
    std::int64_t flat = 0;
    for (const auto i : at) flat = flat * 4099 + static_cast<std::int64_t>(i);
    return x_at(flat);
  });
}
/// How many bound groups of steps a plan has at these extents.
template <class Plan>
std::size_t groups_of(const cleave::grid& g, const Plan& plan, std::initializer_list<cleave::named_size> named) {
  cleave::executor p(g.state(), plan.sized(named), cleave::runnable_of<typename Plan::plan_type>);
  return p.state().groups.size();
}
/// Runs a call in bands and step by step, which must give the same bits.
template <class Call, class... Results>
void expect_same_bits(const cleave::grid& g, const Call& call, const Results&... results) {
  call();
  const std::tuple in_bands{support::elements(results)...};
  cleave::checks calls;
  calls.calls = true;
  g.check(calls);
  call();
  g.check({});
  const std::tuple by_steps{support::elements(results)...};
  EXPECT_TRUE(in_bands == by_steps);
}

constexpr cleave::function soft([](auto x) { return softmax(x, col); });
constexpr cleave::function normal([](auto x) {
  const auto off = x - mean(x, col);
  return off * rsqrt(mean(off * off, col) + 1e-5);
});
constexpr cleave::function with_bias([](auto x, auto b) { return softmax(x + b, col) * b; });
constexpr cleave::function entropy([](auto x, auto b) { return mean(logsumexp(x + b, col)); });
constexpr cleave::function slope(cleave::grad(entropy));
// Each row of the result needs all rows of the first sum.
constexpr cleave::function across([](auto x) { return x * softmax(x - sum(x, row) * 1e-3, col); });
constexpr cleave::function again([](auto x) {
  return cleave::repeat_times(3, x, [](auto y) { return y + softmax(y, col) * 0.5; });
});

TEST(bands, softmax_and_norm) {
  const cleave::grid g = grid_of_all();
  const std::int64_t rows = rows_of_a_rank * support::ranks();
  matrix x(g, {rows, cols}), y(g, {rows, cols});
  fill(x);
  expect_same_bits(g, [&] { y = soft(x); }, y);
  const std::vector<float> from = support::elements(x), got = support::elements(y);
  for (std::int64_t i = 0; i < rows_of_a_rank; ++i) {
    double total = 0;
    for (std::int64_t j = 0; j < cols; ++j)
      total += std::exp(static_cast<double>(from[static_cast<std::size_t>(i * cols + j)]));
    for (std::int64_t j = 0; j < cols; j += 97) {
      const auto k = static_cast<std::size_t>(i * cols + j);
      ASSERT_NEAR(got[k], std::exp(static_cast<double>(from[k])) / total, 1e-7);
    }
  }
  expect_same_bits(g, [&] { y = normal(x); }, y);
}

TEST(bands, in_the_memory_of_an_argument) {
  const cleave::grid g = grid_of_all();
  const std::int64_t rows = rows_of_a_rank * support::ranks();
  matrix x(g, {rows, cols}), y(g, {rows, cols});
  fill(x);
  y = soft(x);
  const std::vector<float> apart = support::elements(y);
  x = soft(x);
  EXPECT_EQ(apart, support::elements(x));
}

TEST(bands, rows_of_several_dims) {
  const cleave::grid g = grid_of_all();
  const std::int64_t rows = 60 * support::ranks();
  stack x(g, {5, rows, cols}), y(g, {5, rows, cols});
  fill(x);
  expect_same_bits(g, [&] { y = soft(x); }, y);
  expect_same_bits(g, [&] { y = normal(x); }, y);
}

TEST(bands, what_all_rows_read) {
  const cleave::grid g = grid_of_all();
  const std::int64_t rows = rows_of_a_rank * support::ranks();
  matrix x(g, {rows, cols}), y(g, {rows, cols});
  bias b(g, {cols}), db(g, {cols});
  fill(x);
  fill(b);
  expect_same_bits(g, [&] { y = with_bias(x, b); }, y);
  expect_same_bits(g, [&] { y = slope(x, b); }, y);
  expect_same_bits(g, [&] { y = across(x); }, y);
}

TEST(bands, inside_a_loop) {
  const cleave::grid g = grid_of_all();
  const std::int64_t rows = rows_of_a_rank * support::ranks();
  matrix x(g, {rows, cols}), y(g, {rows, cols});
  fill(x);
  expect_same_bits(g, [&] { y = again(x); }, y);
}

template <class U>
constexpr auto swept(const U& u) {
  const auto next = 0.25 * (shift(u, row, 1) + shift(u, row, -1) + shift(u, col, 1) + shift(u, col, -1));
  return cleave::interior(next, u, 1, row, col);
}
// A stencil and what is reduced of its result and its argument: to one number, to several, and for each row.
constexpr cleave::function residual([](auto u) {
  const auto next = swept(u);
  return std::tuple(next, max(abs(next - u)));
});
constexpr cleave::function residuals([](auto u) {
  const auto next = swept(u);
  const auto off = next - u;
  return std::tuple(next, max(abs(off)), sum(off * off), sum(next * u), sum(off, col));
});
constexpr cleave::function swept_and_summed([](auto u) {
  const auto next = swept(u);
  return std::tuple(max(next), next);
});
constexpr cleave::function until_still([](auto u) {
  return cleave::repeat_until(
      std::tuple(u, max(abs(u))),
      [](auto state) {
        const auto now = std::get<0>(state), next = swept(now);
        return std::tuple(next, max(abs(next - now)));
      },
      [=](auto state) { return std::get<1>(state) < 0.5f; }, 7);
});
using number = cleave::tensor<float, mesh()>;

TEST(bands, stencil_and_its_residual) {
  const cleave::grid g = grid_of_all();
  const std::int64_t rows = rows_of_a_rank * support::ranks();
  const auto sizes = {row = rows, col = cols, line = support::ranks()};
  EXPECT_EQ(groups_of(g, cleave::plan<std::tuple<matrix, number>(matrix)>(residual), sizes), 1u);
  EXPECT_EQ(groups_of(g, cleave::plan<std::tuple<matrix, number>(matrix)>(until_still), sizes), 1u);
  matrix x(g, {rows, cols}), y(g, {rows, cols}), z(g, {rows, cols});
  number largest(g, {}), squares(g, {}), product(g, {});
  column of_rows(g, {rows});
  fill(x);
  expect_same_bits(g, [&] { residual(x).into(y, largest); }, y, largest);
  expect_same_bits(
      g, [&] { residuals(x).into(y, largest, squares, product, of_rows); }, y, largest, squares, product, of_rows);
  expect_same_bits(g, [&] { until_still(x).into(y, largest); }, y, largest);
  // In the memory of the argument.
  residual(x).into(y, largest);
  z = x;
  residual(z).into(z, squares);
  EXPECT_EQ(support::elements(y), support::elements(z));
  EXPECT_EQ(largest.item(), squares.item());
  // Only the stencil reads the argument, and its result takes that place.
  swept_and_summed(x).into(squares, y);
  z = x;
  swept_and_summed(z).into(product, z);
  EXPECT_EQ(support::elements(y), support::elements(z));
  EXPECT_EQ(squares.item(), product.item());
}

// A number that all rows are reduced to, and a step after it that writes what it reads: in the memory of the argument,
// and where a value takes the memory of another.
constexpr cleave::function cubes([](auto x) { return std::tuple(sum(x * x * x), 3 * x * x); });
constexpr cleave::function cubes_of_totals([](auto x) {
  const auto total = cleave::cumulative_sum(x, col);
  return std::tuple(sum(total * total * total), cleave::cumulative_sum(3 * total * total, col));
});
// The sum of exponentials is rescaled where a larger value comes, a block at a time: the blocks are those of one step.
constexpr cleave::function of_all([](auto x) {
  const auto y = tanh(x) + x * 1.5f - 12.3735f;
  return std::tuple(y, logsumexp(y, row, col), sum(y, col));
});
TEST(bands, logsumexp_of_all_rows) {
  const cleave::grid g = grid_of_all();
  cleave::tensor<float, mesh(row, col)> x(g, {1000, 1000}), y(g, {1000, 1000});
  cleave::tensor<float, mesh(row)> w(g, {1000});
  number s(g, {});
  for (int k = 0; k < 60; ++k) {
    x.fill_by([&](const auto& at) {
      const auto i = static_cast<int>(at[0] * 1000 + at[1]);
      const double within = std::sin(i * (0.37 + 0.01 * k)) * 1.5 + (i - 480000) * 0.0001 * (k % 7);
      return i < 480000 || i >= 520000 ? -60.0f : static_cast<float>(within);
    });
    expect_same_bits(g, [&] { of_all(x).into(y, s, w); }, s);
  }
}

TEST(bands, what_is_reduced_is_written_afterwards) {
  const cleave::grid g = grid_of_all();
  for (const std::int64_t rows : {rows_of_a_rank * support::ranks(), std::int64_t{2} * support::ranks() + 1})
    for (const std::int64_t columns : {cols, std::int64_t{300001}}) {
      if (rows > 100 && columns > cols) continue;
      matrix x(g, {rows, columns}), y(g, {rows, columns});
      number apart(g, {}), in_place(g, {});
      // Small integers, of which all sums are exact.
      x.fill_by([](const auto& at) { return static_cast<float>((at[0] * 7 + at[1] * 3) % 5 - 2); });
      cubes(x).into(apart, y);
      expect_same_bits(g, [&] { cubes_of_totals(x).into(in_place, y); }, in_place, y);
      cubes(x).into(apart, y);
      cubes(x).into(in_place, x);
      EXPECT_EQ(apart.item(), in_place.item());
      EXPECT_EQ(support::elements(x), support::elements(y));
    }
}

// Two stencils in one band. The first one waits for the halo that the second one reads farther, or for both halos,
// which share messages. Of one element type they would be one pass.
constexpr cleave::function near_and_far([](auto u) {
  return std::tuple(shift(u, row, 1) + u, cleave::cast<double>(shift(u, row, 2) + shift(u, row, -2) * u));
});
constexpr cleave::function near_and_far_of_two([](auto u, auto v) {
  return std::tuple(shift(u, row, 1) + v, cleave::cast<double>(shift(v, row, 2) + shift(v, row, -2) * u));
});
TEST(bands, stencils_of_different_widths) {
  const cleave::grid g = grid_of_all();
  const std::int64_t rows = rows_of_a_rank * support::ranks();
  constexpr auto of_two = cleave::plan<std::tuple<matrix, wide_matrix>(matrix, matrix)>(near_and_far_of_two);
  static_assert(of_two.collectives() == 1);
  EXPECT_EQ(groups_of(g, of_two, {row = rows, col = cols, line = support::ranks()}), 1u);
  matrix x(g, {rows, cols}), z(g, {rows, cols}), near(g, {rows, cols});
  wide_matrix far(g, {rows, cols});
  for (int times = 0; times < 3; ++times) {
    x.fill_by([&](const auto& at) { return x_at(at[0] * 71 + at[1] + 1000 * times); });
    z.fill_by([&](const auto& at) { return x_at(at[0] * 31 + at[1] + 1500 * times); });
    near_and_far(x).into(near, far);
    const auto first = support::elements(near);
    const auto second = support::elements(far);
    expect_same_bits(g, [&] { near_and_far(x).into(near, far); }, near, far);
    EXPECT_EQ(first, support::elements(near));
    EXPECT_EQ(second, support::elements(far));
    near_and_far_of_two(x, z).into(near, far);
    const auto third = support::elements(near);
    const auto fourth = support::elements(far);
    expect_same_bits(g, [&] { near_and_far_of_two(x, z).into(near, far); }, near, far);
    EXPECT_EQ(third, support::elements(near));
    EXPECT_EQ(fourth, support::elements(far));
  }
}

TEST(bands, only_what_does_not_fit_in_the_caches) {
  const cleave::grid g = grid_of_all();
  constexpr auto plan = cleave::plan<matrix(matrix)>(soft);
  EXPECT_EQ(groups_of(g, plan, {row = rows_of_a_rank * support::ranks(), col = cols, line = support::ranks()}), 1u);
  EXPECT_EQ(groups_of(g, plan, {row = 8 * support::ranks(), col = cols, line = support::ranks()}), 0u);
  // A row is larger than the caches.
  EXPECT_EQ(groups_of(g, plan, {row = 8 * support::ranks(), col = 1 << 20, line = support::ranks()}), 0u);
}

} // namespace CLEAVE_SOURCE
