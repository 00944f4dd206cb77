// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/stencil/field.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

// Kernels of the user that read neighbours around their shards, or change a shard in place, against plain loops.

namespace CLEAVE_SOURCE {

namespace stencil = cleave::stencil;
using cleave::tensor;

inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ay, ax};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"field"> component;
using Field = tensor<double, mesh(row / ay, col / ax)>;
using Turned = tensor<double, mesh(row / ax, col / ay)>;
using Whole = tensor<double, mesh(row, col)>;

double wave(std::int64_t i, std::int64_t j) {
  return std::sin(0.3 + 0.7 * cleave::as_double(i) + 1.3 * cleave::as_double(j));
}

/// A plain array with conditions at its faces.
struct plain {
  std::int64_t rows, cols;
  std::vector<double> at = std::vector<double>(static_cast<std::size_t>(rows * cols));
  double& operator()(std::int64_t i, std::int64_t j) { return at[static_cast<std::size_t>(i * cols + j)]; }
};
plain waves(std::int64_t rows, std::int64_t cols) {
  plain p{rows, cols};
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) p(i, j) = wave(i, j);
  return p;
}

template <class T>
using matrix = Kokkos::View<T**, Kokkos::LayoutRight, cleave::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
using rows_and_cols = Kokkos::MDRangePolicy<cleave::execution_space, Kokkos::Rank<2>, Kokkos::IndexType<std::int64_t>>;

/// The functor of a code with ghost cells: Gauss-Seidel on the elements of one colour, in place.
struct relax {
  matrix<double> u;
  matrix<const double> f;
  std::int64_t ghosts, colour;
  CLEAVE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const {
    if ((i + j + colour) % 2 != 0) return;
    const std::int64_t k = i + ghosts, l = j + ghosts;
    u(k, l) = 0.25 * (u(k - 1, l) + u(k + 1, l) + u(k, l - 1) + u(k, l + 1) + f(i, j));
  }
};
template <int Colour>
struct relaxed {
  static constexpr std::string_view name = "relaxed";
  static constexpr int halo = 1;
  static constexpr bool in_place = true;
  void operator()(const cleave::local_context&, std::span<const cleave::shard> in, const cleave::shard& u) const {
    ASSERT_TRUE(u.local[0] * u.local[1] == 0 || (u.before[0] == 1 && u.after[1] == 1));
    const relax one{u.view<double**>(), in[1].view<const double**>(), u.before[0], u.offset[0] + u.offset[1] + Colour};
    Kokkos::parallel_for("relax", rows_and_cols({0, 0}, {u.local[0], u.local[1]}), one);
  }
};
constexpr auto around = [](auto u) {
  return stencil::star<1>(u, along(row, stencil::zero_gradient), along(col, stencil::periodic));
};
constexpr cleave::function sweep([](auto u, auto f) {
  const auto red = cleave::call<relaxed<0>>(cleave::whole(), around(u), f);
  return cleave::call<relaxed<1>>(cleave::whole(), around(red), f);
});
constexpr cleave::function sweeps([](auto u, auto f) {
  return cleave::repeat_times(3, u, [f](auto v) { return sweep(v, f); });
});
constexpr auto planned = cleave::plan<Field(Field, Field)>(sweep);
// Each colour brings a halo of one element, without corners.
static_assert(planned.collectives() == 2 && planned.count(cleave::kind::exchange) == 2);
static_assert(planned.bytes({row = 512, col = 512, ay = 4, ax = 4}) == 2 * 4 * 128 * 8);

void relax_plainly(plain& u, plain& f) {
  for (int colour = 0; colour < 2; ++colour)
    for (std::int64_t i = 0; i < u.rows; ++i)
      for (std::int64_t j = 0; j < u.cols; ++j)
        if ((i + j + colour) % 2 == 0)
          u(i, j) = 0.25 * (u(std::max<std::int64_t>(i - 1, 0), j) + u(std::min(i + 1, u.rows - 1), j) +
                            u(i, (j + u.cols - 1) % u.cols) + u(i, (j + 1) % u.cols) + f(i, j));
}
TEST(kernel_halos, relax_in_place_as_a_plain_loop) {
  for (const cleave::grid& g : support::grids(mesh))
    for (std::int64_t rows : {3, 8, 13}) {
      plain u = waves(rows, 10), f = waves(rows, 10);
      Field x(g, {rows, 10}), rhs(g, {rows, 10}), y(g, {rows, 10});
      x.fill_by([](const auto& at) { return wave(at[0], at[1]); });
      rhs.fill_by([](const auto& at) { return wave(at[0], at[1]); });
      Turned t(g, {rows, 10});
      Whole w(g, {rows, 10}), b(g, {rows, 10});
      t = x, w = x, b = rhs;
      y = sweep(x, rhs);
      relax_plainly(u, f);
      EXPECT_EQ(y.to_global(), u.at);
      EXPECT_EQ(x.to_global(), f.at); // the argument is as it was
      relax_plainly(u, f);
      relax_plainly(u, f);
      // In checked mode, elements that nothing has written are NaN.
      g.check({.calls = true, .nans = true});
      w = sweeps(w, b);
      g.check({});
      EXPECT_EQ(w.to_global(), u.at);
      x = sweeps(x, rhs);
      EXPECT_EQ(x.to_global(), u.at);
      t = sweeps(t, rhs);
      x = t;
      EXPECT_EQ(x.to_global(), u.at);
    }
}

