// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "solve_reference.hpp"
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/stencil/advance.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

// Stencils on real grids beside ordinary loops over a padded array: equal bit for bit, whatever the shards, the
// conditions at the faces and the steps for one exchange. All factors are powers of two, so that fused multiply-adds
// round as the loops do.

namespace CLEAVE_SOURCE {

namespace stencil = cleave::stencil;
using stencil::along;

inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ay, ax};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"plane", 3> planes;
using Plane = cleave::tensor<double, mesh(row / ay, col / ax)>;
using Rows = cleave::tensor<double, mesh(row / ax / ay, col)>;
using Planes = cleave::tensor<double, mesh(row / ax, planes, col / ay)>;

enum class kind { ring, zero, fixed, zero_gradient, reflecting, wall, odd_wall, odd_reflecting, odd_beyond };
inline constexpr double outside_value = 1.25;

/// A condition of the reference, and the same of the library.
template <kind K>
constexpr auto face_of() {
  if constexpr (K == kind::zero) return stencil::fixed(0.0);
  if constexpr (K == kind::fixed) return stencil::fixed(outside_value);
  if constexpr (K == kind::zero_gradient) return stencil::zero_gradient;
  if constexpr (K == kind::reflecting) return stencil::reflecting;
  if constexpr (K == kind::wall) return stencil::wall;
  if constexpr (K == kind::odd_wall) return stencil::odd_wall;
  if constexpr (K == kind::odd_reflecting) return stencil::odd_reflecting;
  if constexpr (K == kind::odd_beyond) return stencil::odd_beyond;
}
template <kind Low, kind High>
struct faces {
  static constexpr kind low = Low, high = High;
  template <class D>
  static constexpr auto of(const D& d) {
    if constexpr (Low == kind::ring) return along(d, stencil::periodic);
    else if constexpr (Low == High) return along(d, face_of<Low>());
    else return along(d, face_of<Low>(), face_of<High>());
  }
};

/// A line with so many elements more at both ends.
std::vector<double> padded_line(const std::vector<double>& line, int width, kind low, kind high) {
  const int n = static_cast<int>(line.size());
  const auto at = [&](int i) { return line[static_cast<std::size_t>(i)]; };
  const auto outer = [&](int m, bool before) { // element m outside, m = 1, 2, ...
    const auto inner = [&](int i) { return before ? at(i) : at(n - 1 - i); };
    switch (before ? low : high) {
      case kind::ring: return before ? at(n - m) : at(m - 1);
      case kind::zero: return 0.0;
      case kind::fixed: return outside_value;
      case kind::zero_gradient: return inner(0);
      case kind::reflecting: return inner(m);
      case kind::wall: return inner(m - 1);
      case kind::odd_wall: return -inner(m - 1);
      case kind::odd_reflecting: return -inner(m);
      case kind::odd_beyond: return m == 1 ? 0.0 : -inner(m - 2);
    }
    return 0.0;
  };
  std::vector<double> all;
  for (int m = width; m > 0; --m) all.push_back(outer(m, true));
  all.insert(all.end(), line.begin(), line.end());
  for (int m = 1; m <= width; ++m) all.push_back(outer(m, false));
  return all;
}

/// A plane in ordinary memory.
struct serial_plane {
  int rows, cols;
  std::vector<double> at;

  double get(int i, int j) const { return at[static_cast<std::size_t>(i * cols + j)]; }
  /// With so many elements more on all sides; in corners the rows decide.
  template <class Y, class X>
  serial_plane padded(int width) const {
    serial_plane wide{rows, cols + 2 * width, {}};
    for (int i = 0; i < rows; ++i) {
      const std::vector<double> line(at.begin() + i * cols, at.begin() + (i + 1) * cols);
      const std::vector<double> longer = padded_line(line, width, X::low, X::high);
      wide.at.insert(wide.at.end(), longer.begin(), longer.end());
    }
    serial_plane all{rows + 2 * width, wide.cols, {}};
    all.at.resize(static_cast<std::size_t>(all.rows * all.cols));
    for (int j = 0; j < wide.cols; ++j) {
      std::vector<double> line;
      for (int i = 0; i < rows; ++i) line.push_back(wide.get(i, j));
      line = padded_line(line, width, Y::low, Y::high);
      for (int i = 0; i < all.rows; ++i)
        all.at[static_cast<std::size_t>(i * all.cols + j)] = line[static_cast<std::size_t>(i)];
    }
    return all;
  }
  template <class Y, class X, class Step>
  serial_plane after(const Step& step, int width) const {
    const serial_plane wide = padded<Y, X>(width);
    serial_plane next{rows, cols, {}};
    for (int i = 0; i < rows; ++i)
      for (int j = 0; j < cols; ++j)
        next.at.push_back(step([&](int di, int dj) { return wide.get(i + width + di, j + width + dj); }));
    return next;
  }
};

