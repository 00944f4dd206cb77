// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "evaluated.hpp"
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <cmath>

// Functions that take elements from other indices, on real ranks: what the plain evaluator gives for the same graph,
// and as many bytes as the plan says.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::mesh mesh{ax, ay};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"inner"> inner;
inline constexpr cleave::dim<"both"> both;
inline constexpr cleave::dim<"other"> other;
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"in"> channels;
inline constexpr cleave::dim<"out"> features;
inline constexpr cleave::dim<"kr", 3> kr;
inline constexpr cleave::dim<"kc", 3> kc;
inline constexpr cleave::dim<"part", 3> part;
inline constexpr cleave::dim<"edge", 2> edge;
inline constexpr cleave::dim<"coarse_row"> coarse_row;
inline constexpr cleave::dim<"coarse_col"> coarse_col;

template <auto Layout>
using f64 = cleave::tensor_in<double, Layout>;
using Grid = f64<mesh(row / ax, col / ay)>;
using Number = cleave::tensor<int, mesh()>;

std::vector<cleave::grid> grids() { return support::grids(mesh); }
template <class At>
double wave(const At& at) {
  double sum = 0.3;
  for (std::size_t i = 0; i < at.size(); ++i) sum += static_cast<double>(at[i]) * (0.7 + static_cast<double>(i));
  return std::sin(sum);
}
template <class Tensor>
Tensor filled(const cleave::grid& g, const typename Tensor::extents_type& extents) {
  Tensor t(g, extents);
  t.fill_by([](const auto& at) { return wave(at); });
  return t;
}

/// Runs a function and compares with the evaluator. Only what rounding leaves differs: sums over devices have another
/// order.
template <class Result, class F, class... Args>
void check(const F& f, Result& result, const Args&... args) {
  const cleave::graph g = cleave::recording<F, Result(Args...)>::record();
  cleave::sizes at;
  for (std::size_t d = 0; d < g.dims.size(); ++d) at.dims[d] = g.dims[d].extent;
  std::vector<cleave::host_array> in;
  const auto take = [&](const auto& t) {
    const cleave::tensor_type& type = g.nodes[g.inputs[in.size()]].type;
    cleave::shape extents;
    extents.rank = type.rank;
    for (int i = 0; i < type.rank; ++i) at.dims[type[i]] = extents[i] = t.extents()[static_cast<std::size_t>(i)];
    cleave::host_array a(extents);
    const auto whole = t.to_global();
    for (std::size_t i = 0; i < whole.size(); ++i) a.data[i] = static_cast<double>(whole[i]);
    in.push_back(a);
  };
  (take(args), ...);
  ASSERT_TRUE(derive_extents(g.rules, at));
  for (auto& a : at.axes.of) a = 1;
  const std::vector<cleave::host_array> wanted = support::evaluated(result.get_grid(), g, at, in);
  for (int times = 0; times < 2; ++times) {
    result = f(args...);
    const auto got = result.to_global();
    ASSERT_EQ(cleave::first_difference(wanted[0].data, std::vector<double>(got.begin(), got.end()), 1e-12), -1);
  }
}
template <class F>
std::int64_t charged(F&& f) {
  support::reset_charges();
  f();
  return support::over_ranks(support::charged_bytes());
}

constexpr std::array<std::array<std::int64_t, 2>, 6> shapes{{{16, 24}, {7, 5}, {3, 11}, {2, 2}, {1, 9}, {0, 4}}};

constexpr cleave::function laplace([](auto u) {
  return shift(u, row, 1) + shift(u, row, -1) + shift(u, col, 1) + shift(u, col, -1) - 4 * u;
});
constexpr cleave::function jacobi([](auto u) {
  const auto next = 0.25 * (roll(u, row, 1) + roll(u, row, -1) + roll(u, col, 1) + roll(u, col, -1));
  return cleave::interior(next, u, 1, row, col);
});
constexpr auto laplace_plan = cleave::plan<Grid(Grid)>(laplace);
static_assert(laplace_plan.count(cleave::kind::exchange) == 1 && laplace_plan.collectives() == 1);
static_assert(laplace_plan.bytes({row = 512, col = 512, ax = 4, ay = 4}) == 4 * 128 * 8);
static_assert(laplace_plan.bytes({row = 512, col = 512, ax = 8, ay = 1}) == 2 * 512 * 8);

