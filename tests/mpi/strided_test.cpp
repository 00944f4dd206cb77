// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/stencil/field.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

// Tensors that wrap Views which are not contiguous. What is computed with them has the bits of what is computed with
// contiguous tensors, and nothing outside the shard is written.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"deep"> deep;
inline constexpr cleave::dim<"long"> long_dim;
inline constexpr cleave::dim<"other"> other_dim;

using field = cleave::tensor<double, mesh(row / data, col / model)>;
using turned = cleave::tensor<double, mesh(col, row / data)>;
using rows = cleave::tensor<double, mesh(row / data, deep)>;
using columns = cleave::tensor<double, mesh(deep, col / model)>;
using line = cleave::tensor<double, mesh(row / data)>;

constexpr double untouched = -77;
using memory_2d = Kokkos::View<double**, Kokkos::LayoutRight, cleave::memory_space>;
using strided_2d = Kokkos::View<double**, Kokkos::LayoutStride, cleave::memory_space>;

double wave(std::int64_t i, std::int64_t j) {
  return std::sin(0.3 + 0.7 * static_cast<double>(i) + 1.9 * static_cast<double>(j));
}
template <class Tensor>
void fill(const Tensor& t) {
  t.fill_by([](const auto& at) { return wave(at[0], at[1]); });
}

/// The interior of a View with ghosts around it, wrapped.
template <class Tensor>
struct ghosted {
  std::size_t ghosts[2], extent[2];
  memory_2d all;
  Tensor shard{};

  ghosted(const cleave::grid& g, std::initializer_list<std::int64_t> extents, std::size_t ghosts_of_rows = 2,
          std::size_t ghosts_of_columns = 3)
      : ghosts{ghosts_of_rows, ghosts_of_columns} {
    const auto local = Tensor(g, extents).local_extents();
    for (std::size_t i = 0; i < 2; ++i) extent[i] = static_cast<std::size_t>(local[i]);
    all = memory_2d("with ghosts", extent[0] + 2 * ghosts[0], extent[1] + 2 * ghosts[1]);
    Kokkos::deep_copy(all, untouched);
    shard = Tensor(g, extents, strided_2d(interior()));
  }
  template <class View>
  auto interior(const View& of) const {
    return Kokkos::subview(of, std::pair(ghosts[0], ghosts[0] + extent[0]),
                           std::pair(ghosts[1], ghosts[1] + extent[1]));
  }
  auto interior() const { return interior(all); }
  int ghosts_written() const {
    int written = 0;
    const auto elements = support::read(all);
    for (std::size_t i = 0; i < all.extent(0); ++i)
      for (std::size_t j = 0; j < all.extent(1); ++j) {
        const bool inside = i >= ghosts[0] && i < ghosts[0] + extent[0] && j >= ghosts[1] && j < ghosts[1] + extent[1];
        written += !inside && elements(i, j) != untouched ? 1 : 0;
      }
    return written;
  }
  bool in_place() const { return !shard.state().contiguous; }
};

template <class A, class B>
bool same_bits(const A& a, const B& b) {
  const auto x = a.to_global(), y = b.to_global();
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(x[0])) == 0;
}

constexpr cleave::function sweep([](auto u) {
  return 0.5 * u + 0.125 * (shift(u, row, 1) + shift(u, row, -1) + shift(u, col, 1) + shift(u, col, -1));
});

TEST(strided, values_go_in_and_out) {
  for (const cleave::grid& g : support::grids(mesh))
    for (std::int64_t n : {1, 13}) {
      const ghosted<field> u(g, {n, 9});
      EXPECT_EQ(u.shard.data(), u.interior().data());
      fill(u.shard);
      field same(g, {n, 9});
      fill(same);
      EXPECT_TRUE(same_bits(u.shard, same));
      const auto all = support::read(u.all), plain = support::read(same.view());
      for (std::size_t i = 0; i < u.extent[0]; ++i)
        for (std::size_t j = 0; j < u.extent[1]; ++j) {
          EXPECT_EQ(u.interior(all)(i, j), plain(i, j));
          if constexpr (cleave::on_host) {
            EXPECT_EQ(&u.interior()(i, j), &u.shard.strided_view()(i, j));
          }
        }
      field copy = u.shard;
      EXPECT_TRUE(same_bits(copy, same));
      copy.fill(4);
      ghosted<field> v(g, {n, 9});
      v.shard = copy;
      EXPECT_TRUE(same_bits(v.shard, copy));
      v.shard = u.shard;
      EXPECT_TRUE(same_bits(v.shard, same));
      v.shard.fill(7);
      for (double x : v.shard.to_global()) EXPECT_EQ(x, 7);
      cleave::copy(same, v.shard);
      EXPECT_TRUE(same_bits(v.shard, same));
      turned t(g, {9, n});
      cleave::copy(u.shard, t);
      const auto flat = t.to_global();
      for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(flat[static_cast<std::size_t>(8 * n + i)], wave(i, 8));
      EXPECT_EQ(u.ghosts_written() + v.ghosts_written(), 0);
    }
}

