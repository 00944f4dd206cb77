// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "../network/network.hpp"
#include "check_function.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>

// Products that go on together with the all-gather of an operand or the reduce-scatter of their result: values against
// the evaluator, for blocks that are uneven or empty; bytes as the plan says; and communication hidden, on a network
// that is as slow as the product.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"deep"> deep;
inline constexpr cleave::dim<"head"> head;

/// While one lives, plans are bound to go on in pieces however short these are: without shared memory, unless the ranks
/// stand for several nodes (CLEAVE_NODE_RANKS).
struct in_short_pieces {
  explicit in_short_pieces(std::int64_t least = 1) {
    if (cleave::comm::node_ranks() == 0) cleave::comm::transport_mode() = cleave::comm::transport::mpi;
    cleave::comm::least_piece() = least;
  }
  ~in_short_pieces() {
    cleave::comm::least_piece() = least_before;
    cleave::comm::transport_mode() = mode_before;
  }
  in_short_pieces(const in_short_pieces&) = delete;
  in_short_pieces& operator=(const in_short_pieces&) = delete;
  std::int64_t least_before = cleave::comm::least_piece();
  cleave::comm::transport mode_before = cleave::comm::transport_mode();
};

/// The steps of a plan that go on together with another one.
template <class Plan>
constexpr int paired(const Plan& plan, cleave::kind move) {
  int n = 0;
  for (const cleave::step& s : plan.view().steps) n += s.pieces != 0 && s.move == move ? 1 : 0;
  return n;
}

using cleave::kind;
constexpr cleave::function product([](auto a, auto b) { return dot(a, b, deep); });
constexpr cleave::function descends([](auto a, auto b, auto c, auto s) { return c - s * dot(a, b, deep); });
constexpr cleave::function iterated([](auto a, auto b, auto c) {
  return repeat_times(3, std::tuple(c, a, b), [](auto state) {
    auto [x, l, r] = state;
    return std::tuple(0.5 * x + dot(l, r, deep), l, r);
  });
});

template <class T>
struct of {
  using number = cleave::tensor<T, mesh()>;
  using rows = cleave::tensor<T, mesh(row / data, col)>;
  using square = cleave::tensor<T, mesh(row, col)>;
  /// The contracted dim is gathered; the columns; the rows.
  using left = cleave::tensor<T, mesh(row / data, deep)>;
  using deep_right = cleave::tensor<T, mesh(deep / data, col)>;
  using wide_right = cleave::tensor<T, mesh(deep, col / data)>;
  using columns = cleave::tensor<T, mesh(row, col / data)>;
  /// Partial sums over the contracted dim.
  using deep_left = cleave::tensor<T, mesh(row, deep / data)>;
};

template <class Result, class... Args, class F>
constexpr auto plan_for(const F& f) {
  return cleave::plan<Result(Args...)>(f, cleave::expect<data, 4>{}, cleave::expect<model, 1>{});
}
using f = of<float>;
static_assert(paired(plan_for<f::rows, f::left, f::deep_right>(product), kind::all_gather) == 1);
static_assert(paired(plan_for<f::rows, f::left, f::wide_right>(product), kind::all_gather) == 1);
static_assert(paired(plan_for<f::columns, f::left, f::wide_right>(product), kind::all_gather) == 1);
static_assert(paired(plan_for<f::rows, f::deep_left, f::deep_right>(product), kind::reduce_scatter) == 1);
static_assert(paired(plan_for<f::columns, f::deep_left, f::deep_right>(product), kind::reduce_scatter) == 1);

// Devices that all have the result add up all blocks in one order, so each waits for all of them.
inline constexpr cleave::dim<"few", 8> few;
constexpr cleave::function short_product([](auto a, auto b) { return dot(a, b, few); });
constexpr auto replicated =
    plan_for<f::square, cleave::tensor<float, mesh(row, few)>, cleave::tensor<float, mesh(few / data, col)>>(
        short_product);
static_assert(replicated.count(kind::all_gather) == 1 && paired(replicated, kind::all_gather) == 0);

struct extents {
  std::int64_t rows, cols, depth;
};
inline constexpr extents all_extents[] = {{16, 8, 24}, {7, 9, 5}, {1, 9, 5}, {7, 1, 5},   {7, 9, 1},
                                          {7, 9, 0},   {0, 9, 5}, {3, 2, 3}, {40, 33, 65}};

