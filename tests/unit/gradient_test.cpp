// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Derivatives: of every op and of random programs, against central differences in the plain evaluator, along random
// directions; and their plans, under random layouts, against the evaluator in the simulator.
#include <cleave/expr/cumulative.hpp>
#include <cleave/expr/gradient.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/random.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/expr/sort.hpp>
#include <cleave/simulate/simulate.hpp>
#include <cleave/solve/iteration.hpp>
#include <cleave/study/explain_plan.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <random>
#include <string>

namespace CLEAVE_SOURCE {

using namespace cleave;

using values = std::vector<value>;

constexpr std::string_view letters = "abcdefgh";
std::string_view name(char letter) { return letters.substr(letters.find(letter), 1); }
dim_ref dim(char letter) { return {name(letter)}; }

/// A program of some inputs, named by their dims, whose first result is differentiated by all of them.
struct problem {
  std::vector<std::string> inputs;
  std::function<value(const values&)> f;
  /// Data away from where an op has no derivative.
  double least = -2, most = 2;
  bool with_zeros = false;
};

class harness {
 public:
  explicit harness(unsigned seed) : random_(seed) {}

  void check(const problem& p, int layouts) {
    for (int i = 0; i < layouts; ++i) {
      mesh_value mesh;
      const int axes = 1 + below(2);
      for (int a = 0; a < axes; ++a) mesh.axes.push_back({a == 0 ? "x" : "y", 1 + below(axes == 1 ? 6 : 3)});
      for (char c : std::string("abcdefgh")) extents_[c] = 1 + below(5);
      // f is e split: e = g * f.
      extents_['e'] = extents_['g'] * extents_['f'];
      extents_['d'] = extents_['c'];
      // Every third time the cotangent is 1, which is constant along all dims.
      one(p, mesh, i % 3 != 2);
    }
  }
  /// How many plans were compared with the evaluator, and how many were none because two layouts cost the same.
  static inline int planned = 0, tied = 0;

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  spec some_layout(const std::string& dims, const mesh_value& mesh) {
    spec s;
    s.mesh = mesh;
    for (char c : dims) s.dims.push_back(placement(dim(c)));
    for (const axis_info& a : mesh.axes) {
      const auto where = static_cast<std::size_t>(below(static_cast<int>(dims.size()) + 1));
      if (where < dims.size()) s.dims[where].axes.push_back(a.name);
    }
    return s;
  }
  static std::string dims_of(value v) {
    std::string s;
    for (int i = 0; i < v.in->at(v).type.rank; ++i) s += v.in->made().dims[v.in->at(v).type[i]].name;
    return s;
  }
  sizes sized(const graph& g) const {
    sizes s = sizes_for(g);
    for (std::size_t d = 0; d < g.dims.size(); ++d) s.dims[d] = extents_.at(g.dims[d].name[0]);
    return s;
  }

  void one(const problem& p, const mesh_value& mesh, bool weighted) {
    // The loss alone: a sum, or a weighted sum, of what the program returns.
    recorder plain(mesh);
    values in;
    for (const std::string& dims : p.inputs) in.push_back(plain.input(element::f64, some_layout(dims, mesh)));
    const value y = p.f(in);
    ASSERT_TRUE(plain.made().found.ok()) << plain.made().found.op;
    plain.output(weighted ? sum(y * plain.input(element::f64, some_layout(dims_of(y), mesh))) : sum(y));

    // The loss and its gradient by every input.
    recorder both(mesh);
    values again;
    for (const std::string& dims : p.inputs) again.push_back(both.input(element::f64, some_layout(dims, mesh)));
    const auto differentiated = [&](const auto&... x) { return p.f({value(x)...}); };
    const auto [result, cotangents] = pulled(differentiated, again, both, weighted ? dims_of(y) : "1", mesh);
    both.output(result);
    for (std::size_t i = 0; i < cotangents.size(); ++i)
      both.output(cotangents[i], element::f64, some_layout(p.inputs[i], mesh));
    both.output(result, element::f64, some_layout("", mesh));
    ASSERT_TRUE(both.made().found.ok()) << both.made().found.op;

    const graph g = both.take();
    const sizes at = sized(g);
    std::vector<host_array> data;
    for (node_id i : g.inputs) {
      host_array a(shape_of(g.nodes[i].type, at));
      for (double& x : a.data) x = number(p);
      data.push_back(std::move(a));
    }
    const std::vector<host_array> wanted = evaluate(g, at, data);
    compare_with_differences(p, plain.made(), data, wanted);

    const policy rule = below(2) == 0 ? policy::time() : policy::bytes_first(2);
    const program made = partition(g, at, rule);
    if (made.found.fault == fault::layouts_tie) {
      ++tied;
      return;
    }
    ++planned;
    ASSERT_TRUE(made.found.ok()) << static_cast<int>(made.found.fault) << "\n" << to_string(g);
    const simulated got = simulate(made, at, data);
    ASSERT_TRUE(got.problem.empty()) << got.problem << "\n" << to_string(g) << explain(made, at);
    for (std::size_t r = 0; r < wanted.size(); ++r)
      ASSERT_EQ(first_difference(wanted[r].data, got.results[r].data, 1e-9), -1) << "result " << r << "\n"
                                                                                 << to_string(g) << explain(made, at);
    ASSERT_EQ(bytes(made, at), got.bytes);
  }

  /// vjp by all inputs; the weights are an input of the pullback, or the number 1.
  template <class F>
  std::pair<value, values> pulled(F f, const values& in, recorder& r, const std::string& dims, const mesh_value& mesh) {
    const auto run = [&](auto... x) {
      const auto [y, pullback] = vjp(f, x...);
      const value weights = dims == "1" ? r.constant(1, element::f64, {})
                                        : r.input(element::f64, some_layout(dims, mesh));
      const auto back = pullback(weights);
      values all;
      if constexpr (sizeof...(x) == 1) all = {back};
      else std::apply([&](auto... c) { all = {c...}; }, back);
      return std::pair(sum(y * weights), all);
    };
    switch (in.size()) {
      case 1: return run(in[0]);
      case 2: return run(in[0], in[1]);
      case 3: return run(in[0], in[1], in[2]);
      default: return run(in[0], in[1], in[2], in[3]);
    }
  }

  double number(const problem& p) {
    if (p.with_zeros && below(3) == 0) return 0;
    double x = 0;
    // On a grid with an offset that differs from draw to draw, so that no two operands are close to equal.
    while (std::fabs(x) < 0.1) x = std::uniform_real_distribution<double>(p.least, p.most)(random_);
    return x;
  }

  void compare_with_differences(const problem& p, const graph& loss, const std::vector<host_array>& data,
                                const std::vector<host_array>& wanted) {
    const sizes at = sized(loss);
    for (int direction = 0; direction < 3; ++direction) {
      std::vector<host_array> before = data, after = data;
      double along = 0, size = 1;
      constexpr double step = 1e-6;
      for (std::size_t i = 0; i < p.inputs.size(); ++i)
        for (std::size_t e = 0; e < data[i].data.size(); ++e) {
          const double d = std::uniform_real_distribution<double>(-1, 1)(random_);
          before[i].data[e] -= step * d;
          after[i].data[e] += step * d;
          along += d * wanted[1 + i].data[e];
          size += std::fabs(d * wanted[1 + i].data[e]);
        }
      const double slope = (evaluate(loss, at, after)[0].data[0] - evaluate(loss, at, before)[0].data[0]) / (2 * step);
      ASSERT_NEAR(slope, along, 1e-6 * size) << to_string(loss);
    }
  }