TEST(movement, stencils) {
  for (const cleave::grid& g : grids())
    for (const auto& extents : shapes) {
      const Grid u = filled<Grid>(g, extents);
      Grid v(g, extents);
      check(laplace, v, u);
      check(jacobi, v, u);
      Grid w(g, extents);
      w = laplace(u);
      v = u;
      v = laplace(v);
      EXPECT_EQ(v.to_global(), w.to_global());
      const std::int64_t priced = laplace_plan.bytes(
          {row = extents[0], col = extents[1], ax = g.size(ax), ay = g.size(ay)});
      EXPECT_EQ(charged([&] { v = laplace(u); }), priced);
    }
}

// Further than some shards are long, along both dims, and along one after the other; more reads than other steps have.
template <cleave::border Outside>
constexpr cleave::function wide([](auto u) {
  const auto far = shift(u, row, 3, Outside) + shift(u, row, -2, Outside) + shift(u, col, 2, Outside);
  const auto near = shift(u, row, 1, Outside) + shift(u, row, -1, Outside) + shift(u, col, 1, Outside) +
                    shift(u, col, -1, Outside);
  return far - 0.5 * near + shift(shift(u, row, 1, Outside), col, -1, Outside) * u;
});
using Rows = f64<mesh(row / ax, col)>;
TEST(movement, wide_stencils) {
  for (const cleave::grid& g : grids())
    for (const auto& extents : shapes) {
      const Grid u = filled<Grid>(g, extents);
      const Rows r = filled<Rows>(g, extents);
      Grid v(g, extents);
      Rows s(g, extents);
      check(wide<cleave::border::zero>, v, u);
      check(wide<cleave::border::periodic>, v, u);
      check(wide<cleave::border::periodic>, s, r);
      check(wide<cleave::border::edge>, v, u);
      check(wide<cleave::border::reflect>, s, r);
    }
}

