// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random numbers: the generator's published vectors, the numbers' places and statistics, the same on every mesh and
// layout.
#include <cleave/expr/gradient.hpp>
#include <cleave/expr/random.hpp>
#include <cleave/ops/scalar.hpp>
#include <cleave/simulate/simulate.hpp>
#include <cleave/study/explain_plan.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <set>
#include <string>

namespace CLEAVE_SOURCE {

using namespace cleave;

// Those of the authors' library (Random123, kat_vectors).
static_assert(philox({{0, 0, 0, 0}}, 0, 0) == random_words{{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
static_assert(philox({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, 0xffffffff, 0xffffffff) ==
              random_words{{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
static_assert(philox({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0) ==
              random_words{{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});

inline constexpr axis<"data"> data;
inline constexpr axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr dim<"row"> row;
inline constexpr dim<"col"> col;
inline constexpr dim<"deep"> deep;

template <class T, auto Layout>
using tensor = abstract<T, Layout>;
using X = tensor<float, mesh(row / data, col / model)>;

// Everything is made where it is needed, in one pass beside those over single numbers, and from nothing but the key.
constexpr cleave::function noisy([](auto x, auto key) {
  return dropout(x, 0.1, fold_in(key, 1)) + 0.01 * normal(fold_in(key, 2), row, col);
});
constexpr auto noise = cleave::plan<X(X, std::uint32_t)>(noisy);
static_assert(noise.collectives() == 0);
constexpr bool keeps_single_numbers_only() {
  for (const buffer& b : decltype(noise)::plan_type::buffers)
    if (b.role == role::workspace && b.type.rank != 0) return false;
  return true;
}
static_assert(keeps_single_numbers_only());

// Two draws along the same dims in two layouts: each is made where it is read, nothing moves.
using Deep = tensor<float, mesh(row / data, col / model, deep)>;
using Other = tensor<float, mesh(row, col / model / data, deep)>;
constexpr cleave::function twice([](auto x, auto y, auto key) {
  return std::tuple(dropout(x, 0.1, fold_in(key, 1)), dropout(y, 0.1, key));
});
static_assert(cleave::plan<std::tuple<Deep, Other>(Deep, Other, std::uint32_t)>(twice).collectives() == 0);

constexpr std::string_view letters[] = {"a", "b", "c"};

/// A program of a key and of one tensor over the first dims, recorded under random layouts of the tensor and of the
/// result.
struct program_case {
  const char* name;
  std::function<value(value x, value key, std::span<const dim_ref>)> f;
};
const program_case cases[] = {
    {"bits",
     [](value, value k, auto d) {
       return d.size() == 1   ? random_bits(k, d[0])
              : d.size() == 2 ? random_bits(k, d[0], d[1])
                              : random_bits(k, d[0], d[1], d[2]);
     }},
    {"uniform float",
     [](value, value k, auto d) {
       return d.size() == 1 ? uniform(k, d[0]) : d.size() == 2 ? uniform(k, d[0], d[1]) : uniform(k, d[1], d[0], d[2]);
     }},
    {"uniform double",
     [](value, value k, auto d) { return d.size() == 1 ? uniform<double>(k, d[0]) : uniform<double>(k, d[1], d[0]); }},
    {"uniform bfloat16", [](value, value k, auto d) { return uniform<bfloat16>(k, d[0]); }},
    {"uniform half", [](value, value k, auto d) { return uniform<half>(k, d[0]); }},
    {"normal float",
     [](value, value k, auto d) { return d.size() == 3 ? normal(k, d[2], d[0], d[1]) : normal(k, d[0]); }},
    {"normal double",
     [](value, value k, auto d) {
       return d.size() == 3 ? normal<double>(k, d[2], d[0], d[1]) : normal<double>(k, d[0]);
     }},
    {"normal bfloat16", [](value, value k, auto d) { return normal<bfloat16>(fold_in(k, 5), d[0]); }},
    {"bernoulli", [](value, value k, auto d) { return bernoulli(k, 0.3, d[0]); }},
    {"a single number", [](value x, value k, auto) { return x * uniform<double>(k); }},
    {"like a tensor", [](value x, value k, auto) { return uniform_like(x, 5) + normal_like(x, k); }},
    {"normal like", [](value x, value, auto) { return normal_like(cast<bfloat16>(x), 6); }},
    {"dropout", [](value x, value k, auto) { return dropout(x, 0.25, fold_in(k, 7)); }},
    {"dropout twice",
     [](value x, value k, auto d) { return sum(dropout(dropout(x, 0.25, 3), 0.5, fold_in(3, k)) * x, d[0]); }},
    {"dropout at a given rate", [](value x, value k, auto) { return dropout(x, sum(uniform<double>(k)), 8); }},
};

spec some_layout(const tensor_type& t, const graph& g, std::mt19937& random) {
  spec s;
  s.mesh = g.mesh;
  for (int i = 0; i < t.rank; ++i) s.dims.push_back(placement(dim_ref{g.dims[t[i]].name, dynamic, false}));
  for (const axis_info& a : g.mesh.axes)
    if (const std::size_t where = random() % (s.dims.size() + 1); where < s.dims.size())
      s.dims[where].axes.push_back(a.name);
  return s;
}

TEST(Random, IsTheSameForEveryMeshAndLayout) {
  std::mt19937 random(5);
  int planned = 0, tied = 0;
  for (const program_case& c : cases)
    for (std::size_t rank = 1; rank <= 3; ++rank) {
      std::array<std::int64_t, 3> extents{};
      for (std::int64_t& e : extents) e = std::array{0, 1, 3, 4, 5, 8, 8, 9}[random() % 8];
      const double key = static_cast<double>(random());
      std::vector<double> first;
      for (int trial = 0; trial < 8; ++trial) {
        mesh_value m;
        for (int a = 0; a < 1 + trial % 2; ++a)
          m.axes.push_back({a == 0 ? "x" : "y", 1 + static_cast<std::int64_t>(random() % (trial % 2 == 0 ? 8 : 4))});
        recorder in(m);
        spec none;
        none.mesh = m;
        const value k = in.input(element::u32, none);
        std::vector<dim_ref> dims;
        spec input = none;
        for (std::size_t d = 0; d < rank; ++d) {
          dims.push_back({letters[d]});
          input.dims.push_back(placement(dims.back()));
        }
        for (const axis_info& a : m.axes)
          if (const std::size_t where = random() % (rank + 1); where < rank) input.dims[where].axes.push_back(a.name);
        const value x = in.input(element::f64, input);
        const value y = c.f(x, k, dims);
        ASSERT_TRUE(in.made().found.ok()) << c.name << " fault " << static_cast<int>(in.made().found.fault);
        in.output(y, in.at(y).type.element, some_layout(in.at(y).type, in.made(), random));
        const graph g = in.take();
        sizes at = sizes_for(g);
        for (std::size_t d = 0; d < g.dims.size(); ++d)
          at.dims[d] = extents[static_cast<std::size_t>(g.dims[d].name[0] - 'a')];
        std::vector<host_array> inputs;
        for (node_id i : g.inputs) inputs.emplace_back(shape_of(g.nodes[i].type, at), 1.5);
        inputs[0].data[0] = key;
        const auto wanted = evaluate(g, at, inputs);
        const program p = partition(g, at, trial % 3 == 0 ? policy::bytes_first(1) : policy::time());
        if (p.found.fault == fault::layouts_tie) {
          ++tied;
          continue;
        }
        ++planned;
        ASSERT_TRUE(p.found.ok()) << c.name;
        const simulated got = simulate(p, at, inputs);
        ASSERT_EQ(got.problem, "") << c.name;
        if (std::string(c.name) != "dropout twice") {
          ASSERT_EQ(got.results[0].data, wanted[0].data) << c.name << "\n" << explain(p, at);
        } else {
          ASSERT_EQ(first_difference(wanted[0].data, got.results[0].data, 1e-12), -1) << c.name;
        }
        if (first.empty()) first = wanted[0].data;
        ASSERT_EQ(first, wanted[0].data) << c.name;
      }
    }
  EXPECT_GT(planned, 9 * tied) << tied << " ties";
}

/// What a program of a key makes, unpartitioned.
template <class F>
std::vector<double> made(F f, double key, std::int64_t rows, std::int64_t columns, std::int64_t depth = 1) {
  recorder in(mesh_value{});
  const value k = in.input(element::u32, spec{});
  in.output(f(k));
  const graph g = in.take();
  EXPECT_TRUE(g.found.ok()) << static_cast<int>(g.found.fault);
  sizes at = sizes_for(g);
  for (std::size_t d = 0; d < g.dims.size(); ++d)
    at.dims[d] = g.dims[d].name == "row" ? rows : g.dims[d].name == "col" ? columns : depth;
  return evaluate(g, at, std::array{host_array(shape{}, key)})[0].data;
}

TEST(Random, FollowsFromTheKeyAndThePlace) {
  const auto flat = made([](value k) { return random_bits(k, row, col); }, 4000000000.0, 5, 7);
  const auto deeper = made([](value k) { return random_bits(k, row, col, deep); }, 4000000000.0, 5, 7, 3);
  const auto alone = made([](value k) { return random_bits(k); }, 17, 1, 1);
  for (std::uint64_t i = 0; i < 5; ++i)
    for (std::uint64_t j = 0; j < 7; ++j) {
      EXPECT_EQ(flat[i * 7 + j], random_words_at(4000000000u, i, j).word[0]);
      for (std::uint64_t k = 0; k < 3; ++k)
        EXPECT_EQ(deeper[(i * 7 + j) * 3 + k], random_words_at(4000000000u, i * 7 + j, k).word[0]);
    }
  EXPECT_EQ(alone[0], random_words_at(17, 0, 0).word[0]);
}

TEST(Random, KernelsComputeWhatTheEvaluatorDoes) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t key = random() >> 12, r = random() >> (i % 60), c = random() >> (i % 50);
    const auto check = [&]<element E>(std::integral_constant<element, E>) {
      EXPECT_EQ(static_cast<double>(random_op<op::random, E>::of(key, r, c)),
                simulation::random_number(op::random, E, key, r, c));
      if constexpr (E == element::f32 || E == element::f64) {
        const double want = simulation::random_number(op::normal, E, key, r, c);
        EXPECT_NEAR(static_cast<double>(random_op<op::normal, E>::of(key, r, c)), want,
                    E == element::f64 ? 1e-14 : 3e-6);
      }
    };
    check(std::integral_constant<element, element::u32>{});
    check(std::integral_constant<element, element::bf16>{});
    check(std::integral_constant<element, element::f16>{});
    check(std::integral_constant<element, element::f32>{});
    check(std::integral_constant<element, element::f64>{});
  }
  for (int i = 0; i <= 1000; ++i)
    EXPECT_NEAR(detail::cos_of_turns(static_cast<float>(i) / 1000), std::cos(6.283185307179586 * i / 1000), 5e-7);
}

struct moments_of {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0, neighbours = 0;
  explicit moments_of(const std::vector<double>& x) {
    const auto n = static_cast<double>(x.size());
    for (double v : x) mean += v / n;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double off = x[i] - mean;
      variance += off * off / n;
      skew += off * off * off / n;
      kurtosis += off * off * off * off / n;
      if (i > 0) neighbours += off * (x[i - 1] - mean) / n;
    }
  }
};

TEST(Random, HasTheStatisticsItIsNamedAfter) {
  constexpr std::int64_t rows = 400, columns = 1000;
  // Four standard errors and more.
  for (double key : {0.0, 1.0, 12345.0}) {
    const auto check_uniform = [&](const std::vector<double>& u) {
      const moments_of m(u);
      EXPECT_NEAR(m.mean, 0.5, 0.0025);
      EXPECT_NEAR(m.variance, 1.0 / 12, 0.001);
      EXPECT_NEAR(m.neighbours, 0, 0.001);
      // Kolmogorov and Smirnov.
      std::vector<double> sorted = u;
      std::sort(sorted.begin(), sorted.end());
      double worst = 0;
      for (std::size_t i = 0; i < sorted.size(); ++i)
        worst = std::fmax(worst, std::fabs(sorted[i] - static_cast<double>(i) / static_cast<double>(sorted.size())));
      EXPECT_LT(worst, 0.0035);
      EXPECT_GE(sorted.front(), 0);
      EXPECT_LT(sorted.back(), 1);
    };
    check_uniform(made([](value k) { return uniform<float>(k, row, col); }, key, rows, columns));
    check_uniform(made([](value k) { return uniform<double>(k, row, col); }, key, rows, columns));
    const auto check_normal = [&](const std::vector<double>& z) {
      const moments_of m(z);
      EXPECT_NEAR(m.mean, 0, 0.008);
      EXPECT_NEAR(m.variance, 1, 0.012);
      EXPECT_NEAR(m.skew, 0, 0.03);
      EXPECT_NEAR(m.kurtosis, 3, 0.1);
      EXPECT_NEAR(m.neighbours, 0, 0.01);
    };
    check_normal(made([](value k) { return normal<float>(k, row, col); }, key, rows, columns));
    check_normal(made([](value k) { return normal<double>(k, row, col); }, key, rows, columns));
    for (double p : {0.0, 0.1, 0.5, 1.0}) {
      const moments_of m(made([p](value k) { return bernoulli(k, p, row, col); }, key, rows, columns));
      EXPECT_NEAR(m.mean, p, p == 0 || p == 1 ? 1e-9 : 0.004);
    }
  }
}

TEST(Random, FoldedKeysAreOthers) {
  std::set<double> keys;
  for (double n = 0; n < 2000; ++n) {
    keys.insert(made([n](value k) { return fold_in(k, n); }, 1, 1, 1)[0]);
    keys.insert(made([n](value k) { return fold_in(fold_in(k, 3), n); }, 1, 1, 1)[0]);
    keys.insert(made([](value k) { return fold_in(k, 0); }, n + 2, 1, 1)[0]);
  }
  EXPECT_EQ(keys.size(), 6000u);
  EXPECT_LE(*keys.rbegin(), 4503599627370496.0);
  const auto a = made([](value k) { return uniform<double>(fold_in(k, 0), row); }, 1, 100000, 1);
  const auto b = made([](value k) { return uniform<double>(fold_in(k, 1), row); }, 1, 100000, 1);
  double together = 0;
  for (std::size_t i = 0; i < a.size(); ++i) together += (a[i] - 0.5) * (b[i] - 0.5) / static_cast<double>(a.size());
  EXPECT_NEAR(together, 0, 0.0012);
}

constexpr cleave::function loss([](auto x, auto key) { return sum(dropout(x * x, 0.4, key)); });
constexpr cleave::function both([](auto x, auto key) {
  const auto [value, slope] = value_and_grad(loss)(x, key);
  return std::tuple(slope, dropout(x * x, 0.4, key), value);
});
TEST(Random, GradientOfDropoutGoesThroughWhatIsKept) {
  using Double = tensor<double, mesh(row / data, col / model)>;
  const graph g = recording<decltype(both)::body_type,
                            std::tuple<Double, Double, tensor<double, mesh()>>(Double, std::uint32_t)>::record();
  ASSERT_TRUE(g.found.ok());
  constexpr auto plan = cleave::plan<std::tuple<Double, Double, tensor<double, mesh()>>(Double, std::uint32_t)>(both);
  static_assert(plan.count(kind::all_reduce) == plan.collectives());
  sizes at = plan.sized({row = 9, col = 11, data = 2, model = 3});
  host_array x(shape_of(g.nodes[g.inputs[0]].type, at));
  for (std::size_t i = 0; i < x.data.size(); ++i) x.data[i] = 1 + 0.01 * static_cast<double>(i);
  const auto value_at = [&](const host_array& point) {
    return evaluate(g, at, std::array{point, host_array(shape{}, 77)});
  };
  const auto there = value_at(x);
  const simulated got = simulate(plan.thawed(), at, std::array{x, host_array(shape{}, 77)});
  EXPECT_EQ(got.problem, "");
  std::size_t dropped = 0;
  for (std::size_t i = 0; i < x.data.size(); ++i) {
    dropped += there[1].data[i] == 0;
    EXPECT_NEAR(there[0].data[i], there[1].data[i] == 0 ? 0 : 2 * x.data[i] / 0.6, 1e-12);
    EXPECT_NEAR(got.results[0].data[i], there[0].data[i], 1e-12);
    host_array up = x, down = x;
    up.data[i] += 1e-5;
    down.data[i] -= 1e-5;
    EXPECT_NEAR((value_at(up)[2].data[0] - value_at(down)[2].data[0]) / 2e-5, there[0].data[i], 1e-5);
  }
  EXPECT_GT(dropped, 20u);
  EXPECT_LT(dropped, 60u);
}

TEST(Random, FaultsNameWhatIsWrong) {
  const auto fault_of = [](auto f) {
    recorder in(mesh_value{});
    spec s;
    s.dims.push_back(placement(dim_ref{"row"}));
    const value x = in.input(element::f32, s), k = in.input(element::u32, spec{}), p = in.input(element::f32, spec{}),
                many = in.input(element::u32, s);
    static_cast<void>(f(x, k, p, many));
    return in.made().found.fault;
  };
  EXPECT_EQ(fault_of([](value, value, value p, value) { return random_bits(p, row); }), fault::not_a_key);
  EXPECT_EQ(fault_of([](value x, value, value, value) { return dropout(x, 0.5, -1); }), fault::not_a_key);
  EXPECT_EQ(fault_of([](value x, value, value, value) { return dropout(x, 0.5, 0.5); }), fault::not_a_key);
  EXPECT_EQ(fault_of([](value, value k, value, value) { return fold_in(k, 1e300); }), fault::not_a_key);
  EXPECT_EQ(fault_of([](value, value, value, value many) { return random_bits(many, row); }),
            fault::dims_do_not_broadcast);
  EXPECT_EQ(fault_of([](value, value k, value, value) { return random_bits(k, row, row); }), fault::dim_used_twice);
  EXPECT_EQ(fault_of([](value, value k, value, value) { return bernoulli(k, 1.5, row); }), fault::not_a_probability);
  EXPECT_EQ(fault_of([](value x, value k, value, value) { return dropout(x, 1, k); }), fault::not_a_probability);
  EXPECT_EQ(fault_of([](value, value k, value, value) { return bernoulli(k, k, row); }), fault::not_floating);
  EXPECT_EQ(fault_of([](value, value k, value, value many) { return dropout(many, 0.5, k); }), fault::not_floating);
  EXPECT_EQ(fault_of([](value, value k, value, value many) { return uniform_like(many, k); }), fault::not_floating);
  EXPECT_EQ(fault_of([](value, value k, value, value many) { return normal_like(many, k); }), fault::not_floating);
  EXPECT_EQ(fault_of([](value x, value k, value p, value) { return dropout(x, p, fold_in(7, k)); }), fault::none);
}

} // namespace CLEAVE_SOURCE