// One body for the library and for the reference.
struct five_points {
  static constexpr int width = 1;
  template <class U>
  constexpr auto operator()(const U& u) const {
    return 0.25 * (u(-1, 0) + u(1, 0) + u(0, -1) + u(0, 1)) - 0.5 * u(0, 0);
  }
};
/// Not symmetric, and it reads the second neighbours.
struct far_points {
  static constexpr int width = 2;
  template <class U>
  constexpr auto operator()(const U& u) const {
    return 0.5 * (u(-2, 0) - u(1, 0)) + 0.25 * (u(0, -1) + u(0, 2)) + 0.125 * u(2, 0) - 0.5 * u(0, -2);
  }
};
struct nine_points {
  static constexpr int width = 1;
  template <class U>
  constexpr auto operator()(const U& u) const {
    return 0.125 * (u(-1, -1) + u(-1, 1) - u(1, -1) + u(1, 1)) + 0.25 * (u(-1, 0) - u(0, 1)) + 0.5 * u(0, -1) -
           0.5 * (u(1, 0) - u(0, 0));
  }
};

template <bool Box, int Width, class Y, class X>
constexpr auto neighbours(const cleave::value& u) {
  if constexpr (Box) return stencil::box<Width>(u, Y::of(row), X::of(col));
  else return stencil::star<Width>(u, Y::of(row), X::of(col));
}
template <bool Box, class Step, class Y, class X, int Steps>
struct sweeps {
  constexpr auto operator()(const cleave::value& u) const {
    return stencil::advance<Steps>(Step{}, neighbours<Box, Step::width, Y, X>(u));
  }
};
template <bool Box, class Step, class Y, class X, int Steps>
inline constexpr cleave::function sweep{sweeps<Box, Step, Y, X, Steps>{}};

double start_of(std::int64_t i, std::int64_t j) { return support::wave(i, j, 0) + 0.3 * support::wave(j, 2 * i, 1); }

/// So many single steps, and a call for all of them.
template <class Tensor, bool Box, class Step, class Y, class X, int Steps>
void expect_serial() {
  for (const cleave::grid& g : support::grids(mesh))
    for (const auto& [rows, cols] : {std::array{9, 7}, std::array{16, 24}}) {
      Tensor u(g, {rows, cols}), v(g, {rows, cols}), w(g, {rows, cols});
      u.fill_by([](const auto& at) { return start_of(at[0], at[1]); });
      serial_plane want{rows, cols, u.to_global()};
      for (int k = 0; k < Steps; ++k) want = want.after<Y, X>(Step{}, Step::width);
      w = u;
      for (int k = 0; k < Steps; ++k) {
        v = sweep<Box, Step, Y, X, 1>(w);
        w = v;
      }
      EXPECT_EQ(w.to_global(), want.at) << rows << " x " << cols;
      if constexpr (Steps > 1) {
        v = sweep<Box, Step, Y, X, Steps>(u);
        EXPECT_EQ(v.to_global(), want.at) << rows << " x " << cols << " at once";
      }
    }
}

using ring = faces<kind::ring, kind::ring>;
using edge = faces<kind::zero_gradient, kind::zero_gradient>;
using mirror = faces<kind::reflecting, kind::reflecting>;
using walls = faces<kind::wall, kind::wall>;
using odd_walls = faces<kind::odd_wall, kind::odd_wall>;
using given = faces<kind::fixed, kind::fixed>;
using zeros = faces<kind::zero, kind::zero>;
using given_or_edge = faces<kind::fixed, kind::zero_gradient>;
using mirror_or_odd = faces<kind::reflecting, kind::odd_wall>;
using staggered = faces<kind::odd_reflecting, kind::odd_beyond>;
using staggered_high = faces<kind::odd_beyond, kind::odd_reflecting>;

