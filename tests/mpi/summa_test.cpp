// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/linalg/summa.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

// Products in little workspace: values beside plain loops, bytes beside a formula made of blocks.

namespace CLEAVE_SOURCE {

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
// Operands are matrices by their dims, whatever the order in memory.
TEST(summa, dims_in_any_order) {
  for (const cleave::grid& g : support::grids(mesh)) {
    constexpr std::int64_t m = 5, n = 7, k = 6;
    cleave::tensor<double, mesh(inner / ax, row / ay)> a(g, {k, m});
    cleave::tensor<double, mesh(col, inner)> b(g, {n, k});
    Product<double> c(g, {m, n});
    a.fill_by([](const auto& at) { return wave(at[1], at[0]); });
    b.fill_by([](const auto& at) { return wave(at[0], at[1] + 3); });
    c = product<1000>(a, b);
    const auto got = c.to_global();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::int64_t q = 0; q < k; ++q) sum += wave(i, q) * wave(j, q + 3);
        EXPECT_NEAR(got[static_cast<std::size_t>(i * n + j)], sum, 1e-14);
      }
  }
}

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
    cleave::shape of_a, of_b;
    of_a.rank = of_b.rank = 2;
    of_a[0] = 24, of_a[1] = 1000, of_b[0] = 1000, of_b[1] = 16;
    const cleave::shape whole[3] = {of_a, of_b, {}};
    const std::int64_t bytes = kernel::workspace({}, whole, g.state().sizes(), {});
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
  if (support::heap_is_left_alone) {
    EXPECT_EQ(taken(), 0);
  }
}

inline constexpr cleave::axis<"z"> az;
inline constexpr cleave::mesh deep{ay, ax, az};
template <class T>
using LeftCopies = cleave::tensor<T, deep(row / ay, inner / ax)>;
template <class T>
using RightCopies = cleave::tensor<T, deep(inner / ay, col / ax)>;
template <class T>
using ProductCopies = cleave::tensor<T, deep(row / ay, col / ax)>;
template <class T>
using Sums = cleave::tensor<T, deep(row / ay, col / ax, cleave::unreduced(az))>;

template <std::int64_t Bytes>
constexpr cleave::function deep_product([](auto a, auto b) {
  return cleave::linalg::product_25d<Bytes>(a, b, inner, deep(row / ay, col / ax), az);
});

std::vector<cleave::grid> deep_grids() {
  std::vector<cleave::grid> all;
  for (const auto& s : support::factorings(support::ranks(), 3)) all.emplace_back(deep, MPI_COMM_WORLD, s);
  return all;
}

template <class T, std::int64_t Bytes>
void check_deep(const cleave::grid& g, const extents& e, double tolerance) {
  LeftCopies<T> a(g, {e.m, e.k});
  RightCopies<T> b(g, {e.k, e.n});
  ProductCopies<T> c(g, {e.m, e.n});
  a.fill_by([](const auto& at) { return static_cast<T>(wave(at[0], at[1])); });
  b.fill_by([](const auto& at) { return static_cast<T>(wave(at[1], at[0] + 3)); });
  c.fill(T(77));
  c = deep_product<Bytes>(a, b);
  const auto got = c.to_global();
  for (std::int64_t i = 0; i < e.m; ++i)
    for (std::int64_t j = 0; j < e.n; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < e.k; ++k)
        sum += static_cast<double>(static_cast<T>(wave(i, k))) * static_cast<double>(static_cast<T>(wave(j, k + 3)));
      EXPECT_NEAR(static_cast<double>(got[static_cast<std::size_t>(i * e.n + j)]), sum, tolerance);
    }
}
TEST(product_25d, values) {
  for (const cleave::grid& g : deep_grids())
    // At first some layers have nothing to broadcast.
    for (const extents& e : {extents{4, 4, 1}, {24, 16, 32}, {13, 7, 29}, {1, 5, 3}, {6, 1, 1}, {3, 4, 0}, {0, 4, 3}}) {
      check_deep<double, 1 << 20>(g, e, 1e-12);
      check_deep<double, 1>(g, e, 1e-12);
      check_deep<float, 1000>(g, e, 1e-4);
    }
}

