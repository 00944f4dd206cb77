// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

// Traps: programs for which other partitioners gave wrong values, hung, or gathered everything. Elsewhere are
//   1   running totals along a sharded dim: cumulative_test.cpp
//   2   Fourier transforms along and across sharded dims: fft_test.cpp
//   5   updates and slices at indices that are moved into the dim: movement_test.cpp, places_that_the_run_decides
//   10  random numbers of any mesh: random_test.cpp
// Meshes of two axes over 1, 2, 3, 4 and 8 ranks, extents that divide and that do not.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::mesh mesh{ax, ay};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"deep"> deep;
inline constexpr cleave::dim<"one", 1> one;
inline constexpr cleave::dim<"both"> both;

template <auto Layout>
using f64 = cleave::tensor_in<double, Layout>;
using Number = f64<mesh()>;

constexpr std::array<std::array<std::int64_t, 2>, 5> shapes{{{8, 16}, {7, 5}, {3, 2}, {1, 9}, {16, 3}}};

std::vector<cleave::grid> grids() { return support::grids(mesh); }
double wave(std::int64_t i, std::int64_t j) {
  return std::sin(0.3 + 0.7 * static_cast<double>(i) + 1.7 * static_cast<double>(j));
}
template <class Tensor>
Tensor filled(const cleave::grid& g, std::int64_t rows, std::int64_t cols) {
  Tensor t(g, {rows, cols});
  t.fill_by([](const auto& at) { return wave(at[0], at[1]); });
  return t;
}
template <class Tensor, class Wanted>
void expect_near(const Tensor& got, std::int64_t cols, Wanted wanted, double tolerance = 1e-12) {
  const auto all = got.to_global();
  for (std::size_t k = 0; k < all.size(); ++k) {
    const auto flat = static_cast<std::int64_t>(k);
    EXPECT_NEAR(all[k], wanted(flat / cols, flat % cols), tolerance) << "element " << k;
  }
}

// Trap 3: the gradient of rows looked up, on a mesh of two axes: every rank must issue the same collectives in the same
// order. 12: equal plans on all ranks. A plan is a constant of the program, and sizes are agreed when tensors are made;
// what is left to see is MPI.
constexpr cleave::function look_up_gradient([](auto table, auto ids, auto weight) {
  return cleave::grad(cleave::function([](auto t, auto i, auto w) { return sum(gather(t, row, i) * w); }))(table, ids,
                                                                                                           weight);
});
TEST(Traps, ScatterAddGradientCallsAlikeOnEveryRank) {
  using Table = f64<mesh(row / ay, deep)>;
  using Ids = cleave::tensor<int, mesh(col / ax / ay)>;
  using Rows = f64<mesh(col / ax / ay, deep)>;
  for (const cleave::grid& g : grids())
    for (const auto& [rows, places] : shapes) {
      Table table(g, {rows, 4}), slope(g, {rows, 4});
      Ids ids(g, {places});
      const Rows weight = filled<Rows>(g, places, 4);
      ids.fill_by([n = rows](const auto& at) { return static_cast<int>(at[0] * 5 % n); });
      slope = look_up_gradient(table, ids, weight);
      support::reset_charges();
      slope = look_up_gradient(table, ids, weight);
      const std::int64_t order = support::collective_order();
      EXPECT_EQ(support::over_ranks(order), order);
      expect_near(slope, 4, [n = rows, m = places](std::int64_t i, std::int64_t j) {
        double sum = 0;
        for (std::int64_t k = 0; k < m; ++k) sum += k * 5 % n == i ? wave(k, j) : 0;
        return sum;
      });
    }
}

// Trap 4: the transpose of a roll along a dim that is sharded over all devices.
constexpr cleave::function rolled_gradient([](auto u, auto w) {
  return cleave::grad(cleave::function([](auto v, auto weight) { return sum(roll(v, row, 3) * weight); }))(u, w);
});
TEST(Traps, GradientOfARollAlongAFullyDividedDim) {
  using Rows = f64<mesh(row / ax / ay, col)>;
  for (const cleave::grid& g : grids())
    for (const auto& [rows, cols] : shapes) {
      const Rows u = filled<Rows>(g, rows, cols);
      Rows slope(g, {rows, cols});
      slope = rolled_gradient(u, u);
      expect_near(slope, cols, [n = rows](std::int64_t i, std::int64_t j) { return wave((i + 3) % n, j); }, 0);
    }
}

