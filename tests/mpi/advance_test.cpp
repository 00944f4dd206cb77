// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "solve_reference.hpp"
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/stencil/advance.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

// Several steps for one exchange of halos: each device computes what later steps read around its shard. The results are
// those of single steps, bit for bit, and the bytes are those of one wider halo.

namespace CLEAVE_SOURCE {

namespace stencil = cleave::stencil;
using stencil::along;

inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ay, ax};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"plane"> plane;
using Plane = cleave::tensor<double, mesh(row / ay, col / ax)>;
using Line = cleave::tensor<float, mesh(row / ax / ay)>;
using Space = cleave::tensor<double, mesh(plane, row / ay, col / ax)>;
using Number = cleave::tensor<double, mesh()>;

constexpr auto heat = [](auto u) { return u(0, 0) + 0.125 * (u(-1, 0) + u(1, 0) + u(0, -1) + u(0, 1) - 4 * u(0, 0)); };
template <int Steps>
inline constexpr cleave::function on_ring([](auto u) {
  return stencil::advance<Steps>(heat,
                                 stencil::star<1>(u, along(row, stencil::periodic), along(col, stencil::periodic)));
});
template <int Steps>
inline constexpr auto plan_on_ring = cleave::plan<Plane(Plane)>(on_ring<Steps>);

// A halo of k elements on all sides of a block of 64 x 32; a single star has no corners.
constexpr std::int64_t halo(std::int64_t k) { return 8 * ((64 + 2 * k) * (32 + 2 * k) - 64 * 32 - (k == 1 ? 4 : 0)); }
template <int Steps>
constexpr bool is_one_exchange() {
  return plan_on_ring<Steps>.collectives() == 1 &&
         plan_on_ring<Steps>.bytes({row = 256, col = 128, ay = 4, ax = 4}) == halo(Steps);
}
static_assert(is_one_exchange<1>() && is_one_exchange<2>() && is_one_exchange<3>() && is_one_exchange<5>());

// What is read besides the field: a coefficient at the index itself, indices, a number, a sum over the field.
template <int Steps>
inline constexpr cleave::function with_source([](auto u, auto c, auto amount) {
  const auto step = [&](auto v) {
    const cleave::value next = cleave::select(cleave::iota(u, row) == 3, 0.5 * v(0, 0), heat(v) * c);
    return cleave::select(cleave::iota(u, col) > 1, next, amount * next + v(1, 0));
  };
  return stencil::advance<Steps>(step, stencil::star<1>(u, along(row, stencil::periodic), along(col, stencil::wall)));
});
// The field fetches a halo of 3, the coefficient one of 2.
static_assert(cleave::plan<Plane(Plane, Plane, Number)>(with_source<3>).collectives() == 1);
static_assert(cleave::plan<Plane(Plane, Plane, Number)>(with_source<3>)
                  .bytes({row = 1024, col = 128, ay = 16, ax = 4}) == halo(3) + halo(2));

// The mean of a field does not lie along its dims, so it has no halo. A running total cannot be computed around a
// shard: that halo is fetched.
template <int Steps>
inline constexpr cleave::function towards_mean([](auto u) {
  const auto step = [](auto v) { return heat(v) - 0.25 * cleave::sum(v(0, 0)); };
  return stencil::advance<Steps>(step,
                                 stencil::star<1>(u, along(row, stencil::periodic), along(col, stencil::periodic)));
});
template <int Steps>
inline constexpr cleave::function running([](auto u) {
  const auto step = [](auto v) { return cleave::cumulative_sum(v(0, 1), col) + v(1, 0); };
  return stencil::advance<Steps>(step,
                                 stencil::star<1>(u, along(row, stencil::periodic), along(col, stencil::periodic)));
});
static_assert(cleave::plan<Plane(Plane)>(towards_mean<2>).count(cleave::kind::exchange) == 1);
static_assert(cleave::plan<Plane(Plane)>(running<3>).count(cleave::kind::exchange) == 3);