TEST(stencil, stars_with_each_condition) {
  expect_serial<Plane, false, five_points, ring, edge, 1>();
  expect_serial<Plane, false, five_points, mirror, walls, 1>();
  expect_serial<Plane, false, five_points, given, odd_walls, 1>();
  expect_serial<Plane, false, five_points, given_or_edge, mirror_or_odd, 1>();
}
// The faces before cells, and behind them.
TEST(stencil, conditions_of_staggered_fields) {
  expect_serial<Plane, false, five_points, staggered, staggered_high, 1>();
  expect_serial<Plane, false, far_points, staggered_high, staggered, 1>();
  expect_serial<Rows, true, nine_points, staggered, walls, 1>();
}
TEST(stencil, wide_stars) {
  expect_serial<Plane, false, far_points, walls, given_or_edge, 1>();
  expect_serial<Rows, false, far_points, mirror_or_odd, ring, 1>();
}
// What a face mirrors lies within the domain, or it is an error.
TEST(stencil, domains_too_short_for_a_mirror) {
  const cleave::grid g = support::grids(mesh).front();
  const auto sweep_of = [&](std::int64_t rows) {
    Plane u(g, {rows, 6}), v(g, {rows, 6});
    v = sweep<false, five_points, mirror_or_odd, ring, 1>(u);
  };
  sweep_of(2);
  EXPECT_THROW(sweep_of(1), cleave::shape_error);
}
TEST(stencil, boxes_have_corners) {
  expect_serial<Plane, true, nine_points, ring, ring, 1>();
  expect_serial<Plane, true, nine_points, given_or_edge, mirror_or_odd, 1>();
  expect_serial<Rows, true, nine_points, mirror, given, 1>();
}
// In a corner the first dim decides, also where it says 0.
TEST(stencil, zeros_decide_in_corners) {
  expect_serial<Plane, true, nine_points, zeros, given, 1>();
  expect_serial<Plane, true, nine_points, given, zeros, 1>();
  expect_serial<Plane, true, nine_points, zeros, mirror_or_odd, 2>();
  expect_serial<Rows, true, nine_points, zeros, ring, 1>();
}
// A value along a face is read where the neighbour is.
template <bool Ring>
constexpr cleave::function diagonal_of_a_profile([](auto u, auto before, auto behind) {
  const auto rows = along(row, stencil::fixed(before), stencil::fixed(behind));
  if constexpr (Ring) return stencil::box<2>(u, rows, along(col, stencil::periodic))(-1, -2);
  else return stencil::box<2>(u, rows, along(col, stencil::zero_gradient, stencil::fixed(7.0)))(2, 1);
});
TEST(stencil, profiles_in_boxes) {
  using Profile = cleave::tensor<double, mesh(col)>;
  for (const cleave::grid& g : support::grids(mesh)) {
    constexpr std::int64_t n = 5, m = 7;
    Plane u(g, {n, m}), v(g, {n, m});
    Profile before(g, {m}), behind(g, {m});
    u.fill_by([](const auto& at) { return start_of(at[0], at[1]); });
    before.fill_by([](const auto& at) { return 100.0 + static_cast<double>(at[0]); });
    behind.fill_by([](const auto& at) { return 200.0 + static_cast<double>(at[0]); });
    std::vector<double> ring, edge;
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < m; ++j) {
        const std::int64_t left = (j + m - 2) % m;
        ring.push_back(i == 0 ? 100.0 + static_cast<double>(left) : start_of(i - 1, left));
        // Behind the last column the profile is continued as the field is.
        edge.push_back(j + 1 == m ? 7.0 : i + 2 >= n ? 200.0 + static_cast<double>(j + 1) : start_of(i + 2, j + 1));
      }
    v = diagonal_of_a_profile<true>(u, before, behind);
    EXPECT_EQ(v.to_global(), ring);
    v = diagonal_of_a_profile<false>(u, before, behind);
    EXPECT_EQ(v.to_global(), edge);
  }
}
TEST(stencil, several_steps_for_one_exchange) {
  expect_serial<Plane, false, five_points, ring, ring, 2>();
  expect_serial<Plane, false, five_points, given_or_edge, walls, 2>();
  expect_serial<Rows, false, five_points, mirror, odd_walls, 3>();
  expect_serial<Plane, true, nine_points, ring, given, 2>();
}

