// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "solve_reference.hpp"
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

// Products that gather their operands panel by panel, so that the workspace stays within a limit: the values of the
// products that gather them as a whole, and the same bytes.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"p"> p;
inline constexpr cleave::axis<"q"> q;
inline constexpr cleave::mesh mesh{p, q};
inline constexpr cleave::dim<"m"> m;
inline constexpr cleave::dim<"n"> n;
inline constexpr cleave::dim<"k"> k;
inline constexpr cleave::dim<"b"> b;

using A = cleave::tensor<double, mesh(m / p, k / q)>;
using B = cleave::tensor<double, mesh(k / p, n / q)>;
using C = cleave::tensor<double, mesh(m / p, n / q)>;

constexpr cleave::function product([](auto x, auto y) { return dot(x, y, k); });
constexpr auto in_panels = cleave::with(product, cleave::within_workspace<1>{});

/// So many products are in panels.
constexpr int panels_in(const auto& plan) {
  int found = 0;
  for (const cleave::step& s : std::remove_cvref_t<decltype(plan)>::plan_type::steps)
    found += s.kind == cleave::step_kind::gemm && s.panels != 0 ? 1 : 0;
  return found;
}

// As many panels as it takes, and no more: 1 MiB of workspace for a device of 4 x 4, of whose operands 16 MiB each are
// gathered otherwise.
constexpr auto sizes_of = [](const auto& plan) { return plan.workspace({m = 4096, n = 4096, k = 4096, p = 4, q = 4}); };
constexpr auto expected = [](const auto& f, const auto& limit) {
  return cleave::plan<C(A, B)>(f, limit, cleave::expect<m, 4096>{}, cleave::expect<n, 4096>{},
                               cleave::expect<k, 4096>{});
};
constexpr auto free_plan = cleave::plan<C(A, B)>(product);
constexpr auto tight = expected(product, cleave::within_workspace<(1 << 20)>{});
static_assert(sizes_of(free_plan) > (60 << 20) && sizes_of(tight) <= 1 << 20 && 2 * sizes_of(tight) > 1 << 20);
static_assert(panels_in(free_plan) == 0 && panels_in(tight) == 1);
static_assert(tight.bytes({m = 4096, n = 4096, k = 4096, p = 4, q = 4}) ==
              free_plan.bytes({m = 4096, n = 4096, k = 4096, p = 4, q = 4}));
// Nothing changes where there is room.
static_assert(panels_in(expected(product, cleave::within_workspace<(1 << 28)>{})) == 0);

double some(const auto& at) {
  double x = 0.5;
  for (std::size_t i = 0; i < at.size(); ++i) x += support::wave(at[i], static_cast<std::int64_t>(i), 7);
  return x;
}
template <class Tensor>
Tensor filled(const cleave::grid& g, const std::vector<std::int64_t>& extents) {
  Tensor x(g, extents);
  x.fill_by([](const auto& at) { return static_cast<typename Tensor::element_type>(some(at)); });
  return x;
}
void expect_close(const auto& have, const auto& want, double tolerance) {
  const auto ours = have.to_global(), theirs = want.to_global();
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i)
    ASSERT_NEAR(ours[i], theirs[i], tolerance * (1 + std::abs(theirs[i]))) << i;
}
/// Both ways of computing a product: values, bytes.
template <class Result>
void expect_same(const auto& whole, const auto& panels, const cleave::grid& g, const std::vector<std::int64_t>& extents,
                 double tolerance, const auto&... operands) {
  Result want(g, extents), have(g, extents);
  want = whole(operands...);
  support::reset_charges();
  want = whole(operands...);
  const std::int64_t bytes = support::over_ranks(support::charged_bytes());
  have.fill(-1);
  have = panels(operands...);
  support::reset_charges();
  have = panels(operands...);
  EXPECT_EQ(support::over_ranks(support::charged_bytes()), bytes);
  expect_close(have, want, tolerance);
}

