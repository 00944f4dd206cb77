// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations of the user in the planner, the evaluator and the simulator.
#include <cleave/expr/gradient.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/operation.hpp>
#include <cleave/simulate/simulate.hpp>
#include <cleave/stencil/field.hpp>
#include <cleave/study/explain_plan.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace CLEAVE_SOURCE {

using cleave::kind;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"time"> time_dim;

template <auto Layout>
using f64 = cleave::abstract<double, Layout>;
using X = f64<mesh(row / data, time_dim)>;
using Turned = f64<mesh(row, time_dim / data)>;

struct softplus {
  static constexpr cleave::elementwise_entry entry{"softplus", {cleave::symbols::g / (1.0 + exp(-cleave::symbols::x))}};
  template <class T>
    requires std::floating_point<T>
  CLEAVE_FUNCTION T operator()(T x) const {
    return std::log(1 + std::exp(x));
  }
};
inline constexpr cleave::operation<softplus> soft;

struct cumulative {
  static constexpr std::string_view name = "cumulative";
  void operator()(const cleave::local_context&, std::span<const cleave::shard>, const cleave::shard&) const {}
  static void reference(std::span<const cleave::reference_shard> in, const cleave::reference_shard& out) {
    for (std::int64_t i = 0; i < out.local[0]; ++i) {
      double total = 0;
      for (std::int64_t j = 0; j < out.local[1]; ++j)
        out.data[i * out.local[1] + j] = total += in[0].data[i * out.local[1] + j];
    }
  }
};
struct unknown {
  static constexpr std::string_view name = "unknown";
  void operator()(const cleave::local_context&, std::span<const cleave::shard>, const cleave::shard&) const {}
};

// An elementwise operation joins the chain that it is in: one step.
constexpr cleave::function chain([](auto x) { return soft(x * 2) + 1; });
constexpr auto fused = cleave::plan<X(X)>(chain);
static_assert(fused.collectives() == 0 && decltype(fused)::plan_type::steps.size() == 1);

// Rows stay sharded, time is gathered only where it was sharded.
constexpr cleave::function sums([](auto x) { return cleave::call<cumulative>(cleave::whole(time_dim), x * 2) + x; });
static_assert(cleave::plan<X(X)>(sums).collectives() == 0);
constexpr auto moved = cleave::plan<Turned(Turned)>(sums, cleave::expect<model, 1>{});
static_assert(moved.count(kind::all_to_all) == 2 && moved.collectives() == 2);

// In manual mode the layouts are those given, whatever is cheaper.
constexpr cleave::function manual([](auto x) {
  return cleave::local<cumulative>(cleave::result<double>(mesh(row, time_dim / data)),
                                   reshard(x, mesh(row, time_dim / data))) +
         1;
});
constexpr auto there_and_back = cleave::plan<X(X)>(manual, cleave::expect<model, 1>{});
static_assert(there_and_back.count(kind::all_to_all) == 2 && there_and_back.collectives() == 2);

template <class Plan>
std::vector<double> simulated_result(const Plan& plan, const cleave::sizes& at, const cleave::host_array& x) {
  const cleave::simulated got = simulate(plan.thawed(), at, std::array{x});
  EXPECT_EQ(got.problem, "");
  EXPECT_EQ(got.bytes, cleave::bytes(plan.thawed(), at));
  return got.results[0].data;
}

TEST(Operations, MeanWhatTheyComputeOnEveryMesh) {
  for (std::int64_t rows : {0, 1, 5, 8})
    for (std::int64_t devices : {1, 2, 3, 4}) {
      cleave::sizes at = moved.sized({row = rows, time_dim = 7, data = devices, model = 1});
      cleave::shape extents;
      extents.rank = 2;
      extents[0] = rows;
      extents[1] = 7;
      cleave::host_array x(extents);
      for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] = std::sin(static_cast<double>(i));
      const auto got = simulated_result(moved, at, x), same = simulated_result(cleave::plan<X(X)>(sums), at, x),
                 smooth = simulated_result(fused, at, x);
      const cleave::graph g = cleave::recording<decltype(sums)::body_type, X(X)>::record();
      const auto meant = evaluate(g, at, std::array{x})[0].data;
      for (std::size_t i = 0; i < x.data.size(); ++i) {
        double before = 0;
        for (std::size_t j = i / 7 * 7; j <= i; ++j) before += 2 * x.data[j];
        ASSERT_NEAR(got[i], before + x.data[i], 1e-12);
        ASSERT_NEAR(same[i], before + x.data[i], 1e-12);
        ASSERT_NEAR(meant[i], before + x.data[i], 1e-12);
        ASSERT_NEAR(smooth[i], std::log(1 + std::exp(2 * x.data[i])) + 1, 1e-12);
      }
    }
}