// A wave equation of first order: two fields that change, and a coefficient that does not.
struct wave_step {
  template <class P, class Q, class C>
  constexpr auto operator()(const P& p, const Q& q, const C& c) const {
    return std::pair(p(0, 0) + 0.5 * (q(1, 0) - q(-1, 0)), q(0, 0) + 0.25 * (c(0, 1) * (p(1, 0) - p(-1, 0))));
  }
};
template <int Steps>
inline constexpr cleave::function waves([](auto p, auto q, auto c) {
  const auto around = [](const cleave::value& u, const stencil::face& y) {
    return stencil::star<1>(u, along(row, y), along(col, stencil::periodic));
  };
  return stencil::advance<Steps>(wave_step{}, around(p, stencil::wall), around(q, stencil::odd_wall),
                                 around(c, stencil::zero_gradient));
});
TEST(stencil, fields_and_coefficients_advance_together) {
  for (const cleave::grid& g : support::grids(mesh)) {
    Plane p(g, {12, 10}), q(g, {12, 10}), c(g, {12, 10}), p1(g, {12, 10}), q1(g, {12, 10}), p3(g, {12, 10}),
        q3(g, {12, 10});
    p.fill_by([](const auto& at) { return start_of(at[0], at[1]); });
    q.fill_by([](const auto& at) { return start_of(at[1], at[0]); });
    c.fill_by([](const auto& at) { return at[0] % 3 == 0 ? 0.5 : at[1] % 2 == 0 ? 1.0 : 2.0; });
    waves<3>(p, q, c).into(p3, q3);
    for (int k = 0; k < 3; ++k) {
      waves<1>(p, q, c).into(p1, q1);
      p = p1;
      q = q1;
    }
    EXPECT_EQ(p3.to_global(), p.to_global());
    EXPECT_EQ(q3.to_global(), q.to_global());
  }
}

// Sound in a box: the pressure in cells, the velocities on the faces before them. A standing wave after a time is
// second order in the spacing, and the velocity on the walls stays 0.
constexpr cleave::function sound([](auto p, auto v, auto u, auto ratio) {
  const auto cell = stencil::star<1>(p, along(row, stencil::wall), along(col, stencil::wall));
  const auto v1 = v - ratio * (cell(0, 0) - cell(-1, 0)), u1 = u - ratio * (cell(0, 0) - cell(0, -1));
  const auto down = stencil::star<1>(v1, along(row, stencil::odd_reflecting, stencil::odd_beyond));
  const auto right = stencil::star<1>(u1, along(col, stencil::odd_reflecting, stencil::odd_beyond));
  return std::tuple(p - ratio * ((down(1) - down(0)) + (right(1) - right(0))), v1, u1);
});
double error_of_sound(const cleave::grid& g, std::int64_t n) {
  const double pi = std::acos(-1.0), spacing = 1.0 / static_cast<double>(n), ratio = 0.5, time = 0.5;
  Plane p(g, {n, n}), v(g, {n, n}), u(g, {n, n});
  const auto wave = [&](const auto& at) {
    return std::cos(pi * spacing * (static_cast<double>(at[0]) + 0.5)) *
           std::cos(2 * pi * spacing * (static_cast<double>(at[1]) + 0.5));
  };
  // The velocities are half a step behind the pressure, so that the steps are centred.
  const double omega = std::sqrt(5.0) * pi, late = std::sin(0.5 * omega * ratio * spacing) / omega;
  p.fill_by(wave);
  const auto at_face = [&](std::int64_t i, double k) { return std::sin(k * pi * spacing * static_cast<double>(i)); };
  const auto at_centre = [&](std::int64_t i, double k) {
    return std::cos(k * pi * spacing * (static_cast<double>(i) + 0.5));
  };
  v.fill_by([&](const auto& at) { return -pi * late * at_face(at[0], 1) * at_centre(at[1], 2); });
  u.fill_by([&](const auto& at) { return -2 * pi * late * at_centre(at[0], 1) * at_face(at[1], 2); });
  const auto steps = static_cast<std::int64_t>(time / (ratio * spacing) + 0.5);
  for (std::int64_t k = 0; k < steps; ++k) sound(p, v, u, ratio).into(p, v, u);
  Plane exact(g, {n, n});
  exact.fill_by([&](const auto& at) { return std::cos(omega * time) * wave(at); });
  const std::vector<double> a = p.to_global(), b = exact.to_global(), faces = v.to_global();
  for (std::int64_t j = 0; j < n; ++j) EXPECT_EQ(faces[static_cast<std::size_t>(j)], 0.0);
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) worst = std::max(worst, std::abs(a[i] - b[i]));
  return worst;
}
TEST(stencil, staggered_fields_are_second_order) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const double rough = error_of_sound(g, 16), fine = error_of_sound(g, 32);
    EXPECT_LT(fine, 0.02);
    EXPECT_NEAR(std::log2(rough / fine), 2, 0.1);
  }
}