TEST(strided, stencils_use_the_view_itself) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const ghosted<field> u(g, {21, 17}), v(g, {21, 17});
    field a(g, {21, 17}), b(g, {21, 17});
    fill(a);
    fill(b);
    const auto all = support::read(u.all), plain = support::read(a.view());
    for (std::size_t i = 0; i < u.extent[0]; ++i)
      for (std::size_t j = 0; j < u.extent[1]; ++j) u.interior(all)(i, j) = plain(i, j);
    support::write(u.all, all);
    for (int step = 0; step < 3; ++step) {
      sweep(u.shard).into(v.shard);
      sweep(v.shard).into(u.shard);
      b = sweep(a);
      a = sweep(b);
    }
    EXPECT_TRUE(u.in_place() && v.in_place()) << "no contiguous copy is made";
    EXPECT_TRUE(same_bits(u.shard, a) && same_bits(v.shard, b));
    EXPECT_EQ(u.ghosts_written() + v.ghosts_written(), 0);
  }
}

TEST(strided, results_may_be_arguments) {
  for (const cleave::grid& g : support::grids(mesh)) {
    ghosted<field> u(g, {11, 14});
    field a(g, {11, 14});
    fill(u.shard);
    fill(a);
    u.shard = 2.0 * u.shard + 1.0;
    a = 2.0 * a + 1.0;
    EXPECT_TRUE(same_bits(u.shard, a)) << "element by element";
    u.shard = sweep(u.shard);
    a = sweep(a);
    EXPECT_TRUE(same_bits(u.shard, a)) << "at a distance";
    // Two Views of one memory, one row apart.
    const memory_2d all("all", u.extent[0] + 1, u.extent[1] + 5);
    const auto part = [&](std::size_t first) {
      return field(g, {11, 14},
                   strided_2d(Kokkos::subview(all, std::pair(first, first + u.extent[0]),
                                              std::pair(std::size_t{2}, 2 + u.extent[1]))));
    };
    field low = part(0), high = part(1);
    fill(low);
    high = low * 3.0;
    field expected(g, {11, 14});
    fill(expected);
    expected = expected * 3.0;
    EXPECT_TRUE(same_bits(high, expected)) << "one row further";
    EXPECT_EQ(u.ghosts_written(), 0);
  }
}

// Steps of all kinds: those that use the View, and those that need a contiguous copy.
constexpr cleave::function totals([](auto u) { return sum(u * u, col); });
constexpr cleave::function sorted([](auto u) { return sort(u, row); });
constexpr cleave::function summed([](auto u) { return cumulative_sum(u, col); });
constexpr cleave::function product([](auto l, auto r) { return dot(l, r, deep) + 1.0; });
constexpr cleave::function relaxed([](auto u) { return repeat_times(3, u, [](auto v) { return sweep(v); }); });
constexpr cleave::function both([](auto u, auto w) { return std::tuple(u + w, u - shift(w, row, 2)); });

