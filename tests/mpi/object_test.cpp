// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/object.hpp>

#include <gtest/gtest.h>

#include <cmath>

// Kernels on shards that use an object of the user and scratch memory: tridiagonal systems along a dim, factored once.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using Rows = cleave::tensor<double, mesh(row / data / model, col)>;
using Cols = cleave::tensor<double, mesh(row, col / data)>;
constexpr std::int64_t rows = 7, cols = 9;

using line = Kokkos::View<double*, cleave::memory_space>;
template <class Data>
using matrix = Kokkos::View<Data, Kokkos::LayoutRight, cleave::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

/// The matrix with `centre` on its diagonal and -1 beside it, factored for Thomas' algorithm: below(i) is what the row
/// before is multiplied with, and inverse(i) is one over the pivot.
struct tridiagonal {
  line inverse;
  explicit tridiagonal(double centre, std::int64_t n) : inverse("inverse", static_cast<std::size_t>(n)) {
    const auto host = Kokkos::create_mirror_view(inverse);
    for (std::size_t i = 0; i < host.extent(0); ++i) host(i) = 1 / (centre - (i == 0 ? 0 : host(i - 1)));
    Kokkos::deep_copy(inverse, host);
  }
};

struct solve_lines {
  line inverse;
  matrix<const double**> from;
  matrix<double*> scratch;
  matrix<double**> to;
  CLEAVE_FUNCTION void operator()(std::size_t r) const {
    const std::size_t n = from.extent(1);
    double* const y = &scratch(r * n);
    for (std::size_t i = 0; i < n; ++i) y[i] = inverse(i) * (from(r, i) + (i == 0 ? 0 : y[i - 1]));
    for (std::size_t i = n; i-- > 0;) to(r, i) = y[i] + (i + 1 == n ? 0 : inverse(i) * to(r, i + 1));
  }
};
struct solve {
  static constexpr std::string_view name = "solve";
  static std::int64_t workspace(std::span<const cleave::shape> local) { return 8 * local[0][0] * local[0][1]; }
  static constexpr double flops(std::span<const cleave::shape> whole, const cleave::shard_dims&) {
    return 4 * static_cast<double>(whole[0][0] * whole[0][1]);
  }
  void operator()(const cleave::local_context& here, std::span<const cleave::shard> in,
                  const cleave::shard& out) const {
    const auto from = in[0].view<const double**>();
    const auto scratch = here.workspace<double>();
    EXPECT_EQ(scratch.extent(0), from.size());
    Kokkos::parallel_for("solve", Kokkos::RangePolicy<cleave::execution_space>(0, from.extent(0)),
                         solve_lines{cleave::object_of<tridiagonal>(here, in[1]).inverse, from, scratch,
                                     out.view<double**>()});
  }
};

struct doubled {
  const double* from;
  double* to;
  CLEAVE_FUNCTION void operator()(std::int64_t i) const { to[i] = 2 * from[i]; }
};
/// Asks for a number for each index of the whole rows and each device, and counts what it was given.
struct asks_here {
  static constexpr std::string_view name = "asks_here";
  static std::int64_t workspace(const cleave::local_context& here, std::span<const cleave::shard> all) {
    EXPECT_EQ(all.size(), 2u);
    EXPECT_EQ(all[0].dims.find(col), 1);
    return 8 * all[0].global[0] * here.size(data) + 8 * all[1].local[1];
  }
  void operator()(const cleave::local_context& here, std::span<const cleave::shard> in,
                  const cleave::shard& out) const {
    const auto scratch = here.workspace<double>();
    EXPECT_EQ(std::ssize(scratch), in[0].global[0] * here.size(data) + out.local[1]);
    Kokkos::deep_copy(scratch, 1.0);
    const double* const from = in[0].view<const double**>().data();
    cleave::launch("doubled", in[0].local.elements(), doubled{from, out.view<double**>().data()});
  }
};

double wave(std::int64_t i, std::int64_t j) { return std::sin(0.3 + 0.7 * double(i) + 1.3 * double(j)); }

/// The solution of one line, by plain elimination.
std::vector<double> reference(double centre, std::vector<double> b) {
  std::vector<double> pivot(b.size(), centre);
  for (std::size_t i = 1; i < b.size(); ++i) {
    pivot[i] = centre - 1 / pivot[i - 1];
    b[i] += b[i - 1] / pivot[i - 1];
  }
  for (std::size_t i = b.size(); i-- > 0;) b[i] = (b[i] + (i + 1 < b.size() ? b[i + 1] : 0)) / pivot[i];
  return b;
}
std::vector<double> wave_of(std::int64_t i) {
  std::vector<double> b;
  for (std::int64_t j = 0; j < cols; ++j) b.push_back(wave(i, j));
  return b;
}
template <class X>
void expect_solution(const X& x, std::initializer_list<double> centres) {
  const auto got = x.to_global();
  for (std::int64_t i = 0; i < rows; ++i) {
    std::vector<double> want = wave_of(i);
    for (double centre : centres) want = reference(centre, want);
    for (std::int64_t j = 0; j < cols; ++j)
      ASSERT_NEAR(got[std::size_t(i * cols + j)], want[std::size_t(j)], 1e-13) << i << ' ' << j;
  }
}
template <class X>
X filled(const cleave::grid& g) {
  X x(g, {rows, cols});
  x.fill_by([](const auto& at) { return wave(at[0], at[1]); });
  return x;
}