// The field may have dims that are not of the domain, and the condition of a face may be a value along it.
constexpr cleave::function with_a_profile([](auto u, auto profile) {
  const auto x = stencil::star<1>(u, along(col, stencil::fixed(profile), stencil::zero_gradient));
  return x(-1) + 2 * x(1);
});
TEST(stencil, dims_besides_the_domain_and_a_profile_at_a_face) {
  using Profile = cleave::tensor<double, mesh(row, planes)>;
  for (const cleave::grid& g : support::grids(mesh)) {
    Planes u(g, {5, 3, 8}), v(g, {5, 3, 8});
    Profile profile(g, {5, 3});
    u.fill_by([](const auto& at) { return support::wave(at[0], at[1], at[2]); });
    profile.fill_by([](const auto& at) { return support::wave(at[1], at[0], 7); });
    v = with_a_profile(u, profile);
    std::vector<double> want;
    for (int i = 0; i < 5; ++i)
      for (int k = 0; k < 3; ++k)
        for (int j = 0; j < 8; ++j)
          want.push_back((j == 0 ? support::wave(k, i, 7) : support::wave(i, k, j - 1)) +
                         2 * support::wave(i, k, std::min(j + 1, 7)));
    EXPECT_EQ(v.to_global(), want);
  }
}

// What moves: with one step a halo of one element, with k steps one of k, once.
template <int Steps>
constexpr auto star_plan = cleave::plan<Plane(Plane)>(sweep<false, five_points, ring, ring, Steps>);
constexpr std::int64_t surface(std::int64_t width) { return 8 * (4 * width * 128 + 4 * width * width); }
static_assert(star_plan<1>.collectives() == 1 && star_plan<2>.collectives() == 1 && star_plan<3>.collectives() == 1);
static_assert(star_plan<1>.bytes({row = 512, col = 512, ay = 4, ax = 4}) == surface(1) - 32); // without corners
static_assert(star_plan<2>.bytes({row = 512, col = 512, ay = 4, ax = 4}) == surface(2));
static_assert(star_plan<3>.bytes({row = 512, col = 512, ay = 4, ax = 4}) == surface(3));
constexpr auto box_plan = cleave::plan<Plane(Plane)>(sweep<true, nine_points, ring, ring, 1>);
static_assert(box_plan.collectives() == 1);
static_assert(box_plan.bytes({row = 512, col = 512, ay = 4, ax = 4}) == surface(1));
// The conditions cost no messages.
constexpr auto mixed_plan = cleave::plan<Plane(Plane)>(sweep<false, five_points, given_or_edge, mirror_or_odd, 2>);
static_assert(mixed_plan.collectives() == 1);
static_assert(mixed_plan.bytes({row = 512, col = 512, ay = 4, ax = 4}) == surface(2));

TEST(stencil, a_halo_for_several_steps_moves_as_priced) {
  for (const cleave::grid& g : support::grids(mesh)) {
    Plane u(g, {24, 48}), v(g, {24, 48});
    u.fill_by([](const auto& at) { return start_of(at[0], at[1]); });
    const std::int64_t y = g.size(ay), x = g.size(ax);
    const auto expect = [&](const auto& plan, const auto& f) {
      v = f(u);
      support::reset_charges();
      v = f(u);
      EXPECT_EQ(support::over_ranks(support::charged_bytes()), plan.bytes({row = 24, col = 48, ay = y, ax = x}));
    };
    expect(star_plan<1>, sweep<false, five_points, ring, ring, 1>);
    expect(star_plan<2>, sweep<false, five_points, ring, ring, 2>);
    expect(box_plan, sweep<true, nine_points, ring, ring, 1>);
  }
}