// The result takes the place of the argument: a few rows are computed beside it at a time. On several blocks of rows,
// short ones and such as are longer than a block, and with a ring of one device.
constexpr cleave::function ninefold([](auto u) {
  return shift(shift(u, row, 1), col, 1) + 2 * shift(u, row, -2) - 3 * u + shift(shift(u, row, -1), col, 1);
});
template <int By>
constexpr cleave::function turned([](auto u) { return 2 * roll(u, row, By) - roll(u, row, -1) + roll(u, col, -3); });
constexpr cleave::function with_other([](auto u, auto w) {
  return cleave::interior(shift(u, row, 1) * w + shift(u, col, -1) - shift(w, row, -1), u, 1, row, col);
});
template <class F>
void expect_in_place(const F& f, const Grid& u) {
  Grid v = u, w = u;
  v = f(u);
  w = f(w);
  EXPECT_EQ(v.to_global(), w.to_global());
  Grid again = v;
  again = f(v);
  w = f(w);
  EXPECT_EQ(again.to_global(), w.to_global());
}
template <class F>
bool replaces_argument(const cleave::grid& g, const F& f) {
  const auto plan = cleave::plan<Grid(Grid)>(f);
  const cleave::sizes at = plan.sized({row = 40, col = 30, ax = g.size(ax), ay = g.size(ay)});
  cleave::executor p(g.state(), at, cleave::runnable_of<typename decltype(plan)::plan_type>);
  bool any = false;
  for (const auto& s : p.state().steps) any = any || s->may_replace(0);
  return any;
}
TEST(movement, stencils_take_the_place_of_their_argument) {
  for (const cleave::grid& g : grids()) {
    if (g.active()) {
      // Rows that roll through a kernel are the host's.
      EXPECT_EQ(replaces_argument(g, jacobi), cleave::on_host);
      EXPECT_EQ(replaces_argument(g, turned<1>), cleave::on_host);
    }
    for (const auto& extents : {std::array<std::int64_t, 2>{301, 40}, {37, 5003}, {900, 3}, {7, 5}, {1, 9}}) {
      const Grid u = filled<Grid>(g, extents);
      expect_in_place(jacobi, u);
      expect_in_place(laplace, u);
      expect_in_place(ninefold, u);
      expect_in_place(turned<1>, u);
      expect_in_place(turned<200>, u);
      expect_in_place(turned<-3>, u);
      expect_in_place(wide<cleave::border::zero>, u);
      expect_in_place(wide<cleave::border::periodic>, u);
      expect_in_place(wide<cleave::border::edge>, u);
      // Two arguments in one memory, one of which, or both, become the result.
      const Grid w = filled<Grid>(g, extents);
      Grid wanted(g, extents), both = u, one = u, other = w;
      wanted = with_other(u, u);
      both = with_other(both, both);
      EXPECT_EQ(wanted.to_global(), both.to_global());
      wanted = with_other(u, w);
      one = with_other(one, w);
      EXPECT_EQ(wanted.to_global(), one.to_global());
      other = with_other(u, other);
      EXPECT_EQ(wanted.to_global(), other.to_global());
    }
  }
}
using Cube = f64<mesh(batch, row / ax, col / ay)>;
using Chain = f64<mesh(row / ax)>;
constexpr cleave::function seven([](auto u) {
  return shift(u, batch, 1) + shift(u, batch, -1) + shift(u, row, 1) + shift(u, row, -1) + shift(u, col, 1) +
         shift(u, col, -1) - 6 * u;
});
constexpr cleave::function within_planes([](auto u) { return shift(u, row, 2) + shift(u, col, -1) - 2 * u; });
constexpr cleave::function on_a_line([](auto u) {
  return cleave::interior(roll(u, row, 2) - 3 * roll(u, row, -1) + u, u, 3, row);
});
TEST(movement, stencils_of_other_ranks_take_the_place_of_their_argument) {
  for (const cleave::grid& g : grids()) {
    for (const auto& extents : {std::array<std::int64_t, 3>{9, 50, 40}, {40, 8, 8}, {2, 3, 4}}) {
      const Cube u = filled<Cube>(g, extents);
      Cube v(g, extents), w = u;
      check(seven, v, u);
      w = seven(w);
      EXPECT_EQ(v.to_global(), w.to_global());
      check(within_planes, v, u);
      w = u;
      w = within_planes(w);
      EXPECT_EQ(v.to_global(), w.to_global());
    }
    for (const std::int64_t n : {50000, 4096, 40}) {
      const Chain u = filled<Chain>(g, {n});
      Chain v(g, {n}), w = u;
      check(on_a_line, v, u);
      w = on_a_line(w);
      EXPECT_EQ(v.to_global(), w.to_global());
    }
  }
}

// Carried values change their memory with what an iteration computes, an odd and an even number of times.
template <int Times>
constexpr cleave::function sweeps([](auto u) {
  return cleave::repeat_times(Times, u, [](auto v) { return jacobi(v); });
});
TEST(movement, stencils_in_loops) {
  for (const cleave::grid& g : grids()) {
    const std::array<std::int64_t, 2> large{400, 340}, small{5, 4};
    for (const auto& extents : {large, small}) {
      const Grid u = filled<Grid>(g, extents);
      Grid v(g, extents);
      check(sweeps<3>, v, u);
      check(sweeps<4>, v, u);
      check(sweeps<1>, v, u);
      v = u;
      Grid w(g, extents);
      w = sweeps<3>(u);
      v = sweeps<3>(v);
      EXPECT_EQ(v.to_global(), w.to_global());
    }
  }
}