constexpr cleave::function solved([](auto matrix, auto b) {
  return cleave::call<solve>(cleave::whole(col), b, matrix);
});
constexpr cleave::function solved_thrice([](auto matrix, auto b) {
  return cleave::repeat_times(3, b, [&](auto x) { return cleave::call<solve>(cleave::whole(col), x, matrix); });
});

static_assert(cleave::plan<Rows(std::int64_t, Rows)>(solved).collectives() == 0);
static_assert(cleave::plan<Cols(std::int64_t, Cols)>(solved).count(cleave::kind::all_to_all) == 2);

TEST(objects, a_kernel_finds_the_object_of_its_handle) {
  for (const cleave::grid& g : support::grids(mesh)) {
    cleave::object<tridiagonal> four(g, 4.0, cols), three(g, 3.0, cols);
    EXPECT_NE(four.handle(), three.handle());
    Rows x(g, {rows, cols});
    const Rows b = filled<Rows>(g);
    x = solved(four.handle(), b);
    expect_solution(x, {4});
    x = solved(three.handle(), x);
    expect_solution(x, {4, 3});
    x = cleave::call<solve>(cleave::whole(col), b, three.handle());
    expect_solution(x, {3});
    Cols y(g, {rows, cols});
    y = solved(four.handle(), filled<Cols>(g));
    expect_solution(y, {4});
  }
}

TEST(objects, in_loops) {
  for (const cleave::grid& g : support::grids(mesh)) {
    cleave::object<tridiagonal> four(g, 4.0, cols);
    Rows x(g, {rows, cols});
    x = solved_thrice(four.handle(), filled<Rows>(g));
    expect_solution(x, {4, 4, 4});
  }
}

TEST(objects, moved_objects_keep_their_handles) {
  const cleave::grid g = support::grids(mesh).front();
  cleave::object<tridiagonal> first(g, 4.0, cols);
  const std::int64_t handle = first.handle();
  cleave::object<tridiagonal> second(std::move(first));
  EXPECT_EQ(second.handle(), handle);
  cleave::object<tridiagonal> third(g, 3.0, cols);
  third = std::move(second);
  EXPECT_EQ(third.handle(), handle);
  Rows x(g, {rows, cols});
  x = solved(third.handle(), filled<Rows>(g));
  expect_solution(x, {4});
}

template <class F>
std::string what_is_thrown(F&& f) {
  try {
    f();
  } catch (const cleave::grid_error& e) {
    return e.what();
  }
  return "nothing";
}

TEST(objects, a_handle_without_its_object_is_an_error_on_all_devices) {
  const cleave::grid g = support::grids(mesh).front();
  Rows x(g, {rows, cols});
  const Rows b = filled<Rows>(g);
  std::int64_t gone = 0;
  {
    cleave::object<tridiagonal> short_lived(g, 4.0, cols);
    gone = short_lived.handle();
  }
  EXPECT_EQ(what_is_thrown([&] { x = solved(gone, b); }),
            "cleave: a kernel was given the handle " + std::to_string(gone) + ", which is no object of its grid");
  cleave::object<std::vector<double>> other(g, std::size_t{3});
  EXPECT_NE(other.handle(), gone);
  EXPECT_EQ(what_is_thrown([&] { x = solved(other.handle(), b); }), "cleave: a kernel was given the handle " +
                                                                        std::to_string(other.handle()) +
                                                                        ", and asks for its object by another type");
  // Of another grid with as many objects.
  const cleave::grid apart(g.mesh(), g.comm(), std::vector<std::int64_t>{g.size(data), g.size(model)});
  Rows y(apart, {rows, cols});
  EXPECT_EQ(what_is_thrown([&] { y = solved(other.handle(), filled<Rows>(apart)); }),
            "cleave: a kernel was given the handle " + std::to_string(other.handle()) +
                ", which is no object of its grid");
}

TEST(objects, a_workspace_from_the_context) {
  for (const cleave::grid& g : support::grids(mesh)) {
    Rows x(g, {rows, cols});
    x = cleave::call<asks_here>(cleave::whole(col), filled<Rows>(g));
    const auto got = x.to_global(), from = filled<Rows>(g).to_global();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], 2 * from[i]);
  }
}

} // namespace CLEAVE_SOURCE