// The heat equation against its solution: on a ring, between insulated walls with cells, and with points, and with
// fixed ends. The error of n elements is four times that of 2 n.
enum class domain { ring, cells, points, cold };
template <domain D>
constexpr cleave::function heat([](auto u, auto ratio, auto n) {
  const auto f = [&](const auto& x) { return x(0) + ratio * (x(-1) - 2 * x(0) + x(1)); };
  return cleave::repeat_times(n, u, [&](const cleave::value& v) {
    if constexpr (D == domain::ring) return f(stencil::star<1>(v, along(col, stencil::periodic)));
    if constexpr (D == domain::cells) return f(stencil::star<1>(v, along(col, stencil::wall)));
    if constexpr (D == domain::points) return f(stencil::star<1>(v, along(col, stencil::reflecting)));
    if constexpr (D == domain::cold) return f(stencil::star<1>(v, along(col, stencil::fixed(0), stencil::reflecting)));
  });
});
template <domain D>
double heat_error(const cleave::grid& g, int n) {
  using Line = cleave::tensor<double, mesh(col / ay / ax)>;
  const double pi = std::acos(-1.0);
  // n cells, or n + 1 points; the first point of a cold end is outside, and the wave is flat at the other end.
  const double spacing = 1.0 / n, time = 0.02, ratio = 0.2;
  const int steps = static_cast<int>(std::lround(time / (ratio * spacing * spacing)));
  const double wave = D == domain::ring ? 2 * pi : D == domain::cold ? pi / 2 : pi;
  const auto exact = [&](std::int64_t i, double t) {
    const double at = static_cast<double>(i), decay = std::exp(-wave * wave * t);
    if (D == domain::ring) return decay * std::sin(wave * at * spacing);
    if (D == domain::cells) return decay * std::cos(wave * (at + 0.5) * spacing);
    if (D == domain::points) return decay * std::cos(wave * at * spacing);
    return decay * std::sin(wave * (at + 1) * spacing);
  };
  const std::int64_t elements = D == domain::points ? n + 1 : n;
  Line u(g, {elements}), v(g, {elements});
  u.fill_by([&](const auto& at) { return exact(at[0], 0); });
  v = heat<D>(u, ratio, steps);
  const std::vector<double> got = v.to_global();
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    worst = std::max(worst, std::abs(got[i] - exact(static_cast<std::int64_t>(i), ratio * spacing * spacing * steps)));
  return worst;
}
template <domain D>
void expect_second_order(const cleave::grid& g) {
  const double coarse = heat_error<D>(g, 10), fine = heat_error<D>(g, 20), finest = heat_error<D>(g, 40);
  EXPECT_NEAR(coarse / fine, 4, 0.3);
  EXPECT_NEAR(fine / finest, 4, 0.1);
}
TEST(stencil, second_order_against_solutions) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  expect_second_order<domain::ring>(g);
  expect_second_order<domain::cells>(g);
  expect_second_order<domain::points>(g);
  expect_second_order<domain::cold>(g);
}

// A face mirrors elements of the domain, so it has them, however it is computed.
constexpr cleave::function mirrored([](auto u) {
  const auto v = stencil::star<2>(u, along(col, stencil::reflecting));
  return v(-2) + v(0) + v(2);
});
TEST(stencil, short_domains_are_refused_whatever_their_faces_are) {
  using Line = cleave::tensor<double, mesh(col / ay / ax)>;
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  for (const std::int64_t n : {1, 2, 3, 7}) {
    Line u(g, {n}), v(g, {n});
    u.fill(1);
    if (n > 2) v = mirrored(u);
    else {
      EXPECT_THROW(v = mirrored(u), cleave::shape_error);
    }
  }
}

inline constexpr cleave::dim<"part", 3> part;
using Parts = cleave::tensor<double, mesh(part, row / ay, col / ax)>;
constexpr auto around = [](auto u) {
  auto v = stencil::star<1>(u, along(row, stencil::periodic), along(col, stencil::wall));
  return v(-1, 0) + v(1, 0) + v(0, -1) + v(0, 1) - 4 * v(0, 0);
};
constexpr cleave::function each_alone([](auto u, auto v, auto w) {
  return std::tuple(around(u), around(v), around(w));
});
constexpr cleave::function all_at_once([](auto u, auto v, auto w) { return around(stack(part, u, v, w)); });
constexpr auto alone_plan = cleave::plan<std::tuple<Plane, Plane, Plane>(Plane, Plane, Plane)>(each_alone);
constexpr auto at_once_plan = cleave::plan<Parts(Plane, Plane, Plane)>(all_at_once);
static_assert(alone_plan.collectives() == 1 && at_once_plan.collectives() == 1);