// Selects by ranges of indices are cut where they change: at any place of the shards, none, or outside of the dim.
template <int Low, int High>
constexpr cleave::function ranged([](auto u) {
  const auto i = broadcast(iota(u, row), row, col), j = iota(u, col);
  const auto inside = (i >= Low) & broadcast(High > j, row, col),
             edge = (i == Low) | !broadcast(j + 1 != High, col, row);
  const auto near = shift(u, row, 1) - shift(u, col, -1);
  return select(inside, select(edge, 3 * u, near), select(edge, u, 0.5));
});
// More expressions than are compiled; a predicate that compares two indices; one that is read as a number.
constexpr cleave::function striped([](auto u) {
  const auto i = broadcast(iota(u, row), row, col), j = broadcast(iota(u, col), row, col);
  auto sum = select(i <= j, u, 2 * u) * cleave::cast<double>(i > 1);
  for (int k = 1; k < 7; ++k) sum = sum + select(i < k, u, shift(u, col, k));
  return sum;
});
// Six predicates, of an index that counts down.
constexpr cleave::function layered([](auto u) {
  const auto left = 7 - broadcast(iota(u, row), row, col);
  auto made = 1 * u;
  for (int k = 2; k < 8; ++k) made = select(left == k, k * u, made);
  return made;
});
constexpr cleave::function row_sums([](auto u) { return cleave::sum(select(iota(u, col) < 3, u, 2 * u), col); });
constexpr cleave::function scaled_inside([](auto u) { return cleave::interior(2 * u, u, 1, row, col); });
template <class Result, class F>
constexpr std::size_t expressions_of(const F&) {
  constexpr const auto& frozen = decltype(cleave::plan<Result(Grid)>(F{}))::plan_type::frozen;
  return cleave::detail::expressions_of(frozen, frozen.steps[0]);
}
static_assert(expressions_of<Grid>(scaled_inside) == 2);
static_assert(expressions_of<Grid>(layered) == 7);
TEST(movement, ranges_of_indices) {
  for (const cleave::grid& g : grids())
    for (const auto& extents : shapes) {
      const Grid u = filled<Grid>(g, extents);
      Grid v(g, extents);
      check(ranged<2, 4>, v, u);
      check(ranged<0, 1>, v, u);
      check(ranged<-3, 100>, v, u);
      check(ranged<100, -3>, v, u);
      check(striped, v, u);
      check(layered, v, u);
      f64<mesh(row / ax)> s(g, {extents[0]});
      check(row_sums, s, u);
      // In place, the border keeps its memory as it is.
      check(scaled_inside, v, u);
      Grid w = u;
      w = scaled_inside(w);
      EXPECT_EQ(w.to_global(), v.to_global());
    }
}

constexpr cleave::function rotated([](auto u) { return cleave::rotate_halves(u, row); });
constexpr cleave::function weighed([](auto u, auto w) { return sum(w * cleave::rotate_halves(u, row)); });
constexpr auto rotated_plan = cleave::plan<Grid(Grid)>(rotated);
static_assert(rotated_plan.count(cleave::kind::exchange) == 1 && rotated_plan.collectives() == 1);
// Each of two devices asks the other one for its half; four devices ask one each.
static_assert(rotated_plan.bytes({row = 512, col = 512, ax = 2, ay = 1}) == 256 * 512 * 8);
static_assert(rotated_plan.bytes({row = 512, col = 512, ax = 4, ay = 1}) == 128 * 512 * 8);
static_assert(rotated_plan.bytes({row = 512, col = 512, ax = 1, ay = 4}) == 0);