static_assert(panels_in(cleave::plan<C(A, B)>(in_panels)) == 1);
TEST(panels, both_operands) {
  const support::only_mpi without_shared_memory;
  for (const cleave::grid& g : support::grids(mesh))
    for (const auto& e : {std::vector<std::int64_t>{16, 24, 32}, {7, 5, 11}, {3, 1, 2}, {4, 4, 1}, {5, 6, 0}}) {
      const A x = filled<A>(g, {e[0], e[2]});
      const B y = filled<B>(g, {e[2], e[1]});
      expect_same<C>(product, in_panels, g, {e[0], e[1]}, 1e-13, x, y);
    }
}

// The result in the other order, operands in other orders, two dims that are contracted, and a dim besides.
inline constexpr cleave::dim<"d"> d;
using Turned = cleave::tensor<float, mesh(d, n / q, m / p)>;
using Left = cleave::tensor<float, mesh(b, m / p, k / q)>;
using Right = cleave::tensor<float, mesh(n / q, k, d, b)>;
constexpr cleave::function two_inner([](auto x, auto y) { return dot(x, y, k, b); });
constexpr auto two_inner_in_panels = cleave::with(two_inner, cleave::within_workspace<1>{},
                                                  cleave::without<cleave::kind::all_reduce>{});
constexpr auto two_inner_whole = cleave::with(two_inner, cleave::without<cleave::kind::all_reduce>{});

static_assert(panels_in(cleave::plan<Turned(Left, Right)>(two_inner_in_panels)) == 1);
using Inner = cleave::tensor<double, mesh(m, k / p / q)>;
using Whole = cleave::tensor<double, mesh(k, n / p)>;
using Columns = cleave::tensor<double, mesh(m, n / p)>;
static_assert(panels_in(cleave::plan<Columns(Inner, Whole)>(in_panels)) == 1);
TEST(panels, one_operand) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const Inner x = filled<Inner>(g, {6, 13});
    const Whole y = filled<Whole>(g, {13, 9});
    const support::only_mpi without_shared_memory;
    expect_same<Columns>(product, in_panels, g, {6, 9}, 1e-13, x, y);
    expect_same<Turned>(two_inner, two_inner_in_panels, g, {3, 5, 7}, 1e-5, filled<Left>(g, {2, 7, 9}),
                        filled<Right>(g, {5, 9, 3, 2}));
  }
}

// Weights that are gathered along a dim that stays: each panel is a part of the result.
using Batch = cleave::tensor<float, mesh(m / p / q, k)>;
using Weights = cleave::tensor<float, mesh(k, n / q / p)>;
using Rows = cleave::tensor<float, mesh(m / p / q, n)>;
static_assert(panels_in(cleave::plan<Rows(Batch, Weights)>(in_panels)) == 1);
TEST(panels, along_a_dim_of_the_result) {
  for (const cleave::grid& g : support::grids(mesh))
    for (const auto& e : {std::vector<std::int64_t>{16, 24, 32}, {7, 5, 11}, {9, 3, 4}}) {
      const Batch x = filled<Batch>(g, {e[0], e[2]});
      const Weights w = filled<Weights>(g, {e[2], e[1]});
      const support::only_mpi without_shared_memory;
      expect_same<Rows>(product, in_panels, g, {e[0], e[1]}, 1e-5, x, w);
    }
}

