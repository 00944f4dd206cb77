// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "check_function.hpp"

#include <cleave/cleave.hpp>
#include <cleave/optim/sgd.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

// Products that are scaled and added to an array are one call of the library, with alpha and beta: values against the
// evaluator, in place and not, for shapes for which the library has other functions, and for Views with gaps.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"deep"> deep;

template <class T>
struct of {
  using number = cleave::tensor<T, mesh()>;
  using left = cleave::tensor<T, mesh(row / data, deep)>;
  using right = cleave::tensor<T, mesh(deep, col / model)>;
  using result = cleave::tensor<T, mesh(row / data, col / model)>;
  using square = cleave::tensor<T, mesh(row, col)>;
};

constexpr cleave::function scaled([](auto a, auto b, auto s) { return dot(a, b, deep) * s / 2; });
constexpr cleave::function added([](auto a, auto b, auto c) { return c + dot(a, b, deep); });
constexpr cleave::function descends([](auto a, auto b, auto c, auto s) { return c - s * dot(a, b, deep); });
constexpr cleave::function decays([](auto a, auto b, auto c, auto s) { return c - s * (dot(a, b, deep) + 0.25 * c); });
constexpr cleave::function combines([](auto a, auto b, auto c) { return 0.5 * c - (dot(a, b, deep) - 2 * c) / 8; });
/// The result stands in the way of an operand of the product.
constexpr cleave::function squares([](auto c) {
  return c - 0.5 * dot(rename(c, col, deep), rename(c, row, deep), deep);
});
constexpr cleave::function twice([](auto a, auto b, auto c) {
  const auto p = dot(a, b, deep);
  return std::tuple(c + p, 2 * p);
});
/// What is added is read after the product.
constexpr cleave::function later([](auto a, auto b, auto c) {
  return std::tuple(c - 0.125 * dot(a, b, deep), exp(c));
});
constexpr cleave::function iterated([](auto a, auto b, auto c) {
  return repeat_times(3, std::tuple(c, a, b), [](auto state) {
    auto [x, l, r] = state;
    return std::tuple(0.5 * x + dot(l, r, deep), l, r);
  });
});

constexpr auto descent =
    cleave::plan<of<float>::result(of<float>::left, of<float>::right, of<float>::result, of<float>::number)>(descends);
/// The steps of a plan of a kind.
template <class Plan>
constexpr int count_of(const Plan& plan, cleave::step_kind kind) {
  int n = 0;
  for (const cleave::step& s : plan.view().steps) n += s.kind == kind ? 1 : 0;
  return n;
}
static_assert(count_of(descent, cleave::step_kind::gemm) == 1 && count_of(descent, cleave::step_kind::map) == 0);
/// A partial sum is scaled before it is reduced, and what is added is added afterwards.
using partial_left = cleave::tensor<float, mesh(row, deep / data)>;
using partial_right = cleave::tensor<float, mesh(deep / data, col)>;
constexpr auto reduced =
    cleave::plan<of<float>::square(partial_left, partial_right, of<float>::square, of<float>::number)>(descends);
static_assert(count_of(reduced, cleave::step_kind::gemm) == 1 && count_of(reduced, cleave::step_kind::map) == 1);
/// Two results read the product.
constexpr auto both = cleave::plan<std::tuple<of<float>::result, of<float>::result>(of<float>::left, of<float>::right,
                                                                                    of<float>::result)>(twice);
static_assert(count_of(both, cleave::step_kind::gemm) == 1 && count_of(both, cleave::step_kind::map) == 2);

struct extents {
  std::int64_t rows, cols, depth;
};

template <class T>
void check_all(const cleave::grid& g, const extents& n, double tolerance) {
  typename of<T>::left a(g, {n.rows, n.depth});
  typename of<T>::right b(g, {n.depth, n.cols});
  typename of<T>::result c(g, {n.rows, n.cols}), r(g, {n.rows, n.cols}), q(g, {n.rows, n.cols});
  typename of<T>::left a_after(g, {n.rows, n.depth});
  typename of<T>::right b_after(g, {n.depth, n.cols});
  typename of<T>::number s(g, {});
  support::fill(a, 0.3);
  support::fill(b, 0.7);
  support::fill(c, 1.1);
  s.fill(T(0.375));
  support::check(scaled, std::tie(r), tolerance, a, b, s);
  support::check(added, std::tie(r), tolerance, a, b, c);
  support::check(descends, std::tie(r), tolerance, a, b, c, s);
  support::check(decays, std::tie(r), tolerance, a, b, c, s);
  support::check(combines, std::tie(r), tolerance, a, b, c);
  support::check(twice, std::tie(r, q), tolerance, a, b, c);
  support::check(later, std::tie(r, q), tolerance, a, b, c);
  support::check(iterated, std::tie(r, a_after, b_after), tolerance, a, b, c);
  // In place.
  r = descends(a, b, c, s);
  q = c;
  q = descends(a, b, q, s);
  EXPECT_EQ(r.to_global(), q.to_global());
  q = c;
  typename of<T>::result e(g, {n.rows, n.cols}), f(g, {n.rows, n.cols});
  later(a, b, c).into(r, e);
  later(a, b, q).into(q, f);
  EXPECT_EQ(r.to_global(), q.to_global());
  EXPECT_EQ(e.to_global(), f.to_global());
}

