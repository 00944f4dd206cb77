// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "check_function.hpp"

#include <cleave/study/explain_plan.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <tuple>
#include <vector>

// Dims whose blocks have sizes that are given to the grid: very uneven ones, and empty ones.

namespace CLEAVE_SOURCE {

using namespace cleave;

inline constexpr axis<"y"> y;
inline constexpr axis<"x"> x;
inline constexpr cleave::mesh mesh{y, x};
inline constexpr dim_in_blocks<"row", "cells"> row;
inline constexpr dim_in_blocks<"col", "cells"> col;
inline constexpr dim<"even"> even;
inline constexpr dim<"k"> k;

/// Sizes of so many blocks that add up to `sum`: every third is empty, and one has most elements.
std::vector<std::int64_t> sizes_of(std::int64_t blocks, std::int64_t sum) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(blocks), 0);
  for (std::size_t b = 0; b < all.size(); ++b)
    if (b % 3 != 0) sum -= all[b] = std::min<std::int64_t>(static_cast<std::int64_t>(b), sum);
  all[all.size() / 2] += sum;
  return all;
}
/// For each way to divide the ranks over the axes a grid whose table has a block for each device along x, one whose
/// table has a block for each device, and one with a block. Some communicate through shared memory, others by MPI
/// alone.
std::vector<grid> grids(std::int64_t extent) {
  std::vector<grid> all;
  const auto add = [&](int most) {
    for (int which = 0; which < most; ++which)
      for (const grid& g : support::grids(mesh)) {
        g.set_blocks(row, sizes_of(which == 0 ? g.size(x) : which == 1 ? g.size() : 1, extent));
        all.push_back(g);
      }
  };
  add(3);
  const support::only_mpi travels;
  add(2);
  return all;
}
/// Runs a function and compares with the evaluator, and the bytes that MPI moves on the busiest rank with the price for
/// the blocks of the grid.
template <class F, class... Results, class... Args>
void check(const grid& g, const F& f, std::tuple<Results&...> results, const Args&... args) {
  support::check(f, results, args...);
  std::vector<named_size> named;
  const auto plan = cleave::plan<std::tuple<Results...>(Args...)>(f);
  const program_view p = plan.view();
  const auto note = [&](const auto& t) {
    for (int i = 0; i < t.rank; ++i) named.push_back({t.state().dims->dims[i].dim.name, t.state().global[i]});
  };
  (note(args), ...);
  std::apply([&](const auto&... t) { (note(t), ...); }, results);
  sizes at = sizes_for(decltype(plan)::plan_type::frozen, named);
  at.axes = g.sizes();
  for (std::size_t d = 0; d < p.dims.size(); ++d) at.given[d] = g.state().blocks_of(p.dims[d].ref(), at.dims[d]);
  std::apply([&](auto&... t) { f(args...).into(t...); }, results);
  support::reset_charges();
  std::apply([&](auto&... t) { f(args...).into(t...); }, results);
  const std::int64_t moved = support::over_ranks(support::charged_bytes()), priced = bytes(p, at);
  // The busiest devices of several steps need not be the same.
  int steps = 0;
  for (const step& s : p.steps) steps += step_bytes(p, s, at) > 0 ? 1 : 0;
  if (steps < 2) EXPECT_EQ(moved, priced) << explain(p, at);
  else EXPECT_LE(moved, priced) << explain(p, at);
}

using rows = tensor<double, mesh(row / x)>;
using table = tensor<double, mesh(row / x, k)>;
using square = tensor<double, mesh(row / y, col / x)>;
using number = tensor<double, mesh()>;

TEST(given_blocks, shards_have_their_sizes) {
  for (const grid& g : support::grids(mesh)) {
    const std::vector<std::int64_t> sizes = sizes_of(g.size(x), 23);
    g.set_blocks(row, sizes);
    rows u(g, {23});
    EXPECT_EQ(u.local_extents()[0], sizes[static_cast<std::size_t>(g.here()[1])]);
    u.fill_by([](const auto& at) { return static_cast<double>(at[0]); });
    std::vector<double> want(23);
    std::iota(want.begin(), want.end(), 0.0);
    EXPECT_EQ(u.to_global(), want);
  }
}

