// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Cholesky factors and triangular systems: what they mean, how they are sharded, and their derivatives against central
// differences, in the evaluator and over random layouts in the simulator.
#include "../without_kernels.hpp"

#include <cleave/simulate/simulate.hpp>
#include <cleave/study/explain_plan.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <string>

namespace CLEAVE_SOURCE {

using namespace cleave;
using linalg::cholesky;
using linalg::transpose;
using linalg::triangle;
using linalg::triangular_solve;

inline constexpr axis<"data"> data;
inline constexpr mesh mesh_1d{data};
inline constexpr dim<"a"> a;
inline constexpr dim<"i"> i;
inline constexpr dim<"j"> j;
inline constexpr dim<"n"> n;
inline constexpr dim<"k"> k;
inline constexpr dim<"t"> t;

template <auto Layout>
using f64 = abstract<double, Layout>;

// What is sharded over the batch or over right-hand sides stays where it is.
constexpr cleave::function factor([](auto x) { return cholesky(x, i, j); });
constexpr cleave::function solve([](auto l, auto x) { return triangular_solve(l, x, i, j); });
static_assert(cleave::plan<f64<mesh_1d(a / data, i, j)>(f64<mesh_1d(a / data, i, j)>)>(factor).collectives() == 0);
static_assert(
    cleave::plan<f64<mesh_1d(j, n / data)>(f64<mesh_1d(i, j)>, f64<mesh_1d(i, n / data)>)>(solve).collectives() == 0);
static_assert(
    cleave::plan<f64<mesh_1d(a / data, j, n)>(f64<mesh_1d(a / data, i, j)>, f64<mesh_1d(a / data, i, n)>)>(solve)
        .collectives() == 0);
// Rows that are sharded are gathered, once; the factors of a sharded batch are computed where the batch is.
constexpr auto by_rows = cleave::plan<f64<mesh_1d(a, i / data, j)>(f64<mesh_1d(a, i / data, j)>)>(factor);
static_assert(by_rows.count(kind::all_to_all) == 2 && by_rows.collectives() == 2);
constexpr auto turned = cleave::plan<f64<mesh_1d(j / data, n)>(f64<mesh_1d(i, j)>, f64<mesh_1d(i / data, n)>)>(solve);
static_assert(turned.count(kind::all_to_all) == 2 && turned.collectives() == 2);
// The factors of a tall matrix: the products of columns are partial sums,
// and nothing of the size of the matrix moves.
constexpr cleave::function tall([](auto x) { return cleave::linalg::tall_qr(x, t, j, k); });
using tall_factors = std::tuple<f64<mesh_1d(t / data, k)>, f64<mesh_1d(k, j)>>(f64<mesh_1d(t / data, j)>);
constexpr auto tall_plan = cleave::plan<tall_factors>(tall, expect<t, 100000>{}, expect<j, 10>{}, expect<k, 10>{},
                                                      expect<data, 4>{});
static_assert(tall_plan.count(kind::all_reduce) == 1 && tall_plan.collectives() == 1);
static_assert(tall_plan.bytes({t = 1000, j = 10, k = 10, data = 4}) == 16 * 2 * 3 * 100 * 8 / 4);
// The gradient of a batch needs nothing either.
constexpr cleave::function log_determinant([](auto x) { return sum(cholesky(x, i, j)); });
static_assert(cleave::plan<f64<mesh_1d(a / data, i, j)>(f64<mesh_1d(a / data, i, j)>)>(cleave::grad(log_determinant))
                  .collectives() == 0);

using values = std::vector<value>;

struct problem {
  std::vector<std::string> inputs;
  std::function<value(const values&)> f;
};

constexpr std::string_view letters = "abijknmt";
dim_ref named(char letter) { return {letters.substr(letters.find(letter), 1)}; }

class harness {
 public:
  explicit harness(unsigned seed) : random_(seed) {}

  void check(const problem& p, int times) {
    for (int t = 0; t < times; ++t) {
      mesh_value mesh;
      const int axes = 1 + below(2);
      for (int x = 0; x < axes; ++x) mesh.axes.push_back({x == 0 ? "x" : "y", 1 + below(axes == 1 ? 6 : 3)});
      for (char c : letters) extents_[c] = 1 + below(4);
      extents_['a'] = below(4);
      extents_['j'] = extents_['k'] = extents_['i'];
      extents_['t'] = extents_['i'] + below(3);
      one(p, mesh);
      if (testing::Test::HasFatalFailure()) return;
    }
    EXPECT_GT(planned_, 2 * tied_) << tied_ << " ties";
  }