TEST(strided, every_kind_of_step) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const ghosted<field> u(g, {12, 10}), r(g, {12, 10}), s(g, {12, 10});
    field a(g, {12, 10}), b(g, {12, 10}), c(g, {12, 10});
    fill(u.shard);
    fill(a);
    line from_strided(g, {12}), from_plain(g, {12});
    from_strided = totals(u.shard);
    from_plain = totals(a);
    EXPECT_TRUE(same_bits(from_strided, from_plain)) << "reduction";
    sorted(u.shard).into(r.shard);
    b = sorted(a);
    EXPECT_TRUE(same_bits(r.shard, b)) << "sort";
    summed(u.shard).into(r.shard);
    b = summed(a);
    EXPECT_TRUE(same_bits(r.shard, b)) << "scan";
    relaxed(u.shard).into(r.shard);
    b = relaxed(a);
    EXPECT_TRUE(same_bits(r.shard, b)) << "loop";
    turned t(g, {10, 12}), expected(g, {10, 12});
    t = u.shard;
    expected = a;
    EXPECT_TRUE(same_bits(t, expected)) << "another layout";
    both(u.shard, a).into(r.shard, s.shard);
    both(a, a).into(b, c);
    EXPECT_TRUE(same_bits(r.shard, b) && same_bits(s.shard, c)) << "two results";
    const ghosted<rows> left(g, {12, 8});
    const ghosted<columns> right(g, {8, 10});
    rows l(g, {12, 8});
    columns k(g, {8, 10});
    fill(left.shard);
    fill(l);
    fill(right.shard);
    fill(k);
    product(left.shard, right.shard).into(r.shard);
    b = product(l, k);
    // A product adds up in an order that depends on how its operands lie in memory.
    const auto got = r.shard.to_global(), wanted = b.to_global();
    for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(got[i], wanted[i], 1e-12) << "product, element " << i;
    EXPECT_EQ(u.ghosts_written() + r.ghosts_written() + s.ghosts_written(), 0);
    EXPECT_EQ(left.ghosts_written() + right.ghosts_written(), 0);
  }
}

TEST(strided, checked_mode_sees_the_values) {
  const cleave::grid g = support::grids(mesh).front();
  ghosted<field> u(g, {12, 10});
  field a(g, {12, 10});
  fill(u.shard);
  fill(a);
  cleave::checks all;
  all.calls = all.nans = true;
  g.check(all);
  u.shard = sweep(u.shard);
  a = sweep(a);
  EXPECT_TRUE(same_bits(u.shard, a));
  if (u.shard.local_size() > 0) {
    const auto elements = support::read(u.all);
    u.interior(elements)(0, 0) = std::nan("");
    support::write(u.all, elements);
  }
  EXPECT_THROW(u.shard = sweep(u.shard), cleave::nan_error);
}

TEST(strided, any_layout_of_a_view) {
  for (const cleave::grid& g : support::grids(mesh)) {
    field a(g, {9, 15}), b(g, {9, 15});
    fill(a);
    const auto local = a.local_extents();
    const auto m = static_cast<std::size_t>(local[0]), n = static_cast<std::size_t>(local[1]);
    const Kokkos::View<double**, Kokkos::LayoutLeft, cleave::memory_space> mine("left", m, n);
    field u(g, {9, 15}, mine);
    EXPECT_EQ(u.data(), mine.data());
    fill(u);
    const auto left = support::read(mine);
    const auto plain = support::read(a.view());
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) EXPECT_EQ(left(i, j), plain(i, j));
    u = sweep(u);
    b = sweep(a);
    EXPECT_TRUE(same_bits(u, b));
    // Every other element of a larger View.
    const Kokkos::View<double***, Kokkos::LayoutRight, cleave::memory_space> pairs("pairs", m, n, 2);
    field v(g, {9, 15}, Kokkos::subview(pairs, Kokkos::ALL, Kokkos::ALL, 1));
    v = sweep(a);
    EXPECT_TRUE(same_bits(v, b));
    const auto others = support::read(pairs);
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) EXPECT_EQ(others(i, j, 0), 0);
  }
}

