// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace names {
inline constexpr cleave::axis<"a"> a;
inline constexpr cleave::axis<"b"> b;
inline constexpr cleave::axis<"b", 1> one;
inline constexpr cleave::mesh mesh{a, b};
inline constexpr cleave::mesh narrow{a, one};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"fixed", 4> fixed;

using matrix = cleave::tensor<float, mesh(row / a, col / b)>;
using flat = cleave::tensor<double, mesh(row / b / a)>;
using partial = cleave::tensor<double, mesh(row, cleave::unreduced(a, b))>;
using largest = cleave::tensor<int, mesh(row, cleave::unreduced<cleave::reduction::max>(b))>;
using flags = cleave::tensor<bool, mesh(row / a)>;
using number = cleave::tensor<std::int64_t, mesh()>;
using half_fixed = cleave::tensor<float, mesh(row / a, fixed)>;

// In an alias template it is the same type.
template <class T, auto Layout>
using alias = cleave::tensor_in<T, Layout>;
static_assert(std::is_same_v<alias<float, mesh(row / a, col / b)>, matrix>);
static_assert(std::is_same_v<alias<int, mesh(row, cleave::unreduced<cleave::reduction::max>(b))>, largest>);
static_assert(std::is_same_v<alias<std::int64_t, mesh()>, number>);
} // namespace names

