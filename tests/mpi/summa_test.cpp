// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/linalg/summa.hpp>

#include <gtest/gtest.h>

#include <cmath>

// Products in little workspace: values beside plain loops, bytes beside a formula made of blocks.

namespace {

inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ay, ax};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"inner"> inner;
template <class T>
using Left = cleave::tensor<T, mesh(row / ay, inner / ax)>;
template <class T>
using Right = cleave::tensor<T, mesh(inner / ay, col / ax)>;
template <class T>
using Product = cleave::tensor<T, mesh(row / ay, col / ax)>;
using Number = cleave::tensor<double, mesh()>;

template <std::int64_t Bytes>
constexpr cleave::function product([](auto a, auto b) {
  return cleave::linalg::summa<Bytes>(a, b, inner, mesh(row / ay, col / ax));
});

double wave(std::int64_t i, std::int64_t j) { return std::sin(0.3 + 0.7 * double(i) + 1.3 * double(j)); }

struct extents {
  std::int64_t m, n, k;
};

template <class T, std::int64_t Bytes>
void check(const cleave::grid& g, const extents& e, double tolerance) {
  Left<T> a(g, {e.m, e.k});
  Right<T> b(g, {e.k, e.n});
  Product<T> c(g, {e.m, e.n});
  a.fill_by([](const auto& at) { return static_cast<T>(wave(at[0], at[1])); });
  b.fill_by([](const auto& at) { return static_cast<T>(wave(at[1], at[0] + 3)); });
  c.fill(T(77));
  c = product<Bytes>(a, b);
  const auto got = c.to_global();
  for (std::int64_t i = 0; i < e.m; ++i)
    for (std::int64_t j = 0; j < e.n; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < e.k; ++k)
        sum += static_cast<double>(static_cast<T>(wave(i, k))) * static_cast<double>(static_cast<T>(wave(j, k + 3)));
      EXPECT_NEAR(static_cast<double>(got[static_cast<std::size_t>(i * e.n + j)]), sum, tolerance);
    }
}

TEST(summa, values) {
  for (const cleave::grid& g : support::grids(mesh))
    for (const extents& e :
         {extents{24, 16, 32}, {13, 7, 29}, {1, 5, 3}, {6, 1, 1}, {3, 4, 0}, {0, 4, 3}, {40, 50, 2}}) {
      check<double, 1 << 20>(g, e, 1e-12);
      check<double, 1000>(g, e, 1e-12);
      check<double, 1>(g, e, 1e-12); // a column and a row at a time
      check<float, 1000>(g, e, 1e-4);
    }
}

/// Elements of block `index` of `parts`, from the definition.
std::int64_t block_of(std::int64_t extent, std::int64_t parts, std::int64_t index) {
  const std::int64_t each = (extent + parts - 1) / parts;
  return std::clamp<std::int64_t>(extent - index * each, 0, each);
}

// A device receives its rows of a and its columns of b, but for what it has.
TEST(summa, bytes_are_those_of_the_formula) {
  for (const cleave::grid& g : support::grids(mesh))
    for (const extents& e : {extents{24, 16, 32}, {13, 7, 29}}) {
      Left<double> a(g, {e.m, e.k});
      Right<double> b(g, {e.k, e.n});
      Product<double> c(g, {e.m, e.n});
      a.fill(1.0);
      b.fill(2.0);
      c = product<1000>(a, b);
      support::reset_charges();
      c = product<1000>(a, b);
      const std::int64_t rows = g.size(ay), cols = g.size(ax), i = support::rank() / cols, j = support::rank() % cols;
      const std::int64_t want = 8 * (block_of(e.m, rows, i) * (e.k - block_of(e.k, cols, j)) +
                                     block_of(e.n, cols, j) * (e.k - block_of(e.k, rows, i)));
      EXPECT_EQ(support::charged_bytes(), want);
    }
}
// And that is the price of the plan.
constexpr auto plan = cleave::plan<Product<double>(Left<double>, Right<double>)>(product<1000>);
static_assert(plan.collectives() == 0);
static_assert(plan.bytes({row = 64, col = 32, inner = 16, ay = 4, ax = 2}) == 8 * (16 * 16 / 2 + 16 * 16 * 3 / 4));