  std::mt19937 random_;
  std::map<char, std::int64_t> extents_{};
};

/// An op applied to operands, which may broadcast.
problem elementwise(op code, const std::vector<std::string>& inputs, double least = -2, double most = 2) {
  return {inputs, [code](const values& x) { return x[0].in->elementwise(code, x, {}, element::none, true); }, least,
          most};
}

TEST(Gradient, OfEveryElementwiseOpIsTheLimitOfDifferences) {
  const auto positive = [](op c) {
    return c == op::log || c == op::sqrt || c == op::rsqrt || c == op::pow || c == op::div;
  };
  // Flat wherever they have a derivative; through complex numbers none is taken.
  constexpr op flat[] = {op::sign,          op::floor,       op::imag,       op::complex,    op::logical_not,
                         op::equal,         op::not_equal,   op::less,       op::less_equal, op::greater,
                         op::greater_equal, op::logical_and, op::logical_or, op::random,     op::normal};
  int checked = 0;
  for (const op_entry& e : op_table) {
    if (e.what != op_class::elementwise || e.code == op::user) continue;
    SCOPED_TRACE(e.name);
    const bool is_flat = std::find(std::begin(flat), std::end(flat), e.code) != std::end(flat);
    ASSERT_EQ(is_flat, e.derivative[0].empty() && e.derivative[1].empty()) << "an op needs a derivative";
    if (is_flat || e.code == op::broadcast || e.code == op::select) continue;
    const double least = positive(e.code) ? 0.5 : -2;
    harness h(static_cast<unsigned>(e.code) + 1);
    if (e.arity == 1) h.check(elementwise(e.code, {"ab"}, least), 12);
    if (e.arity == 2)
      for (const auto& inputs :
           {std::vector<std::string>{"ab", "ab"}, {"ab", "b"}, {"a", "ab"}, {"", "ba"}, {"a", "b"}})
        h.check(elementwise(e.code, inputs, least), 8);
    ++checked;
  }
  EXPECT_GE(checked, 20);
}

TEST(Gradient, OfEveryOtherOpIsTheLimitOfDifferences) {
  const std::vector<std::pair<const char*, problem>> all{
      {"select", {{"ab", "ab", "b"}, [](const values& x) { return select(x[0] > 0, x[1], x[2]); }}},
      {"cast", {{"ab"}, [](const values& x) { return cast<double>(cast<float>(x[0])) * x[0]; }}},
      {"broadcast", {{"a"}, [](const values& x) { return broadcast(x[0], dim('b'), dim('a'), dim('c')); }}},
      {"sum", {{"abc"}, [](const values& x) { return sum(x[0], dim('b')); }}},
      {"sum over all", {{"abc"}, [](const values& x) { return sum(x[0]); }}},
      {"mean", {{"abc"}, [](const values& x) { return mean(x[0], dim('a'), dim('c')); }}},
      {"max", {{"abc"}, [](const values& x) { return max(x[0], dim('b')); }}},
      {"min", {{"abc"}, [](const values& x) { return min(x[0], dim('b'), dim('a')); }}},
      {"prod",
       {{"abc"}, [](const values& x) { return x[0].in->reduce(reduction::prod, x[0], std::array{dim('b')}, {}); }}},
      {"prod with zeros",
       {{"abc"},
        [](const values& x) { return x[0].in->reduce(reduction::prod, x[0], std::array{dim('b')}, {}); },
        -2,
        2,
        true}},
      {"dot", {{"ab", "bc"}, [](const values& x) { return dot(x[0], x[1], dim('b')); }}},
      {"dot of a batch", {{"hab", "hbc"}, [](const values& x) { return dot(x[0], x[1], dim('b')); }}},
      {"dot over two", {{"abc", "bch"}, [](const values& x) { return dot(x[0], x[1], dim('b'), dim('c')); }}},
      {"dot with a vector", {{"ab", "b"}, [](const values& x) { return dot(x[0], x[1], dim('b')); }}},
      {"inner product", {{"a", "a"}, [](const values& x) { return dot(x[0], x[1], dim('a')); }}},
      {"outer product", {{"a", "b"}, [](const values& x) { return dot(x[0], x[1]); }}},
      {"dot with itself", {{"ab"}, [](const values& x) { return dot(x[0], x[0], dim('b')); }}},
      {"dot of a sum", {{"ab", "bc"}, [](const values& x) { return sum(dot(x[0], x[1], dim('b')), dim('c')); }}},
      {"dot of a sum over its batch",
       {{"hab", "hbc"}, [](const values& x) { return sum(dot(x[0], x[1], dim('b')), dim('h'), dim('a')); }}},
      {"rename",
       {{"abc"},
        [](const values& x) { return rename(x[0], dim('c'), dim('d')) * x[0].in->constant(2, element::f64, {}); }}},
      {"attention",
       {{"ac", "ac"},
        [](const values& x) { return softmax(dot(x[0], rename(x[1], dim('c'), dim('d')), dim('a')), dim('d')); }}},
      {"split", {{"ae"}, [](const values& x) { return sin(split(x[0], dim('e'), dim('g'), dim('f'))); }}},
      {"split of a sum",
       {{"ae"}, [](const values& x) { return sum(split(x[0], dim('e'), dim('g'), dim('f')), dim('g')); }}},
      {"split, and all of it summed",
       {{"ae"}, [](const values& x) { return sum(split(x[0], dim('e'), dim('g'), dim('f')), dim('g'), dim('f')); }}},
      {"merge", {{"gaf"}, [](const values& x) { return tanh(merge(x[0], dim('g'), dim('f'), dim('e'))); }}},
      {"merge of a sum",
       {{"gaf"}, [](const values& x) { return sum(merge(x[0], dim('g'), dim('f'), dim('e')), dim('e')); }}},
      {"softmax", {{"ab"}, [](const values& x) { return softmax(x[0], dim('b')); }}},
      {"logsumexp", {{"ab"}, [](const values& x) { return logsumexp(x[0], dim('b')); }}},
      {"log_softmax", {{"ab"}, [](const values& x) { return log_softmax(x[0], dim('a')); }}},
      {"layer_norm", {{"ab", "b", "b"}, [](const values& x) { return layer_norm(x[0], dim('b'), x[1], x[2]); }}},
      {"variance", {{"ab"}, [](const values& x) { return variance(x[0], dim('b')); }}},
      {"moments",
       {{"abc"},
        [](const values& x) {
          const auto [middle, spread] = moments(x[0], dim('a'), dim('c'));
          return middle * spread;
        }}},
      {"dropout", {{"ab"}, [](const values& x) { return dropout(tanh(x[0]), 0.3, 11); }}},
      {"dropout of three dims, twice",
       {{"abc", "c"}, [](const values& x) { return dropout(dropout(x[0], 0.3, 11) * x[1], 0.5, 12); }}},
      {"scaled noise",
       {{"ab"},
        [](const values& x) {
          return x[0] * normal<double>(fold_in(sum(cast<int>(x[0] * 0.0)), 3), dim('a'), dim('b'));
        }}},
      {"cross entropy",
       {{"ab", "a"},
        [](const values& x) {
          return mean(logsumexp(x[0], dim('b')) - sum(x[0] * one_hot<double>(cast<int>(x[1]), dim('b')), dim('b')));
        },
        0.5}},
      {"a value used three times", {{"ab"}, [](const values& x) { return x[0] * x[0] + sum(x[0], dim('a')) * x[0]; }}},
      {"one of two branches", {{"ab", "ab"}, [](const values& x) { return maximum(x[0] * x[1], x[0] + x[1]); }}},
  };
  unsigned seed = 100;
  for (const auto& [what, p] : all) {
    SCOPED_TRACE(what);
    harness(seed++).check(p, 16);
    if (HasFatalFailure()) return;
  }
}

mesh_value two_devices() {
  mesh_value two;
  two.axes.push_back({"x", 2});
  return two;
}

TEST(Gradient, PassesThroughLayoutsTheUserWrote) {
  const mesh_value two = two_devices();
  const auto pinned = [&](char d) {
    spec s;
    s.mesh = two;
    s.dims.push_back(placement(dim(d)));
    s.dims[0].axes.push_back("x");
    return s;
  };
  recorder in(two);
  spec plain;
  plain.mesh = two;
  for (char c : std::string("ab")) plain.dims.push_back(placement(dim(c)));
  const value x = in.input(element::f64, plain);
  const auto [y, pullback] =
      vjp([&](value v) { return sin(constrain(reshard(constrain(v, pinned('a')) * v, pinned('b')), pinned('b'))); }, x);
  in.output(pullback(cos(y)), element::f64, plain);
  ASSERT_TRUE(in.made().found.ok());
  const graph g = in.take();
  sizes at = sizes_for(g);
  at.dims[0] = 3;
  at.dims[1] = 5;
  host_array data(shape_of(g.nodes[0].type, at));
  for (std::size_t i = 0; i < data.data.size(); ++i) data.data[i] = 0.1 * static_cast<double>(i);
  const auto result = simulate(partition(g, at), at, std::array{data}).results[0];
  for (std::size_t i = 0; i < data.data.size(); ++i) {
    const double v = data.data[i];
    EXPECT_NEAR(result.data[i], std::cos(std::sin(v * v)) * std::cos(v * v) * 2 * v, 1e-12);
  }
}

/// Weights 10 and 20 for the two largest of each row: the gradient is at the positions that top_k names, where elements
/// are equal, the lowest there are, or not a number.
TEST(Gradient, OfTheLargestElementsIsAtTheirPositions) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const char sharded : {'a', 'b'}) {
    SCOPED_TRACE(sharded);
    recorder in(two_devices());
    spec rows;
    rows.mesh = two_devices();
    for (char c : std::string("ab")) {
      rows.dims.push_back(placement(dim(c)));
      if (c == sharded) rows.dims.back().axes.push_back("x");
    }
    const value x = in.input(element::f64, rows);
    const dim_ref two{"h", 2};
    const auto [y, pullback] = vjp([&](value v) { return top_k(v, dim('b'), two); }, x);
    in.output(y.second);
    in.output(pullback(std::pair(broadcast(cast<double>(iota(x, two) + 1) * 10, two, dim('a')), y.second)));
    const graph g = in.take();
    ASSERT_TRUE(g.found.ok()) << static_cast<int>(g.found.fault) << " in " << g.found.op;
    sizes at = sizes_for(g);
    for (std::size_t d = 0; d < g.dims.size(); ++d) at.dims[d] = g.dims[d].name == "h" ? 2 : 4;
    host_array data(shape_of(g.nodes[0].type, at));
    data.data = {1, 3, 3, 3, -inf, -inf, -inf, -inf, 2, nan, nan, 7, 4, 1, 4, 2};
    const auto results = simulate(partition(g, at), at, std::array{data}).results;
    EXPECT_EQ(std::vector<double>(results[0].data.begin(), results[0].data.end()),
              (std::vector<double>{1, 0, 1, 0, 2, 1, 2, 2}));
    EXPECT_EQ(std::vector<double>(results[1].data.begin(), results[1].data.end()),
              (std::vector<double>{0, 10, 20, 0, 10, 20, 0, 0, 0, 10, 20, 0, 10, 0, 20, 0}));
  }
}

