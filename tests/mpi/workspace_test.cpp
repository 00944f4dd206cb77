// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/study/seconds.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

// All plans on a grid share one workspace: as large as the largest of them needs, kept between calls, and moved when a
// larger plan comes.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ax};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;

using Rows = cleave::tensor<double, mesh(row / ax, col)>;

// An exchange of halos, with a stored intermediate.
constexpr cleave::function smooth([](auto u) {
  const auto v = cleave::reshard(exp(u), mesh(row / ax, col));
  return shift(v, row, 1) + shift(v, row, -1) + shift(v, col, 1);
});
// Moves the whole array there and back.
constexpr cleave::function turn([](auto u) {
  const auto turned = cleave::reshard(u + 1.0, mesh(row, col / ax));
  return cleave::reshard(cleave::cumulative_sum(turned, row), mesh(row / ax, col));
});
constexpr auto smooth_plan = cleave::plan<Rows(Rows)>(smooth);
constexpr auto turn_plan = cleave::plan<Rows(Rows)>(turn);

double start(std::int64_t i, std::int64_t j) { return 0.01 * static_cast<double>((7 * i + 3 * j) % 31); }
Rows field(const cleave::grid& g, std::int64_t rows, std::int64_t cols) {
  Rows u(g, {rows, cols});
  u.fill_by([](const auto& at) { return start(at[0], at[1]); });
  return u;
}
void expect_smooth(const Rows& got, std::int64_t rows, std::int64_t cols) {
  const auto e = [&](std::int64_t i, std::int64_t j) {
    return i < 0 || i >= rows || j < 0 || j >= cols ? 0 : std::exp(start(i, j));
  };
  const auto all = got.to_global();
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j)
      EXPECT_NEAR(all[static_cast<std::size_t>(i * cols + j)], e(i - 1, j) + e(i + 1, j) + e(i, j - 1), 1e-13);
}
void expect_turned(const Rows& got, std::int64_t rows, std::int64_t cols) {
  const auto all = got.to_global();
  for (std::int64_t j = 0; j < cols; ++j) {
    double sum = 0;
    for (std::int64_t i = 0; i < rows; ++i) {
      sum += start(i, j) + 1;
      EXPECT_NEAR(all[static_cast<std::size_t>(i * cols + j)], sum, 1e-11);
    }
  }
}
std::int64_t held(const cleave::grid& g) { return support::over_ranks(g.workspace_bytes()); }

TEST(workspace, is_as_large_as_the_largest_plan_needs) {
  const support::only_mpi here;
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  const std::int64_t rows = 24, cols = 40;
  EXPECT_EQ(g.workspace_bytes(), 0);
  const Rows u = field(g, rows, cols);
  Rows v(g, {rows, cols});
  v = smooth(u);
  expect_smooth(v, rows, cols);
  EXPECT_EQ(held(g), smooth_plan.workspace({row = rows, col = cols, ax = g.size(ax)}));
  v = turn(u);
  expect_turned(v, rows, cols);
  EXPECT_EQ(held(g), std::max(smooth_plan.workspace({row = rows, col = cols, ax = g.size(ax)}),
                              turn_plan.workspace({row = rows, col = cols, ax = g.size(ax)})));
  // The plan that was bound first finds its memory where it is now.
  v = smooth(u);
  expect_smooth(v, rows, cols);
}

TEST(workspace, memory_of_a_plan_is_that_of_the_device_with_most) {
  const support::only_mpi here;
  const auto bytes = [](const Rows& t) {
    return support::over_ranks(static_cast<std::int64_t>(t.view().size() * sizeof(double)));
  };
  for (const std::int64_t rows : {24, 25, 3}) {
    const std::int64_t cols = 40;
    const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
    const Rows u = field(g, rows, cols);
    Rows v(g, {rows, cols});
    v = turn(u);
    const cleave::memory_parts m = cleave::memory_of(turn_plan, {row = rows, col = cols, ax = g.size(ax)});
    EXPECT_EQ(m.arguments, bytes(u)) << rows;
    EXPECT_EQ(m.results, bytes(v)) << rows;
    EXPECT_EQ(m.workspace.total(), held(g)) << rows;
    EXPECT_EQ(m.total(false), bytes(u) + bytes(v) + held(g)) << rows;
  }
}

TEST(workspace, moves_when_a_larger_plan_comes) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  Rows small(g, {9, 11});
  const Rows from = field(g, 9, 11);
  for (const std::int64_t rows : {12, 30, 60}) {
    small = smooth(from);
    expect_smooth(small, 9, 11);
    Rows large(g, {rows, 50});
    large = turn(field(g, rows, 50));
    expect_turned(large, rows, 50);
    large = smooth(field(g, rows, 50));
    expect_smooth(large, rows, 50);
    small = turn(from);
    expect_turned(small, 9, 11);
  }
}

TEST(workspace, is_reserved_and_released) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  g.reserve_workspace(1 << 20);
  EXPECT_EQ(g.workspace_bytes(), 1 << 20);
  const Rows u = field(g, 20, 20);
  Rows v(g, {20, 20});
  v = turn(u);
  v = smooth(u);
  expect_smooth(v, 20, 20);
  EXPECT_EQ(g.workspace_bytes(), 1 << 20);
  g.release_workspace();
  EXPECT_EQ(g.workspace_bytes(), 0);
  v = turn(u);
  expect_turned(v, 20, 20);
  EXPECT_LT(g.workspace_bytes(), 1 << 20);
}

// A kernel calls plans while its own plan has values in the workspace.
struct calls_plans {
  static constexpr std::string_view name = "calls plans";
  static inline cleave::grid on{};
  void operator()(const cleave::local_context&, std::span<const cleave::shard> in, const cleave::shard& out) const {
    for (const std::int64_t rows : {5, 40}) {
      Rows v(on, {rows, 30});
      v = turn(field(on, rows, 30));
      expect_turned(v, rows, 30);
    }
    cleave::copy_bytes(out.data, in[0].data, out.local.elements() * std::int64_t{sizeof(double)});
  }
};
constexpr cleave::function around_plans([](auto u) {
  const auto sums = cleave::cumulative_sum(u, col);
  return sums +
         cleave::local<calls_plans>(cleave::result<double>(mesh(row / ax, col)), reshard(sums, mesh(row / ax, col)));
});
TEST(workspace, of_plans_that_a_kernel_calls) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  calls_plans::on = g;
  const std::int64_t rows = 10, cols = 12;
  const Rows u = field(g, rows, cols);
  Rows v(g, {rows, cols});
  for (int n = 0; n < 2; ++n) {
    v = around_plans(u);
    const auto all = v.to_global();
    for (std::int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (std::int64_t j = 0; j < cols; ++j) {
        sum += start(i, j);
        EXPECT_NEAR(all[static_cast<std::size_t>(i * cols + j)], 2 * sum, 1e-12);
      }
    }
    g.release_workspace();
  }
  calls_plans::on = {};
}

TEST(workspace, is_poisoned_in_checked_mode) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  g.check({.calls = true, .nans = true});
  const Rows u = field(g, 14, 9);
  Rows v(g, {14, 9});
  for (int n = 0; n < 2; ++n) {
    v = smooth(u);
    expect_smooth(v, 14, 9);
    v = turn(u);
    expect_turned(v, 14, 9);
  }
}

} // namespace CLEAVE_SOURCE