/// Runs a product as planned for large sizes: what pieces are made of does not matter for values.
template <class Result, class Left, class Right>
void check_product(const cleave::grid& g, const extents& n, double tolerance) {
  constexpr auto f = cleave::with(product, cleave::expect<data, 4>{}, cleave::expect<model, 1>{});
  Left a(g, {n.rows, n.depth});
  Right b(g, {n.depth, n.cols});
  Result r(g, {n.rows, n.cols});
  support::fill(a, 0.3);
  support::fill(b, 0.7);
  support::check(f, std::tie(r), tolerance, a, b);
  // One warm call: its bytes, which no other grid or shared memory moves.
  support::reset_charges();
  r = f(a, b);
  const std::int64_t moved = support::over_ranks(support::charged_bytes());
  EXPECT_EQ(moved, cleave::plan<Result(Left, Right)>(f).bytes(
                       {row = n.rows, col = n.cols, deep = n.depth, data = g.size(data), model = g.size(model)}));
}
template <class T>
void check_all(const cleave::grid& g, const extents& n, double tolerance) {
  using o = of<T>;
  check_product<typename o::rows, typename o::left, typename o::deep_right>(g, n, tolerance);
  check_product<typename o::rows, typename o::left, typename o::wide_right>(g, n, tolerance);
  check_product<typename o::columns, typename o::left, typename o::wide_right>(g, n, tolerance);
  check_product<typename o::rows, typename o::deep_left, typename o::deep_right>(g, n, tolerance);
  check_product<typename o::columns, typename o::deep_left, typename o::deep_right>(g, n, tolerance);
}

TEST(pieces, values_and_bytes) {
  const in_short_pieces on;
  for (const cleave::grid& g : support::grids(mesh))
    for (const extents& n : all_extents) {
      check_all<double>(g, n, 1e-12);
      check_all<float>(g, n, 1e-4);
    }
}

TEST(pieces, of_chosen_length) {
  // Some blocks are long enough for pieces, others are not.
  for (std::int64_t least : {100, 600}) {
    const in_short_pieces on(least);
    for (const cleave::grid& g : support::grids(mesh)) check_all<double>(g, {13, 17, 29}, 1e-12);
  }
}

TEST(pieces, of_scaled_products) {
  const in_short_pieces on;
  using o = of<double>;
  for (const cleave::grid& g : support::grids(mesh))
    for (const extents& n : all_extents) {
      o::left a(g, {n.rows, n.depth});
      o::deep_right b(g, {n.depth, n.cols});
      o::rows c(g, {n.rows, n.cols}), r(g, {n.rows, n.cols});
      o::number s(g, {});
      support::fill(a, 0.3);
      support::fill(b, 0.7);
      support::fill(c, 1.1);
      s.fill(0.375);
      support::check(descends, std::tie(r), 1e-12, a, b, c, s);
      o::left a_after(g, {n.rows, n.depth});
      o::deep_right b_after(g, {n.depth, n.cols});
      support::check(iterated, std::tie(r, a_after, b_after), 1e-11, a, b, c);
      // In place.
      r = descends(a, b, c, s);
      c = descends(a, b, c, s);
      EXPECT_EQ(r.to_global(), c.to_global());
    }
}

/// Several dims on each side, and results that take the place of operands.
constexpr cleave::function mixes([](auto a, auto b) { return dot(a, b, deep, col); });
TEST(pieces, of_several_dims) {
  const in_short_pieces on;
  using left = cleave::tensor<double, mesh(row / data, deep, head / model, col)>;
  using right = cleave::tensor<double, mesh(deep / data, head / model, col)>;
  using result = cleave::tensor<double, mesh(row / data, head / model)>;
  for (const cleave::grid& g : support::grids(mesh)) {
    left a(g, {5, 6, 4, 3});
    right b(g, {6, 4, 3});
    result r(g, {5, 4});
    support::fill(a, 0.3);
    support::fill(b, 0.7);
    support::check(mixes, std::tie(r), 1e-12, a, b);
  }
}