/// Random programs of smooth ops.
TEST(Gradient, OfRandomProgramsIsTheLimitOfDifferences) {
  for (unsigned seed = 1; seed <= 250; ++seed) {
    SCOPED_TRACE(seed);
    const auto program = [seed](const values& in) {
      std::mt19937 random(seed);
      const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
      values known = in;
      for (int i = 0; i < 7; ++i) {
        const value a = known[below(known.size())], b = known[below(known.size())];
        recorder& r = *a.in;
        const tensor_type ta = r.at(a).type, tb = r.at(b).type;
        const auto both = [&](op code) { return r.elementwise(code, std::array{a, b}, {}, element::none, true); };
        value made{};
        switch (below(9)) {
          case 0: made = both(op::add); break;
          case 1: made = both(op::mul); break;
          case 2: made = tanh(a); break;
          case 3: made = sin(a) * 0.5; break;
          case 4: made = ta.rank > 0 ? softmax(a, dim(r.made().dims[ta[0]].name[0])) : a; break;
          case 5: {
            const dim_set shared = ta.set() & tb.set();
            made = r.dot(a, b, below(2) == 0 ? shared : cleave::dim_set(shared.bits() & (shared.bits() - 1)), {});
            break;
          }
          case 6:
            made = ta.rank > 0 ? mean(a, dim(r.made().dims[ta[static_cast<int>(below(ta.rank))]].name[0])) : a;
            break;
          case 7: made = select(a > 0.05, a, a * 0.3); break;
          default: made = exp(-(a * a)); break;
        }
        if (class_of(r.at(made).code) == op_class::source || r.at(made).type.rank > 4) continue;
        known.push_back(made);
      }
      value total = sum(known[0]);
      for (const value& v : known) total = total + sum(v * v);
      return total;
    };
    harness(seed).check({{"ab", "bc", "a"}, program, -1, 1}, 1);
    if (HasFatalFailure()) return;
  }
  // Of the plans of all tests so far.
  EXPECT_GT(harness::planned, 20 * harness::tied) << harness::tied << " ties";
  EXPECT_GE(harness::planned, 200);
}

/// One dim of extent 3 on one device: enough for what follows.
struct small {
  mesh_value mesh{};
  spec row{}, none{};
  small() {
    mesh.axes.push_back({"x", 1});
    row.mesh = none.mesh = mesh;
    row.dims.push_back(placement(dim('a')));
  }
  static std::vector<std::vector<double>> run(recorder& in, const std::vector<std::vector<double>>& data) {
    const graph g = in.take();
    EXPECT_TRUE(g.found.ok()) << static_cast<int>(g.found.fault) << " in " << g.found.op;
    sizes at = sizes_for(g);
    for (std::size_t d = 0; d < g.dims.size(); ++d) at.dims[d] = 3;
    std::vector<host_array> arrays;
    for (std::size_t i = 0; i < data.size(); ++i) {
      arrays.emplace_back(shape_of(g.nodes[g.inputs[i]].type, at));
      arrays.back().data = data[i];
    }
    const simulated s = simulate(partition(g, at), at, arrays);
    EXPECT_EQ(s.problem, "");
    std::vector<std::vector<double>> results;
    for (const host_array& a : s.results) results.emplace_back(a.data.begin(), a.data.end());
    return results;
  }
};
using row = std::vector<double>;

TEST(Gradient, OfAGradient) {
  small s;
  recorder in(s.mesh);
  const value x = in.input(element::f64, s.row);
  static constexpr function cube([](auto v) { return sum(v * v * v); });
  static constexpr function slope_sum([](auto v) { return sum(grad(cube)(v)); });
  in.output(grad(cube)(x));
  in.output(grad(slope_sum)(x));
  const auto got = small::run(in, {{1, 2, -3}});
  EXPECT_EQ(got[0], (row{3, 12, 27}));
  EXPECT_EQ(got[1], (row{6, 12, -18}));
}