TEST(kernel_halos, move_what_their_plans_say) {
  for (const cleave::grid& g : support::grids(mesh)) {
    Field x(g, {24, 48}), f(g, {24, 48}), y(g, {24, 48});
    x.fill(1), f.fill(2);
    y = sweep(x, f);
    support::reset_charges();
    y = sweep(x, f);
    EXPECT_EQ(support::over_ranks(support::charged_bytes()),
              planned.bytes({row = 24, col = 48, ay = g.size(ay), ax = g.size(ax)}));
  }
}

/// Upwind of third order along the rows, with elements two away, and the user's own condition at the first face.
struct upwind {
  matrix<const double> u;
  matrix<double> to;
  std::int64_t before, first;
  double at_face;
  CLEAVE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const {
    const auto near = [&](std::int64_t by) { return first + i + by < 0 ? at_face : u(i + before + by, j); };
    to(i, j) = near(0) - 0.25 * (2 * near(1) + 3 * near(0) - 6 * near(-1) + near(-2)) / 6;
  }
};
struct advected {
  static constexpr std::string_view name = "advected";
  static constexpr int halo = 2;
  void operator()(const cleave::local_context&, std::span<const cleave::shard> in, const cleave::shard& out) const {
    const cleave::shard& u = in[0];
    EXPECT_EQ(u.at_low_face(row), u.local[0] > 0 && u.offset[0] < 2);
    EXPECT_EQ(u.at_high_face(row), u.local[0] > 0 && u.offset[0] + u.local[0] > u.global[0] - 2);
    EXPECT_FALSE(u.at_low_face(component));
    Kokkos::parallel_for("upwind", rows_and_cols({0, 0}, {u.local[0], u.local[1]}),
                         upwind{u.view<const double**>(), out.view<double**>(), u.before[0],
                                u.at_low_face(row) ? u.offset[0] : 1000, 0.5});
  }
};
constexpr auto upstream = [](auto u) { return stencil::star<2>(u, along(row, stencil::fixed(0))); };
// The planner may shard the columns and the rows; by hand, the layout is given.
constexpr cleave::function advect([](auto u) { return cleave::call<advected>(cleave::whole(), upstream(2 * u)) + u; });
constexpr cleave::function by_hand([](auto u) {
  constexpr auto layout = mesh(row / ay / ax, col);
  return cleave::local<advected>(cleave::result<double>(layout), upstream(reshard(2 * u, layout))) + u;
});
TEST(kernel_halos, see_the_faces_of_the_domain) {
  for (const cleave::grid& g : support::grids(mesh))
    for (std::int64_t rows : {2, 5, 16}) {
      plain u = waves(rows, 7), wanted(rows, 7);
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < 7; ++j) {
          const auto near = [&](std::int64_t by) { return i + by < 0 ? 0.5 : i + by < rows ? 2 * u(i + by, j) : 0.0; };
          wanted(i, j) = near(0) - 0.25 * (2 * near(1) + 3 * near(0) - 6 * near(-1) + near(-2)) / 6 + u(i, j);
        }
      Field x(g, {rows, 7}), y(g, {rows, 7});
      Whole w(g, {rows, 7});
      x.fill_by([](const auto& at) { return wave(at[0], at[1]); });
      w = x;
      y = advect(x);
      EXPECT_EQ(y.to_global(), wanted.at);
      y = by_hand(x);
      EXPECT_EQ(y.to_global(), wanted.at);
      w = advect(w);
      EXPECT_EQ(w.to_global(), wanted.at);
    }
}