/// Weights the elements within a width along both dims, or all within a box, by their distance.
template <int Width, bool Corners>
struct weighted {
  static constexpr std::string_view name = "weighted";
  static constexpr int halo = Width;
  void operator()(const cleave::local_context&, std::span<const cleave::shard>, const cleave::shard&) const {}
  static void reference(std::span<const cleave::reference_shard> in, const cleave::reference_shard& out) {
    const auto& x = in[0];
    const std::int64_t line = x.before[1] + x.local[1] + x.after[1];
    for (std::int64_t i = 0; i < out.local[0]; ++i)
      for (std::int64_t j = 0; j < out.local[1]; ++j) {
        double total = 0;
        for (int a = -Width; a <= Width; ++a)
          for (int b = -Width; b <= Width; ++b)
            if (Corners || a == 0 || b == 0)
              total += (1 + 0.1 * a + 0.01 * b) * x.data[(i + x.before[0] + a) * line + j + x.before[1] + b];
        out.data[i * out.local[1] + j] = total;
      }
  }
};
template <int Width, bool Corners, const auto& Faces>
constexpr cleave::function weigh([](auto x) {
  namespace st = cleave::stencil;
  const auto y = x * 2;
  if constexpr (Corners)
    return cleave::call<weighted<Width, true>>(cleave::whole(),
                                               st::box<Width>(y, st::along(row, Faces), st::along(time_dim, Faces))) +
           y;
  else
    return cleave::call<weighted<Width, false>>(cleave::whole(),
                                                st::star<Width>(y, st::along(row, Faces), st::along(time_dim, Faces))) +
           y;
});
/// The same by hand, on one device. `inside`: the index that an index outside of the dim stands for; -1: 0.
template <int Width, bool Corners>
std::vector<double> weighted_by_hand(const cleave::host_array& x, std::int64_t (*inside)(std::int64_t, std::int64_t)) {
  const std::int64_t n = x.extents[0], m = x.extents[1];
  std::vector<double> made(x.data.size());
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < m; ++j) {
      double total = 0;
      for (int a = -Width; a <= Width; ++a)
        for (int b = -Width; b <= Width; ++b) {
          const std::int64_t k = inside(i + a, n), l = inside(j + b, m);
          if ((Corners || a == 0 || b == 0) && k >= 0 && l >= 0)
            total += (1 + 0.1 * a + 0.01 * b) * 2 * x.data[static_cast<std::size_t>(k * m + l)];
        }
      made[static_cast<std::size_t>(i * m + j)] = total + 2 * x.data[static_cast<std::size_t>(i * m + j)];
    }
  return made;
}
template <int Width, bool Corners, const auto& Faces>
void check_halos(std::int64_t (*inside)(std::int64_t, std::int64_t)) {
  using Both = f64<mesh(row / data, time_dim / model)>;
  constexpr auto both = cleave::plan<Both(Both)>(weigh<Width, Corners, Faces>);
  constexpr auto one = cleave::plan<X(X)>(weigh<Width, Corners, Faces>);
  static_assert(one.count(kind::exchange) == 1 && one.collectives() == 1);
  const cleave::graph g =
      cleave::recording<typename std::remove_cvref_t<decltype(weigh<Width, Corners, Faces>)>::body_type,
                        Both(Both)>::record();
  for (std::int64_t rows : {3, 5, 8})
    for (std::int64_t devices : {1, 2, 3})
      for (std::int64_t others : {1, 2}) {
        const cleave::sizes at = both.sized({row = rows, time_dim = 7, data = devices, model = others});
        cleave::shape extents;
        extents.rank = 2;
        extents[0] = rows;
        extents[1] = 7;
        cleave::host_array x(extents);
        for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] = std::sin(static_cast<double>(i));
        const auto wanted = weighted_by_hand<Width, Corners>(x, inside);
        EXPECT_EQ(evaluate(g, at, std::array{x})[0].data, wanted);
        EXPECT_EQ(simulated_result(both, at, x), wanted);
        EXPECT_EQ(simulated_result(one, one.sized({row = rows, time_dim = 7, data = devices, model = 1}), x), wanted);
      }
}
TEST(Operations, ReadNeighboursAroundTheirShards) {
  using cleave::stencil::periodic, cleave::stencil::zero_gradient, cleave::stencil::reflecting;
  const auto ring = [](std::int64_t i, std::int64_t n) { return (i + 2 * n) % n; };
  const auto edge = [](std::int64_t i, std::int64_t n) { return std::clamp<std::int64_t>(i, 0, n - 1); };
  const auto mirror = [](std::int64_t i, std::int64_t n) { return i < 0 ? -i : i < n ? i : 2 * n - 2 - i; };
  check_halos<1, false, periodic>(ring);
  check_halos<2, true, periodic>(ring);
  check_halos<1, true, zero_gradient>(edge);
  check_halos<2, false, reflecting>(mirror);
}

