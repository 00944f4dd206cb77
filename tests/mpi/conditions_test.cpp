// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "check_function.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <array>
#include <tuple>

// Conditions at faces that are choices by index: many of them in one pass with several results, and shifted along other
// dims. One expression computes the middle of the dims, another one the elements at the faces.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ay, ax};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using Plane = cleave::tensor<double, mesh(row / ay, col / ax)>;
using cleave::value;

/// u[i + d] along a dim; mirrored beyond its faces, with the other sign if `odd`.
template <class D>
constexpr value mirrored(const value& u, const D& dim, int d, bool odd) {
  const value i = iota(u, dim), n = count<int>(u, dim);
  value v = shift(u, dim, -d, cleave::border::edge);
  const int away = d < 0 ? -d : d;
  for (int m = 0; m < away; ++m) {
    const value inner = shift(u, dim, d < 0 ? d + 1 + 2 * m : d - 1 - 2 * m, cleave::border::edge);
    v = select(d < 0 ? i == m : i == n - 1 - m, odd ? -inner : inner, v);
  }
  return v;
}
constexpr value around(const value& u, int di, int dj, bool odd) {
  return mirrored(mirrored(u, row, di, odd), col, dj, !odd);
}

constexpr cleave::function three_results([](auto u, auto v) {
  const value east = around(u, 0, 2, false), west = around(u, 0, -2, false), north = around(v, 2, 0, true),
              south = around(v, -2, 0, true), corner = around(u, 1, -1, true) * around(v, -1, 1, false);
  const value flux = tanh(east - west) * (north + south), limited = select(flux > 0.0, minimum(flux, corner), v);
  return std::tuple(u + 0.5 * limited, v - 0.25 * flux * corner, limited * flux);
});
/// Too many predicates for an expression of each, and one result.
constexpr cleave::function one_result([](auto u) {
  value sum = u;
  for (int d : {-2, -1, 1, 2}) sum = sum + around(u, d, 0, false) * around(u, 0, d, true) + around(u, d, -d, true);
  return sum;
});
/// A number in the middle of a dim is near no face.
constexpr cleave::function halves([](auto u, auto v) {
  const value i = iota(u, row), left = select(i < count<int>(u, row) / 2, u, v), right = select(i < 5, v, u);
  return std::tuple(left * v, right - u, left + right);
});

/// Predicates that hold at single indices, and in ranges away from the faces.
constexpr cleave::function inside([](auto u, auto v) {
  const value i = iota(u, row), j = iota(u, col);
  const value at = select(i == 5, u, v), between = select((i >= 2) & (i < 5), u + v, u),
              source = select((i >= 3) & (i < 6), select((j >= 4) & (j < 7), u * 2, v), v),
              but = select(j != 1, v, u - v), far = select(i >= 4, at, select(i == 6, u, between));
  return std::tuple(at + source, between * but, far - source);
});

TEST(conditions, at_faces_of_several_results) {
  for (const cleave::grid& g : support::grids(mesh))
    for (const auto& [rows, cols] : {std::array{8, 12}, std::array{24, 67}, std::array{70, 33}}) {
      Plane u(g, {rows, cols}), v(g, {rows, cols}), a(g, {rows, cols}), b(g, {rows, cols}), c(g, {rows, cols});
      support::fill(u, 0.3);
      support::fill(v, 1.1);
      support::check(three_results, std::tie(a, b, c), u, v);
      support::check(one_result, std::tie(a), u);
      support::check(halves, std::tie(a, b, c), u, v);
      support::check(inside, std::tie(a, b, c), u, v);
    }
}

} // namespace CLEAVE_SOURCE