// Cotangents that are constant along dims are not written out. What is summed to a number, and nothing else, has them.
TEST(Gradient, OfASumCountsTheElementsThatAnOperandWasBroadcastTo) {
  constexpr std::int64_t rows = 5, columns = 3;
  mesh_value mesh;
  mesh.axes.push_back({"x", 2});
  const auto laid = [&](const std::string& dims, char sharded) {
    spec s;
    s.mesh = mesh;
    for (char c : dims) {
      s.dims.push_back(placement(dim(c)));
      if (c == sharded) s.dims.back().axes.push_back("x");
    }
    return s;
  };
  // The slopes of sum(f(u, b, n)) for u(a, b), b(b) and a number n: the same everywhere.
  const auto slopes = [&](auto f) {
    recorder in(mesh);
    const value u = in.input(element::f64, laid("ab", 'a')), b = in.input(element::f64, laid("b", 'b')),
                n = in.input(element::f64, laid("", ' '));
    const auto [y, pullback] = vjp([&](value p, value q, value r) { return sum(f(p, q, r)); }, u, b, n);
    const auto [du, db, dn] = pullback(in.constant(1, element::f64, {}));
    in.output(du, element::f64, laid("ab", 'b'));
    in.output(db, element::f64, laid("b", 'b'));
    in.output(dn, element::f64, laid("", ' '));
    EXPECT_TRUE(in.made().found.ok());
    const graph g = in.take();
    sizes at = sizes_for(g);
    at.axes[0] = 2;
    for (std::size_t d = 0; d < g.dims.size(); ++d) at.dims[d] = g.dims[d].name == "a" ? rows : columns;
    std::vector<host_array> data;
    for (node_id i : g.inputs) data.emplace_back(shape_of(g.nodes[i].type, at), 1.0);
    const auto plain = evaluate(g, at, data);
    const simulated got = simulate(partition(g, at), at, data);
    EXPECT_EQ(got.problem, "");
    std::vector<double> all;
    for (std::size_t r = 0; r < plain.size(); ++r) {
      for (double x : plain[r].data) EXPECT_EQ(x, plain[r].data[0]);
      EXPECT_EQ(plain[r].data, got.results[r].data);
      all.push_back(plain[r].data[0]);
    }
    return all;
  };
  using three = std::vector<double>;
  EXPECT_EQ(slopes([](value u, value b, value n) { return u + b + n; }), (three{1, rows, rows * columns}));
  EXPECT_EQ(slopes([](value u, value b, value n) { return u - b - n * 2; }), (three{1, -rows, -2.0 * rows * columns}));
  EXPECT_EQ(slopes([](value u, value b, value n) { return b + n + sum(u, dim('a')); }), (three{1, 1, columns}));
  EXPECT_EQ(slopes([](value u, value b, value n) { return u * 0 + sum(b) + n; }),
            (three{0, rows * columns, rows * columns}));
  EXPECT_EQ(slopes([](value u, value b, value n) { return select(u > 0, b, n + u); }), (three{0, rows, 0}));
  EXPECT_EQ(slopes([](value u, value b, value n) { return mean(u, dim('a')) + mean(b) + n; }),
            (three{1.0 / rows, 1, columns}));
  EXPECT_EQ(slopes([](value u, value b, value n) { return dot(u, b, dim('b')) + n; }), (three{1, rows, rows}));
}

// The same for what takes elements from indices that are data, which must have the cotangent along all dims.
TEST(Gradient, OfASumOfWhatIsLookedUpCountsTheLookUps) {
  small s;
  recorder in(s.mesh);
  spec places;
  places.mesh = s.mesh;
  places.dims.push_back(placement(dim('b')));
  const value x = in.input(element::f64, s.row), indices = in.input(element::i32, places),
              rows = in.input(element::f64, places);
  const auto slope = [&](auto f, const value& by) {
    const auto [result, pullback] = vjp([&](value v) { return sum(f(v)); }, by);
    in.output(pullback(in.constant(1, element::f64, {})));
  };
  slope([&](value v) { return gather(v, dim('a'), indices); }, x);
  slope([&](value v) { return scatter_add(v, indices, dim('a')) + x * 0; }, rows);
  slope([&](value v) { return sort(v, dim('a')); }, x);
  slope([&](value v) { return cumulative_sum(v, dim('a')); }, x);
  slope([&](value v) { return cumulative_max(v, dim('a')); }, x);
  const auto got = small::run(in, {{4, 7, 1}, {2, 0, 2}, {5, 6, 8}});
  EXPECT_EQ(got[0], (row{1, 0, 2}));
  EXPECT_EQ(got[1], (row{1, 1, 1}));
  EXPECT_EQ(got[2], (row{1, 1, 1}));
  EXPECT_EQ(got[3], (row{3, 2, 1}));
  EXPECT_EQ(got[4], (row{1, 2, 0}));
}

TEST(Gradient, OfACastHasTheTypeOfItsOperand) {
  small s;
  recorder in(s.mesh);
  const value x = in.input(element::f32, s.row);
  const auto [result, pullback] = vjp([](value v) { return sum(cast<double>(v) * cast<double>(v)); }, x);
  const value slope = pullback(in.constant(1, element::f64, {}));
  EXPECT_EQ(in.at(slope).type.element, element::f32);
  in.output(slope);
  EXPECT_EQ(small::run(in, {{1, 2, -3}})[0], (row{2, 4, -6}));
}

TEST(Gradient, HasTheLayoutThatTheUserWroteForTheValue) {
  mesh_value mesh;
  mesh.axes.push_back({"x", 2});
  recorder in(mesh);
  spec plain, sharded;
  plain.mesh = sharded.mesh = mesh;
  plain.dims.push_back(placement(dim('a')));
  sharded.dims.push_back(placement(dim('a')));
  sharded.dims[0].axes.push_back("x");
  const value x = in.input(element::f64, plain);
  const auto [y, pullback] = vjp([&](value v) { return sin(constrain(v * v, sharded)); }, x);
  in.output(pullback(cos(y)), element::f64, plain);
  ASSERT_TRUE(in.made().found.ok());
  int constrained = 0;
  for (const node& n : in.made().nodes)
    if (n.code == op::constrain && n.gradient && (n.pinned & 1) != 0 && n.pin[0].size() == 1) ++constrained;
  EXPECT_EQ(constrained, 1);
}

// What docs/09-gradients.md promises where a function has no derivative. The numbers are those of jax.grad (JAX 0.10.2,
// x64), but for pow(0, 0) by the base: NaN there, 0 here.
TEST(Gradient, OfTiesIsShared) {
  small s;
  recorder in(s.mesh);
  const value x = in.input(element::f64, s.row), y = in.input(element::f64, s.row);
  const auto out = [&](auto f) {
    const auto [result, pullback] = vjp([&](value a, value b) { return sum(f(a, b) * (x * 0 + y * 0 + 2)); }, x, y);
    const auto [dx, dy] = pullback(in.constant(1, element::f64, {}));
    in.output(dx);
    in.output(dy);
  };
  out([](value a, value b) { return maximum(a, b); });
  out([](value a, value b) { return minimum(a, b); });
  out([](value a, value b) { return max(a, dim('a')) + min(b, dim('a')); });
  out([](value a, value b) { return relu(a - b) + abs(a - b); });
  const auto got = small::run(in, {{3, 1, 3}, {3, 5, 0}});
  EXPECT_EQ(got[0], (row{1, 0, 2}));
  EXPECT_EQ(got[1], (row{1, 2, 0}));
  EXPECT_EQ(got[2], (row{1, 2, 0}));
  EXPECT_EQ(got[3], (row{1, 0, 2}));
  // A number that was spread over three elements.
  EXPECT_EQ(got[4], (row{3, 0, 3}));
  EXPECT_EQ(got[5], (row{0, 0, 6}));
  EXPECT_EQ(got[6], (row{0, -2, 4}));
  EXPECT_EQ(got[7], (row{0, 2, -4}));

  recorder several(s.mesh);
  const value z = several.input(element::f64, s.row);
  const auto by_z = [&](auto f) {
    const auto [result, pullback] = vjp(f, z);
    several.output(pullback(several.constant(1, element::f64, {})));
  };
  by_z([](value a) { return max(a); });
  by_z([](value a) { return min(a); });
  by_z([](value a) { return prod(a); });
  EXPECT_EQ(small::run(several, {{2, 2, 2}}),
            (std::vector<row>{{2.0 / 6, 2.0 / 6, 2.0 / 6}, {2.0 / 6, 2.0 / 6, 2.0 / 6}, {4, 4, 4}}));
}