/// A Kokkos array as it is by default on a GPU, wrapped.
template <class Tensor>
struct left_order {
  Kokkos::View<double**, Kokkos::LayoutLeft, cleave::memory_space> all;
  Tensor shard{};
  left_order(const cleave::grid& g, const Tensor& like) {
    const auto local = like.local_extents(), global = like.extents();
    all = decltype(all)("left", static_cast<std::size_t>(local[0]), static_cast<std::size_t>(local[1]));
    shard = Tensor(g, {global[0], global[1]}, all);
    shard = like;
  }
};
TEST(strided, left_order_is_computed_in_place) {
  namespace stencil = cleave::stencil;
  constexpr cleave::function five_points([](auto x, auto y) {
    const auto u = stencil::star<1>(x, along(row, stencil::zero_gradient), along(col, stencil::periodic));
    const auto v = stencil::box<2>(x * y, along(row, stencil::periodic), along(col, stencil::fixed(0)));
    return u(0, 0) + 0.2 * (u(-1, 0) + u(1, 0) + u(0, -1) + u(0, 1) - 4 * u(0, 0)) + v(-2, 1) * v(2, 2) - v(1, -2);
  });
  constexpr cleave::function row_sums([](auto x, auto y) { return sum(2 * x * y, col); });
  constexpr cleave::function row_maxima([](auto x) { return max(x, col); });
  constexpr cleave::function plain_sums([](auto x) { return sum(x, col); });
  constexpr cleave::function by_index([](auto x) { return x * cleave::iota<double>(x, row); });
  for (const cleave::grid& g : support::grids(mesh))
    for (const std::int64_t m : {9, 700})
      for (const std::int64_t n : {15, 170}) {
        field a(g, {m, n}), b(g, {m, n}), c(g, {m, n});
        fill(a);
        b = a * a + 0.5;
        const left_order<field> u(g, a), v(g, b), w(g, a);
        field target = w.shard.alias();
        target = 2 * u.shard + v.shard;
        EXPECT_FALSE(target.was_copied() || u.shard.was_copied());
        c = 2 * a + b;
        EXPECT_TRUE(same_bits(target, c));
        target = five_points(u.shard, v.shard);
        EXPECT_FALSE(target.was_copied() || u.shard.was_copied());
        c = five_points(a, b);
        EXPECT_TRUE(same_bits(target, c));
        target = five_points(target, v.shard);
        c = five_points(c, b);
        EXPECT_TRUE(same_bits(target, c));
        line p(g, {m}), q(g, {m});
        p = row_sums(u.shard, v.shard), q = row_sums(a, b);
        EXPECT_TRUE(same_bits(p, q));
        if (m > 70 * g.size(data)) {
          EXPECT_EQ(u.shard.was_copied(), !cleave::on_host);
        }
        p = row_maxima(u.shard), q = row_maxima(a);
        EXPECT_TRUE(same_bits(p, q));
        p = plain_sums(u.shard), q = plain_sums(a);
        EXPECT_TRUE(same_bits(p, q));
        // Other operations, and a mixture of both orders, get a copy.
        target = by_index(u.shard), c = by_index(a);
        EXPECT_TRUE(same_bits(target, c));
        EXPECT_TRUE(target.was_copied());
        target = u.shard * b, c = a * b;
        EXPECT_TRUE(same_bits(target, c));
        EXPECT_TRUE(target.was_copied());
      }
}

bool same_on_all(bool here) { return support::over_ranks(here ? 1 : 0) + support::over_ranks(here ? 0 : 1) == 1; }

// One memory in two shapes has one order, folds of one dim are cut in pieces, and folds read indices.
TEST(strided, left_order_beside_arrays_of_one_dim) {
  constexpr cleave::function split_argument([](auto x, auto v) { return x + split(v, long_dim, row, col); });
  constexpr cleave::function split_value([](auto x, auto v) { return x + split(exp(v), long_dim, row, col); });
  constexpr cleave::function merged([](auto x) { return merge(x * 2.0, row, col, long_dim); });
  constexpr cleave::function scaled_by_sum([](auto x, auto v) { return x * sum(v, other_dim); });
  constexpr cleave::function scaled_by_indices(
      [](auto x, auto v) { return x * sum(v * cleave::iota<double>(v, other_dim), other_dim); });
  constexpr cleave::function sums_of_a_range(
      [](auto x) { return sum(select(cleave::iota<std::int64_t>(x, col) < 5, x * x, x), col); });
  using flat = cleave::tensor<double, mesh(long_dim)>;
  using other = cleave::tensor<double, mesh(other_dim / data)>;
  for (const cleave::grid& g : support::grids(mesh))
    for (const std::int64_t m : {3, 129}) {
      const std::int64_t n = m == 3 ? 5 : 90;
      field a(g, {m, n}), c(g, {m, n});
      fill(a);
      flat v(g, {m * n}), p(g, {m * n}), q(g, {m * n});
      v.fill_by([](const auto& at) { return wave(at[0], 3) / 8; });
      other w(g, {600000});
      w.fill_by([](const auto& at) { return static_cast<double>(at[0] % 7); });
      const left_order<field> u(g, a), t(g, a);
      field target = t.shard.alias();
      target = split_argument(u.shard, v), c = split_argument(a, v);
      EXPECT_TRUE(same_bits(target, c));
      target = split_value(u.shard, v), c = split_value(a, v);
      EXPECT_TRUE(same_bits(target, c));
      p = merged(u.shard), q = merged(a);
      EXPECT_TRUE(same_bits(p, q));
      target = scaled_by_sum(u.shard, w), c = scaled_by_sum(a, w);
      EXPECT_TRUE(same_bits(target, c));
      target = scaled_by_indices(u.shard, w), c = scaled_by_indices(a, w);
      EXPECT_TRUE(same_bits(target, c));
      line s(g, {m}), r(g, {m});
      s = sums_of_a_range(u.shard), r = sums_of_a_range(a);
      EXPECT_TRUE(same_bits(s, r));
      EXPECT_TRUE(same_on_all(u.shard.was_copied()));
      // With 129 rows on two devices, one has more than 64 and the other one has not.
      constexpr cleave::function sums([](auto x) { return sum(x, col); });
      s = sums(u.shard), r = sums(a);
      EXPECT_TRUE(same_bits(s, r));
      EXPECT_TRUE(same_on_all(u.shard.was_copied()));
    }
}