// Trap 6: norms, clipping by the norm, comparisons and items of values that are partial where they are computed; 7: a
// partial value that is used more than once is reduced once, also in later calls.
using Left = f64<mesh(row, deep / ax / ay)>;
using Right = f64<mesh(deep / ax / ay, col)>;
constexpr cleave::function clipped([](auto l, auto r) {
  const auto p = dot(l, r, deep);
  const auto norm = sqrt(sum(p * p));
  return std::tuple(select(p > 0, p * minimum(1.0, 0.5 / norm), -1.0), norm);
});
constexpr cleave::function used_twice([](auto l, auto r) {
  const auto p = dot(l, r, deep);
  return p * p + p + p;
});
TEST(Traps, NormsAndComparisonsOfPartialValues) {
  for (const cleave::grid& g : grids())
    for (const auto& [rows, cols] : shapes) {
      const Left l = filled<Left>(g, rows, 11);
      const Right r = filled<Right>(g, 11, cols);
      f64<mesh(row, col)> clip(g, {rows, cols}), twice(g, {rows, cols});
      Number norm(g, {});
      const auto product = [](std::int64_t i, std::int64_t j) {
        double sum = 0;
        for (std::int64_t k = 0; k < 11; ++k) sum += wave(i, k) * wave(k, j);
        return sum;
      };
      double squares = 0;
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < cols; ++j) squares += product(i, j) * product(i, j);
      for (int times = 0; times < 2; ++times) {
        clipped(l, r).into(clip, norm);
        EXPECT_NEAR(norm.item(), std::sqrt(squares), 1e-12);
        expect_near(clip, cols, [&](std::int64_t i, std::int64_t j) {
          return product(i, j) > 0 ? product(i, j) * std::min(1.0, 0.5 / std::sqrt(squares)) : -1;
        });
        twice = used_twice(l, r);
        expect_near(twice, cols, [&](std::int64_t i, std::int64_t j) { return product(i, j) * (product(i, j) + 2); });
      }
    }
}
TEST(Traps, APartialValueIsReducedOnceHoweverOftenItIsUsed) {
  using Whole = f64<mesh(row, col)>;
  using Blocks = f64<mesh(row / ax, col / ay)>;
  constexpr auto plan = cleave::plan<Whole(Left, Right)>(used_twice);
  static_assert(plan.count(cleave::kind::all_reduce) + plan.count(cleave::kind::reduce_scatter) == 1);
  // A tensor that stays partial: its item and what is computed of it are those of the sum, as often as asked.
  for (const cleave::grid& g : grids()) {
    cleave::tensor<double, mesh(cleave::unreduced(ax, ay))> total(g, {});
    Number square(g, {});
    const auto u = filled<Blocks>(g, 7, 5);
    total = sum(u);
    double wanted = 0;
    for (std::int64_t i = 0; i < 7; ++i)
      for (std::int64_t j = 0; j < 5; ++j) wanted += wave(i, j);
    for (int times = 0; times < 2; ++times) {
      EXPECT_NEAR(total.item(), wanted, 1e-12);
      square = total;
      square = square * square;
      EXPECT_NEAR(square.item(), wanted * wanted, 1e-12);
    }
  }
}