TEST(scaled_products, are_as_defined) {
  for (const cleave::grid& g : support::grids(mesh))
    for (const extents& n : {extents{7, 9, 5}, {1, 9, 5}, {7, 1, 5}, {1, 1, 5}, {7, 9, 1}, {7, 9, 0}, {40, 33, 65}}) {
      check_all<double>(g, n, 1e-12);
      check_all<float>(g, n, 1e-4);
    }
}

TEST(scaled_products, of_partial_sums) {
  using left = cleave::tensor<double, mesh(row, deep / data)>;
  using right = cleave::tensor<double, mesh(deep / data, col)>;
  using square = cleave::tensor<double, mesh(row, col)>;
  for (const cleave::grid& g : support::grids(mesh)) {
    left a(g, {6, 10});
    right b(g, {10, 7});
    square c(g, {6, 7}), r(g, {6, 7});
    cleave::tensor<double, mesh()> s(g, {});
    support::fill(a, 0.3);
    support::fill(b, 0.7);
    support::fill(c, 1.1);
    s.fill(0.375);
    support::check(scaled, std::tie(r), a, b, s);
    support::check(descends, std::tie(r), a, b, c, s);
    support::check(added, std::tie(r), a, b, c);
  }
}

TEST(scaled_products, where_the_result_replaces_an_operand) {
  using square = cleave::tensor<double, mesh(row, col)>;
  for (const cleave::grid& g : support::grids(mesh)) {
    square c(g, {6, 6}), r(g, {6, 6});
    support::fill(c, 0.3);
    r = squares(c);
    c = squares(c);
    EXPECT_EQ(r.to_global(), c.to_global());
  }
}

// A library multiplies in an order of its own, which shows where numbers are near the ends of the range: there the
// order is that of the user. Some are in place, and some products are of partial sums.
constexpr cleave::function over([](auto a, auto b, auto s) { return dot(a, b, deep) / s; });
constexpr cleave::function enlarged([](auto a, auto b, auto s) { return dot(a, b, deep) * 0x1p60 * s; });
constexpr cleave::function less([](auto a, auto b, auto c, auto s) { return c - s * dot(a, b, deep); });
template <class Left, class Right, class Result>
void check_far_numbers(const cleave::grid& g) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const auto values = [&](const Result& r) { return r.to_global(); };
  Left a(g, {6, 4});
  Right b(g, {4, 7});
  Result c(g, {6, 7}), r(g, {6, 7});
  of<float>::number s(g, {});
  const auto expect = [&](float product, float number, const auto& f, float want) {
    a.fill(product / 4), b.fill(1), c.fill(3);
    s.fill(number);
    r = f();
    for (const float x : values(r)) EXPECT_EQ(x, want) << product << " and " << number;
  };
  expect(0x1p-120F, 0x1p70F, [&] { return enlarged(a, b, s); }, 1024);
  expect(0, 0x1p-130F, [&] { return over(a, b, s); }, 0);
  expect(0x1p-120F, 0x1p-130F, [&] { return over(a, b, s); }, 1024);
  expect(2, infinity, [&] { return less(a, b, c, s); }, -infinity);
  expect(0x1p-70F, 0x1p70F, [&] { return less(a, b, c, s); }, 2);
  expect(2, 0, [&] { return less(a, b, c, s); }, 3);
  expect(2, 5, [&] { return less(a, b, c, s); }, -7);
  // In place.
  a.fill(0x1p-72F), s.fill(0x1p70F), c.fill(3);
  c = less(a, b, c, s);
  for (const float x : values(c)) EXPECT_EQ(x, 2);
}
TEST(scaled_products, by_numbers_far_from_1) {
  for (const cleave::grid& g : support::grids(mesh)) {
    check_far_numbers<of<float>::left, of<float>::right, of<float>::result>(g);
    check_far_numbers<cleave::tensor<float, mesh(row, deep / data)>, cleave::tensor<float, mesh(deep / data, col)>,
                      cleave::tensor<float, mesh(row / data, col)>>(g);
  }
}
} // namespace CLEAVE_SOURCE