TEST(Gradient, OfProductsWithZeros) {
  small s;
  const auto slope = [&](row data) {
    recorder in(s.mesh);
    const value x = in.input(element::f64, s.row);
    const auto [result, pullback] = vjp([](value a) { return prod(a); }, x);
    in.output(pullback(in.constant(1, element::f64, {})));
    return small::run(in, {data})[0];
  };
  EXPECT_EQ(slope({0, 2, 3}), (row{6, 0, 0}));
  EXPECT_EQ(slope({0, 0, 3}), (row{0, 0, 0}));
  EXPECT_EQ(slope({5, 2, 3}), (row{6, 15, 10}));
  // The whole product is too small, or too large, where those of the others are not.
  EXPECT_EQ(slope({0x1p-600, 0x1p-600, 1}), (row{0x1p-600, 0x1p-600, 0}));
  EXPECT_EQ(slope({0x1p600, 0x1p600, 1}), (row{0x1p600, 0x1p600, std::numeric_limits<double>::infinity()}));
}

TEST(Gradient, OfADiagonalIsZeroBesideIt) {
  small s;
  recorder in(s.mesh);
  const value x = in.input(element::f64, s.row);
  const auto square = [](value a) { return a * broadcast(rename(a * 0 + 1, dim('a'), dim('b')), dim('a'), dim('b')); };
  const value y = square(x);
  const auto [result, pullback] = vjp([&](value a) { return sum(diagonal(a, dim('a'), dim('b')) * x); }, y);
  in.output(sum(pullback(in.constant(1, element::f64, {})), dim('b')));
  in.output(sum(pullback(in.constant(1, element::f64, {})), dim('a')));
  EXPECT_EQ(small::run(in, {{5, 2, 3}}), (std::vector<row>{{5, 2, 3}, {5, 2, 3}}));
}

TEST(Gradient, OfAGradientNamesWhatTheUserWrote) {
  small s;
  recorder in(s.mesh);
  const value x = in.input(element::f64, s.row), one = in.constant(1, element::f64, {});
  const auto slopes = [&](const value& a) {
    const auto [result, pullback] = vjp([](value b) { return sum(tanh(b)); }, a);
    return sum(pullback(one));
  };
  const auto [result, pullback] = vjp(slopes, x);
  in.output(pullback(one));
  for (const node& n : in.made().nodes) {
    EXPECT_TRUE(!n.gradient || n.origin == op::tanh || n.origin == op::reduce) << name_of(n.origin);
  }
}

TEST(Gradient, OfWhatEachIterationAddsCountsTheIterations) {
  small s;
  recorder in(s.mesh);
  const value x = in.input(element::f64, s.row), w = in.input(element::f64, spec{.mesh = s.mesh});
  const auto [result, pullback] = vjp(
      [&](value added) {
        const auto [last, sums] = scan(dim('a'), w * 0, x, [&](const value& h, const value& each) {
          return std::pair(h + each, added + each);
        });
        return sum(sums);
      },
      w);
  in.output(pullback(in.constant(1, element::f64, {})));
  EXPECT_EQ(small::run(in, {{5, 2, 3}, {7}}), (std::vector<row>{{3}}));
}

TEST(Gradient, DoesNotPassThroughIntegers) {
  small s;
  recorder in(s.mesh);
  const value x = in.input(element::f64, s.row);
  const auto [result, pullback] = vjp([](value a) { return sum(cast<double>(cast<int>(a)) * a); }, x);
  in.output(pullback(in.constant(1, element::f64, {})));
  EXPECT_EQ(small::run(in, {{5.5, -2.5, 3}}), (std::vector<row>{{5, -2, 3}}));
}

TEST(Gradient, OfRunningProductsWithZeros) {
  small s;
  const auto slope = [&](row data) {
    recorder in(s.mesh);
    const value x = in.input(element::f64, s.row);
    const auto [result, pullback] = vjp([](value a) { return sum(cumulative_prod(a, dim('a'))); }, x);
    in.output(pullback(in.constant(1, element::f64, {})));
    return small::run(in, {data})[0];
  };
  EXPECT_EQ(slope({5, 2, 3}), (row{9, 20, 10}));
  EXPECT_EQ(slope({5, 0, 3}), (row{1, 20, 0}));
  EXPECT_EQ(slope({0, 0, 3}), (row{1, 0, 0}));
}

/// Products whose derivatives are known: each result is a weighted product of some elements of x[a, b], row by row.
struct product {
  std::function<value(value)> f;
  std::string results;
  std::function<bool(int result, int element)> has;
};
constexpr int rows = 3, columns = 4, elements_of_x = rows * columns;

/// The derivative of the sum of all weighted results by each element, and then along directions: the sum over elements
/// that differ of the products of all others.
row by_leaving_out(const product& p, const row& x, const row& weights, std::span<const row> along) {
  row slope(x.size(), 0);
  for (int i = 0; i < static_cast<int>(weights.size()); ++i) {
    std::vector<bool> out(x.size(), false);
    const auto rest = [&](const auto& self, std::size_t order) -> double {
      double total = order == along.size() ? 1 : 0;
      for (std::size_t j = 0; j < x.size(); ++j) {
        if (out[j] || !p.has(i, static_cast<int>(j))) continue;
        if (order == along.size()) {
          total *= x[j];
          continue;
        }
        out[j] = true;
        total += along[order][j] * self(self, order + 1);
        out[j] = false;
      }
      return total;
    };
    for (std::size_t k = 0; k < x.size(); ++k) {
      if (!p.has(i, static_cast<int>(k))) continue;
      out[k] = true;
      slope[k] += weights[static_cast<std::size_t>(i)] * rest(rest, 0);
      out[k] = false;
    }
  }
  return slope;
}

