// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "solve_reference.hpp"
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/object.hpp>
#include <cleave/solve/cg.hpp>
#include <cleave/sparse/assemble.hpp>
#include <cleave/sparse/kokkos_sparse.hpp>

#include <gtest/gtest.h>

#include <cmath>

// Sparse matrices whose rows KokkosSparse multiplies beside those that Cleave multiplies, and a KokkosSparse matrix as
// the state of an own operation.

namespace CLEAVE_SOURCE {

namespace solve = cleave::solve;
namespace sparse = cleave::sparse;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"load"> load;
inline constexpr cleave::dim<"case"> sides;

template <class T, class By>
using matrix = sparse::csr<T, mesh(row / data), col, By>;
using Own = matrix<double, sparse::in_order>;
using Theirs = matrix<double, sparse::kokkos_sparse>;
using Y = cleave::tensor<double, mesh(row / data)>;
using X = cleave::tensor<double, mesh(col / data)>;
using Loads = cleave::tensor<double, mesh(sides, col / data, load)>;
using Results = cleave::tensor<double, mesh(sides, row / data, load)>;
using Number = cleave::tensor<double, mesh()>;
using Count = cleave::tensor<int, mesh()>;

/// Near the diagonal, and some far away; some rows are empty. Each rank gives every n-th row.
template <class T>
std::vector<sparse::triplet<T>> scattered(std::int64_t rows, std::int64_t columns) {
  std::vector<sparse::triplet<T>> all;
  for (std::int64_t i = support::rank(); i < rows; i += support::ranks())
    if (i % 7 != 3)
      for (const std::int64_t c : {i - 1, i, i + 1, i * 7919 % columns, (i * 31 + 5) % columns})
        if (c >= 0 && c < columns) all.push_back({i, c, static_cast<T>(support::wave(i, c, 0))});
  return all;
}
template <class A>
void expect_near(const A& got, const A& want, double tolerance) {
  const auto a = got.to_global(), b = want.to_global();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << i;
}
constexpr cleave::function product([](auto a, auto x) { return sparse::multiply(a, x); });

constexpr auto own_plan = cleave::plan<Y(Own, X)>(product);
constexpr auto their_plan = cleave::plan<Y(Theirs, X)>(product);
static_assert(own_plan.collectives() == their_plan.collectives());

/// How many kernels of KokkosSparse::spmv ran, by the names that tools see.
int spmv_kernels = 0;
void count_kernel(const char* name, std::uint32_t, std::uint64_t*) {
  spmv_kernels += std::string_view(name).starts_with("KokkosSparse::spmv") ? 1 : 0;
}
template <class F>
int calls_of_spmv(const F& f) {
  spmv_kernels = 0;
  Kokkos::Tools::Experimental::set_begin_parallel_for_callback(&count_kernel);
  f();
  Kokkos::Tools::Experimental::set_begin_parallel_for_callback(nullptr);
  return spmv_kernels;
}
TEST(kokkos_sparse, the_type_says_who_multiplies) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const std::int64_t n = support::ranks();
    std::vector<sparse::triplet<double>> entries{{support::rank(), support::rank(), 2.0}};
    const auto a = sparse::assemble<Own>(g, n, n, entries);
    const auto b = sparse::assemble<Theirs>(g, n, n, entries);
    X x(g, {n});
    Y y(g, {n});
    x.fill(3);
    EXPECT_EQ(calls_of_spmv([&] { y = product(a, x); }), 0);
    EXPECT_EQ(calls_of_spmv([&] { y = product(b, x); }), y.local_size() > 0 ? 1 : 0);
    EXPECT_EQ(y.to_global(), std::vector<double>(static_cast<std::size_t>(n), 6.0));
  }
}