// Vertices that share the blocks of cells: only a halo travels between them, along equal and along given blocks.
inline constexpr dim_in_blocks<"row vertex", "vertices"> vertex;
inline constexpr dim_in_blocks<"even vertex", "even vertices"> even_vertex;
constexpr auto to_cells = [](auto v, auto from, auto to) {
  return 0.5 * (slice(v, from, to, 0, -1) + slice(v, from, to, 1));
};
constexpr auto to_vertices = [](auto c, auto from, auto to) {
  return 0.5 * (pad(c, from, to, 0, 1) + pad(c, from, to, 1, 0));
};
constexpr function row_cells([](auto v) { return to_cells(v, vertex, row); });
constexpr function row_vertices([](auto c) { return to_vertices(c, row, vertex); });
constexpr function even_cells([](auto v) { return to_cells(v, even_vertex, even); });
constexpr function even_vertices([](auto c) { return to_vertices(c, even, even_vertex); });
template <class Cells, class Vertices, class ToCells, class ToVertices>
void expect_halo_alone(const grid& g, std::int64_t cells, const ToCells& f, const ToVertices& h) {
  Cells c(g, {cells, 3}), d(g, {cells, 3});
  Vertices v(g, {cells + 1, 3}), w(g, {cells + 1, 3});
  EXPECT_EQ(v.offset()[0], c.local_extents()[0] == 0 && v.offset()[0] > cells ? cells + 1 : c.offset()[0]);
  EXPECT_LE(v.local_extents()[0], c.local_extents()[0] + 1);
  support::fill(v, 0.1), support::fill(c, 0.7);
  check(g, f, std::tie(d), v);
  check(g, h, std::tie(w), c);
  d = f(v);
  support::reset_charges();
  d = f(v);
  w = h(c);
  // A row in each direction, of three doubles.
  EXPECT_LE(support::charged_bytes(), 2 * 24);
}
TEST(given_blocks, vertices_share_those_of_cells) {
  for (const grid& g : support::grids(mesh))
    for (const std::int64_t cells : {23, 8, 1}) {
      const grid other(mesh, MPI_COMM_WORLD, {g.size(y), g.size(x)});
      other.set_blocks(row, sizes_of(g.size(x), cells));
      other.set_blocks(vertex, row / x, cells, 1);
      expect_halo_alone<tensor<double, mesh(row / x, k)>, tensor<double, mesh(vertex / x, k)>>(other, cells, row_cells,
                                                                                               row_vertices);
      other.set_blocks(even_vertex, even / y / x, cells, 1);
      expect_halo_alone<tensor<double, mesh(even / y / x, k)>, tensor<double, mesh(even_vertex / y / x, k)>>(
          other, cells, even_cells, even_vertices);
    }
}

constexpr function mixed([](auto u, auto v) { return std::tuple(u * 2.0 + sin(v), sum(u * v), max(u)); });
TEST(given_blocks, views_are_not_copied) {
  for (const grid& g : grids(23)) {
    rows u(g, {23}), w(g, {23});
    support::fill(u, 0.1);
    const rows wrapped(g, {23}, u.view());
    w = wrapped * 2.0;
    EXPECT_EQ(wrapped.data(), u.data());
    EXPECT_FALSE(wrapped.was_copied());
    std::vector<double> want = u.to_global();
    for (double& n : want) n *= 2;
    EXPECT_EQ(w.to_global(), want);
  }
}
TEST(given_blocks, elementwise_and_reductions) {
  for (const grid& g : grids(23)) {
    rows u(g, {23}), v(g, {23}), w(g, {23});
    number s(g, {}), m(g, {});
    support::fill(u, 0.1), support::fill(v, 0.7);
    check(g, mixed, std::tie(w, s, m), u, v);
  }
}

constexpr function places([](auto u) {
  return std::tuple(u * cast<double>(iota<int>(u, row)), cumulative_sum(u, row), argmax(u, row));
});
TEST(given_blocks, indices_and_running_totals) {
  for (const grid& g : grids(23)) {
    rows u(g, {23}), w(g, {23}), t(g, {23});
    tensor<int, mesh()> at(g, {});
    support::fill(u, 0.1);
    check(g, places, std::tie(w, t, at), u);
  }
}