 private:
  int below(int most) { return static_cast<int>(random_() % static_cast<unsigned>(most)); }
  spec some_layout(const std::string& dims, const mesh_value& mesh) {
    spec s;
    s.mesh = mesh;
    for (char c : dims) s.dims.push_back(placement(named(c)));
    for (const axis_info& x : mesh.axes)
      if (const auto where = static_cast<std::size_t>(below(static_cast<int>(dims.size()) + 1)); where < dims.size())
        s.dims[where].axes.push_back(x.name);
    return s;
  }
  sizes sized(const graph& g) const {
    sizes s = sizes_for(g);
    for (std::size_t d = 0; d < g.dims.size(); ++d) s.dims[d] = extents_.at(g.dims[d].name[0]);
    return s;
  }
  static std::string dims_of(value v) {
    std::string s;
    for (int d = 0; d < v.in->at(v).type.rank; ++d) s += v.in->made().dims[v.in->at(v).type[d]].name;
    return s;
  }
  /// Far from singular: along two dims that are square or tall, a multiple of the unit matrix is added.
  host_array some_data(const std::string& dims, const shape& extents) {
    host_array x(extents);
    const std::size_t r = dims.find_first_of("it"), c = dims.find('j');
    for (std::size_t e = 0; e < x.data.size(); ++e) {
      x.data[e] = std::uniform_real_distribution<double>(-0.5, 0.5)(random_);
      std::map<std::size_t, std::int64_t> at;
      std::int64_t rest = static_cast<std::int64_t>(e);
      for (std::size_t d = dims.size(); d-- > 0; rest /= extents[static_cast<int>(d)])
        at[d] = rest % extents[static_cast<int>(d)];
      if (r != std::string::npos && c != std::string::npos && at[r] == at[c]) x.data[e] += 3;
    }
    return x;
  }

  void one(const problem& p, const mesh_value& mesh) {
    // A weighted sum of the result alone, and with its gradient by every input.
    recorder plain(mesh), both(mesh);
    values in, again;
    for (const std::string& dims : p.inputs) in.push_back(plain.input(element::f64, some_layout(dims, mesh)));
    const value y = p.f(in);
    ASSERT_TRUE(plain.made().found.ok()) << plain.made().found.op;
    const std::string result_dims = dims_of(y);
    const value weights = plain.input(element::f64, some_layout(result_dims, mesh));
    plain.output(sum(y * weights));

    for (const std::string& dims : p.inputs) again.push_back(both.input(element::f64, some_layout(dims, mesh)));
    const value w = both.input(element::f64, some_layout(result_dims, mesh));
    value loss;
    values slopes;
    const auto weighed = [&](auto... x) { return sum(p.f({value(x)...}) * w); };
    const auto keep = [&](auto... x) {
      const auto [l, pullback] = vjp(weighed, x...);
      loss = l;
      const auto back = pullback(both.constant(1, element::f64, {}));
      if constexpr (sizeof...(x) == 1) slopes = {back};
      else std::apply([&](auto... c) { slopes = {c...}; }, back);
    };
    if (again.size() == 1) keep(again[0]);
    else keep(again[0], again[1]);
    for (std::size_t k = 0; k < slopes.size(); ++k)
      both.output(slopes[k], element::f64, some_layout(p.inputs[k], mesh));
    both.output(loss, element::f64, some_layout("", mesh));
    ASSERT_TRUE(both.made().found.ok()) << both.made().found.op;

    const graph g = both.take();
    const sizes at = sized(g);
    std::vector<host_array> data;
    for (std::size_t k = 0; k < g.inputs.size(); ++k)
      data.push_back(some_data(k < p.inputs.size() ? p.inputs[k] : "", shape_of(g.nodes[g.inputs[k]].type, at)));
    const std::vector<host_array> wanted = evaluate(g, at, data);
    differences(plain.made(), data, wanted);

    const program made = partition(g, at, below(2) == 0 ? policy::time() : policy::bytes_first(2));
    if (made.found.fault == fault::layouts_tie) {
      ++tied_;
      return;
    }
    ++planned_;
    ASSERT_TRUE(made.found.ok()) << to_string(g);
    const simulated got = simulate(made, at, data);
    ASSERT_TRUE(got.problem.empty()) << got.problem << to_string(g) << explain(made, at);
    for (std::size_t k = 0; k < wanted.size(); ++k)
      ASSERT_EQ(first_difference(wanted[k].data, got.results[k].data, 1e-9), -1) << to_string(g) << explain(made, at);
    // A loop that ends by itself is priced for as many iterations as it usually has.
    if (std::ranges::all_of(g.loops, [](const loop_info& l) { return l.along != no_dim; })) {
      ASSERT_EQ(bytes(made, at), got.bytes);
    }
  }