TEST(movement, halves_rotate) {
  for (const cleave::grid& g : grids())
    for (const auto& extents : {std::array<std::int64_t, 2>{16, 5}, {10, 3}, {2, 4}, {6, 1}, {0, 4}}) {
      const Grid u = filled<Grid>(g, extents);
      Grid v(g, extents), w(g, extents);
      check(rotated, v, u);
      const auto before = u.to_global(), after = v.to_global();
      const std::size_t half = before.size() / 2;
      for (std::size_t i = 0; i < half; ++i) EXPECT_TRUE(after[i] == -before[half + i] && after[half + i] == before[i]);
      w.fill_by([](const auto& at) { return wave(at) + 1; });
      // The map is skew: its adjoint is its negative.
      v = rotated(w);
      const auto wanted = v.to_global();
      v = cleave::grad(weighed)(u, w);
      const auto slope = v.to_global();
      for (std::size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(slope[i], -wanted[i]);
      const std::int64_t priced = rotated_plan.bytes(
          {row = extents[0], col = extents[1], ax = g.size(ax), ay = g.size(ay)});
      EXPECT_EQ(charged([&] { v = rotated(u); }), priced);
    }
  // An odd extent has no halves.
  for (const cleave::grid& g : grids()) {
    const Grid u = filled<Grid>(g, {7, 4});
    Grid v(g, {7, 4});
    EXPECT_THROW(v = rotated(u), cleave::shape_error);
  }
}

template <cleave::border Border>
constexpr cleave::function smooth([](auto u) {
  return sum(windows(u, cleave::window{row, row, kr, 1, 1, 1, 1, Border},
                     cleave::window{col, col, kc, 1, 1, 1, 1, Border}),
             kr, kc);
});
TEST(movement, windows_with_corners_and_every_border) {
  using cleave::border;
  for (const cleave::grid& g : grids())
    for (const auto& extents : shapes) {
      const Grid u = filled<Grid>(g, extents);
      Grid v(g, extents);
      check(smooth<border::zero>, v, u);
      check(smooth<border::periodic>, v, u);
      check(smooth<border::edge>, v, u);
      check(smooth<border::reflect>, v, u);
    }
}

// A window between two reversals is read from its last index to its first.
template <cleave::border Border>
constexpr cleave::function backwards([](auto u, auto w) {
  const auto seen = windows(flip(u, row), cleave::window{row, row, kr, 1, 1, 2, 0, Border});
  return dot(flip(seen, row), w, kr);
});
TEST(movement, windows_between_two_reversals) {
  using cleave::border;
  using Weights = f64<mesh(kr)>;
  for (const cleave::grid& g : grids())
    for (const auto& extents : shapes) {
      const Grid u = filled<Grid>(g, extents);
      const Weights w = filled<Weights>(g, {3});
      Grid v(g, extents);
      check(backwards<border::zero>, v, u, w);
      check(backwards<border::periodic>, v, u, w);
      check(backwards<border::edge>, v, u, w);
    }
}

// Every sixth element of copies one behind the other: around a ring of 21 in steps that do not divide it. A third of
// the elements is taken, in runs that leave two remainders, and each of them several times.
inline constexpr cleave::dim<"ring", 21> ring;
inline constexpr cleave::dim<"rings", 336> rings;
inline constexpr cleave::dim<"sixths", 56> sixths;
constexpr cleave::function stepped([](auto u) {
  return slice(tile(u, ring, rings, 16), rings, sixths, 1, cleave::to_the_end, 6);
});
TEST(movement, steps_around_a_ring) {
  using Ring = f64<mesh(ring / ax)>;
  using Stepped = f64<mesh(sixths / ax)>;
  constexpr auto fewest = cleave::with(stepped, cleave::fewest_bytes<>{});
  constexpr auto plan = cleave::plan<Stepped(Ring)>(fewest);
  static_assert(plan.count(cleave::kind::exchange) == 1 && plan.collectives() == 1);
  // Of seven elements that are taken, a device of three has two or three.
  static_assert(plan.bytes({ax = 3, ay = 1}) == 5 * 8);
  for (const cleave::grid& g : grids()) {
    const Ring u = filled<Ring>(g, {21});
    Stepped v(g, {56});
    check(fewest, v, u);
  }
}

// A convolution in two dims, channels last, sharded over space; and its gradients by the kernel and by the input.
using Images = f64<mesh(batch, row / ax, col / ay, channels)>;
using Kernel = f64<mesh(kr, kc, channels, features)>;
using Maps = f64<mesh(batch, row / ax, col / ay, features)>;
constexpr cleave::function convolution([](auto x, auto w) {
  return dot(windows(x, cleave::window{row, row, kr, 1, 1, 1, 1}, cleave::window{col, col, kc, 1, 1, 1, 1}), w, kr, kc,
             channels);
});
constexpr cleave::function by_kernel([](auto x, auto w) {
  return cleave::grad<1>(cleave::function([](auto a, auto b) { return sum(tanh(convolution(a, b))); }))(x, w);
});
constexpr cleave::function by_input([](auto x, auto w) {
  return cleave::grad(cleave::function([](auto a, auto b) { return sum(tanh(convolution(a, b))); }))(x, w);
});
constexpr auto convolution_plan = cleave::plan<Maps(Images, Kernel)>(convolution);
static_assert(convolution_plan.count(cleave::kind::exchange) == 1 && convolution_plan.collectives() == 1);

TEST(movement, convolution_and_its_gradients) {
  for (const cleave::grid& g : grids())
    for (const auto& extents : shapes) {
      const Images x = filled<Images>(g, {2, extents[0], extents[1], 3});
      const Kernel w = filled<Kernel>(g, {3, 3, 3, 4});
      Maps y(g, {2, extents[0], extents[1], 4});
      Kernel dw(g, {3, 3, 3, 4});
      Images dx(g, {2, extents[0], extents[1], 3});
      check(convolution, y, x, w);
      check(by_kernel, dw, x, w);
      check(by_input, dx, x, w);
    }
}

using Coarse = f64<mesh(batch, coarse_row / ax, coarse_col / ay, channels)>;
constexpr cleave::function pooling([](auto x) {
  return max(windows(x, cleave::window{row, coarse_row, kr, 2, 1, 0, 1},
                     cleave::window{col, coarse_col, kc, 2, 1, 0, 1}),
             kr, kc);
});
TEST(movement, pooling_with_strides) {
  for (const cleave::grid& g : grids())
    for (const auto& [r, c] : {std::array<std::int64_t, 2>{16, 24}, {7, 6}, {2, 9}}) {
      const Images x = filled<Images>(g, {2, r, c, 3});
      Coarse y(g, {2, (r + 1 - 3) / 2 + 1, (c + 1 - 3) / 2 + 1, 3});
      check(pooling, y, x);
    }
}

using Inner = f64<mesh(inner / ax, col / ay)>;
using Both = f64<mesh(both / ax, col / ay)>;
using Other = f64<mesh(other / ay, col)>;
constexpr cleave::function sliced([](auto u) { return slice(u, row, inner, 1, -1) * 2; });
constexpr cleave::function strided([](auto u) { return slice(u, row, inner, 0, cleave::to_the_end, 3) + 1; });
constexpr cleave::function padded([](auto u) { return pad(u, row, both, 2, 1, 1, 7.0); });
constexpr cleave::function joined([](auto u, auto v) {
  return concat(both, cleave::piece(u, row), cleave::piece(v, other), cleave::piece(flip(u, row), row));
});
constexpr cleave::function copies([](auto u) { return tile(u, row, both, 3) - repeat(u, row, both, 3); });
constexpr auto joined_plan = cleave::plan<Both(Grid, Other)>(joined);

TEST(movement, dims_that_change_their_extent) {
  for (const cleave::grid& g : grids())
    for (const auto& extents : shapes) {
      if (extents[0] < 2) continue;
      const Grid u = filled<Grid>(g, extents);
      const Other v = filled<Other>(g, {5, extents[1]});
      Inner less(g, {extents[0] - 2, extents[1]}), third(g, {(extents[0] + 2) / 3, extents[1]});
      Both more(g, {2 * extents[0] + 2, extents[1]}), all(g, {2 * extents[0] + 5, extents[1]}),
          thrice(g, {3 * extents[0], extents[1]});
      check(sliced, less, u);
      check(strided, third, u);
      check(padded, more, u);
      check(joined, all, u, v);
      check(copies, thrice, u);
      const std::int64_t priced = joined_plan.bytes(
          {row = extents[0], other = 5, col = extents[1], ax = g.size(ax), ay = g.size(ay)});
      // The sum over the two exchanges of the busiest device of each, which need not be the same.
      EXPECT_LE(charged([&] { all = joined(u, v); }), priced);
      EXPECT_THROW((Inner(g, {extents[0] - 1, extents[1]}) = sliced(u)), cleave::shape_error);
    }
}

using Part = f64<mesh(part, col / ay)>;
constexpr cleave::function window_at([](auto u, auto start) { return cleave::dynamic_slice(u, row, part, start); });
constexpr cleave::function updated([](auto u, auto p, auto start) {
  return cleave::dynamic_update(u, row, p, part, start);
});
constexpr cleave::function rolled([](auto u, auto by) { return roll(u, row, by); });
// Trap 5 of traps_test.cpp: places before and beyond the dim, of slices and of updates, are moved into it, the same for
// all shards.
TEST(movement, places_that_the_run_decides) {
  for (const cleave::grid& g : grids())
    for (const auto& extents : shapes) {
      if (extents[0] < 3) continue;
      const Grid u = filled<Grid>(g, extents);
      const Part p = filled<Part>(g, {3, extents[1]});
      Part got(g, {3, extents[1]});
      Grid v(g, extents);
      for (int place : {0, 2, -5, 100, 5}) {
        Number start(g, {});
        start.fill(place);
        check(window_at, got, u, start);
        check(updated, v, u, p, start);
        check(rolled, v, u, start);
      }
    }
}

// Along a dim that is whole on every device only the place changes from call to call, so the copies of the last call
// are moved: of slices the sources, of updates the targets.
using Tall = f64<mesh(row, col / ay)>;
using Whole = f64<mesh(row, col)>;
using Corner = f64<mesh(part, edge)>;
constexpr cleave::function corner_at([](auto u, auto i, auto j) {
  return cleave::dynamic_slice(cleave::dynamic_slice(u, row, part, i), col, edge, j);
});
constexpr cleave::function with_corner([](auto u, auto c, auto i, auto j) {
  const auto rows = cleave::dynamic_update(cleave::dynamic_slice(u, row, part, i), col, c, edge, j);
  return cleave::dynamic_update(u, row, rows, part, i);
});
TEST(movement, places_along_a_whole_dim) {
  for (const cleave::grid& g : grids()) {
    const Tall u = filled<Tall>(g, {11, 8});
    const Part p = filled<Part>(g, {3, 8});
    Part got(g, {3, 8});
    Tall v(g, {11, 8});
    const Whole x = filled<Whole>(g, {11, 8});
    Corner c(g, {3, 2});
    Whole y(g, {11, 8});
    Number start(g, {}), across(g, {});
    for (int place : {0, 0, 4, 3, -5, 100, 8, 7, 1}) {
      start.fill(place);
      across.fill(7 - place);
      check(window_at, got, u, start);
      check(updated, v, u, p, start);
      check(rolled, v, u, start);
      check(corner_at, c, x, start, across);
      check(with_corner, y, x, c, across, start);
    }
  }
}

// A result that is the argument itself: only the update is written. In a loop, row after row; where the old value is
// still read, beside it.
constexpr cleave::function rows_of([](auto u, auto p, auto start) {
  return std::get<0>(cleave::repeat_times(5, std::tuple(u, start), [&](auto state) {
    const auto [now, at] = state;
    return std::tuple(cleave::dynamic_update(now, row, cast<double>(at) * p, part, at), at + 1);
  }));
});
constexpr cleave::function mixed([](auto u, auto p, auto start) {
  return std::get<0>(cleave::repeat_times(3, std::tuple(u, start), [&](auto state) {
    const auto [now, at] = state;
    const auto next = cleave::dynamic_update(now, row, p, part, at);
    return std::tuple(next + 0.5 * flip(now, row), at - 2);
  }));
});
constexpr cleave::function twice_updated([](auto u, auto p, auto start) {
  const auto once = cleave::dynamic_update(2.0 * u, row, p, part, start);
  const auto near = shift(once, row, 1) - shift(once, col, -1);
  return cleave::dynamic_update(once, row, 3.0 * p, part, start + 2) * 0.25 + near;
});
TEST(movement, updates_in_place) {
  for (const cleave::grid& g : grids())
    for (const auto& extents : shapes) {
      if (extents[0] < 3) continue;
      const Grid u = filled<Grid>(g, extents);
      const Part p = filled<Part>(g, {3, extents[1]});
      Grid v(g, extents);
      for (int place : {0, 2, -5, 100}) {
        Number start(g, {});
        start.fill(place);
        check(rows_of, v, u, p, start);
        check(mixed, v, u, p, start);
        check(twice_updated, v, u, p, start);
        check(updated, v, u, p, start);
        Grid w = u;
        w = updated(w, p, start);
        EXPECT_EQ(w.to_global(), v.to_global());
      }
    }
}
// The memory of a plan does not grow with what it leaves as it is.
template <class Planned>
std::int64_t workspace_of(const Planned&, const cleave::grid& g, std::int64_t rows) {
  using plan = typename Planned::plan_type;
  cleave::sizes at;
  for (auto& d : at.dims) d = 8;
  for (std::size_t d = 0; d < plan::frozen.dims.size(); ++d) {
    if (plan::frozen.dims[d].name == "row") at.dims[d] = rows;
    if (plan::frozen.dims[d].name == "part") at.dims[d] = 3;
  }
  at.axes = g.state().sizes();
  return cleave::executor(g.state(), at, cleave::runnable_of<plan>).workspace_bytes();
}
TEST(movement, an_update_needs_no_second_array) {
  const cleave::grid g = grids().front();
  std::int64_t before = 0;
  for (std::int64_t rows : {64, 6400}) {
    const Grid u = filled<Grid>(g, {rows, 8});
    const std::int64_t bytes = workspace_of(cleave::plan<Grid(Grid, Part, int)>(updated), g, rows);
    EXPECT_TRUE(before == 0 || bytes == before);
    before = bytes;
  }
}

using Square = f64<mesh(row / ax, col / ay)>;
using Line = f64<mesh(row)>;
constexpr cleave::function diagonal_of([](auto a) { return diagonal(a, row, col); });
TEST(movement, diagonal) {
  for (const cleave::grid& g : grids())
    for (std::int64_t n : {0, 1, 5, 8}) {
      const Square a = filled<Square>(g, {n, n});
      Line d(g, {n});
      check(diagonal_of, d, a);
      EXPECT_EQ(charged([&] { d = diagonal_of(a); }),
                (cleave::plan<Line(Square)>(diagonal_of).bytes({row = n, col = n, ax = g.size(ax), ay = g.size(ay)})));
    }
}

TEST(movement, a_warm_stencil_allocates_nothing) {
  for (const cleave::grid& g : grids()) {
    const Grid u = filled<Grid>(g, {16, 24});
    Grid v(g, {16, 24});
    v = laplace(u);
    v = laplace(u);
    const support::heap_count count;
    v = laplace(u);
    if (support::heap_is_left_alone) {
      EXPECT_EQ(count(), 0);
    }
  }
}

} // namespace CLEAVE_SOURCE