/// A sweep of Gauss-Seidel over the elements of one colour, in place.
template <int Colour>
struct relaxed {
  static constexpr std::string_view name = "relaxed";
  static constexpr int halo = 1;
  static constexpr bool in_place = true;
  void operator()(const cleave::local_context&, std::span<const cleave::shard>, const cleave::shard&) const {}
  static void reference(std::span<const cleave::reference_shard> in, const cleave::reference_shard& u) {
    const std::int64_t line = u.before[1] + u.local[1] + u.after[1];
    for (std::int64_t i = 0; i < u.local[0]; ++i)
      for (std::int64_t j = 0; j < u.local[1]; ++j) {
        double* const x = u.data + (i + u.before[0]) * line + j + u.before[1];
        if ((u.offset[0] + i + u.offset[1] + j) % 2 == Colour)
          *x = 0.25 * (x[-line] + x[line] + x[-1] + x[1] + in[1].data[i * u.local[1] + j]);
      }
  }
};
/// Doubles its operand in place.
struct doubled_in_place {
  static constexpr std::string_view name = "doubled_in_place";
  static constexpr bool in_place = true;
  void operator()(const cleave::local_context&, std::span<const cleave::shard>, const cleave::shard&) const {}
  static void reference(std::span<const cleave::reference_shard>, const cleave::reference_shard& u) {
    for (std::int64_t i = 0; i < u.local.elements(); ++i) u.data[i] *= 2;
  }
};
constexpr auto sweep = [](auto u, auto f) {
  namespace st = cleave::stencil;
  const auto around = [](auto x) {
    return st::star<1>(x, st::along(row, st::zero_gradient), st::along(time_dim, st::periodic));
  };
  const auto red = cleave::call<relaxed<0>>(cleave::whole(), around(u), f);
  return cleave::call<relaxed<1>>(cleave::whole(), around(red), f);
};
/// Adds the element before it, of another array with the same elements, in place.
struct lagged {
  static constexpr std::string_view name = "lagged";
  static constexpr int halo = 1;
  static constexpr bool in_place = true;
  void operator()(const cleave::local_context&, std::span<const cleave::shard>, const cleave::shard&) const {}
  static void reference(std::span<const cleave::reference_shard> in, const cleave::reference_shard& u) {
    const std::int64_t line = u.before[1] + u.local[1] + u.after[1];
    for (std::int64_t i = 0; i < u.local[0]; ++i)
      for (std::int64_t j = 0; j < u.local[1]; ++j)
        u.data[(i + u.before[0]) * line + j + u.before[1]] += in[1].data[(i + in[1].before[0] - 1) * line + j + 1];
  }
};
TEST(Operations, ChangeAnArrayThatNothingElseReads) {
  namespace st = cleave::stencil;
  using Both = f64<mesh(row / data, time_dim / model)>;
  constexpr cleave::function together([](auto u, auto f) {
    const auto around = [](auto x) {
      return st::star<1>(x, st::along(row, st::zero_gradient), st::along(time_dim, st::periodic));
    };
    const auto first = cleave::call<relaxed<0>>(cleave::whole(), around(u), f);
    const auto second = cleave::call<lagged>(cleave::whole(), around(u), around(u));
    return first + 3 * second + cleave::call<relaxed<1>>(cleave::whole(), around(u), f);
  });
  constexpr auto plan = cleave::plan<Both(Both, Both)>(together);
  const cleave::graph g = cleave::recording<decltype(together)::body_type, Both(Both, Both)>::record();
  const cleave::sizes at = plan.sized({row = 8, time_dim = 6, data = 2, model = 2});
  cleave::shape extents;
  extents.rank = 2;
  extents[0] = 8;
  extents[1] = 6;
  cleave::host_array u(extents), f(extents);
  for (std::size_t i = 0; i < u.data.size(); ++i) {
    u.data[i] = std::sin(static_cast<double>(i));
    f.data[i] = std::cos(static_cast<double>(i));
  }
  const std::array arguments{u, f};
  const auto wanted = cleave::evaluate(g, at, arguments);
  const cleave::simulated found = simulate(plan.thawed(), at, arguments);
  EXPECT_EQ(found.problem, "");
  EXPECT_EQ(found.results[0].data, wanted[0].data);
}
TEST(Operations, ChangeTheirFirstOperandInPlace) {
  using Both = f64<mesh(row / data, time_dim / model)>;
  constexpr cleave::function twice([](auto u, auto f) {
    const auto scaled = u * 0.5;
    const auto more = cleave::call<doubled_in_place>(cleave::whole(), scaled);
    return sweep(cleave::repeat_times(2, more, [f](auto v) { return sweep(v, f); }), f) + scaled;
  });
  constexpr auto plan = cleave::plan<Both(Both, Both)>(twice);
  const cleave::graph g = cleave::recording<decltype(twice)::body_type, Both(Both, Both)>::record();
  for (std::int64_t rows : {4, 6, 9})
    for (std::int64_t devices : {1, 2, 3, 4}) {
      const cleave::sizes at = plan.sized({row = rows, time_dim = 6, data = devices, model = 2});
      cleave::shape extents;
      extents.rank = 2;
      extents[0] = rows;
      extents[1] = 6;
      cleave::host_array u(extents), f(extents);
      for (std::size_t i = 0; i < u.data.size(); ++i) {
        u.data[i] = std::sin(static_cast<double>(i));
        f.data[i] = std::cos(static_cast<double>(i));
      }
      std::vector<double> x = u.data;
      for (int n = 0; n < 6; ++n)
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < 6; ++j) {
            const auto at_index = [&](std::int64_t k, std::int64_t l) -> double& {
              return x[static_cast<std::size_t>(std::clamp<std::int64_t>(k, 0, rows - 1) * 6 + (l + 6) % 6)];
            };
            if ((i + j) % 2 == n % 2)
              at_index(i, j) = 0.25 * (at_index(i - 1, j) + at_index(i + 1, j) + at_index(i, j - 1) +
                                       at_index(i, j + 1) + f.data[static_cast<std::size_t>(i * 6 + j)]);
          }
      for (std::size_t i = 0; i < x.size(); ++i) x[i] += 0.5 * u.data[i];
      EXPECT_EQ(evaluate(g, at, std::array{u, f})[0].data, x);
      const cleave::simulated got = simulate(plan.thawed(), at, std::array{u, f});
      EXPECT_EQ(got.problem, "");
      EXPECT_EQ(got.results[0].data, x);
      EXPECT_EQ(got.bytes, cleave::bytes(plan.thawed(), at));
    }
}