  void differences(const graph& loss, const std::vector<host_array>& data, const std::vector<host_array>& slopes) {
    constexpr double step = 1e-6;
    std::vector<host_array> before = data, after = data;
    double along = 0, size = 1;
    for (std::size_t k = 0; k + 1 < slopes.size(); ++k)
      for (std::size_t e = 0; e < data[k].data.size(); ++e) {
        const double d = std::uniform_real_distribution<double>(-1, 1)(random_);
        before[k].data[e] -= step * d;
        after[k].data[e] += step * d;
        along += d * slopes[k].data[e];
        size += std::fabs(d * slopes[k].data[e]);
      }
    const sizes at = sized(loss);
    const double slope = (evaluate(loss, at, after)[0].data[0] - evaluate(loss, at, before)[0].data[0]) / (2 * step);
    ASSERT_NEAR(slope, along, 1e-6 * size) << to_string(loss);
  }

  std::mt19937 random_;
  std::map<char, std::int64_t> extents_{};
  int planned_ = 0, tied_ = 0;
};

template <triangle Which, transpose Transposed>
value solved(const values& in) {
  return triangular_solve<Which, Transposed>(in[0], in[1], i, j);
}

TEST(Linalg, FactorsOverRandomLayouts) {
  harness h(1);
  h.check({{"aij"}, [](const values& in) { return cholesky(in[0], i, j); }}, 30);
  h.check({{"jbia"}, [](const values& in) { return cholesky(in[0], i, j); }}, 30);
}
TEST(Linalg, SystemsOverRandomLayouts) {
  harness h(2);
  for (int turn = 0; turn < 8; ++turn) {
    h.check({{"ij", "in"}, solved<triangle::lower, transpose::no>}, 4);
    h.check({{"aij", "inam"}, solved<triangle::upper, transpose::no>}, 4);
    h.check({{"jai", "nj"}, solved<triangle::lower, transpose::yes>}, 4);
    h.check({{"jib", "jabn"}, solved<triangle::upper, transpose::yes>}, 4);
    h.check({{"ij", "i"}, solved<triangle::lower, transpose::no>}, 4);
    // A batch that only the matrix has.
    h.check({{"aijb", "in"}, solved<triangle::lower, transpose::no>}, 4);
  }
}
TEST(Linalg, FactorsAndSystemsTogether) {
  harness h(3);
  h.check({{"aij", "ian"},
           [](const values& in) {
             const value l = cholesky(in[0], i, j);
             return triangular_solve<triangle::lower, transpose::yes>(l, triangular_solve(l, in[1], i, j), i, j);
           }},
          30);
  // The derivative of a derivative.
  h.check({{"aij"},
           [](const values& in) {
             const auto [y, pullback] = vjp([](auto x) { return sum(exp(cholesky(x, i, j))); }, in[0]);
             return pullback(y.in->constant(1, element::f64, {}));
           }},
          20);
}

TEST(Linalg, QrOverRandomLayouts) {
  harness h(4);
  const auto orthonormal = [](const values& in) { return std::get<0>(linalg::tall_qr(in[0], t, j, k)); };
  const auto triangular = [](const values& in) { return std::get<1>(linalg::tall_qr(in[0], t, j, k)); };
  const auto both = [](const values& in) {
    const auto [q, r] = linalg::tall_qr(in[0], t, j, k);
    return dot(exp(q), r, k);
  };
  h.check({{"tj"}, orthonormal}, 8);
  h.check({{"jt"}, triangular}, 8);
  h.check({{"atj"}, both}, 12);
  // The derivative of a derivative.
  h.check({{"tj"},
           [](const values& in) {
             const auto loss = [](auto x) {
               const auto [q, r] = linalg::tall_qr(x, t, j, k);
               return sum(exp(q)) + sum(r * r);
             };
             const auto [y, pullback] = vjp(loss, in[0]);
             return pullback(y.in->constant(1, element::f64, {}));
           }},
          8);
}

TEST(Linalg, QrNeedsDimsThatItKnows) {
  const auto found = [](element e, dim_ref inner, dim_ref rows) {
    recorder in(mesh_1d.value);
    const value x = in.input(e, mesh_1d(t, j));
    if (inner.name == "k" && rows.name == "t") (void)linalg::tall_qr(x, t, j, k);
    else if (rows.name == "t") (void)linalg::tall_qr(x, t, j, t);
    else (void)linalg::tall_qr(x, n, j, k);
    return in.made().found;
  };
  EXPECT_EQ(found(element::f64, k, t).fault, fault::none);
  EXPECT_EQ(found(element::f16, k, t).fault, fault::no_function_for_element);
  EXPECT_EQ(found(element::f64, t, t).fault, fault::dim_used_twice);
  EXPECT_EQ(found(element::f64, k, n).fault, fault::dim_missing);
}

TEST(Linalg, MeanWhatTheyAreSaidToMean) {
  recorder in(mesh_1d.value);
  const value x = in.input(element::f64, mesh_1d(i, j));
  const value l = cholesky(x, i, j);
  in.output(l);
  in.output(dot(l, rename(l, i, n), j));
  sizes at = sizes_for(in.made());
  for (std::size_t d = 0; d < in.made().dims.size(); ++d) at.dims[d] = 2;
  at.axes = sizes_for(in.made()).axes;
  shape extents;
  extents.rank = 2;
  extents[0] = extents[1] = 2;
  host_array m(extents);
  m.data = {4, 1, 3, 5};   // its symmetric part is 4 2 2 5
  const auto good = evaluate(in.made(), at, std::array{m});
  EXPECT_EQ(good[0].data, (std::vector<double>{2, 0, 1, 2}));
  EXPECT_EQ(good[1].data, (std::vector<double>{4, 2, 2, 5}));
  m.data = {4, 2, 2, 1};   // singular
  const auto bad = evaluate(in.made(), at, std::array{m})[0].data;
  EXPECT_TRUE(std::isnan(bad[0]) && std::isnan(bad[2]) && std::isnan(bad[3]));
  EXPECT_EQ(bad[1], 0);
}

TEST(Linalg, FaultsNameTheDim) {
  const auto found = [](auto&& f) {
    recorder in(mesh_1d.value);
    f(in);
    return in.made().found;
  };
  const auto f32 = [](recorder& in) { return in.input(element::f32, mesh_1d(i, j)); };
  const auto f64_of = [](recorder& in, const spec& s) { return in.input(element::f64, s); };
  EXPECT_EQ(found([&](recorder& in) { cholesky(in.input(element::i32, mesh_1d(i, j)), i, j); }).fault,
            fault::no_function_for_element);
  const verdict missing = found([&](recorder& in) { cholesky(f32(in), i, n); });
  EXPECT_EQ(missing.fault, fault::dim_missing);
  EXPECT_EQ(missing.dim, "n");
  EXPECT_EQ(found([&](recorder& in) { cholesky(f32(in), i, i); }).fault, fault::dim_used_twice);
  EXPECT_EQ(found([&](recorder& in) { triangular_solve(f32(in), f64_of(in, mesh_1d(i, n)), i, j); }).fault,
            fault::element_types_differ);
  EXPECT_EQ(found([&](recorder& in) {
              triangular_solve(f64_of(in, mesh_1d(i, j)), f64_of(in, mesh_1d(n)), i, j);
            }).fault,
            fault::dim_missing);
  EXPECT_EQ(found([&](recorder& in) {
              triangular_solve(f64_of(in, mesh_1d(i, j)), f64_of(in, mesh_1d(i, j)), i, j);
            }).fault,
            fault::dim_used_twice);
  static constexpr dim<"three", 3> three;
  static constexpr dim<"four", 4> four;
  EXPECT_EQ(found([&](recorder& in) { cholesky(in.input(element::f64, mesh_1d(three, four)), three, four); }).fault,
            fault::extents_differ);
}

} // namespace CLEAVE_SOURCE