constexpr function products([](auto a, auto v, auto b) { return std::tuple(dot(a, v, col), dot(a, b, row)); });
TEST(given_blocks, matrix_products) {
  for (const grid& g : grids(13)) {
    square a(g, {13, 13});
    tensor<double, mesh(col / x)> v(g, {13});
    tensor<double, mesh(row / y)> w(g, {13});
    tensor<double, mesh(row, k / y)> b(g, {13, 5});
    tensor<double, mesh(col / x, k)> c(g, {13, 5});
    support::fill(a, 0.1), support::fill(v, 0.7), support::fill(b, 0.4);
    check(g, products, std::tie(w, c), a, v, b);
  }
}

constexpr function stencil([](auto u) {
  const auto both = shift(u, row, 1) + shift(u, row, -1, border::reflect) + roll(u, col, 2) + roll(u, col, -1);
  return std::tuple(both - 4.0 * u, shift(shift(u, row, 1), col, -1));
});
TEST(given_blocks, stencils) {
  for (const std::int64_t n : {11, 4})
    for (const grid& g : grids(n)) {
      square u(g, {n, n}), a(g, {n, n}), b(g, {n, n});
      support::fill(u, 0.1);
      check(g, stencil, std::tie(a, b), u);
    }
}

constexpr function to_equal([](auto u) { return rename(u, row, even); });
constexpr function from_equal([](auto v) { return rename(v, even, row); });
TEST(given_blocks, renamed_to_equal_blocks_and_back) {
  for (const grid& g : grids(23)) {
    table u(g, {23, 3});
    tensor<double, mesh(even / x, k)> v(g, {23, 3});
    support::fill(u, 0.1);
    check(g, to_equal, std::tie(v), u);
    check(g, from_equal, std::tie(u), v);
    // Each device receives the elements that it lacks.
    std::int64_t lacks = 0;
    const dim_blocks given{23, g.state().blocks_of("cells")}, equal{23};
    const range from = given.block(g.size(x), g.here()[1]), to = equal.block(g.size(x), g.here()[1]);
    lacks = to.size() - intersect(from, to).size();
    support::reset_charges();
    v = to_equal(u);
    const std::int64_t moved = support::over_ranks(support::charged_bytes());
    EXPECT_EQ(moved, support::over_ranks(lacks) * 3 * 8);
    const auto plan = cleave::plan<tensor<double, mesh(even / x, k)>(table)>(to_equal);
    EXPECT_EQ(moved, bytes(plan.view(), g.sizes_of(plan, {row = 23, k = 3})));
  }
}
constexpr function resharded([](auto u) { return std::tuple(reshard(u, mesh(row, k / x)), reshard(u, mesh(row, k))); });
TEST(given_blocks, other_layouts) {
  for (const grid& g : grids(23)) {
    table u(g, {23, 3});
    tensor<double, mesh(row, k / x)> v(g, {23, 3});
    tensor<double, mesh(row, k)> w(g, {23, 3});
    support::fill(u, 0.1);
    check(g, resharded, std::tie(v, w), u);
  }
}

constexpr function sorted([](auto u) { return std::tuple(sort(u, row), argsort(u, row, order::descending)); });
TEST(given_blocks, sorts) {
  for (const std::int64_t n : {57, 3, 0})
    for (const grid& g : grids(n)) {
      table u(g, {n, 3}), v(g, {n, 3});
      tensor<int, mesh(row / x, k)> p(g, {n, 3});
      support::fill(u, 0.1);
      support::check(sorted, std::tie(v, p), u);
    }
}

inline constexpr dim<"which"> which;
constexpr function looked_up([](auto t, auto at) {
  const auto found = gather(t, row, at);
  return std::tuple(found, scatter_add(found, at, row));
});
TEST(given_blocks, look_ups) {
  for (const grid& g : grids(19)) {
    table t(g, {19, 3}), added(g, {19, 3});
    tensor<int, mesh(which / x)> at(g, {29});
    tensor<double, mesh(which / x, k)> found(g, {29, 3});
    support::fill(t, 0.1);
    at.fill_by([](const auto& i) { return static_cast<int>(i[0] * 7 % 19); });
    support::check(looked_up, std::tie(found, added), t, at);
  }
}