/// So many single steps and all at once; a step changes the first argument.
template <int Steps, class Tensor, class... Others>
void expect_single_steps(const auto& one, const auto& all, const Tensor& start, const Others&... others) {
  Tensor u = start, v = start;
  for (int k = 0; k < Steps; ++k) {
    v = one(u, others...);
    u = v;
  }
  v = all(start, others...);
  EXPECT_EQ(v.to_global(), u.to_global());
}
double start_of(const auto& at) {
  double x = 0.25;
  for (std::size_t i = 0; i < at.size(); ++i) x += support::wave(at[i], static_cast<std::int64_t>(i), 3 * at[i]);
  return x;
}

TEST(advance, indices_coefficients_and_numbers) {
  for (const cleave::grid& g : support::grids(mesh))
    for (const auto& [rows, cols] : {std::array{9, 7}, std::array{16, 24}, std::array{5, 4}}) {
      Plane u(g, {rows, cols}), c(g, {rows, cols});
      Number amount(g, {});
      amount.fill(0.75);
      u.fill_by([](const auto& at) { return start_of(at); });
      c.fill_by([](const auto& at) { return at[0] % 3 == 0 ? 0.5 : at[1] % 2 == 0 ? 1.0 : 2.0; });
      expect_single_steps<2>(with_source<1>, with_source<2>, u, c, amount);
      expect_single_steps<4>(with_source<1>, with_source<4>, u, c, amount);
      expect_single_steps<3>(on_ring<1>, on_ring<3>, u);
    }
}
TEST(advance, halos_that_cannot_be_computed_are_fetched) {
  for (const cleave::grid& g : support::grids(mesh)) {
    Plane u(g, {9, 7});
    // Small integers, which sums in any order give exactly.
    u.fill_by([](const auto& at) { return static_cast<double>((3 * at[0] + 5 * at[1]) % 4); });
    expect_single_steps<2>(towards_mean<1>, towards_mean<2>, u);
    expect_single_steps<3>(running<1>, running<3>, u);
  }
}

// Fields of other widths and neighbourhoods, and faces with a value along them.
constexpr auto two_fields = [](auto u, auto v) {
  return std::pair(u(0, 0) - 0.5 * (v(-2, 0) - v(0, 2)), v(0, 0) + 0.25 * (u(-1, -1) - u(1, 1)));
};
template <int Steps>
inline constexpr cleave::function pairs([](auto u, auto v, auto profile) {
  return stencil::advance<Steps>(two_fields,
                                 stencil::box<1>(u, along(row, stencil::fixed(profile), stencil::zero_gradient),
                                                 along(col, stencil::odd_wall)),
                                 stencil::star<2>(v, along(row, stencil::reflecting), along(col, stencil::periodic)));
});
TEST(advance, fields_of_different_widths) {
  using Profile = cleave::tensor<double, mesh(col / ax)>;
  for (const cleave::grid& g : support::grids(mesh)) {
    Plane u(g, {11, 13}), v(g, {11, 13}), u1(g, {11, 13}), v1(g, {11, 13}), u3(g, {11, 13}), v3(g, {11, 13});
    Profile profile(g, {13});
    u.fill_by([](const auto& at) { return start_of(at); });
    v.fill_by([](const auto& at) { return 0.5 - start_of(at); });
    profile.fill_by([](const auto& at) { return support::wave(at[0], 1, 2); });
    pairs<3>(u, v, profile).into(u3, v3);
    for (int k = 0; k < 3; ++k) {
      pairs<1>(u, v, profile).into(u1, v1);
      u = u1;
      v = v1;
    }
    EXPECT_EQ(u3.to_global(), u.to_global());
    EXPECT_EQ(v3.to_global(), v.to_global());
  }
}