TEST(Gradient, OfProductsIsOfTheOthersInEveryOrderHoweverManyAreZero) {
  const dim_ref a = dim('a'), b = dim('b');
  std::vector<product> all{{[&](value x) { return prod(x, b); }, "a", [](int i, int j) { return j / columns == i; }},
                           {[&](value x) { return prod(x, a); }, "b", [](int i, int j) { return j % columns == i; }},
                           {[&](value x) { return prod(x, b, a); }, "", [](int, int) { return true; }}};
  for (const running order :
       {running::forward, running::forward_exclusive, running::backward, running::backward_exclusive})
    all.push_back({[&, order](value x) { return cumulative_prod(x, b, order); }, "ab",
                   [=](int i, int j) {
                     if (i == j) return order == running::forward || order == running::backward;
                     const bool forward = order == running::forward || order == running::forward_exclusive;
                     return i / columns == j / columns && (forward ? j < i : j > i);
                   }});
  const std::vector<std::vector<std::size_t>> zeros{
      {}, {5}, {4, 6}, {0, 2, 3}, {1, 5, 9}, {4, 5, 6, 7}, {0, 1, 4, 5, 6, 10}};
  const std::vector<std::pair<std::int64_t, std::string>> layouts{{1, ""}, {2, "b"}, {3, "b"}, {2, "a"}};
  std::mt19937 random(5);
  const auto numbers = [&](std::size_t n) {
    row r(n);
    for (double& x : r) x = std::uniform_real_distribution<double>(0.5, 2)(random) * (random() % 2 == 0 ? 1 : -1);
    return r;
  };
  for (std::size_t which = 0; which < all.size(); ++which)
    for (const auto& l : layouts) {
      const std::int64_t devices = l.first;
      const std::string& sharded = l.second;
      SCOPED_TRACE(std::to_string(which) + " on " + std::to_string(devices) + sharded);
      const product& p = all[which];
      mesh_value mesh;
      mesh.axes.push_back({"x", devices});
      const auto spec_of = [&](const std::string& dims) {
        spec s;
        s.mesh = mesh;
        for (char c : dims) {
          s.dims.push_back(placement(dim(c)));
          if (sharded == std::string(1, c)) s.dims.back().axes.push_back("x");
        }
        return s;
      };
      recorder in(mesh);
      const value x = in.input(element::f64, spec_of("ab")), weights = in.input(element::f64, spec_of(p.results)),
                  u = in.input(element::f64, spec_of("ab")), v = in.input(element::f64, spec_of("ab"));
      const auto slope_of = [&](const auto& number, value at) {
        const auto [result, pullback] = vjp(number, at);
        return pullback(in.constant(1, element::f64, {}));
      };
      const auto first = [&](value at) { return slope_of([&](value y) { return sum(p.f(y) * weights); }, at); };
      const auto second = [&](value at) { return slope_of([&](value y) { return sum(first(y) * u); }, at); };
      const auto third = [&](value at) { return slope_of([&](value y) { return sum(second(y) * v); }, at); };
      for (const value& slope : {first(x), second(x), third(x)}) in.output(slope, element::f64, spec_of("ab"));
      ASSERT_TRUE(in.made().found.ok()) << in.made().found.op;
      const graph g = in.take();
      sizes at = sizes_for(g);
      for (std::size_t d = 0; d < g.dims.size(); ++d) at.dims[d] = g.dims[d].name == "a" ? rows : columns;
      const program made = partition(g, at);
      ASSERT_TRUE(made.found.ok());
      for (const std::vector<std::size_t>& indices : zeros) {
        row data = numbers(elements_of_x);
        for (std::size_t z : indices) data[z] = 0;
        std::vector<host_array> given;
        for (node_id i : g.inputs) given.emplace_back(shape_of(g.nodes[i].type, at));
        const row w = numbers(given[1].data.size());
        const std::array along{numbers(elements_of_x), numbers(elements_of_x)};
        const std::array<row, 4> values_of{data, w, along[0], along[1]};
        for (std::size_t i = 0; i < given.size(); ++i)
          std::copy(values_of[i].begin(), values_of[i].end(), given[i].data.begin());
        const simulated got = simulate(made, at, given);
        ASSERT_TRUE(got.problem.empty()) << got.problem;
        const auto plain = evaluate(g, at, given);
        for (std::size_t order = 0; order < 3; ++order) {
          const row wanted = by_leaving_out(p, data, w, std::span(along).first(order));
          for (std::size_t k = 0; k < wanted.size(); ++k) {
            ASSERT_NEAR(plain[order].data[k], wanted[k], 1e-9) << "derivative " << order + 1 << " by " << k;
            ASSERT_NEAR(got.results[order].data[k], wanted[k], 1e-9) << "derivative " << order + 1 << " by " << k;
          }
        }
        ASSERT_EQ(bytes(made, at), got.bytes);
      }
    }
}

/// In a loop and in what is computed again, a second derivative is recorded where the first one was.
TEST(Gradient, OfProductsInALoopIsOfTheOthersTwice) {
  small s;
  recorder in(s.mesh);
  spec table = s.row;
  table.dims.push_back(placement(dim('b')));
  const value x = in.input(element::f64, table), u = in.input(element::f64, table);
  const auto twice = [&](const auto& f) {
    const value one = in.constant(1, element::f64, {});
    const auto slope = [&](value at) {
      const auto [result, pullback] = vjp(f, at);
      return sum(pullback(one) * u);
    };
    const auto [result, pullback] = vjp(slope, x);
    in.output(pullback(one));
  };
  const auto of_row = [](auto r) { return prod(r) + sum(cumulative_prod(r, dim('b'))); };
  const auto in_loop = [&](const auto& f) {
    return [&](value all) {
      return scan(dim('a'), sum(all) * 0, all, [&](value total, value r) { return total + f(r); });
    };
  };
  twice([](value all) { return sum(prod(all, dim('b'))) + sum(cumulative_prod(all, dim('b'))); });
  twice(in_loop(of_row));
  twice(in_loop(remat(function(of_row))));
  ASSERT_TRUE(in.made().found.ok()) << in.made().found.op;
  const graph g = in.take();
  sizes at = sizes_for(g);
  for (std::size_t d = 0; d < g.dims.size(); ++d) at.dims[d] = g.dims[d].name == "a" ? 2 : 3;
  std::vector<host_array> data;
  for (const row& r : {row{0, 2, 0, 5, 0, 3}, row{7, 11, 13, 17, 19, 23}}) {
    data.emplace_back(shape_of(g.nodes[g.inputs[0]].type, at));
    std::copy(r.begin(), r.end(), data.back().data.begin());
  }
  // Along {u, v, w} the slope of 2xyz + xy + x by {x, y, z} changes so.
  const row wanted{26 * 2 + 11, 7, 14 * 2, 19 * 7, 23 * 10 + 17 * 7, 19 * 10};
  for (const host_array& got : evaluate(g, at, data))
    for (std::size_t k = 0; k < wanted.size(); ++k) EXPECT_NEAR(got.data[k], wanted[k], 1e-12) << k;
}

TEST(Gradient, OfPowersOfZero) {
  small s;
  const auto slopes = [&](row base, row exponent) {
    recorder in(s.mesh);
    const value x = in.input(element::f64, s.row), y = in.input(element::f64, s.row);
    const auto [result, pullback] = vjp([](value a, value b) { return sum(pow(a, b)); }, x, y);
    const auto [dx, dy] = pullback(in.constant(1, element::f64, {}));
    in.output(dx);
    in.output(dy);
    return small::run(in, {base, exponent});
  };
  EXPECT_EQ(slopes({0, 0, 0}, {1, 2, 3}), (std::vector<row>{{1, 0, 0}, {0, 0, 0}}));
  EXPECT_EQ(slopes({0, 2, -3}, {0, 0, 2})[0], (row{0, 0, -6}));
  EXPECT_EQ(slopes({0, 1, 0}, {0, 0, 1})[1], (row{0, 0, 0}));
  // Of a constant the second derivative is 0 too.
  const auto bends = [&](double exponent) {
    recorder in(s.mesh);
    const value x = in.input(element::f64, s.row);
    const auto slope = [&](value a) {
      const auto [result, pullback] = vjp([&](value b) { return sum(pow(b, exponent)); }, a);
      return sum(pullback(in.constant(1, element::f64, {})));
    };
    const auto [result, pullback] = vjp(slope, x);
    in.output(pullback(in.constant(1, element::f64, {})));
    return small::run(in, {{0, 1, -2}})[0];
  };
  EXPECT_EQ(bends(0), (row{0, 0, 0}));
  EXPECT_EQ(bends(1), (row{0, 0, 0}));
  EXPECT_EQ(bends(2), (row{2, 2, 2}));
  EXPECT_EQ(bends(3), (row{0, 6, -12}));
}
// Of a selection: what is not chosen may be infinite, or have an infinite derivative or cotangent.
TEST(Gradient, OfWhatIsNotChosenIsZero) {
  small s;
  const auto slopes = [&](auto f, row x, row y) {
    recorder in(s.mesh);
    const value a = in.input(element::f64, s.row), b = in.input(element::f64, s.row);
    const auto [result, pullback] = vjp([&](value p, value q) { return sum(f(p, q)); }, a, b);
    const auto [dx, dy] = pullback(in.constant(1, element::f64, {}));
    in.output(dx);
    in.output(dy);
    return small::run(in, {x, y});
  };
  EXPECT_EQ(slopes([](value a, value b) { return solve::detail::quotient(a, b); }, {2, 2, 2}, {0, 4, 0}),
            (std::vector<row>{{0, 0.25, 0}, {0, -0.125, 0}}));
  // The root of 0 has an infinite derivative, which reaches each of these as a cotangent.
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(slopes([](value a, value b) { return sqrt(maximum(a, b)); }, {-1, 0, 4}, {0, -1, 1}),
            (std::vector<row>{{0, inf, 0.25}, {inf, 0, 0}}));
  EXPECT_EQ(slopes([](value a, value b) { return sqrt(minimum(a, b)); }, {0, 1, 4}, {1, 0, 9}),
            (std::vector<row>{{inf, 0, 0.25}, {0, inf, 0}}));
  EXPECT_EQ(slopes([](value a, value b) { return sqrt(abs(a) + b * 0); }, {0, 4, -4}, {1, 1, 1})[0],
            (row{0, 0.25, -0.25}));
  EXPECT_EQ(slopes([](value a, value b) { return sqrt(relu(a) + b * 0); }, {0, 4, -4}, {1, 1, 1})[0],
            (row{0, 0.25, 0}));
}
// Far from 0 it is 0 or 1, also where powers of the number are infinite.
TEST(Gradient, OfGeluFarFromZero) {
  small s;
  recorder in(s.mesh);
  const value x = in.input(element::f64, s.row);
  const auto [result, pullback] = vjp([](value a) { return sum(gelu(a)); }, x);
  in.output(pullback(in.constant(1, element::f64, {})));
  EXPECT_EQ(small::run(in, {{1e200, -1e200, 50}})[0], (row{1, 0, 1}));
}