struct lower_of_two {
  static constexpr cleave::elementwise_entry entry{"lower_of_two"};
  template <class T>
  CLEAVE_FUNCTION T operator()(T x, T y) const {
    return x < y ? x : y;
  }
};
inline constexpr cleave::operation<lower_of_two> lower;
// Literals and numbers beside an operation are what they are beside built-in ones.
TEST(Operations, TakeNumbersInTheTypeOfTheTensorBesideThem) {
  const auto recorded = [](auto f) {
    cleave::recorder in(cleave::mesh_value{});
    cleave::spec s;
    s.dims.push_back(cleave::placement(row));
    const cleave::value i = in.input(cleave::element::i32, s), x = in.input(cleave::element::f64, s);
    cleave::value n = in.input(cleave::element::i64, cleave::spec{});
    n.number = true;
    const cleave::value made = f(i, x, n);
    return std::pair(in.made().found.fault, made.ok() ? in.at(made).type.element : cleave::element::none);
  };
  using cleave::element, cleave::fault, cleave::value;
  EXPECT_EQ(recorded([](value i, value, value) { return lower(i, 7); }), std::pair(fault::none, element::i32));
  EXPECT_EQ(recorded([](value i, value, value) { return lower(i, 0.5); }).first, fault::literal_does_not_fit);
  EXPECT_EQ(recorded([](value i, value, value) { return lower(i, 3'000'000'000); }).first, fault::literal_does_not_fit);
  EXPECT_EQ(recorded([](value i, value, value n) { return lower(n, i); }), std::pair(fault::none, element::i32));
  EXPECT_EQ(recorded([](value, value x, value n) { return lower(x, n); }), std::pair(fault::none, element::f64));
}

// A kernel reads a value in the order in which it was written, though the same value is also a result in another.
constexpr cleave::function both([](auto x) {
  auto doubled = x * 2;
  return std::tuple(cleave::call<cumulative>(cleave::whole(time_dim), doubled) + 0 * doubled, doubled);
});
TEST(Operations, ReadWhatIsAResultInAnotherOrder) {
  using Other = f64<mesh(time_dim, row / data)>;
  constexpr auto plan = cleave::plan<std::tuple<X, Other>(X)>(both);
  const cleave::sizes at = plan.sized({row = 4, time_dim = 3, data = 2, model = 1});
  cleave::shape extents;
  extents.rank = 2;
  extents[0] = 4;
  extents[1] = 3;
  cleave::host_array x(extents);
  for (std::size_t i = 0; i < 12; ++i) x.data[i] = static_cast<double>(i);
  const cleave::simulated got = simulate(plan.thawed(), at, std::array{x});
  ASSERT_EQ(got.problem, "");
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 3; ++j) {
      double total = 0;
      for (std::size_t k = 0; k <= j; ++k) total += 2 * x.data[i * 3 + k];
      EXPECT_EQ(got.results[0].data[i * 3 + j], total);
      EXPECT_EQ(got.results[1].data[j * 4 + i], 2 * x.data[i * 3 + j]);
    }
}

// Options that a function carries are those of all its plans; others can be given beside them.
TEST(Operations, AFunctionCarriesItsOptions) {
  constexpr cleave::function gathers([](auto x) { return reshard(x, mesh(row, time_dim)); });
  constexpr cleave::function sized = cleave::with(gathers, cleave::expect<row, 12>{}, cleave::expect<time_dim, 10>{});
  using Rows = f64<mesh(row, time_dim)>;
  constexpr auto plain = cleave::plan<Rows(X)>(gathers);
  constexpr auto carried = cleave::plan<Rows(X)>(sized);
  constexpr auto more = cleave::plan<Rows(X)>(sized, cleave::expect<data, 2>{});
  EXPECT_EQ(plain.bytes(), 4096 * 4096 * 8 * 3 / 4);
  EXPECT_EQ(carried.bytes(), 12 * 10 * 8 * 3 / 4);
  EXPECT_EQ(more.bytes(), 12 * 10 * 8 / 2);
}

TEST(Operations, WithoutAReferenceAreNotSimulated) {
  constexpr cleave::function f([](auto x) { return cleave::call<unknown>(cleave::whole(time_dim), x); });
  constexpr auto plan = cleave::plan<X(X)>(f);
  const cleave::sizes at = plan.sized({row = 2, time_dim = 3, data = 1, model = 1});
  cleave::shape extents;
  extents.rank = 2;
  extents[0] = 2;
  extents[1] = 3;
  EXPECT_THROW(simulate(plan.thawed(), at, std::array{cleave::host_array(extents)}), cleave::evaluation_error);
}

TEST(Operations, AreNamedInGraphsAndPlans) {
  EXPECT_NE(cleave::explain_layouts<X(X)>(chain).find("softplus"), std::string::npos);
  EXPECT_NE(explain(moved).find("1 kernel of yours"), std::string::npos) << explain(moved);
}

} // namespace CLEAVE_SOURCE