/// Adds the elements before it, of another array with the same elements, in place.
struct lag {
  matrix<double> u;
  matrix<const double> old;
  CLEAVE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const { u(i + 1, j + 1) += old(i, j + 1); }
};
struct lagged {
  static constexpr std::string_view name = "lagged";
  static constexpr int halo = 1;
  static constexpr bool in_place = true;
  void operator()(const cleave::local_context&, std::span<const cleave::shard> in, const cleave::shard& u) const {
    Kokkos::parallel_for("lag", rows_and_cols({0, 0}, {u.local[0], u.local[1]}),
                         lag{u.view<double**>(), in[1].view<const double**>()});
  }
};
TEST(kernel_halos, change_an_array_that_nothing_else_reads) {
  constexpr cleave::function together([](auto u, auto f) {
    const auto first = cleave::call<relaxed<0>>(cleave::whole(), around(u), f);
    const auto second = cleave::call<lagged>(cleave::whole(), around(u), around(u));
    return first + 3 * second + cleave::call<relaxed<1>>(cleave::whole(), around(u), f);
  });
  for (const cleave::grid& g : support::grids(mesh)) {
    const plain u = waves(9, 6);
    Field x(g, {9, 6}), y(g, {9, 6});
    x.fill_by([](const auto& at) { return wave(at[0], at[1]); });
    y = together(x, x);
    std::vector<double> wanted;
    for (std::int64_t i = 0; i < 9; ++i)
      for (std::int64_t j = 0; j < 6; ++j) {
        const auto at = [&](std::int64_t k, std::int64_t l) {
          return u.at[static_cast<std::size_t>(std::clamp<std::int64_t>(k, 0, 8) * 6 + (l + 6) % 6)];
        };
        const double relaxed_here = 0.25 * (at(i - 1, j) + at(i + 1, j) + at(i, j - 1) + at(i, j + 1) + at(i, j));
        const bool even = (i + j) % 2 == 0;
        wanted.push_back((even ? relaxed_here : at(i, j)) + 3 * (at(i, j) + at(i - 1, j)) +
                         (even ? at(i, j) : relaxed_here));
      }
    EXPECT_EQ(y.to_global(), wanted);
  }
}

/// Doubles a shard in place: nothing is copied where the operand is not needed any more.
struct twice {
  matrix<double> u;
  CLEAVE_FUNCTION void operator()(std::int64_t i, std::int64_t j) const { u(i, j) *= 2; }
};
struct doubled {
  static constexpr std::string_view name = "doubled";
  static constexpr bool in_place = true;
  static inline const void *from = nullptr, *to = nullptr;
  void operator()(const cleave::local_context&, std::span<const cleave::shard> in, const cleave::shard& u) const {
    from = in[0].data, to = u.data;
    Kokkos::parallel_for("twice", rows_and_cols({0, 0}, {u.local[0], u.local[1]}), twice{u.view<double**>()});
  }
};
TEST(kernel_halos, change_memory_that_nothing_else_reads) {
  constexpr cleave::function last([](auto u) { return cleave::call<doubled>(cleave::whole(), u + 1) + 1; });
  constexpr cleave::function kept([](auto u) {
    const auto more = u + 1;
    return cleave::call<doubled>(cleave::whole(), more) + cleave::roll(more, row, 1);
  });
  constexpr cleave::function by_hand([](auto u) {
    constexpr auto layout = mesh(row / ay, col);
    return cleave::local<doubled>(cleave::result<double>(layout), reshard(u, layout)) + 0;
  });
  for (const cleave::grid& g : support::grids(mesh)) {
    Field x(g, {9, 6}), y(g, {9, 6});
    x.fill_by([](const auto& at) { return wave(at[0], at[1]); });
    y = last(x);
    EXPECT_EQ(doubled::from, doubled::to);
    const auto one = y.to_global();
    y = kept(x);
    const auto two = y.to_global();
    y = by_hand(x);
    const auto three = y.to_global();
    for (std::int64_t i = 0; i < 9; ++i)
      for (std::int64_t j = 0; j < 6; ++j) {
        const auto at = static_cast<std::size_t>(i * 6 + j);
        ASSERT_EQ(one[at], (wave(i, j) + 1) * 2 + 1);
        ASSERT_EQ(two[at], (wave(i, j) + 1) * 2 + (wave((i + 8) % 9, j) + 1));
        ASSERT_EQ(three[at], wave(i, j) * 2);
      }
    plain unchanged = waves(9, 6);
    EXPECT_EQ(x.to_global(), unchanged.at);
  }
}

} // namespace CLEAVE_SOURCE