TEST(Gradient, IsByTheArgumentAskedForAlone) {
  small s;
  recorder in(s.mesh);
  const value x = in.input(element::f64, s.row);
  static constexpr function product([](auto a, auto b) { return sum(a * b * b); });
  in.output(grad(product)(x, x));
  in.output(grad<1>(product)(x, x));
  const auto [first, second] = grad<0, 1>(product)(x, x);
  in.output(first);
  in.output(second);
  const auto got = small::run(in, {{1, 2, 3}});
  EXPECT_EQ(got[0], (row{1, 4, 9}));
  EXPECT_EQ(got[1], (row{2, 8, 18}));
  EXPECT_EQ(got[2], got[0]);
  EXPECT_EQ(got[3], got[1]);
}

struct pair_of {
  value used, unused;
};
TEST(Gradient, OfAnAggregateIsTheSameAggregateAndZeroWhereNothingDepends) {
  small s;
  recorder in(s.mesh);
  const pair_of p{in.input(element::f64, s.row), in.input(element::f64, s.row)};
  static constexpr function f([](auto q) { return std::tuple(sum(q.used * 3), q.used * 2); });
  const auto [result, slope] = value_and_grad(f)(p);
  const auto [loss, doubled] = result;
  in.output(loss);
  in.output(doubled);
  in.output(slope.used);
  in.output(slope.unused);
  const auto got = small::run(in, {{1, 2, 3}, {4, 5, 6}});
  EXPECT_EQ(got[0], row{18});
  EXPECT_EQ(got[1], (row{2, 4, 6}));
  EXPECT_EQ(got[2], (row{3, 3, 3}));
  EXPECT_EQ(got[3], (row{0, 0, 0}));
}

TEST(Gradient, ByItsOwnRule) {
  small s;
  recorder in(s.mesh);
  const value x = in.input(element::f64, s.row), w = in.input(element::f64, s.row);
  // Rounding, as if it were not there (Bengio 2013); and a product whose cotangents are told apart.
  static constexpr auto rounded = custom_vjp([](auto v) { return std::pair(floor(v + 0.5), std::tuple()); },
                                             [](auto, auto g) { return g; });
  static constexpr auto times = custom_vjp([](auto a, auto b) { return std::pair(a * b, std::tuple(a, b)); },
                                           [](auto kept, auto g) {
                                             return std::tuple(10 * g * std::get<1>(kept), 100 * g * std::get<0>(kept));
                                           });
  const auto [y, pullback] = vjp([&](auto a, auto b) { return times(rounded(a), b); }, x, w);
  const auto [dx, dw] = pullback(y);
  in.output(y);
  in.output(dx);
  in.output(dw);
  const auto got = small::run(in, {{0.6, 1.2, -2.4}, {1, 2, 3}});
  EXPECT_EQ(got[0], (row{1, 2, -6}));
  EXPECT_EQ(got[1], (row{10, 40, -180}));
  EXPECT_EQ(got[2], (row{100, 200, 1200}));
}

/// Rounding, as if it were not there.
constexpr auto straight_through = custom_vjp([](auto v) { return std::pair(floor(v + 0.5), std::tuple()); },
                                             [](auto, auto g) { return g; });
/// What is differentiated is over when its pullback is applied in a loop. All loops have three iterations, as all dims
/// have three elements.
TEST(Gradient, PulledBackInALoop) {
  small s;
  recorder in(s.mesh);
  const value x = in.input(element::f64, s.row), b = in.input(element::f64, s.row);
  const auto doubled = [](value v) { return repeat_times(3, v, [](value h) { return 2 * h; }); };
  const auto [y, pullback] = vjp(doubled, x);
  const auto [z, rule] = vjp(straight_through, x);
  in.output(repeat_times(3, b, [&](value c) { return pullback(c); }));
  in.output(repeat_times(3, b, [&](value c) { return rule(c); }));
  in.output(
      repeat_times(3, b, [&](value c) { return repeat_times(3, c, [&](value d) { return pullback(rule(d)); }); }));
  const auto got = small::run(in, {{0.6, 1.2, -2.4}, {1, 2, 3}});
  const double all = 512.0 * 512 * 512;
  EXPECT_EQ(got[0], (row{512, 1024, 1536}));
  EXPECT_EQ(got[1], (row{1, 2, 3}));
  EXPECT_EQ(got[2], (row{all, 2 * all, 3 * all}));
}
/// A second derivative reads what the first one computed again, by the same rule.
TEST(Gradient, TwiceThroughARuleThatIsComputedAgain) {
  small s;
  recorder in(s.mesh);
  const value x = in.input(element::f64, s.row);
  static constexpr function square([](auto v) {
    return remat(function([](auto u) {
      const auto y = straight_through(u);
      return sum(y * y);
    }))(v);
  });
  static constexpr function slope([](auto v) { return sum(grad(square)(v)); });
  in.output(grad(slope)(x));
  EXPECT_EQ(small::run(in, {{0.6, 1.2, -2.4}})[0], (row{2, 2, 2}));
}
constexpr auto tap = custom_vjp([](auto v, auto) { return std::pair(v, std::tuple()); },
                                [](auto, auto g) { return std::tuple(g, g); });
/// A rule gives a cotangent to an argument that nothing else reads.
TEST(Gradient, OfACarryThatOnlyARuleReaches) {
  small s;
  recorder in(s.mesh);
  const value x = in.input(element::f64, s.row), p = in.input(element::f64, s.row);
  const auto [y, pullback] = vjp(
      [](value h, value q) {
        const auto body = [](auto c) { return std::tuple(tap(std::get<0>(c) * 2, std::get<1>(c)), std::get<1>(c)); };
        return std::get<0>(repeat_times(3, std::tuple(h, q), body));
      },
      x, p);
  const auto [dx, dp] = pullback(zeros_like(x) + 1);
  in.output(dx);
  in.output(dp);
  const auto got = small::run(in, {{1, 1, 1}, {1, 1, 1}});
  EXPECT_EQ(got[0], (row{8, 8, 8}));
  EXPECT_EQ(got[1], (row{7, 7, 7}));
}
/// Indices of a body are made again where the body is.
TEST(Gradient, OfIndicesThatALoopComputesAgain) {
  small s;
  recorder in(s.mesh);
  const value x = in.input(element::f64, s.row);
  static constexpr function f([](auto v) {
    return sum(repeat_times(3, v, [](auto h) {
      const auto i = iota<double>(h, dim('a'));
      return remat(function([=](auto a) { return a * a * i; }))(h);
    }));
  });
  in.output(grad(f)(x));
  EXPECT_EQ(small::run(in, {{1, 1, 1}})[0], (row{0, 8, 1024}));
}