// In a loop, where the weights change; beside a product of the same types whose operand is gathered before the loop, as
// a whole; and scaled products.
constexpr cleave::function repeated([](auto x, auto w, auto v) {
  const auto end = cleave::repeat_times(3, std::pair(x, v), [&](const auto& now) {
    const auto [y, u] = now;
    const auto next = cleave::rename(dot(y, w, k) + 0.5f * dot(y, u, k), n, k);
    return std::pair(cleave::constrain(0.1f * next, mesh(m / p / q, k)),
                     cleave::constrain(0.5f * u, mesh(k, n / q / p)));
  });
  return end.first;
});
// The larger one in panels and the other one before the loop; then both, so that the other one moves three times.
using Repeated = Batch(Batch, Weights, Weights);
constexpr std::int64_t workspace_of_whole = cleave::plan<Repeated>(repeated).workspace();
constexpr auto repeated_in_panels = cleave::with(repeated, cleave::within_workspace<workspace_of_whole - 1>{});
constexpr auto repeated_in_loop = cleave::with(repeated, cleave::within_workspace<1>{});
static_assert(panels_in(cleave::plan<Repeated>(repeated_in_panels)) == 1);
static_assert(panels_in(cleave::plan<Repeated>(repeated_in_loop)) == 2);
static_assert(cleave::plan<Repeated>(repeated_in_panels).bytes() == cleave::plan<Repeated>(repeated).bytes());
static_assert(cleave::plan<Repeated>(repeated_in_loop).bytes() > cleave::plan<Repeated>(repeated).bytes());
constexpr cleave::function scaled([](auto x, auto w, auto v) { return 0.5f * dot(x, w, k) - dot(x, v, k); });
constexpr auto scaled_in_panels = cleave::with(scaled, cleave::within_workspace<1>{});
static_assert(panels_in(cleave::plan<Rows(Batch, Weights, Weights)>(scaled_in_panels)) == 2);
TEST(panels, in_loops_and_beside_other_products) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const Batch x = filled<Batch>(g, {10, 6});
    const Weights w = filled<Weights>(g, {6, 6}), v = filled<Weights>(g, {6, 6});
    Batch want(g, {10, 6}), have(g, {10, 6});
    want = repeated(x, w, v);
    have = repeated_in_panels(x, w, v);
    expect_close(have, want, 1e-5);
    have = repeated_in_loop(x, w, v);
    expect_close(have, want, 1e-5);
    Rows whole(g, {10, 6}), panels(g, {10, 6});
    whole = scaled(x, w, v);
    panels = scaled_in_panels(x, w, v);
    expect_close(panels, whole, 1e-5);
  }
}
// What collectives hold that go on while products are computed counts, too: without room for it they do not go on.
using Square = cleave::tensor<float, mesh(k, n)>;
using Samples = cleave::tensor<float, mesh(m / p / q, k)>;
constexpr cleave::function train([](auto w, auto v, auto x) {
  const cleave::function error([](auto a, auto b, auto y) {
    const auto z = cleave::rename(cleave::tanh(dot(y, a, k)), n, k);
    return cleave::mean(cleave::tanh(dot(cleave::tanh(cleave::rename(dot(z, b, k), n, k)), a, k)));
  });
  const auto slopes = cleave::grad<0, 1>(error)(w, v, x);
  const auto [dw, dv] = slopes;
  return std::tuple(w - 0.1f * dw, v - 0.1f * dv);
});
using Trained = std::tuple<Square, Square>(Square, Square, Samples);
constexpr auto trained = cleave::plan<Trained>(train);
constexpr auto one_by_one = cleave::plan<Trained>(train, cleave::without_overlap{});
static_assert(one_by_one.workspace() < trained.workspace());
static_assert(cleave::plan<Trained>(train, cleave::within_workspace<one_by_one.workspace()>{}).workspace() ==
              one_by_one.workspace());

constexpr cleave::function loss([](auto x, auto w) { return cleave::mean(cleave::tanh(dot(x, w, k))); });
constexpr auto slope = cleave::grad<1>(loss);
constexpr auto slope_in_panels = cleave::with(slope, cleave::within_workspace<1>{});
static_assert(panels_in(cleave::plan<Weights(Batch, Weights)>(slope_in_panels)) > 0);
TEST(panels, gradients) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const Batch x = filled<Batch>(g, {10, 6});
    const Weights w = filled<Weights>(g, {6, 9});
    Weights want(g, {6, 9}), have(g, {6, 9});
    want = slope(x, w);
    have = slope_in_panels(x, w);
    expect_close(have, want, 1e-4);
  }
}

} // namespace CLEAVE_SOURCE