template <class T>
void expect_products(double tolerance) {
  using x_type = cleave::tensor<T, mesh(col / data)>;
  using y_type = cleave::tensor<T, mesh(row / data)>;
  for (const cleave::grid& g : support::grids(mesh))
    for (const auto& [m, n] :
         {std::pair<std::int64_t, std::int64_t>{23, 31}, {31, 23}, {1, 9}, {9, 1}, {3, 3}, {40, 40}}) {
      const auto entries = scattered<T>(m, n);
      const auto a = sparse::assemble<matrix<T, sparse::in_order>>(g, m, n, entries);
      const auto b = sparse::assemble<matrix<T, sparse::kokkos_sparse>>(g, m, n, entries);
      x_type x(g, {n});
      y_type want(g, {m}), y(g, {m}), back(g, {m});
      x.fill_by([](const auto& at) { return support::wave(at[0], 2, 1); });
      want = product(a, x);
      y.fill(static_cast<T>(std::nan(""))); // what was there does not count
      y = product(b, x);
      expect_near(y, want, tolerance);
      back = sparse::transposed(sparse::transposed(b))(x);
      expect_near(back, want, tolerance);
    }
}
TEST(kokkos_sparse, products_are_those_of_the_own_kernel) {
  expect_products<double>(1e-14);
  expect_products<float>(1e-5);
}

TEST(kokkos_sparse, several_vectors_in_any_order_of_dims) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const std::int64_t m = 17, n = 22;
    const auto entries = scattered<double>(m, n);
    const auto a = sparse::assemble<Own>(g, m, n, entries);
    const auto b = sparse::assemble<Theirs>(g, m, n, entries);
    for (const auto& [cases, loads] : {std::pair<std::int64_t, std::int64_t>{2, 3}, {3, 1}, {1, 4}, {0, 2}}) {
      Loads x(g, {cases, n, loads});
      Results want(g, {cases, m, loads}), y(g, {cases, m, loads});
      x.fill_by([](const auto& at) { return support::wave(at[0], at[1], at[2]); });
      want = product(a, x);
      y = product(b, x);
      expect_near(y, want, 1e-14);
    }
  }
}

// The halo moves as many bytes, and the plan has the memory that a product needs.
TEST(kokkos_sparse, the_price_of_a_product) {
  const support::only_mpi transport;
  for (const cleave::grid& g : support::grids(mesh)) {
    const std::int64_t n = 41;
    const auto entries = scattered<double>(n, n);
    const auto a = sparse::assemble<Own>(g, n, n, entries);
    const auto b = sparse::assemble<Theirs>(g, n, n, entries);
    X x(g, {n});
    Y y(g, {n});
    x.fill(1);
    y = product(b, x);
    y = product(a, x);
    support::reset_charges();
    y = product(a, x);
    const std::int64_t own = support::charged_bytes();
    support::reset_charges();
    y = product(b, x);
    EXPECT_EQ(support::charged_bytes(), own);
    const std::int64_t parts = g.size(data), rows = (n + parts - 1) / parts, halo = b.halo.extents()[1];
    const auto memory = [&](const auto& plan) {
      return plan.workspace({row = n, col = n, data = parts, model = g.size(model),
                             cleave::named_size{"halo row,col", halo}, cleave::named_size{"part row,col", parts},
                             cleave::named_size{"sent row,col", b.sent.extents()[1]}});
    };
    EXPECT_GE(memory(their_plan) - memory(own_plan), 8 * (rows + 1 + rows + halo));
    EXPECT_LE(memory(their_plan) - memory(own_plan), 8 * (rows + 1 + rows + halo) + 256);
  }
}

TEST(kokkos_sparse, a_matrix_is_the_operator_of_a_solver) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const std::int64_t n = 50;
    std::vector<sparse::triplet<double>> entries;
    for (std::int64_t i = support::rank(); i < n; i += support::ranks()) {
      entries.push_back({i, i, 4.0});
      for (const std::int64_t by : {1, 7})
        for (const std::int64_t j : {i - by, i + by})
          if (j >= 0 && j < n) entries.push_back({i, j, -0.9});
    }
    const auto a = sparse::assemble<Own>(g, n, n, entries);
    const auto b = sparse::assemble<Theirs>(g, n, n, entries);
    Y right(g, {n}), want(g, {n}), got(g, {n});
    right.fill_by([](const auto& at) { return support::wave(at[0], 0, 0); });
    Number residual(g, {});
    Count iterations(g, {}), ended(g, {});
    solve::cg(a, right, {.tolerance = 1e-12}).into(want, residual, iterations, ended);
    const int needed = iterations.item();
    solve::cg(b, right, {.tolerance = 1e-12}).into(got, residual, iterations, ended);
    EXPECT_EQ(ended.item(), static_cast<int>(solve::ended::converged));
    EXPECT_LE(std::abs(iterations.item() - needed), 1);
    expect_near(got, want, 1e-11);
  }
}