TEST(strided, left_order_of_three_dims) {
  namespace stencil = cleave::stencil;
  using cube = cleave::tensor<float, mesh(row / data, deep, col / model)>;
  constexpr cleave::function seven_points([](auto x) {
    const auto u = stencil::star<1>(x, along(row, stencil::reflecting), along(deep, stencil::periodic),
                                    along(col, stencil::zero_gradient));
    return u(0, 0, 0) * 2 + u(-1, 0, 0) + u(1, 0, 0) - u(0, 1, 0) + u(0, -1, 0) + u(0, 0, 1) - u(0, 0, -1);
  });
  for (const cleave::grid& g : support::grids(mesh)) {
    cube a(g, {17, 5, 20}), b(g, {17, 5, 20});
    a.fill_by([](const auto& at) { return static_cast<float>(wave(at[0], at[1] * 3 + at[2])); });
    const auto n = [&](std::size_t i) { return static_cast<std::size_t>(a.local_extents()[i]); };
    using left_view = Kokkos::View<float***, Kokkos::LayoutLeft, cleave::memory_space>;
    const cube u(g, {17, 5, 20}, left_view("u", n(0), n(1), n(2)));
    cube v(g, {17, 5, 20}, left_view("v", n(0), n(1), n(2)));
    v = a, b = a;
    for (int i = 0; i < 2; ++i) {
      u.alias() = seven_points(v);
      EXPECT_FALSE(u.was_copied() || v.was_copied());
      v = u + v;
      b = seven_points(b) + b;
      EXPECT_TRUE(same_bits(v, b));
    }
  }
}

/// The members of a std::mdspan, which C++20 does not have.
struct span_2d {
  using element_type = double;
  double* at;
  std::size_t rows_, columns_, apart;
  static constexpr std::size_t rank() { return 2; }
  double* data_handle() const { return at; }
  std::size_t extent(std::size_t i) const { return i == 0 ? rows_ : columns_; }
  std::size_t stride(std::size_t i) const { return i == 0 ? apart : 1; }
};
TEST(strided, constants_and_spans) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const ghosted<field> u(g, {9, 15});
    fill(u.shard);
    const Kokkos::View<const double**, Kokkos::LayoutStride, cleave::memory_space> constants = strided_2d(u.interior());
    field c(g, {9, 15}, constants), a(g, {9, 15}), b(g, {9, 15});
    EXPECT_EQ(c.data(), u.interior().data());
    fill(a);
    b = sweep(c);
    a = sweep(a);
    EXPECT_TRUE(same_bits(a, b));
    EXPECT_THROW(c = 2.0 * a, cleave::view_error);
    EXPECT_THROW(c.fill(1), cleave::view_error);
    EXPECT_THROW(c = a, cleave::view_error);
    EXPECT_THROW(cleave::copy(a, c), cleave::view_error);
    const support::on_device<double> memory(std::vector<double>(u.extent[0] * (u.extent[1] + 4) + 1));
    field m(g, {9, 15}, span_2d{memory.data(), u.extent[0], u.extent[1], u.extent[1] + 4});
    m = sweep(c);
    EXPECT_TRUE(same_bits(m, a));
    EXPECT_EQ(m.data(), memory.data());
  }
}