// Trap 8: a mean over extents that do not divide, and views of such dims, the minor one sharded.
constexpr cleave::function mean_of([](auto u) { return mean(u, row); });
constexpr cleave::function merged([](auto u) { return merge(2 * u, row, col, both); });
constexpr cleave::function parted([](auto u, auto like) { return split(u, both, row, col) + like; });
TEST(Traps, MeansAndViewsOfUnevenDims) {
  using Grid = f64<mesh(row / ax, col / ay)>;
  using Minor = f64<mesh(row, col / ax / ay)>;
  using Line = f64<mesh(both / ay / ax)>;
  for (const cleave::grid& g : grids())
    for (const auto& [rows, cols] : shapes) {
      const Grid u = filled<Grid>(g, rows, cols);
      const Minor v = filled<Minor>(g, rows, cols);
      f64<mesh(col)> middle(g, {cols});
      middle = mean_of(u);
      expect_near(middle, cols, [n = rows](std::int64_t, std::int64_t j) {
        double sum = 0;
        for (std::int64_t i = 0; i < n; ++i) sum += wave(i, j);
        return sum / static_cast<double>(n);
      });
      Line line(g, {rows * cols});
      line = merged(v);
      expect_near(line, cols, [](std::int64_t i, std::int64_t j) { return 2 * wave(i, j); });
      Minor back(g, {rows, cols});
      back = parted(line, v);
      expect_near(back, cols, [](std::int64_t i, std::int64_t j) { return 3 * wave(i, j); });
    }
}

// Trap 9: a reshape that drops a dim of extent 1; positions along a sharded dim beyond 32 bits.
constexpr cleave::function without_one([](auto u) { return merge(u, one, row, both); });
constexpr cleave::function with_one([](auto u) { return split(u, both, row, one); });
TEST(Traps, DimsOfExtentOneGoAndCome) {
  using Whole = f64<mesh(one, row / ax / ay)>;
  using Line = f64<mesh(both / ay)>;
  using Parts = f64<mesh(row / ax / ay, one)>;
  for (const cleave::grid& g : grids())
    for (const auto& [rows, cols] : shapes) {
      const Whole u = filled<Whole>(g, 1, rows);
      Line line(g, {rows});
      Parts parts(g, {rows, 1});
      line = without_one(u);
      expect_near(line, rows, [](std::int64_t i, std::int64_t j) { return wave(i, j); }, 0);
      parts = with_one(line);
      expect_near(parts, rows, [](std::int64_t i, std::int64_t j) { return wave(i, j); }, 0);
    }
}
constexpr cleave::function positions([](auto u) {
  return u + u.in->iota(row, cleave::element::i64, {}) * 3000000000.0;
});
TEST(Traps, PositionsAlongADividedDimHave64Bits) {
  using Places = cleave::tensor<std::int64_t, mesh(row / ay / ax)>;
  for (const cleave::grid& g : grids())
    for (const std::int64_t rows : {16, 7, 3, 1}) {
      Places u(g, {rows});
      u = positions(u);
      const auto all = u.to_global();
      for (std::int64_t i = 0; i < rows; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], i * 3000000000);
    }
}

// Trap 11: P(y, -, x) to P(-, (x, y), -) is one exchange of what is lacking, no gather.
TEST(Traps, AReshardOverTwoAxesGathersNothing) {
  using From = f64<mesh(row / ay, col, deep / ax)>;
  using To = f64<mesh(row, col / ax / ay, deep)>;
  constexpr cleave::function same([](auto u) { return u; });
  constexpr auto plan = cleave::plan<To(From)>(same);
  static_assert(plan.count(cleave::kind::all_gather) == 0);
  static_assert(plan.bytes({row = 64, col = 64, deep = 64, ax = 2, ay = 4}) < 64 * 64 * 64 * 8 / 8 * 2);
  for (const cleave::grid& g : grids())
    for (const auto& [rows, cols] : shapes) {
      From u(g, {rows, cols, 6});
      To v(g, {rows, cols, 6});
      u.fill_by([](const auto& at) { return wave(at[0], 10 * at[1] + at[2]); });
      v = u;
      EXPECT_EQ(v.to_global(), u.to_global());
      support::reset_charges();
      v = u;
      EXPECT_EQ(support::over_ranks(support::charged_bytes()),
                plan.bytes({row = rows, col = cols, deep = 6, ax = g.size(ax), ay = g.size(ay)}));
    }
}

} // namespace CLEAVE_SOURCE