constexpr auto deep_plan = cleave::plan<Sums<double>(LeftCopies<double>, RightCopies<double>)>(deep_product<1000>);
static_assert(deep_plan.collectives() == 0);
// Of the 16 indices of a layer the busiest device has none: 16 rows of a and 16 columns of b.
static_assert(deep_plan.bytes({row = 64, col = 64, inner = 64, ay = 4, ax = 4, az = 4}) == 8 * 2 * 16 * 16);
constexpr auto reduced_plan = cleave::plan<ProductCopies<double>(LeftCopies<double>, RightCopies<double>)>(
    deep_product<1000>);
static_assert(reduced_plan.collectives() == 1 && reduced_plan.count(cleave::kind::all_reduce) == 1);

// Of the part of its layer a device receives its rows of a and its columns of b, but for what it has; and the sums.
TEST(product_25d, bytes_are_those_of_the_formula) {
  const support::only_mpi alone;
  for (const cleave::grid& g : deep_grids())
    for (const extents& e : {extents{24, 16, 32}, {13, 7, 29}}) {
      LeftCopies<double> a(g, {e.m, e.k});
      RightCopies<double> b(g, {e.k, e.n});
      Sums<double> sums(g, {e.m, e.n});
      ProductCopies<double> c(g, {e.m, e.n});
      a.fill(1.0);
      b.fill(2.0);
      sums = deep_product<1000>(a, b);
      support::reset_charges();
      sums = deep_product<1000>(a, b);
      const std::int64_t rows = g.size(ay), cols = g.size(ax), deep_by = g.size(az), me = support::rank(),
                         p = me / (cols * deep_by), q = me / deep_by % cols, l = me % deep_by;
      std::int64_t of_a = 0, of_b = 0;
      for (std::int64_t k = 0; k < e.k; ++k) {
        const auto owner = [&](std::int64_t parts) { return k / ((e.k + parts - 1) / parts); };
        if (owner(deep_by) != l) continue;
        of_a += owner(cols) != q ? 1 : 0;
        of_b += owner(rows) != p ? 1 : 0;
      }
      const std::int64_t moved = support::charged_bytes();
      EXPECT_EQ(moved, 8 * (block_of(e.m, rows, p) * of_a + block_of(e.n, cols, q) * of_b));
      std::int64_t most = 0;
      MPI_Allreduce(&moved, &most, 1, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
      EXPECT_EQ(deep_plan.bytes({row = e.m, col = e.n, inner = e.k, ay = rows, ax = cols, az = deep_by}), most);
      c = deep_product<1000>(a, b);
      support::reset_charges();
      c = deep_product<1000>(a, b);
      const std::int64_t all = 8 * block_of(e.m, rows, p) * block_of(e.n, cols, q);
      EXPECT_EQ(support::charged_bytes(), moved + 2 * (deep_by - 1) * all / deep_by);
    }
}

TEST(product_25d, workspace_is_under_the_cap) {
  using y = std::remove_cv_t<decltype(ay)>;
  using x = std::remove_cv_t<decltype(ax)>;
  using z = std::remove_cv_t<decltype(az)>;
  using kernel = cleave::linalg::detail::summa_kernel<1000, 8, y, x, 0, 1, cleave::linalg::detail::layers<z, 2>>;
  for (const cleave::grid& g : deep_grids()) {
    cleave::shape of_a, of_b;
    of_a.rank = of_b.rank = 2;
    of_a[0] = 24, of_a[1] = 1000, of_b[0] = 1000, of_b[1] = 16;
    const cleave::shape whole[3] = {of_a, of_b, {}};
    EXPECT_LE(kernel::workspace({}, whole, g.state().sizes(), {}), 1000);
    EXPECT_EQ(kernel::workspace({}, whole, g.state().sizes(), {}) > 500, g.size(ay) > 1 || g.size(ax) > 1);
  }
}

} // namespace CLEAVE_SOURCE