TEST(strided, ranks_need_not_have_the_same_strides) {
  // Each rank pads differently, some not at all, and the second tensor is not padded as the first one is.
  for (const cleave::grid& g : support::grids(mesh)) {
    const auto me = static_cast<std::size_t>(support::rank());
    const ghosted<field> u(g, {12, 10}, 0, me % 2), v(g, {12, 10}, 0, me % 3), w(g, {12, 10}, 0, me % 2);
    field a(g, {12, 10}), b(g, {12, 10});
    fill(u.shard);
    fill(a);
    const auto bound = g.state().bound().times_made();
    sweep(u.shard).into(v.shard);
    b = sweep(a);
    EXPECT_TRUE(same_bits(v.shard, b));
    sweep(v.shard).into(w.shard);
    a = sweep(b);
    EXPECT_TRUE(same_bits(w.shard, a));
    const auto warm = g.state().bound().times_made();
    EXPECT_GT(warm, bound);
    sweep(w.shard).into(v.shard);
    EXPECT_EQ(g.state().bound().times_made(), warm) << "tensors with the same strides share what was bound";
  }
}

/// A key of few numbers may be the beginning of one of more numbers.
TEST(strided, calls_with_more_views_are_bound_anew) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const ghosted<field> u(g, {12, 10}), w(g, {12, 10});
    field a(g, {12, 10}), b(g, {12, 10}), sums(g, {12, 10}), wanted(g, {12, 10}), rest(g, {12, 10});
    fill(u.shard), fill(w.shard), fill(a), fill(b);
    both(a, b).into(wanted, rest);
    both(u.shard, b).into(sums, rest);
    EXPECT_TRUE(same_bits(sums, wanted));
    const auto one_view = g.state().bound().times_made();
    both(u.shard, w.shard).into(sums, rest);
    EXPECT_TRUE(same_bits(sums, wanted));
    const auto two_views = g.state().bound().times_made();
    EXPECT_GT(two_views, one_view) << "the call with two Views takes what was bound to the one with one";
    both(u.shard, b).into(sums, rest);
    EXPECT_EQ(g.state().bound().times_made(), two_views);
    EXPECT_TRUE(same_bits(sums, wanted));
  }
}

constexpr cleave::function two_results([](auto x) { return std::tuple(x + sum(x, row), x * 2.0); });
constexpr cleave::function around_and_sum([](auto x) {
  return std::tuple(2.0 * shift(x, row, 1, cleave::border::periodic), sum(x, col));
});
TEST(strided, results_side_by_side_in_one_allocation) {
  for (const cleave::grid& g : support::grids(mesh)) {
    // The last devices have one row, or none.
    const std::int64_t rows_of_all = support::ranks() + 1;
    field x(g, {rows_of_all, 6});
    fill(x);
    const auto local = x.local_extents();
    const auto n = static_cast<std::size_t>(local[0]), m = static_cast<std::size_t>(local[1]);
    using pair = std::pair<std::size_t, std::size_t>;
    const memory_2d all("all", n, 2 * m + 1);
    const auto part = [&](std::size_t begin) {
      return strided_2d(Kokkos::subview(all, pair(0, n), pair(begin, begin + m)));
    };
    const field left(g, {rows_of_all, 6}, part(0)), right(g, {rows_of_all, 6}, part(m));
    two_results(x).into(left, right);
    field sums(g, {rows_of_all, 6}), twice(g, {rows_of_all, 6});
    two_results(x).into(sums, twice);
    EXPECT_TRUE(same_bits(left, sums));
    EXPECT_TRUE(same_bits(right, twice));
  }
  // Columns of a matrix, of which one is a result with one dim: on the last device they are apart anyway.
  for (const cleave::grid& g : support::grids(mesh)) {
    using numbers = cleave::tensor<double, mesh(row / data / model)>;
    using lines = cleave::tensor<double, mesh(row / data / model, col)>;
    const std::int64_t rows_of_all = 2 * support::ranks() - 1;
    lines x(g, {rows_of_all, 4});
    x.fill_by([](const auto& at) { return static_cast<double>(at[0] * 4 + at[1]); });
    const auto n = static_cast<std::size_t>(x.local_extents()[0]);
    const memory_2d all("all", n, 5);
    const lines first(g, {rows_of_all, 4},
                      strided_2d(Kokkos::subview(all, Kokkos::ALL, std::pair<std::size_t, std::size_t>(0, 4))));
    const numbers last(g, {rows_of_all}, Kokkos::subview(all, Kokkos::ALL, 4)),
        within(g, {rows_of_all}, Kokkos::subview(all, Kokkos::ALL, 3));
    around_and_sum(x).into(first, last);
    lines around(g, {rows_of_all, 4});
    numbers sums(g, {rows_of_all});
    around_and_sum(x).into(around, sums);
    EXPECT_EQ(first.to_global(), around.to_global());
    EXPECT_EQ(last.to_global(), sums.to_global());
    if (x.local_extents()[0] > 0 && support::ranks() == 1) {
      EXPECT_THROW(around_and_sum(x).into(first, within), cleave::overlap_error);
    }
  }
  // Results in one memory, in an order of dims that kernels use and in one that is packed.
  const cleave::grid g = support::grids(mesh).front();
  const std::int64_t many = 4 * support::ranks();
  field x(g, {many, many});
  fill(x);
  const auto n = static_cast<std::size_t>(x.local_extents()[0]), m = static_cast<std::size_t>(x.local_extents()[1]);
  const Kokkos::View<double**, Kokkos::LayoutLeft, cleave::memory_space> turned("turned", n, m);
  const memory_2d wide("wide", n, m + 1);
  const strided_2d rows_apart = Kokkos::subview(wide, std::pair<std::size_t, std::size_t>(0, n),
                                                std::pair<std::size_t, std::size_t>(0, m));
  const field a(g, {many, many}, turned), b(g, {many, many}, turned), c(g, {many, many}, rows_apart),
      d(g, {many, many}, rows_apart);
  EXPECT_THROW(two_results(x).into(a, b), cleave::overlap_error);
  EXPECT_THROW(two_results(x).into(c, d), cleave::overlap_error);
}