// Several fields have one message for each neighbour, with the bytes of all, stacked or not.
TEST(stencil, fields_share_messages) {
  const support::only_mpi alone;
  for (const cleave::grid& g : support::grids(mesh)) {
    const std::int64_t rows = 4 * g.size(ay), cols = 5 * g.size(ax);
    Plane u(g, {rows, cols}), v(g, {rows, cols}), w(g, {rows, cols}), u2(g, {rows, cols}), v2(g, {rows, cols}),
        w2(g, {rows, cols});
    Parts all(g, {3, rows, cols});
    const auto wave = [](double by) {
      return [by](const auto& at) { return std::sin(by + static_cast<double>(3 * at[0] + 7 * at[1])); };
    };
    u.fill_by(wave(0));
    v.fill_by(wave(1));
    w.fill_by(wave(2));
    each_alone(u, v, w).into(u2, v2, w2);
    all = all_at_once(u, v, w);
    support::reset_charges();
    each_alone(u, v, w).into(u2, v2, w2);
    const std::int64_t messages = support::sent_messages(), bytes = support::charged_bytes();
    support::reset_charges();
    all = all_at_once(u, v, w);
    // The neighbours of this device: a ring of rows, and columns between walls.
    const std::int64_t y = g.size(ay), x = g.size(ax), q = support::rank() % x;
    const std::int64_t neighbours = std::min<std::int64_t>(y - 1, 2) + (q > 0 ? 1 : 0) + (q + 1 < x ? 1 : 0);
    EXPECT_EQ(support::sent_messages(), neighbours);
    EXPECT_EQ(messages, neighbours);
    EXPECT_EQ(support::charged_bytes(), bytes);
    const auto got = all.to_global();
    std::size_t e = 0;
    for (const Plane* one : {&u2, &v2, &w2})
      for (const double want : one->to_global()) EXPECT_EQ(got[e++], want);
  }
}

// So do fields that are read along different dims: a device sends one message to each device that needs any of them.
constexpr cleave::function each_its_way([](auto u, auto v, auto w) {
  const auto down = stencil::star<1>(u, along(row, stencil::wall));
  const auto across = stencil::star<2>(v, along(col, stencil::wall));
  const auto both = stencil::box<1>(w, along(row, stencil::wall), along(col, stencil::wall));
  return std::tuple(down(1) - down(-1), across(2) - across(-2), both(-1, -1) + both(-1, 1) + both(1, -1) + both(1, 1));
});
constexpr auto ways_plan = cleave::plan<std::tuple<Plane, Plane, Plane>(Plane, Plane, Plane)>(each_its_way);
static_assert(ways_plan.collectives() == 1);
static_assert(ways_plan.bytes({row = 512, col = 512, ay = 4, ax = 4}) == 8 * (2 * 128 + 4 * 128 + 4 * 128 + 4));

TEST(stencil, fields_read_along_different_dims_share_messages) {
  const support::only_mpi by_mpi;
  for (const cleave::grid& g : support::grids(mesh)) {
    // Uneven, and no block is empty: a device without rows neither sends nor receives.
    const std::int64_t rows = 5 * g.size(ay) - 1, cols = 5 * g.size(ax);
    Plane u(g, {rows, cols}), v(g, {rows, cols}), w(g, {rows, cols}), u2(g, {rows, cols}), v2(g, {rows, cols}),
        w2(g, {rows, cols});
    const auto inside = [](std::int64_t i, std::int64_t n) { return i < 0 ? -1 - i : i < n ? i : 2 * n - 1 - i; };
    const auto mirrored = [&](std::int64_t i, std::int64_t j) { return start_of(inside(i, rows), inside(j, cols)); };
    for (Plane* one : {&u, &v, &w}) one->fill_by([](const auto& at) { return start_of(at[0], at[1]); });
    each_its_way(u, v, w).into(u2, v2, w2);
    support::reset_charges();
    each_its_way(u, v, w).into(u2, v2, w2);
    const std::int64_t x = g.size(ax), p = support::rank() / x, q = support::rank() % x;
    const auto around = [](std::int64_t place, std::int64_t count) {
      return (place > 0 ? 1 : 0) + (place + 1 < count ? 1 : 0);
    };
    EXPECT_EQ(support::sent_messages(), (1 + around(p, g.size(ay))) * (1 + around(q, x)) - 1);
    const auto down = u2.to_global(), across = v2.to_global(), both = w2.to_global();
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < cols; ++j) {
        const auto k = static_cast<std::size_t>(i * cols + j);
        EXPECT_EQ(down[k], mirrored(i + 1, j) - mirrored(i - 1, j));
        EXPECT_EQ(across[k], mirrored(i, j + 2) - mirrored(i, j - 2));
        EXPECT_EQ(both[k],
                  mirrored(i - 1, j - 1) + mirrored(i - 1, j + 1) + mirrored(i + 1, j - 1) + mirrored(i + 1, j + 1));
      }
  }
}