// The state of an own operation: a KokkosSparse matrix of each device, which it applies to the rows of its shard.
using line = Kokkos::View<double*, Kokkos::LayoutLeft, cleave::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
using crs =
    KokkosSparse::CrsMatrix<double, int, Kokkos::Device<cleave::execution_space, cleave::memory_space>, void, int>;
inline constexpr cleave::dim<"time"> steps;
using Rows = cleave::tensor<double, mesh(row / data / model, steps)>;
using Steps = cleave::tensor<double, mesh(row, steps / data)>;

struct smoother {
  crs matrix;
  /// 1, 2 and 3 times an element and those beside it.
  static crs made(int n) {
    Kokkos::View<int*, Kokkos::HostSpace> begins("begins", static_cast<std::size_t>(n) + 1),
        columns("columns", static_cast<std::size_t>(3 * n - 2));
    Kokkos::View<double*, Kokkos::HostSpace> values("values", columns.extent(0));
    int entries = 0;
    for (int i = 0; i < n; ++i) {
      for (int j = std::max(i - 1, 0); j <= std::min(i + 1, n - 1); ++j, ++entries) {
        columns(static_cast<std::size_t>(entries)) = j;
        values(static_cast<std::size_t>(entries)) = 2 + j - i;
      }
      begins(static_cast<std::size_t>(i) + 1) = entries;
    }
    const auto on_device = [](const auto& view) {
      return Kokkos::create_mirror_view_and_copy(cleave::memory_space{}, view);
    };
    return {"smoother", n, n, entries, on_device(values), on_device(begins), on_device(columns)};
  }
  explicit smoother(int n) : matrix(made(n)) {}
};
struct smoothed_by_kokkos {
  static constexpr std::string_view name = "smoothed";
  void operator()(const cleave::local_context& here, std::span<const cleave::shard> in,
                  const cleave::shard& out) const {
    const crs& a = cleave::object_of<smoother>(here, in[1]).matrix;
    const auto from = in[0].view<double**>();
    const auto to = out.view<double**>();
    const std::size_t n = from.extent(1);
    for (std::size_t i = 0; i < from.extent(0); ++i)
      KokkosSparse::spmv(cleave::execution_instance(), "N", 1.0, a, line(from.data() + i * n, n), 0.0,
                         line(to.data() + i * n, n));
  }
};
constexpr cleave::function smoothed([](auto x, auto with) {
  return cleave::call<smoothed_by_kokkos>(cleave::whole(steps), 2 * x, with);
});
static_assert(cleave::plan<Rows(Rows, std::int64_t)>(smoothed).collectives() == 0);

TEST(kokkos_sparse, an_own_operation_keeps_a_matrix_of_kokkos) {
  constexpr std::int64_t rows = 7, n = 9;
  const auto at = [](std::int64_t i, std::int64_t j) { return static_cast<double>(10 * i + j); };
  for (const cleave::grid& g : support::grids(mesh)) {
    const cleave::object<smoother> state(g, static_cast<int>(n));
    const auto expect = [&](auto y) {
      const std::vector<double> got = y.to_global();
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < n; ++j) {
          double want = 0;
          for (std::int64_t k = std::max<std::int64_t>(j - 1, 0); k <= std::min(j + 1, n - 1); ++k)
            want += static_cast<double>(2 + k - j) * 2 * at(i, k);
          EXPECT_EQ(got[static_cast<std::size_t>(i * n + j)], want);
        }
    };
    const auto fill = [&](const auto& x) { x.fill_by([&](const auto& i) { return at(i[0], i[1]); }); };
    Rows x(g, {rows, n}), y(g, {rows, n});
    fill(x);
    y = smoothed(x, state.handle());
    expect(y);
    Steps s(g, {rows, n}), t(g, {rows, n});
    fill(s);
    t = smoothed(s, state.handle());
    expect(t);
  }
}

} // namespace CLEAVE_SOURCE