TEST(strided, views_of_some_ranks) {
  const cleave::grid g = support::grids(mesh).front();
  const std::int64_t many = 6 * support::ranks();
  const field plain(g, {many, many});
  const auto local = plain.local_extents();
  const auto n = static_cast<std::size_t>(local[0]), m = static_cast<std::size_t>(local[1]);
  const memory_2d padded("padded", n, m + 1);
  const strided_2d view = Kokkos::subview(padded, std::pair<std::size_t, std::size_t>(0, n),
                                          std::pair<std::size_t, std::size_t>(0, m));
  const bool last = support::rank() == support::ranks() - 1;
  // A View that is not contiguous on one rank, and none on the others.
  const auto some = [&] { return last ? field(g, {many, many}, view) : field(g, {many, many}); };
  if (support::ranks() == 1) {
    some();
  } else {
    EXPECT_THROW(some(), cleave::view_error);
  }
  // Nothing can be assigned to a tensor of which one rank has constants.
  using constants_2d = Kokkos::View<const double**, Kokkos::LayoutStride, cleave::memory_space>;
  const field read = last ? field(g, {many, many}, constants_2d(view)) : field(g, {many, many}, view);
  EXPECT_THROW(read.fill(1), cleave::view_error);
  const field copy = read;
  EXPECT_EQ(copy.to_global(), plain.to_global());
  // A number that is a constant.
  using one = cleave::tensor<double, mesh()>;
  const Kokkos::View<double, cleave::memory_space> number("number");
  Kokkos::deep_copy(number, 2.5);
  const one constant(g, {}, Kokkos::View<const double, cleave::memory_space>(number));
  one twice(g, {});
  twice = constant + constant;
  EXPECT_EQ(twice.item(), 5);
  EXPECT_THROW(constant.fill(1), cleave::view_error);
}

TEST(strided, wrong_views_are_refused) {
  const auto says = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const cleave::view_error& e) {
      return e.what();
    }
    return "";
  };
  const cleave::grid g = support::grids(mesh).front();
  const auto local = field(g, {8 * support::ranks(), 6}).local_extents();
  const std::vector<double> one(64 * 64);
  const Kokkos::LayoutStride repeats(static_cast<std::size_t>(local[0]), 0, static_cast<std::size_t>(local[1]), 1);
  const strided_2d same_row(const_cast<double*>(one.data()), repeats);
  const std::string stride = says([&] { field(g, {8 * support::ranks(), 6}, same_row); });
  EXPECT_NE(stride.find("stride 0"), std::string::npos) << stride;
  EXPECT_NE(stride.find("'row'"), std::string::npos) << stride;
  const ghosted<field> u(g, {8 * support::ranks(), 6});
  const std::string view = says([&] { u.shard.view(); });
  EXPECT_NE(view.find("not contiguous"), std::string::npos) << view;
}

} // namespace CLEAVE_SOURCE