// A field of indices alone, one that copies another, numbers that a step captures, and a step that ends with a layout.
// A result takes the place of its argument.
template <int Steps>
inline constexpr cleave::function many([](auto u, auto s, auto a, auto b, auto c, auto d) {
  const auto step = [&](auto v, auto w) {
    const auto next = a * v(0, 0) + b * v(-1, 0) - c * v(0, 1) + d * w(1, 0);
    return std::pair(cleave::constrain(next, mesh(row / ay, col / ax)),
                     cleave::value(0.5 * cleave::cast<double>(cleave::iota(w.whole(), row)) + 0.0 * v(0, 0)));
  };
  const auto around = [](const cleave::value& x) {
    return stencil::star<1>(x, along(row, stencil::periodic), along(col, stencil::wall));
  };
  return stencil::advance<Steps>(step, around(u), around(s));
});
inline constexpr auto plan_of_many =
    cleave::plan<std::tuple<Plane, Plane>(Plane, Plane, Number, Number, Number, Number)>(many<3>);
static_assert(plan_of_many.collectives() == 1);            // two halos in the same messages
template <int Steps>
inline constexpr cleave::function places([](auto u) {
  const auto by_index = [](auto v, auto w) {
    return std::pair(v(0) + w(1), cleave::value(0.5f * cleave::cast<float>(cleave::iota(w.whole(), row))));
  };
  const auto around = [](const cleave::value& x) { return stencil::star<1>(x, along(row, stencil::periodic)); };
  return stencil::advance<Steps>(by_index, around(u), around(u)).first;
});
TEST(advance, indices_numbers_and_layouts) {
  for (const cleave::grid& g : support::grids(mesh)) {
    Plane u(g, {9, 8}), s(g, {9, 8}), u1(g, {9, 8}), s1(g, {9, 8}), u3(g, {9, 8}), s3(g, {9, 8});
    Number a(g, {}), b(g, {}), c(g, {}), d(g, {});
    a.fill(0.5), b.fill(0.25), c.fill(0.125), d.fill(2);
    u.fill_by([](const auto& at) { return start_of(at); });
    s.fill_by([](const auto& at) { return 1 - start_of(at); });
    many<3>(u, s, a, b, c, d).into(u3, s3);
    for (int k = 0; k < 3; ++k) {
      many<1>(u, s, a, b, c, d).into(u1, s1);
      u = u1;
      s = s1;
    }
    EXPECT_EQ(u3.to_global(), u.to_global());
    EXPECT_EQ(s3.to_global(), s.to_global());
    Line line(g, {11}), once(g, {11});
    line.fill_by([](const auto& at) { return static_cast<float>(at[0] % 5); });
    const auto start = line.to_global();
    once = places<2>(line);
    // After the first step: start + its neighbour; then + half of the index of the neighbour.
    for (std::size_t i = 0; i < 11; ++i)
      EXPECT_EQ(once.to_global()[i], start[i] + start[(i + 1) % 11] + 0.5f * static_cast<float>((i + 1) % 11));
    line = places<2>(line);
    EXPECT_EQ(line.to_global(), once.to_global());
  }
}

// Shards shorter than the halo, and more devices than elements.
template <int Steps>
inline constexpr cleave::function around_a_ring([](auto u) {
  const auto step = [](auto v) { return 0.5f * v(-1) + 0.25f * v(2); };
  return stencil::advance<Steps>(step, stencil::star<2>(u, along(row, stencil::periodic)));
});
template <int Steps>
inline constexpr cleave::function between_walls([](auto u) {
  const auto step = [](auto v) { return 0.5f * v(-2) + 0.25f * v(1); };
  return stencil::advance<Steps>(step, stencil::star<2>(u, along(row, stencil::odd_wall)));
});
TEST(advance, short_shards) {
  for (const cleave::grid& g : support::grids(mesh))
    for (const int n : {3, 5, 8, 17}) {
      Line u(g, {n});
      u.fill_by([](const auto& at) { return static_cast<float>(start_of(at)); });
      expect_single_steps<4>(around_a_ring<1>, around_a_ring<4>, u);
      expect_single_steps<4>(between_walls<1>, between_walls<4>, u);
    }
}