constexpr auto float_plan = cleave::plan<Product<float>(Left<float>, Right<float>)>(product<1000>);
static_assert(2 * float_plan.bytes({row = 64, col = 32, inner = 16, ay = 4, ax = 2}) ==
              plan.bytes({row = 64, col = 32, inner = 16, ay = 4, ax = 2}));

// The workspace is under the cap, and is used: half of it does not need twice the panels and one more.
TEST(summa, workspace_is_under_the_cap) {
  using kernel = cleave::linalg::detail::summa_kernel<1000, 8, std::remove_cv_t<decltype(ay)>,
                                                      std::remove_cv_t<decltype(ax)>, 0, 1>;
  for (const cleave::grid& g : support::grids(mesh)) {
    const cleave::local_context here(g.state());
    cleave::shape of_a, of_b;
    of_a.rank = of_b.rank = 2;
    of_a[0] = 24, of_a[1] = 1000, of_b[0] = 1000, of_b[1] = 16;
    const cleave::shard all[3] = {{cleave::element::f64, of_a, {}, {}},
                                  {cleave::element::f64, of_b, {}, {}},
                                  {cleave::element::f64, {}, {}, {}}};
    const std::int64_t bytes = kernel::workspace(here, all);
    EXPECT_LE(bytes, 1000);
    if (support::ranks() == 1) EXPECT_EQ(bytes, 0);
    else EXPECT_GT(bytes, 500);
  }
}

constexpr cleave::function loss([](auto a, auto b) {
  auto c = product<1000>(a, b);
  return sum(c * c);
});
constexpr cleave::function loss_of_dot([](auto a, auto b) {
  auto c = dot(a, b, inner);
  return sum(c * c);
});
TEST(summa, gradients) {
  for (const cleave::grid& g : support::grids(mesh)) {
    Left<double> a(g, {13, 29}), by_a(g, {13, 29}), want_a(g, {13, 29});
    Right<double> b(g, {29, 7});
    a.fill_by([](const auto& at) { return wave(at[0], at[1]); });
    b.fill_by([](const auto& at) { return wave(at[1], at[0] + 3); });
    cleave::grad(loss)(a, b).into(by_a);
    cleave::grad(loss_of_dot)(a, b).into(want_a);
    const auto got = by_a.to_global(), want = want_a.to_global();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-11);
  }
}

// In a statement, and on operands in other layouts.
TEST(summa, in_statements) {
  for (const cleave::grid& g : support::grids(mesh)) {
    cleave::tensor<double, mesh(row, inner / ay / ax)> a(g, {9, 11});
    cleave::tensor<double, mesh(inner, col)> b(g, {11, 5});
    Product<double> c(g, {9, 5}), d(g, {9, 5});
    a.fill_by([](const auto& at) { return wave(at[0], at[1]); });
    b.fill_by([](const auto& at) { return wave(at[1], at[0] + 3); });
    c = cleave::linalg::summa<4096>(a, b, inner, mesh(row / ay, col / ax));
    d = dot(a, b, inner);
    const auto got = c.to_global(), want = d.to_global();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12);
  }
}

TEST(summa, warm_calls_take_nothing_from_the_heap) {
  const cleave::grid g = support::grids(mesh).front();
  Left<double> a(g, {24, 32});
  Right<double> b(g, {32, 16});
  Product<double> c(g, {24, 16});
  a.fill(1.0);
  b.fill(2.0);
  c = product<1000>(a, b);
  const support::heap_count taken;
  c = product<1000>(a, b);
  EXPECT_EQ(taken(), 0);
}

} // namespace