// Fields of different element types, and blocks that are uneven or empty. Long messages travel alone.
using Floats = cleave::tensor<float, mesh(row / ay, col / ax)>;
using Counts = cleave::tensor<std::int32_t, mesh(row / ay, col / ax)>;
constexpr cleave::function alone([](auto u) { return around(u); });
constexpr auto mixed_fields_plan = cleave::plan<std::tuple<Floats, Plane, Counts>(Floats, Plane, Counts)>(each_alone);
static_assert(mixed_fields_plan.count(cleave::kind::exchange) == 1);
static_assert(mixed_fields_plan.bytes({row = 512, col = 512, ay = 4, ax = 4}) == (4 + 8 + 4) * 4 * 128);

TEST(stencil, fields_of_different_elements_share_messages) {
  const support::only_mpi by_mpi;
  for (const cleave::grid& g : support::grids(mesh))
    for (const auto& [rows, cols] : {std::array{9, 7}, std::array{1, 3}, std::array{13, 5}, std::array{8, 160000}}) {
      Floats u(g, {rows, cols}), u1(g, {rows, cols}), u2(g, {rows, cols});
      Plane v(g, {rows, cols}), v1(g, {rows, cols}), v2(g, {rows, cols});
      Counts w(g, {rows, cols}), w1(g, {rows, cols}), w2(g, {rows, cols});
      u.fill_by([](const auto& at) { return static_cast<float>(start_of(at[0], at[1])); });
      v.fill_by([](const auto& at) { return start_of(at[1], at[0]); });
      w.fill_by([](const auto& at) { return static_cast<std::int32_t>(7 * at[0] - at[1] * at[1] % 113); });
      each_alone(u, v, w).into(u2, v2, w2);
      support::reset_charges();
      each_alone(u, v, w).into(u2, v2, w2);
      const std::int64_t messages = support::sent_messages(), bytes = support::charged_bytes();
      // The first call of a plan agrees on its memory.
      u1 = alone(u);
      v1 = alone(v);
      w1 = alone(w);
      support::reset_charges();
      u1 = alone(u);
      const std::int64_t of_one = support::sent_messages();
      v1 = alone(v);
      w1 = alone(w);
      // Each row of 20,000 elements or more is longer than what is copied into one message.
      EXPECT_TRUE(cols > 100 ? messages >= of_one : messages == of_one) << messages << " and " << of_one;
      EXPECT_EQ(support::charged_bytes(), bytes);
      EXPECT_EQ(u2.to_global(), u1.to_global()) << rows << " x " << cols;
      EXPECT_EQ(v2.to_global(), v1.to_global()) << rows << " x " << cols;
      EXPECT_EQ(w2.to_global(), w1.to_global()) << rows << " x " << cols;
    }
}

// Two fields that need each other, step by step and in a loop, with the transport of the machine.
constexpr auto both_steps = [](auto p, auto q) { return std::pair(p + 0.125 * around(q), q - 0.125 * around(p)); };
constexpr cleave::function coupled([](auto p, auto q) { return both_steps(p, q); });
constexpr cleave::function coupled_steps([](auto p, auto q) {
  return cleave::repeat_times(5, std::pair(p, q), [](const auto& now) { return both_steps(now.first, now.second); });
});
constexpr auto coupled_plan = cleave::plan<std::pair<Plane, Plane>(Plane, Plane)>(coupled_steps);
static_assert(coupled_plan.collectives() == 1);
TEST(stencil, fields_share_messages_in_a_loop) {
  for (const cleave::grid& g : support::grids(mesh))
    for (const auto& [rows, cols] : {std::array{9, 7}, std::array{24, 16}, std::array{3, 2}}) {
      Plane p(g, {rows, cols}), q(g, {rows, cols}), p5(g, {rows, cols}), q5(g, {rows, cols});
      p.fill_by([](const auto& at) { return start_of(at[0], at[1]); });
      q.fill_by([](const auto& at) { return start_of(at[1], at[0]); });
      coupled_steps(p, q).into(p5, q5);
      // In the memory of the arguments.
      for (int k = 0; k < 5; ++k) coupled(p, q).into(p, q);
      EXPECT_EQ(p5.to_global(), p.to_global()) << rows << " x " << cols;
      EXPECT_EQ(q5.to_global(), q.to_global()) << rows << " x " << cols;
    }
}

} // namespace CLEAVE_SOURCE