// In a loop, in three dims, of which one is not sharded, and a dim beside the domain.
template <int Steps>
inline constexpr cleave::function in_space([](auto u) {
  const auto step = [](auto v) {
    return v(0, 0, 0) + 0.125 * (v(-1, 0, 0) + v(1, 0, 0) + v(0, -1, 0) + v(0, 1, 0) + v(0, 0, -1) + v(0, 0, 1));
  };
  return stencil::advance<Steps>(step, stencil::star<1>(u, along(plane, stencil::zero_gradient),
                                                        along(row, stencil::periodic), along(col, stencil::fixed(0))));
});
template <int Steps>
struct advanced {
  constexpr auto operator()(auto v) const {
    return stencil::advance<Steps>(heat, stencil::star<1>(v, along(row, stencil::wall), along(col, stencil::periodic)));
  }
};
template <int Times, int Steps>
inline constexpr cleave::function repeated([](auto u) { return cleave::repeat_times(Times, u, advanced<Steps>{}); });
TEST(advance, three_dims_and_loops) {
  for (const cleave::grid& g : support::grids(mesh)) {
    Space u(g, {4, 6, 5});
    u.fill_by([](const auto& at) { return start_of(at); });
    expect_single_steps<2>(in_space<1>, in_space<2>, u);
    Plane p(g, {8, 10}), q(g, {8, 10}), one(g, {8, 10});
    p.fill_by([](const auto& at) { return start_of(at); });
    q = repeated<3, 2>(p);
    one = repeated<6, 1>(p);
    EXPECT_EQ(q.to_global(), one.to_global());
  }
}

// The gradient of several steps is that of single ones: exact for these numbers.
template <int Steps>
inline constexpr cleave::function energy([](auto u) {
  const auto step = [](auto v) { return v(0, 0) + v(-1, 0) - 2 * v(0, 1); };
  const auto end = stencil::advance<Steps>(step, stencil::star<1>(u, along(row, stencil::periodic),
                                                                  along(col, stencil::wall)));
  return cleave::sum(end * cleave::cast<double>(cleave::iota(u, row) + 1));
});
inline constexpr cleave::function energy_of_single_steps([](auto u) {
  const auto step = [](auto w) {
    const auto v = stencil::star<1>(w, along(row, stencil::periodic), along(col, stencil::wall));
    return v(0, 0) + v(-1, 0) - 2 * v(0, 1);
  };
  return cleave::sum(step(step(step(u))) * cleave::cast<double>(cleave::iota(u, row) + 1));
});
TEST(advance, gradients) {
  for (const cleave::grid& g : support::grids(mesh)) {
    Plane u(g, {6, 5}), d(g, {6, 5}), want(g, {6, 5});
    u.fill_by([](const auto& at) { return static_cast<double>(at[0] - 2 * at[1]); });
    d = cleave::grad(energy<3>)(u);
    want = cleave::grad(energy_of_single_steps)(u);
    EXPECT_EQ(d.to_global(), want.to_global());
  }
}

// What MPI moves is what the plan says.
TEST(advance, moves_one_wider_halo) {
  const support::only_mpi without_shared_memory;
  for (const cleave::grid& g : support::grids(mesh)) {
    Plane u(g, {16, 24}), v(g, {16, 24});
    u.fill_by([](const auto& at) { return start_of(at); });
    v = on_ring<3>(u);
    support::reset_charges();
    v = on_ring<3>(u);
    EXPECT_EQ(support::over_ranks(support::charged_bytes()),
              plan_on_ring<3>.bytes({row = 16, col = 24, ay = g.size(ay), ax = g.size(ax)}));
  }
}

} // namespace CLEAVE_SOURCE