constexpr function loss([](auto a, auto v) { return sum(tanh(dot(a, v, col)) * shift(sum(a, col), row, 1)); });
constexpr auto slope = grad<0, 1>(loss);
TEST(given_blocks, gradients) {
  for (const grid& g : grids(13)) {
    square a(g, {13, 13}), da(g, {13, 13});
    tensor<double, mesh(col / x)> v(g, {13}), dv(g, {13});
    support::fill(a, 0.1), support::fill(v, 0.7);
    check(g, slope, std::tie(da, dv), a, v);
  }
}

// With equal blocks, a dim of one index for each device merges into blocks that stay where they are.
inline constexpr axis<"p", 2> p;
inline constexpr axis<"q", 2> q;
inline constexpr cleave::mesh fixed_mesh{p, q};
inline constexpr dim_in_blocks<"major", "pair", 2> major;
inline constexpr dim<"minor", 6> minor;
inline constexpr dim<"whole"> whole;
constexpr function merged([](auto u) { return merge(u, major, minor, whole); });
constexpr function divided([](auto v) { return split(v, whole, major, minor); });
TEST(given_blocks, merged_and_split_with_an_index_for_each_device) {
  if (support::ranks() != 4) return;
  const grid g(fixed_mesh, MPI_COMM_WORLD, {2, 2});
  g.set_blocks(major, {2, 0});
  tensor<double, fixed_mesh(major / p, minor / q)> u(g, {2, 6});
  tensor<double, fixed_mesh(whole / p / q)> v(g, {12});
  support::fill(u, 0.3);
  v = merged(u);
  EXPECT_EQ(u.to_global(), v.to_global());
  u = 0.0;
  u = divided(v);
  EXPECT_EQ(u.to_global(), v.to_global());
}

TEST(given_blocks, copies_between_tables) {
  std::vector<grid> others = support::grids(mesh);
  for (const grid& other : others) {
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(other.size(x)), 0);
    sizes.back() = 23;
    other.set_blocks(row, sizes);
  }
  for (const grid& g : grids(23))
    for (const grid& other : others) {
      table u(g, {23, 3}), v(other, {23, 3});
      support::fill(u, 0.1);
      copy(u, v);
      EXPECT_EQ(u.to_global(), v.to_global());
    }
}

/// The words of an exception.
template <class Error, class F>
std::string said(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing";
}
TEST(given_blocks, mistakes_are_said_on_all_ranks) {
  using namespace std::string_literals;
  const grid g(mesh, MPI_COMM_WORLD, {1, support::ranks()});
  const auto has = [](const std::string& all, const char* part) { return all.find(part) != std::string::npos; };
  EXPECT_TRUE(has(said<shape_error>([&] { rows(g, {4}); }), "for which the grid was given no sizes"));
  EXPECT_TRUE(has(said<grid_error>([&] { g.set_blocks(row, std::vector<std::int64_t>()); }),
                  "no sizes were given for the blocks 'cells'"));
  EXPECT_TRUE(has(said<grid_error>([&] { g.set_blocks(row, {4, -1}); }), "block 1 of the blocks 'cells' was given"));
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(has(said<grid_error>([&] { g.set_blocks(row, {most, most, 4}); }), "block 0 of the blocks 'cells'"));
  if (support::ranks() > 1) {
    EXPECT_TRUE(has(said<grid_error>([&] { g.set_blocks(row, {4, support::rank()}); }), "the ranks do not agree"));
    EXPECT_TRUE(has(said<grid_error>([&] { g.set_blocks(row, std::vector<std::int64_t>(1 + support::rank(), 2)); }),
                    "the ranks do not agree"));
  }
  g.set_blocks(row, sizes_of(support::ranks(), 9));
  g.set_blocks(row, sizes_of(support::ranks(), 9));
  EXPECT_TRUE(has(said<grid_error>([&] { g.set_blocks(col, {10}); }), "other sizes for the blocks 'cells' already"));
  EXPECT_TRUE(has(said<shape_error>([&] { rows(g, {10}); }),
                  "dim 'row' has extent 10, but the sizes of its blocks 'cells' add up to 9"));
  const grid h(mesh, MPI_COMM_WORLD, {1, support::ranks()});
  if (support::ranks() == 3) {
    h.set_blocks(row, {1, 2});
    EXPECT_TRUE(has(said<shape_error>([&] { rows(h, {3}); }), "is sharded over 3 devices, but its blocks 'cells'"));
  }
}

} // namespace CLEAVE_SOURCE