TEST(Gradient, ByARuleThatCaptures) {
  small s;
  recorder in(s.mesh);
  const value x = in.input(element::f64, s.row), w = in.input(element::f64, s.row);
  const auto f = [&](const value& v) {
    const value scale = w * 2;
    const auto scaled = custom_vjp([&](auto u) { return std::pair(u * scale, std::tuple(u)); },
                                   [&](auto kept, auto g) { return 10 * g * scale * std::get<0>(kept); });
    return scaled(v);
  };
  const auto slope = [&](const value& v) {
    const auto [y, pullback] = vjp(f, v);
    return pullback(in.constant(1, element::f64, {}));
  };
  const auto [first, pullback] = vjp(slope, x);
  in.output(f(x));
  in.output(first);
  in.output(pullback(x));
  const auto got = small::run(in, {{1, 2, 3}, {1, 3, 0.5}});
  EXPECT_EQ(got[0], (row{2, 12, 3}));
  EXPECT_EQ(got[1], (row{20, 120, 30}));
  EXPECT_EQ(got[2], (row{20, 120, 30}));
}

// What a rule keeps may be computed on the way: its second derivative flows through that, and is asked of nothing else.
TEST(Gradient, OfWhatARuleKeeps) {
  small s;
  recorder in(s.mesh);
  const value x = in.input(element::f64, s.row);
  static constexpr auto twice_exp = custom_vjp(
      [](auto v) {
        const value e = exp(v);
        return std::pair(floor(e) * 0 + 2 * e, std::tuple(e));
      },
      [](auto kept, auto g) { return 2 * g * std::get<0>(kept); });
  const auto slope = [](const value& v) {
    const auto [y, pullback] = vjp(twice_exp, v);
    return pullback(y);  // 2 exp(x) * 2 exp(x)
  };
  const auto [first, pullback] = vjp(slope, x);
  in.output(first);
  in.output(pullback(in.constant(1, element::f64, {})));
  const auto got = small::run(in, {{0, 1, -0.5}});
  for (std::size_t i = 0; i < 3; ++i) {
    const double square = std::exp(2 * std::array{0.0, 1.0, -0.5}[i]);
    EXPECT_NEAR(got[0][i], 4 * square, 1e-12);
    EXPECT_NEAR(got[1][i], 8 * square, 1e-12);
  }
}

TEST(Gradient, OfARecomputedFunctionIsTheSameAndComputedAgain) {
  small s;
  static constexpr function wave([](auto v) { return sin(exp(sin(v))); });
  static constexpr function kept([](auto v) { return sum(wave(wave(v)) * v); });
  static constexpr function again([](auto v) { return sum(remat(wave)(remat(wave)(v)) * v); });
  const auto run = [&](const auto& f, int& sines) {
    recorder in(s.mesh);
    const value x = in.input(element::f64, s.row);
    const auto [loss, slope] = value_and_grad(f)(x);
    in.output(loss);
    in.output(slope);
    sines = 0;
    for (const node& n : simplify(in.made()).nodes) sines += n.code == op::sin;
    return small::run(in, {{0.3, -0.2, 1.1}});
  };
  int once = 0, twice = 0;
  const auto a = run(kept, once), b = run(again, twice);
  EXPECT_EQ(a, b);
  EXPECT_EQ(once, 4);
  // The inner one of each wave; the derivative of the outer one does not need its result.
  EXPECT_EQ(twice, 6);
}

TEST(Gradient, OfRecomputedRegionsInOneAnotherIsTheSame) {
  small s;
  static constexpr function wave([](auto v, auto w) { return sin(v * w); });
  static constexpr function two([](auto v, auto w) { return remat(wave)(remat(wave)(v, w) + v, w); });
  static constexpr function plain([](auto v, auto w) { return sum(wave(wave(v, w) + v, w) * w); });
  static constexpr function nested([](auto v, auto w) { return sum(remat(two)(v, w) * w); });
  const auto run = [&](const auto& f) {
    recorder in(s.mesh);
    const value x = in.input(element::f64, s.row), w = in.input(element::f64, s.row);
    const auto [loss, slopes] = value_and_grad<0, 1>(f)(x, w);
    in.output(loss);
    in.output(std::get<0>(slopes));
    in.output(std::get<1>(slopes));
    return small::run(in, {{0.3, -0.2, 1.1}, {0.9, 1.7, -0.4}});
  };
  EXPECT_EQ(run(plain), run(nested));
}

TEST(Gradient, FaultsNameTheOpAndLineThatWereDifferentiated) {
  small s;
  spec square = s.row;
  square.dims.push_back(placement(dim('b')));
  {
    recorder in(s.mesh);
    const value x = in.input(element::f64, square);
    grad(function([](auto v) { return sum(v, dim('a')); }))(x);
    EXPECT_EQ(in.made().found.fault, fault::loss_not_scalar);
    EXPECT_EQ(in.made().found.dim, "b");
    EXPECT_EQ(in.made().found.op, "reduce");
  }
  {
    recorder in(s.mesh);
    grad(function([](auto v) { return sum(cast<double>(v)); }))(in.input(element::i32, square));
    EXPECT_EQ(in.made().found.fault, fault::not_differentiable);
  }
  {
    recorder in(s.mesh);
    const value x = in.input(element::f64, square);
    const auto [y, pullback] = vjp([](auto v) { return sum(v, dim('b')); }, x);
    pullback(x);
    EXPECT_EQ(in.made().found.fault, fault::cotangent_does_not_fit);
  }
  // The derivative of an extremum compares with what it is of, which must be whole. What was refused is not read again.
  for (reduction how : {reduction::max, reduction::min, reduction::prod}) {
    mesh_value two;
    two.axes.push_back({"x", 2});
    recorder in(two);
    spec partial = square;
    partial.mesh = two;
    partial.unreduced.push_back("x");
    partial.combine = how;
    const auto [y, pullback] = vjp([&](value v) { return v.in->reduce(how, v, std::span<const dim_ref>{}, {}); },
                                   in.input(element::f64, partial));
    pullback(in.constant(1, element::f64, {}));
    EXPECT_EQ(in.made().found.fault, fault::unreduced_into_nonlinear);
    EXPECT_EQ(in.made().found.op, "reduce");
    EXPECT_EQ(in.made().found.axis, "x");
    EXPECT_TRUE(in.made().found.gradient);
  }
  {
    // A plan that breaks its contract in the backward pass.
    mesh_value two;
    two.axes.push_back({"x", 2});
    recorder in(two);
    spec sharded = square;
    sharded.mesh = two;
    sharded.dims[0].axes.push_back("x");
    spec whole = s.row;
    whole.mesh = two;
    whole.dims[0] = placement(dim('b'));
    const value x = in.input(element::f64, sharded), w = in.input(element::f64, whole);
    const auto [loss, pullback] = vjp([&](value v) { return sum(x * v); }, w);
    const unsigned line = __LINE__ - 1;
    in.output(pullback(in.constant(1, element::f64, {})), element::f64, whole);
    const graph g = in.take();
    const program p = partition(g, sizes_for(g));
    int moves = 0;
    for (const step& one : p.steps) {
      if (one.kind != step_kind::move) continue;
      ++moves;
      EXPECT_TRUE(one.gradient);
      EXPECT_EQ(one.code, op::mul);
      EXPECT_EQ(one.where.line, line);
    }
    EXPECT_EQ(moves, 1);
    EXPECT_NE(explain(p, sizes_for(g)).find("gradient of mul"), std::string::npos);
  }
}

} // namespace CLEAVE_SOURCE