/// Gradients of a loss over parameters that are sharded: gathered forwards, reduced and scattered backwards.
constexpr cleave::function loss([](auto w, auto v, auto x) {
  const auto h = maximum(dot(x, w, deep), 0);
  return sum(pow(dot(h, v, col), 2));
});
TEST(pieces, of_gradients) {
  const in_short_pieces on;
  using first = cleave::tensor<double, mesh(deep / data, col)>;
  using second = cleave::tensor<double, mesh(col / data, head)>;
  using input = cleave::tensor<double, mesh(row / data, deep)>;
  constexpr auto slope = cleave::grad(loss);
  for (const cleave::grid& g : support::grids(mesh)) {
    first w(g, {9, 14}), dw(g, {9, 14});
    second v(g, {14, 5});
    input x(g, {11, 9});
    support::fill(w, 0.3);
    support::fill(v, 0.7);
    support::fill(x, 1.1);
    support::check(slope, std::tie(dw), 1e-10, w, v, x);
  }
}

TEST(pieces, warm_calls_allocate_nothing) {
  const in_short_pieces on;
  using o = of<double>;
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  o::left a(g, {33, 40});
  o::deep_right b(g, {40, 24});
  o::rows r(g, {33, 24});
  o::deep_left c(g, {33, 40});
  for (int i = 0; i < 2; ++i) r = product(a, b), r = product(c, b);
  const support::heap_count heap;
  r = product(a, b);
  r = product(c, b);
  if (support::heap_is_left_alone) {
    EXPECT_EQ(heap(), 0);
  }
}

TEST(pieces, in_checked_mode) {
  const in_short_pieces on;
  using o = of<double>;
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  o::left a(g, {33, 40});
  o::deep_right b(g, {40, 24});
  o::deep_left c(g, {33, 40});
  o::rows r(g, {33, 24}), q(g, {33, 24}), checked(g, {33, 24});
  support::fill(a, 0.3);
  support::fill(b, 0.7);
  support::fill(c, 1.1);
  r = product(a, b);
  q = product(c, b);
  g.check({true, true, 8});
  // Checks look at what a step has brought before the next one runs.
  checked = product(a, b);
  EXPECT_EQ(checked.to_global(), r.to_global());
  checked = product(c, b);
  EXPECT_EQ(checked.to_global(), q.to_global());
}

/// The seconds of a call of the slower rank.
template <class F>
double seconds_of(F&& f) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  f();
  double seconds = MPI_Wtime() - start;
  PMPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return seconds;
}
double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

/// On a network on which a product communicates as long as it computes, part of that is hidden. A busy machine makes
/// all of it slower, so that much less is asked for than bench/overlap_time.cpp measures.
template <class Result, class Left, class Right>
void hides() {
  const std::int64_t n = 640;
  const auto with_pieces = [&](std::int64_t least) {
    const in_short_pieces on(least);
    cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
    Left a(g, {n, n});
    Right b(g, {n, n});
    Result r(g, {n, n});
    support::fill(a, 0.3);
    support::fill(b, 0.7);
    r = product(a, b);
    return [=]() mutable { r = product(a, b); };
  };
  auto apart = with_pieces(std::int64_t{1} << 40), together = with_pieces(1);
  std::vector<double> alone, one_by_one, at_once;
  for (int i = 0; i < 5; ++i) alone.push_back(seconds_of(apart));
  // Each rank gets half of an array of the other one.
  const double slow = std::max(median(alone), 5e-3), bytes = static_cast<double>(n * n) * 8 / 2;
  network::simulated() = {20e-6, bytes / slow};
  // A few attempts, since other programs may take the cores.
  double hidden = 0;
  for (int attempt = 0; attempt < 20 && hidden < 0.3 * slow; ++attempt) {
    one_by_one.clear();
    at_once.clear();
    for (int i = 0; i < 5; ++i) {
      one_by_one.push_back(seconds_of(apart));
      at_once.push_back(seconds_of(together));
    }
    hidden = median(one_by_one) - median(at_once);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  network::simulated() = {};
  EXPECT_GE(hidden, 0.3 * slow) << median(one_by_one) << " s one after the other, " << median(at_once)
                                << " s together, of which " << slow << " s are messages";
}

TEST(pieces, hide_messages_behind_products) {
  if (support::ranks() != 2) return;
  if constexpr (!cleave::on_host) GTEST_SKIP() << "a device has these products before there is anything to hide";
  using o = of<double>;
  hides<o::rows, o::left, o::deep_right>();
  hides<o::rows, o::deep_left, o::deep_right>();
}

} // namespace CLEAVE_SOURCE