namespace CLEAVE_SOURCE {

using cleave::grid;

std::vector<grid> grids() {
  std::vector<grid> all;
  for (const auto& sizes : support::factorings(support::ranks(), 2))
    all.emplace_back(names::mesh, MPI_COMM_WORLD, sizes);
  return all;
}
/// What an exception of type E says; empty if none comes.
template <class E, class F>
std::string says(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(tensor, values_and_places) {
  for (const grid& g : grids())
    for (std::int64_t rows : {0, 1, 5, 16}) {
      names::matrix m(g, {rows, 7});
      for (float v : m.to_global()) EXPECT_EQ(v, 0);
      m.fill_by([](const auto& at) { return static_cast<float>(10 * at[0] + at[1]); });
      const auto all = m.to_global();
      int wrong = 0;
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < 7; ++j)
          wrong += all[static_cast<std::size_t>(i * 7 + j)] == static_cast<float>(10 * i + j) ? 0 : 1;
      EXPECT_EQ(wrong, 0);
      EXPECT_EQ(m.extent(names::row), rows);
      EXPECT_EQ(m.extents()[1], 7);
      EXPECT_EQ(m.size(), rows * 7);
      const auto view = support::read(m.view());
      EXPECT_EQ(static_cast<std::int64_t>(view.extent(0)), m.local_extents()[0]);
      for (std::size_t i = 0; i < view.extent(0); ++i)
        for (std::size_t j = 0; j < view.extent(1); ++j)
          wrong += view(i, j) == static_cast<float>(10 * (static_cast<std::int64_t>(i) + m.offset()[0]) +
                                                    static_cast<std::int64_t>(j) + m.offset()[1])
                       ? 0
                       : 1;
      EXPECT_EQ(wrong, 0);

      names::flat f(g, {rows});
      f.fill_by([](const auto& at) { return static_cast<double>(at[0]); });
      const auto line = f.to_global();
      for (std::size_t i = 0; i < line.size(); ++i) wrong += line[i] == static_cast<double>(i) ? 0 : 1;
      EXPECT_EQ(wrong, 0);
    }
}
TEST(tensor, aliases_share_the_data) {
  const grid g = grids().front();
  names::flags x(g, {9});
  const names::flags y = x.alias();
  x.fill_by([](const auto& at) { return at[0] % 3 == 0; });
  const auto all = y.to_global();
  for (std::size_t i = 0; i < 9; ++i) EXPECT_EQ(all[i], i % 3 == 0);
  EXPECT_EQ(x.data(), y.data());
}
// A copy in a kernel would have elements of its own, and what the kernel writes would be lost.
TEST(tensor, kernels_capture_views) {
  using host = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>;
  const auto error_of = [](const auto& kernel) -> std::string {
    try {
      kernel();
    } catch (const cleave::view_error& e) {
      return e.what();
    }
    return "nothing";
  };
  const std::string expected =
      "cleave: a kernel captures a tensor; that is a copy, and what the kernel writes into it "
      "is lost: capture x.view()";
  const grid g = grids().front();
  names::flags x(g, {9});
  EXPECT_EQ(error_of([&] { Kokkos::parallel_for(host(0, x.local_size()), [=](int i) { x.data()[i] = true; }); }),
            expected);
  EXPECT_EQ(error_of([&] {
              int all = 0;
              Kokkos::parallel_reduce(host(0, x.local_size()), [=](int i, int& sum) { sum += int{x.data()[i]}; }, all);
            }),
            expected);
  // Kokkos counts the owners of Views afterwards as before.
  const Kokkos::View<int*, Kokkos::HostSpace> owned("owned", 2);
  const auto same = owned;
  EXPECT_EQ(owned.use_count(), 2);
  if constexpr (cleave::on_host) {
    const auto elements = x.view();
    Kokkos::parallel_for(host(0, x.local_size()), [=](int i) { elements(i) = i % 2 == 0; });
    const auto reference = [&](int i) { x.data()[i] = !x.data()[i]; };
    Kokkos::parallel_for(host(0, x.local_size()), reference);
    const auto all = x.to_global();
    const std::int64_t first = x.offset()[0];
    for (std::int64_t i = 0; i < x.local_size(); ++i) EXPECT_EQ(all[cleave::as_size(first + i)], i % 2 != 0);
  }
}
TEST(tensor, without_a_grid) {
  const auto error_of = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const cleave::grid_error& e) {
      return e.what();
    }
    return "nothing";
  };
  const grid g = grids().front();
  names::flat x(g, {4}), none, one(g, {4});
  constexpr cleave::function two([](auto a) { return std::pair(a + 1.0, a * 2.0); });
  EXPECT_EQ(error_of([&] { none = x + 1.0; }),
            "cleave: the result, to which the statement is assigned, has no grid: construct it with a grid or with the "
            "statement");
  EXPECT_EQ(error_of([&] { one = x + none; }), "cleave: argument 1 of the call has no grid");
  EXPECT_EQ(error_of([&] { two(x).into(one, none); }), "cleave: result 1 of the call has no grid");
  EXPECT_EQ(error_of([&] { none.fill(1); }), "cleave: the tensor has no grid");
  none = one;
  none = x + 1.0;
}
TEST(tensor, partial_values) {
  for (const grid& g : grids()) {
    names::partial p(g, {3});
    p.fill(2.5);
    for (double v : p.to_global()) EXPECT_EQ(v, 2.5);
    names::largest q(g, {4});
    q.fill_by([](const auto& at) { return static_cast<int>(at[0]) - 7; });
    const auto all = q.to_global();
    for (int i = 0; i < 4; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], i - 7);
  }
}
TEST(tensor, rank_0) {
  const grid g = grids().front();
  names::number n(g, std::initializer_list<std::int64_t>{});
  n.fill(41);
  EXPECT_EQ(n.item(), 41);
  EXPECT_EQ(support::read(n.view())(), 41);
  EXPECT_EQ(n.size(), 1);
}
TEST(tensor, wrapped_views) {
  using memory_2d = Kokkos::View<float**, Kokkos::LayoutRight, cleave::memory_space>;
  for (const grid& g : grids()) {
    const names::matrix shape(g, {6, 10});
    const auto local = shape.local_extents();
    const auto rows = static_cast<std::size_t>(local[0]), cols = static_cast<std::size_t>(local[1]);
    const memory_2d mine("mine", rows, cols);
    names::matrix m(g, {6, 10}, mine);
    EXPECT_EQ(m.data(), mine.data());
    m.fill(3);
    const auto elements = support::read(mine);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < cols; ++j) EXPECT_EQ(elements(i, j), 3);

    // One wrong View is an error on all ranks, which says where.
    const bool here = support::rank() == support::ranks() - 1;
    const memory_2d longer("longer", rows + (here ? 1 : 0), cols);
    const std::string extent = says<cleave::view_error>([&] { names::matrix(g, {6, 10}, longer); });
    EXPECT_TRUE(has(extent, "'row'") && has(extent, "rank " + std::to_string(support::ranks() - 1))) << extent;
    const std::string rank = says<cleave::view_error>(
        [&] { names::matrix(g, {6, 10}, Kokkos::View<float*, cleave::memory_space>("line", 4)); });
    EXPECT_TRUE(has(rank, "rank 1")) << rank;
  }
}
TEST(tensor, extents_are_agreed) {
  const grid g = grids().front();
  const std::string missing = says<cleave::shape_error>([&] { names::matrix(g, {3}); });
  EXPECT_TRUE(has(missing, "2 dims") && has(missing, "1 extents")) << missing;
  const std::string negative = says<cleave::shape_error>([&] { names::matrix(g, {3, -2}); });
  EXPECT_TRUE(has(negative, "'col'") && has(negative, "-2")) << negative;
  const std::string fixed = says<cleave::shape_error>([&] { names::half_fixed(g, {3, 5}); });
  EXPECT_TRUE(has(fixed, "'fixed'") && has(fixed, "4") && has(fixed, "5")) << fixed;
  const std::string differ = says<cleave::shape_error>([&] { names::matrix(g, {3 + support::rank(), 2}); });
  EXPECT_EQ(has(differ, "'row'"), support::ranks() > 1) << differ;
  EXPECT_THROW(names::matrix().view(), cleave::grid_error);
  EXPECT_THROW(names::matrix(grid(), {1, 1}), cleave::grid_error);
}
TEST(grid, sizes_are_agreed) {
  const std::int64_t n = support::ranks();
  const auto make = [](const auto& mesh, std::initializer_list<std::int64_t> sizes) {
    return says<cleave::mesh_error>([&] { grid(mesh, MPI_COMM_WORLD, sizes); });
  };
  EXPECT_EQ(make(names::mesh, {n, 1}), "");
  EXPECT_TRUE(has(make(names::mesh, {n + 1, 1}), "communicator has " + std::to_string(n) + " ranks"));
  EXPECT_TRUE(has(make(names::mesh, {n}), "2 axes"));
  EXPECT_TRUE(has(make(names::mesh, {n, 0}), "'b'"));
  EXPECT_TRUE(has(make(names::narrow, {1, n}), n == 1 ? "" : "fixed to size 1"));
  EXPECT_EQ(make(names::mesh, {n, 1 + support::rank()}).empty(), n == 1);
  EXPECT_EQ(says<cleave::grid_error>([&] {
              names::matrix(grid(names::narrow, MPI_COMM_WORLD, {n, 1}), {2, 2});
            }).empty(),
            false);
}
TEST(grid, coordinates) {
  for (const grid& g : grids()) {
    EXPECT_EQ(g.rank(), g.here()[0] * g.size(names::b) + g.here()[1]);
    const cleave::comm::group& columns = g.state().group_of(2);
    EXPECT_EQ(columns.size, g.size(names::b));
    EXPECT_EQ(columns.rank, g.here()[1]);
    const cleave::comm::group& all = g.state().group_of(3);
    EXPECT_EQ(all.rank, g.rank());
  }
}
/// Objects with static lifetime outlive MPI and Kokkos; main destroys these after finalizing both.
TEST(grid, outlives_mpi) {
  const grid g = grids().front();
  auto kept = std::make_shared<std::pair<grid, names::matrix>>(g, names::matrix(g, {4, 4}));
  g.state().group_of(1);
  support::after_finalize().push_back(kept);
  const auto wrapped = std::make_shared<names::flat>(g, std::initializer_list<std::int64_t>{0},
                                                     Kokkos::View<double*, cleave::memory_space>("empty", 0));
  support::after_finalize().push_back(wrapped);
}

} // namespace CLEAVE_SOURCE
