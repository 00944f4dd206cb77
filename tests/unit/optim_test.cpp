// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Optimizers, several steps of them, on random layouts and meshes: the partitioned program in the simulator and the
// plain evaluator against the published formulas, written once more below on arrays.
#include <cleave/optim/adafactor.hpp>
#include <cleave/optim/adam.hpp>
#include <cleave/optim/average.hpp>
#include <cleave/optim/clip.hpp>
#include <cleave/optim/mixed.hpp>
#include <cleave/optim/sgd.hpp>
#include <cleave/simulate/simulate.hpp>
#include <cleave/solve/iteration.hpp>
#include <cleave/study/explain_plan.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>

namespace CLEAVE_SOURCE {

using namespace cleave;

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

constexpr std::string_view letters = "abcdefgh";
dim_ref dim(char letter) { return {letters.substr(letters.find(letter), 1)}; }

using numbers = std::vector<double>;
using values = std::vector<value>;

/// What an optimizer is given here: a stack of matrices, a matrix, a vector and a number.
struct leaves {
  value stack, matrix, vector, number;
};
const std::vector<std::string> dims_of_leaves{"abc", "cb", "b", ""};
leaves leaves_of(const values& all, std::size_t first) {
  return {all[first], all[first + 1], all[first + 2], all[first + 3]};
}
values list_of(const leaves& l) { return {l.stack, l.matrix, l.vector, l.number}; }

/// A program whose results have the types of its first arguments, so that it may be run on its results.
struct iteration {
  std::vector<std::string> inputs;
  std::function<values(const values&)> f;
  /// The element type of each input, f64 where none is given, and the elements of results that are no arguments.
  std::vector<element> types{};
  std::vector<std::string> further{};
  std::vector<element> further_types{};
};

/// An iteration on one random mesh, with random layouts and extents.
class run {
 public:
  run(const iteration& p, unsigned seed) : random_(seed) {
    const int axes = 1 + below(2);
    for (int a = 0; a < axes; ++a) mesh_.axes.push_back({a == 0 ? "x" : "y", 1 + below(axes == 1 ? 5 : 3)});
    for (std::int64_t& e : extents_) e = 1 + below(6);
    // Other layouts where two of a value would cost the same, of which the planner does not choose one.
    for (int i = 0; i < 50 && (i == 0 || made_.found.fault == fault::layouts_tie); ++i) plan(p);
    EXPECT_TRUE(made_.found.ok()) << static_cast<int>(made_.found.fault);
  }

  std::size_t size(const std::string& dims) const {
    std::size_t n = 1;
    for (char d : dims) n *= static_cast<std::size_t>(extent(d));
    return n;
  }
  std::int64_t extent(char d) const { return extents_[letters.find(d)]; }
  numbers some(const std::string& dims, double least = -2, double most = 2) {
    numbers n(size(dims));
    for (double& x : n) x = std::uniform_real_distribution<double>(least, most)(random_);
    return n;
  }
  /// For every leaf.
  std::vector<numbers> some_leaves(double least = -2, double most = 2) {
    std::vector<numbers> all;
    for (const std::string& dims : dims_of_leaves) all.push_back(some(dims, least, most));
    return all;
  }

  /// What the partitioned program gives, which is what the plain evaluator gives.
  std::vector<numbers> operator()(const std::vector<numbers>& arguments) const {
    std::vector<host_array> data;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      data.emplace_back(shape_of(g_.nodes[g_.inputs[i]].type, at_));
      EXPECT_EQ(data.back().data.size(), arguments[i].size());
      data.back().data = arguments[i];
    }
    const simulated got = simulate(made_, at_, data);
    EXPECT_EQ(got.problem, "");
    const std::vector<host_array> plain = evaluate(g_, at_, data);
    std::vector<numbers> results;
    for (std::size_t r = 0; r < got.results.size(); ++r) {
      EXPECT_EQ(first_difference(plain[r].data, got.results[r].data, 1e-9), -1) << "result " << r << "\n"
                                                                                << explain(made_, at_);
      results.push_back(got.results[r].data);
    }
    return results;
  }

 private:
  void plan(const iteration& p) {
    recorder in(mesh_);
    values arguments;
    const auto type_of = [](const std::vector<element>& types, std::size_t i) {
      return i < types.size() ? types[i] : element::f64;
    };
    for (std::size_t i = 0; i < p.inputs.size(); ++i)
      arguments.push_back(in.input(type_of(p.types, i), some_layout(p.inputs[i])));
    const values results = p.f(arguments);
    for (std::size_t r = 0; r < results.size(); ++r) {
      const std::size_t beyond = r - (results.size() - p.further.size());
      if (r + p.further.size() < results.size()) in.output(results[r], type_of(p.types, r), some_layout(p.inputs[r]));
      else in.output(results[r], type_of(p.further_types, beyond), some_layout(p.further[beyond]));
    }
    EXPECT_TRUE(in.made().found.ok()) << static_cast<int>(in.made().found.fault) << " in " << in.made().found.op;
    g_ = in.take();
    at_ = sizes_for(g_);
    for (std::size_t d = 0; d < g_.dims.size(); ++d) at_.dims[d] = extents_[letters.find(g_.dims[d].name)];
    made_ = partition(g_, at_, below(2) == 0 ? policy::time() : policy::bytes_first(2));
  }
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  spec some_layout(const std::string& dims) {
    spec s;
    s.mesh = mesh_;
    for (char c : dims) s.dims.push_back(placement(dim(c)));
    for (const axis_info& a : mesh_.axes) {
      const auto where = static_cast<std::size_t>(below(static_cast<int>(dims.size()) + 1));
      if (where < dims.size()) s.dims[where].axes.push_back(a.name);
    }
    return s;
  }

  std::mt19937 random_;
  mesh_value mesh_{};
  std::array<std::int64_t, 8> extents_{};
  graph g_{};
  sizes at_{};
  program made_{};
};

std::vector<std::string> joined(std::initializer_list<std::vector<std::string>> lists) {
  std::vector<std::string> all;
  for (const auto& l : lists) all.insert(all.end(), l.begin(), l.end());
  return all;
}
std::vector<numbers> joined(std::initializer_list<std::vector<numbers>> lists) {
  std::vector<numbers> all;
  for (const auto& l : lists) all.insert(all.end(), l.begin(), l.end());
  return all;
}

void expect_near(const numbers& got, const numbers& wanted, double tolerance = 1e-9) {
  ASSERT_EQ(got.size(), wanted.size());
  EXPECT_EQ(first_difference(wanted, got, tolerance), -1);
}

constexpr unsigned layouts = 24;

// Clipping

const iteration clipping{joined({dims_of_leaves, {""}}),
                         [](const values& in) {
                           const leaves g = leaves_of(in, 0);
                           values out = list_of(optim::clip_by_global_norm(g, in[4]));
                           out.push_back(cast<double>(optim::global_norm(g)));
                           return out;
                         },
                         {},
                         {""}};

TEST(Optim, GradientsAboveTheLimitAreScaledToIt) {
  for (unsigned seed = 1; seed <= layouts; ++seed) {
    SCOPED_TRACE(seed);
    run r(clipping, seed);
    const std::vector<numbers> g = r.some_leaves();
    double square = 0;
    for (const numbers& leaf : g)
      for (double x : leaf) square += x * x;
    const double norm = std::sqrt(square);
    for (double limit : {norm / 3, norm * 1.5, infinity}) {
      const std::vector<numbers> got = r(joined({g, {{limit}}}));
      for (std::size_t l = 0; l < g.size(); ++l) {
        numbers wanted = g[l];
        if (norm > limit)
          for (double& x : wanted) x *= limit / norm;
        expect_near(got[l], wanted);
      }
      expect_near(got[4], {norm});
    }
  }
}

TEST(Optim, GradientsOfZeroNormStayZeroAndNaNIsNotHidden) {
  run r(clipping, 1);
  std::vector<numbers> g = r.some_leaves(0, 0);
  for (double limit : {0.0, 1.0}) {
    const std::vector<numbers> got = r(joined({g, {{limit}}}));
    for (std::size_t l = 0; l < g.size(); ++l) EXPECT_EQ(got[l], g[l]);
    EXPECT_EQ(got[4], numbers{0});
  }
  g[2][0] = not_a_number;
  const std::vector<numbers> got = r(joined({g, {{1}}}));
  for (std::size_t l = 0; l < g.size(); ++l)
    for (double x : got[l]) EXPECT_TRUE(std::isnan(x));
}

// At a norm of zero, too: the gradients of norms, of what is clipped, and of a normalised row.
constexpr cleave::function norm_of_leaves([](auto g) { return optim::global_norm(std::array{g}); });
constexpr cleave::function norm_of_solver([](auto g) { return cleave::solve::detail::norm(g); });
constexpr cleave::function normalised([](auto g) {
  const auto norm = root_of_squares(sum(g * g));
  return sum(g / select(norm == 0, 1, norm));
});
constexpr cleave::function clipped_to_0([](auto g) { return sum(optim::clip_by_global_norm(std::array{g}, 0.0)[0]); });
constexpr cleave::function clipped_to_1([](auto g) { return sum(optim::clip_by_global_norm(std::array{g}, 1.0)[0]); });
TEST(Optim, DerivativesAtZeroNormAreNotNaN) {
  const auto expect = [&](auto f, double wanted) {
    run r(iteration{{"a"}, [f](const values& in) { return values{cleave::grad(f)(in[0])}; }}, 1);
    const std::vector<numbers> slope = r({numbers(r.size("a"), 0)});
    for (double x : slope[0]) EXPECT_EQ(x, wanted);
  };
  expect(norm_of_leaves, 0);
  expect(norm_of_solver, 0);
  expect(normalised, 1);
  expect(clipped_to_0, 1);
  expect(clipped_to_1, 1);
}

/// The types of what is recorded.
mesh_value one_axis() {
  mesh_value mesh;
  mesh.axes.push_back({"x", 2});
  return mesh;
}
spec along(const mesh_value& mesh, const std::string& dims, bool is_divided = false) {
  spec s;
  s.mesh = mesh;
  for (char c : dims) s.dims.push_back(placement(dim(c)));
  if (is_divided) s.dims[0].axes.push_back("x");
  return s;
}
element element_at(value v) { return v.in->at(v).type.element; }

TEST(Optim, NormsOfNarrowNumbersAreFloats) {
  const mesh_value mesh = one_axis();
  recorder in(mesh);
  const value narrow = in.input(element::bf16, along(mesh, "a", true)), wide = in.input(element::f64, along(mesh, "b"));
  const value norm = optim::global_norm(std::array{narrow});
  EXPECT_EQ(element_at(norm), element::f32);
  // The squares are floats before they are added up.
  for (const node& n : in.made().nodes) {
    if (n.code == op::reduce || n.code == op::mul) {
      EXPECT_EQ(n.type.element, element::f32);
    }
  }
  EXPECT_EQ(element_at(optim::global_norm(std::array{narrow, wide})), element::f64);
  const auto clipped = optim::clip_by_global_norm(std::array{narrow, wide}, 1.0);
  EXPECT_EQ(element_at(clipped[0]), element::bf16);
  EXPECT_EQ(element_at(clipped[1]), element::f64);
  EXPECT_TRUE(in.made().found.ok());
  const unsigned line = __LINE__ + 1;
  optim::clip_by_global_norm(std::array{in.input(element::i32, along(mesh, "a"))}, 1.0);
  EXPECT_EQ(in.made().found.fault, fault::not_floating);
  EXPECT_EQ(in.made().found.op, "global_norm");
  EXPECT_EQ(in.made().found.where.line, line);
}

// Schedules

/// A schedule on the host, and inside a program on a number of type `type`.
template <class Schedule>
void expect_rates(const Schedule& schedule, std::initializer_list<std::pair<double, double>> rates) {
  const mesh_value mesh = one_axis();
  for (element type : {element::f64, element::f32, element::i32}) {
    recorder in(mesh);
    const value step = in.input(type, along(mesh, ""));
    const value rate = schedule(step);
    EXPECT_TRUE(rate.number);
    in.output(cast<double>(rate), element::f64, along(mesh, ""));
    ASSERT_TRUE(in.made().found.ok());
    const graph g = in.take();
    for (const auto& [at, wanted] : rates) {
      EXPECT_NEAR(schedule(at), wanted, 1e-12) << "step " << at;
      host_array x(shape_of(g.nodes[0].type, sizes_for(g)));
      x.data = {at};
      EXPECT_NEAR(evaluate(g, sizes_for(g), std::array{x})[0].data[0], wanted, 1e-12) << "step " << at;
    }
  }
}

TEST(Optim, SchedulesHaveTheirKnownValues) {
  expect_rates(optim::constant_rate{0.3}, {{0, 0.3}, {1000, 0.3}});
  expect_rates(optim::linear_warmup{0.5, 4}, {{0, 0}, {1, 0.125}, {4, 0.5}, {9, 0.5}});
  expect_rates(optim::linear_decay{2, 4, 14, 1}, {{0, 0}, {2, 1}, {4, 2}, {9, 1.5}, {14, 1}, {20, 1}});
  expect_rates(optim::linear_decay{2, 0, 10}, {{0, 2}, {5, 1}, {10, 0}, {11, 0}});
  // Where the warm-up is as long as all steps, or longer, the peak is reached all the same, and left in the step behind
  // it.
  expect_rates(optim::linear_decay{2, 4, 4, 1}, {{0, 0}, {2, 1}, {4, 2}, {5, 1}, {9, 1}});
  expect_rates(optim::cosine_decay{3, 4, 2, 1}, {{2, 1.5}, {4, 3}, {5, 1}});
  const double half = std::sqrt(0.5);
  expect_rates(optim::cosine_decay{3, 2, 10, 1},
               {{0, 0}, {1, 1.5}, {2, 3}, {4, 2 + half}, {6, 2}, {8, 2 - half}, {10, 1}, {12, 1}});
  expect_rates(optim::inverse_square_root{0.1, 100}, {{0, 0}, {25, 0.025}, {100, 0.1}, {400, 0.05}, {10000, 0.01}});
  expect_rates(optim::inverse_square_root{1, 0}, {{0, 1}, {1, 1}, {4, 0.5}});
  // The rate of the Transformer, width 512 and 4000 steps of warm-up.
  const optim::inverse_square_root transformer{1 / std::sqrt(512.0 * 4000), 4000};
  for (double step : {1.0, 3999.0, 4000.0, 100000.0})
    EXPECT_NEAR(transformer(step), 1 / std::sqrt(512.0) * std::min(1 / std::sqrt(step), step / std::pow(4000, 1.5)),
                1e-15);
  EXPECT_EQ(optim::linear_warmup({0.5, 4})(2), 0.25);
  static_assert(optim::linear_decay{2, 0, 10}(5) == 1);
}

// Adafactor

/// The published algorithm on one tensor whose last two extents are m and n; m = 0: not factored.
struct adafactor_reference {
  std::int64_t m, n;
  numbers rows{}, columns{};

  void step(numbers& w, const numbers& g, double t, double rate, const optim::adafactor_options& o) {
    const double old = 1 - std::pow(t, -o.decay);
    const auto average = [&](double& mean, double next) { mean = old * mean + (1 - old) * next; };
    numbers second(g.size());
    if (m == 0) {
      for (std::size_t i = 0; i < g.size(); ++i) average(rows[i], g[i] * g[i] + o.epsilon);
      second = rows;
    } else {
      const auto rs = static_cast<std::size_t>(m), cs = static_cast<std::size_t>(n);
      for (std::size_t s = 0; s < g.size() / (rs * cs); ++s) {
        const auto at = [&](std::size_t i, std::size_t j) { return (s * rs + i) * cs + j; };
        double all = 0;
        for (std::size_t i = 0; i < rs; ++i) {
          double total = 0;
          for (std::size_t j = 0; j < cs; ++j) total += g[at(i, j)] * g[at(i, j)] + o.epsilon;
          average(rows[s * rs + i], total / static_cast<double>(cs));
          all += rows[s * rs + i] / static_cast<double>(rs);
        }
        for (std::size_t j = 0; j < cs; ++j) {
          double total = 0;
          for (std::size_t i = 0; i < rs; ++i) total += g[at(i, j)] * g[at(i, j)] + o.epsilon;
          average(columns[s * cs + j], total / static_cast<double>(rs));
        }
        for (std::size_t i = 0; i < rs; ++i)
          for (std::size_t j = 0; j < cs; ++j) second[at(i, j)] = rows[s * rs + i] * columns[s * cs + j] / all;
      }
    }
    numbers u(g.size());
    for (std::size_t i = 0; i < g.size(); ++i) u[i] = g[i] / std::sqrt(second[i]);
    const double length = std::max(1.0, rms(u) / o.clip),
                 scale = o.parameter_scale ? std::max(o.least_scale, rms(w)) : 1;
    for (std::size_t i = 0; i < g.size(); ++i) w[i] -= rate * (scale * u[i] / length + o.weight_decay * w[i]);
  }
  static double rms(const numbers& x) {
    double square = 0;
    for (double v : x) square += v * v;
    return std::sqrt(square / static_cast<double>(x.size()));
  }
};

using state_of_leaves = optim::adafactor_state<leaves, value>;
const std::vector<std::string> dims_of_rows{"ab", "c", "b", ""}, dims_of_columns{"ac", "b", "", ""};

/// Weights, rows, columns, steps; and the gradient and the rate.
iteration adafactor_with(const optim::adafactor_options& o, bool own_rate) {
  return {joined({dims_of_leaves, dims_of_rows, dims_of_columns, {""}, dims_of_leaves, {""}}), [=](const values& in) {
            const state_of_leaves state{leaves_of(in, 4), leaves_of(in, 8), in[12]};
            const auto [w, s] = own_rate ? optim::adafactor(leaves_of(in, 0), state, leaves_of(in, 13))
                                         : optim::adafactor(leaves_of(in, 0), state, leaves_of(in, 13), in[17], o);
            values out = list_of(w);
            for (const leaves& l : {s.rows, s.columns})
              for (const value& v : list_of(l)) out.push_back(v);
            out.push_back(s.steps);
            return out;
          }};
}

void check_adafactor(const optim::adafactor_options& o, bool own_rate, unsigned seed) {
  run r(adafactor_with(o, own_rate), seed);
  std::vector<numbers> w = r.some_leaves(-0.1, 0.1);
  adafactor_reference reference[]{{r.extent('b'), r.extent('c')}, {r.extent('c'), r.extent('b')}, {0, 0}, {0, 0}};
  std::vector<numbers> now = w;
  for (std::size_t l = 0; l < 4; ++l) {
    reference[l].rows.resize(r.size(dims_of_rows[l]), 0);
    now.push_back(reference[l].rows);
  }
  for (std::size_t l = 0; l < 4; ++l) {
    reference[l].columns.resize(r.size(dims_of_columns[l]), 0);
    now.push_back(reference[l].columns);
  }
  now.push_back({0});
  // Gradients that grow, so that updates are clipped, and in the third step zeros.
  for (int step = 1; step <= 5; ++step) {
    const double size = step == 3 ? 0 : std::pow(3, step);
    const std::vector<numbers> g = r.some_leaves(-size, size);
    const double rate = own_rate ? std::min(0.01, 1 / std::sqrt(step)) : 0.3 / step;
    now = r(joined({now, g, {{rate}}}));
    ASSERT_EQ(now.size(), 13u);
    for (std::size_t l = 0; l < 4; ++l) {
      SCOPED_TRACE("step " + std::to_string(step) + " leaf " + std::to_string(l));
      reference[l].step(w[l], g[l], step, rate, o);
      expect_near(now[l], w[l]);
      expect_near(now[4 + l], reference[l].rows);
      expect_near(now[8 + l], reference[l].columns);
    }
    EXPECT_EQ(now[12], numbers{static_cast<double>(step)});
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Optim, AdafactorIsThePublishedAlgorithm) {
  for (unsigned seed = 1; seed <= layouts; ++seed) {
    SCOPED_TRACE(seed);
    check_adafactor({}, false, seed);
    check_adafactor({.clip = 0.25, .parameter_scale = false, .weight_decay = 0.1}, false, seed + 1000);
    check_adafactor({}, true, seed + 2000);
    if (HasFailure()) return;
  }
}

// Adam, and gradient descent

/// Algorithm 1 of Kingma and Ba on one tensor, with decoupled weight decay, and corrections as they write them.
struct adam_reference {
  numbers mean{}, square{};

  void step(numbers& w, const numbers& g, int t, double rate, const optim::adam_options& o) {
    mean.resize(w.size(), 0);
    square.resize(w.size(), 0);
    for (std::size_t i = 0; i < w.size(); ++i) {
      mean[i] = o.beta1 * mean[i] + (1 - o.beta1) * g[i];
      square[i] = o.beta2 * square[i] + (1 - o.beta2) * g[i] * g[i];
      const double m = mean[i] / (1 - std::pow(o.beta1, t)), v = square[i] / (1 - std::pow(o.beta2, t));
      w[i] -= rate * (m / (std::sqrt(v) + o.epsilon) + o.weight_decay * w[i]);
    }
  }
};
using adam_state_of_leaves = optim::adam_state<leaves, value>;

/// Weights, means, squares, the two sums of weights; and the gradient and the rate. With `numbers` the options are
/// arguments too.
iteration adam_with(const optim::adam_options& o, bool numbers_as_arguments) {
  std::vector<std::string> inputs = joined(
      {dims_of_leaves, dims_of_leaves, dims_of_leaves, {"", ""}, dims_of_leaves, {""}});
  if (numbers_as_arguments) inputs = joined({inputs, {"", "", "", ""}});
  return {inputs, [=](const values& in) {
            const adam_state_of_leaves state{leaves_of(in, 4), leaves_of(in, 8), in[12], in[13]};
            const auto updated = [&](const auto& options) {
              return optim::adam(leaves_of(in, 0), state, leaves_of(in, 14), in[18], options);
            };
            const auto [w, s] = numbers_as_arguments
                                    ? updated(optim::adam_numbers<value>{in[19], in[20], in[21], in[22]})
                                    : updated(o);
            values out = list_of(w);
            for (const leaves& l : {s.mean, s.square})
              for (const value& v : list_of(l)) out.push_back(v);
            out.push_back(s.mean_weight);
            out.push_back(s.square_weight);
            return out;
          }};
}
void check_adam(const optim::adam_options& o, bool numbers_as_arguments, unsigned seed) {
  run r(adam_with(o, numbers_as_arguments), seed);
  std::vector<numbers> w = r.some_leaves(), now = w;
  adam_reference reference[4];
  for (int part = 0; part < 2; ++part)
    for (const numbers& leaf : w) now.push_back(numbers(leaf.size(), 0));
  now.push_back({0});
  now.push_back({0});
  for (int step = 1; step <= 4; ++step) {
    std::vector<numbers> g = r.some_leaves(-step, step);
    if (step == 3) g[1].assign(g[1].size(), 0);
    const double rate = 0.3 / step;
    std::vector<numbers> arguments = joined({now, g, {{rate}}});
    if (numbers_as_arguments) arguments = joined({arguments, {{o.beta1}, {o.beta2}, {o.epsilon}, {o.weight_decay}}});
    now = r(arguments);
    ASSERT_EQ(now.size(), 14u);
    for (std::size_t l = 0; l < 4; ++l) {
      SCOPED_TRACE("step " + std::to_string(step) + " leaf " + std::to_string(l));
      reference[l].step(w[l], g[l], step, rate, o);
      expect_near(now[l], w[l]);
      expect_near(now[4 + l], reference[l].mean);
      expect_near(now[8 + l], reference[l].square);
    }
    expect_near(now[12], {1 - std::pow(o.beta1, step)});
    expect_near(now[13], {1 - std::pow(o.beta2, step)});
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Optim, AdamIsThePublishedAlgorithm) {
  for (unsigned seed = 1; seed <= layouts; ++seed) {
    SCOPED_TRACE(seed);
    check_adam({}, false, seed);
    check_adam({.beta1 = 0.5, .beta2 = 0.7, .epsilon = 0.1, .weight_decay = 0.25}, false, seed + 1000);
    check_adam({.beta1 = 0.8, .beta2 = 0.9, .epsilon = 0.01, .weight_decay = 0.1}, true, seed + 2000);
    if (HasFailure()) return;
  }
}

// Three steps with rate 0.01 from (0.5, -1.25, 2), computed with NumPy 2.4 in double precision by the formulas of the
// paper, without weight decay and with 0.1. The numbers of the state may be narrower than the weights.
void expect_known_numbers(element of_state, double tolerance) {
  const numbers gradients[] = {{0.1, -2, 0}, {-0.3, 1, 4}, {0.02, 0.5, -1}};
  const numbers plain[] = {{0.4900000009999999, -1.24000000005, 2},
                           {0.49494189911200653, -1.237336629670243, 1.9925586317906328},
                           {0.49835093832360094, -1.236722741046967, 1.988528423346506}};
  const numbers decayed[] = {{0.4895000009999999, -1.23875000005, 1.998},
                             {0.4939523991110066, -1.2348478796701932, 1.9885606317906328},
                             {0.49686748592349, -1.232999143167247, 1.9825418627147153}};
  for (bool decays : {false, true}) {
    recorder in(mesh_value{});
    spec row;
    row.dims.push_back(placement(dim('a')));
    values x;
    for (int i = 0; i < 3; ++i) x.push_back(in.input(element::f64, row));
    const value mean_weight = in.input(of_state, spec{}), square_weight = in.input(of_state, spec{}),
                gradient = in.input(element::f64, row);
    const optim::adam_state<std::array<value, 1>, value> state{{x[1]}, {x[2]}, mean_weight, square_weight};
    const auto [w, s] = optim::adam(std::array{x[0]}, state, std::array{gradient}, 0.01,
                                    optim::adam_options{.weight_decay = decays ? 0.1 : 0});
    for (const value& v : {w[0], s.mean[0], s.square[0], s.mean_weight, s.square_weight}) in.output(v);
    ASSERT_TRUE(in.made().found.ok());
    const graph g = in.take();
    sizes at = sizes_for(g);
    at.dims[0] = 3;
    std::vector<host_array> data;
    for (node_id i : g.inputs) data.emplace_back(shape_of(g.nodes[i].type, at), 0.0);
    data[0].data = {0.5, -1.25, 2};
    for (std::size_t step = 0; step < 3; ++step) {
      data[5].data = gradients[step];
      const std::vector<host_array> made = evaluate(g, at, data);
      for (std::size_t i = 0; i < 5; ++i) data[i] = made[i];
      for (std::size_t i = 0; i < 3; ++i)
        EXPECT_NEAR(data[0].data[i], (decays ? decayed : plain)[step][i], tolerance) << step << " " << i;
    }
  }
}
TEST(Optim, AdamHasItsKnownNumbers) {
  expect_known_numbers(element::f64, 1e-14);
  expect_known_numbers(element::f32, 1e-7);
}

TEST(Optim, GradientDescentHasAVelocity) {
  const iteration descent{joined({dims_of_leaves, dims_of_leaves, dims_of_leaves, {"", ""}}), [](const values& in) {
                            const auto [w, v] = optim::sgd(leaves_of(in, 0), leaves_of(in, 4), leaves_of(in, 8), in[12],
                                                           in[13]);
                            values out = list_of(w);
                            for (const value& x : list_of(v)) out.push_back(x);
                            return out;
                          }};
  for (unsigned seed = 1; seed <= layouts; ++seed) {
    run r(descent, seed);
    const std::vector<numbers> w = r.some_leaves(), v = r.some_leaves(), g = r.some_leaves();
    const std::vector<numbers> now = r(joined({w, v, g, {{0.1}, {0.75}}}));
    for (std::size_t l = 0; l < 4; ++l)
      for (std::size_t i = 0; i < w[l].size(); ++i) {
        const double faster = 0.75 * v[l][i] + g[l][i];
        EXPECT_NEAR(now[4 + l][i], faster, 1e-12);
        EXPECT_NEAR(now[l][i], w[l][i] - 0.1 * faster, 1e-12);
      }
  }
}

TEST(Optim, AdafactorOfNarrowWeightsIsComputedInFloat) {
  const mesh_value mesh = one_axis();
  recorder in(mesh);
  const std::array w{in.input(element::bf16, along(mesh, "ab", true))}, g{in.input(element::bf16, along(mesh, "ab"))};
  const optim::adafactor_state<std::array<value, 1>, value> state{{in.input(element::f32, along(mesh, "a"))},
                                                                  {in.input(element::f32, along(mesh, "b"))},
                                                                  in.input(element::i32, along(mesh, ""))};
  const auto [updated, next] = optim::adafactor(w, state, g);
  ASSERT_TRUE(in.made().found.ok()) << in.made().found.op;
  EXPECT_EQ(element_at(updated[0]), element::bf16);
  EXPECT_EQ(element_at(next.rows[0]), element::f32);
  EXPECT_EQ(element_at(next.steps), element::i32);
  // Nothing but casts has to do with 16 bits.
  for (const node& n : in.made().nodes) {
    if (n.type.element == element::bf16) {
      EXPECT_TRUE(n.code == op::cast || n.code == op::input) << name_of(n.code);
    }
  }
}

TEST(Optim, FaultsNameTheLineOfTheUser) {
  const mesh_value mesh = one_axis();
  const auto line_of = [&](auto&& use, fault wanted) {
    recorder in(mesh);
    const std::array w{in.input(element::f32, along(mesh, "ab"))}, other{in.input(element::f32, along(mesh, "ac"))};
    const value row = in.input(element::f32, along(mesh, "a")), column = in.input(element::f32, along(mesh, "b"));
    const value steps = in.input(element::f32, along(mesh, ""));
    const optim::adafactor_state<std::array<value, 1>, value> state{{row}, {column}, steps};
    const optim::adafactor_state<std::array<value, 2>, value> longer{{row, row}, {column, column}, steps};
    use(w, other, state, longer);
    EXPECT_EQ(in.made().found.fault, wanted);
    return in.made().found.where.line;
  };
  const unsigned line = __LINE__;
  const auto other_tree = [](auto& w, auto& other, auto&, auto&) { optim::sgd(w, other, 0.1); };
  const auto other_gradient = [](auto& w, auto& other, auto& s, auto&) { optim::adafactor(w, s, other, 0.1); };
  const auto other_state = [](auto& w, auto&, auto&, auto& s) { optim::adafactor(w, s, w); };
  EXPECT_EQ(line_of(other_tree, fault::dims_do_not_broadcast), line + 1);
  EXPECT_EQ(line_of(other_gradient, fault::dims_do_not_broadcast), line + 2);
  EXPECT_EQ(line_of(other_state, fault::result_count), line + 3);
}

// Mixed precision

TEST(Optim, AllFiniteFindsWhatIsNot) {
  const iteration finite{dims_of_leaves,
                         [](const values& in) { return values{optim::all_finite(leaves_of(in, 0))}; },
                         {},
                         {""},
                         {element::boolean}};
  for (unsigned seed = 1; seed <= layouts; ++seed) {
    SCOPED_TRACE(seed);
    run r(finite, seed);
    const std::vector<numbers> g = r.some_leaves(-1e300, 1e300);
    EXPECT_EQ(r(g)[0], numbers{1});
    for (std::size_t l = 0; l < g.size(); ++l)
      for (double bad : {infinity, -infinity, not_a_number}) {
        std::vector<numbers> other = g;
        other[l].back() = bad;
        EXPECT_EQ(r(other)[0], numbers{0}) << "leaf " << l;
      }
  }
}

TEST(Optim, AnInfiniteGradientSkipsTheUpdateAndHalvesTheScale) {
  // Weights, scale, steps since it changed; and the gradient of the scaled loss.
  const iteration guarded{joined({dims_of_leaves, {"", ""}, dims_of_leaves}), [](const values& in) {
                            const leaves w = leaves_of(in, 0);
                            const optim::loss_scale<value> state{in[4], in[5]};
                            const leaves g = optim::unscaled(leaves_of(in, 6), w, state.scale);
                            const value finite = optim::all_finite(g);
                            const leaves moved =
                                tree_map([](const value& x, const value& slope) { return x - 0.5 * slope; }, w, g);
                            const auto next = optim::next_loss_scale(state, finite,
                                                                     {.interval = 2, .least = 4, .most = 32});
                            values out = list_of(optim::select_tree(finite, moved, w));
                            out.push_back(next.scale);
                            out.push_back(next.good);
                            return out;
                          }};
  for (unsigned seed = 1; seed <= layouts; ++seed) {
    SCOPED_TRACE(seed);
    run r(guarded, seed);
    std::vector<numbers> w = r.some_leaves(), now = joined({w, {{8}, {0}}});
    struct expected {
      double bad;
      double scale, good;
    };
    // Grows after two good steps, not above the most; halves at once, not below the least.
    const expected steps[]{{0, 8, 1},        {0, 16, 0}, {0, 16, 1},        {0, 32, 0},           {0, 32, 1},
                           {0, 32, 0},       {0, 32, 1}, {infinity, 16, 0}, {not_a_number, 8, 0}, {-infinity, 4, 0},
                           {infinity, 4, 0}, {0, 4, 1},  {0, 8, 0}};
    std::size_t leaf = 0;
    for (const expected& e : steps) {
      std::vector<numbers> g = r.some_leaves();
      const double scale = now[4][0];
      if (e.bad != 0) g[leaf++ % 4][0] = e.bad;
      now = r(joined({now, g}));
      for (std::size_t l = 0; l < 4; ++l) {
        for (std::size_t i = 0; e.bad == 0 && i < w[l].size(); ++i) w[l][i] -= 0.5 * g[l][i] / scale;
        expect_near(now[l], w[l]);
      }
      EXPECT_EQ(now[4], numbers{e.scale});
      EXPECT_EQ(now[5], numbers{e.good});
      if (HasFailure()) return;
    }
  }
}

constexpr function quadratic([](const auto& w, const auto& x) {
  const value y = dot(w[0], cast(x, w[0].in->at(w[0]).type.element), dim_ref{"b"}) + w[1];
  return std::tuple(mean(cast<double>(y * y)), y);
});

TEST(Optim, GradientsOfALoweredCopyComeInTheTypeOfTheWeights) {
  const iteration both{{"ab", "a", "bc", ""},
                       [](const values& in) {
                         const std::array w{in[0], in[1]};
                         const auto [mixed, slope] = optim::mixed_value_and_grad<half>(quadratic, in[3], w, in[2]);
                         const auto [fixed, same] = optim::mixed_value_and_grad<half>(quadratic, 1024, w, in[2]);
                         const auto [plain, wanted] = value_and_grad(quadratic)(w, in[2]);
                         // What is kept is of 16 bits, what comes out is not.
                         EXPECT_EQ(element_at(std::get<1>(mixed)), element::f16);
                         EXPECT_EQ(element_at(slope[0]), element::f64);
                         return values{slope[0],  slope[1],  std::get<0>(mixed), same[0],
                                       wanted[0], wanted[1], std::get<0>(plain)};
                       },
                       {},
                       {"ab", "a", "", "ab", "ab", "a", ""}};
  for (unsigned seed = 1; seed <= layouts; ++seed) {
    SCOPED_TRACE(seed);
    run r(both, seed);
    // The simulator does not round, so that the two are the same but for the order of sums.
    const std::vector<numbers> got = r({r.some("ab"), r.some("a"), r.some("bc"), {4096}});
    expect_near(got[0], got[4]);
    expect_near(got[1], got[5]);
    expect_near(got[2], got[6]);
    expect_near(got[3], got[4]);
  }
}

TEST(Optim, LoweredLeavesWholeNumbersAlone) {
  const mesh_value mesh = one_axis();
  recorder in(mesh);
  const auto copy = optim::lowered<bfloat16>(
      std::array{in.input(element::f32, along(mesh, "a")), in.input(element::i32, along(mesh, "a"))});
  EXPECT_EQ(element_at(copy[0]), element::bf16);
  EXPECT_EQ(element_at(copy[1]), element::i32);
}

/// Small gradients of 16 bits are 0 without a scale: rounded to half at each step, as kernels do.
TEST(Optim, ScalesKeepSmallGradients) {
  const mesh_value mesh = one_axis();
  recorder in(mesh);
  const std::array w{in.input(element::f32, along(mesh, "ab")), in.input(element::f32, along(mesh, "a"))};
  const value x = in.input(element::f32, along(mesh, "bc"));
  for (double scale : {1.0, 32768.0}) {
    const auto [loss, slope] = optim::mixed_value_and_grad<half>(quadratic, scale, w, x);
    in.output(slope[1], element::f32, along(mesh, "a"));
  }
  ASSERT_TRUE(in.made().found.ok()) << in.made().found.op;
  const graph g = in.take();
  sizes at = sizes_for(g);
  for (std::size_t d = 0; d < g.dims.size(); ++d) at.dims[d] = 2;
  std::vector<host_array> data;
  for (node_id i : g.inputs) {
    data.emplace_back(shape_of(g.nodes[i].type, at));
    for (double& v : data.back().data) v = data.size() == 3 ? 0 : std::ldexp(1.0, -24);
  }
  const auto got = evaluate(g, at, data, [](const node& n, host_array& a) {
    if (n.type.element != element::f16) return;
    for (double& v : a.data) v = static_cast<double>(static_cast<float>(half(v)));
  });
  // Each y is the bias 2^-24, of which there are 4: the gradient by a bias is 2 * 2 * 2^-24 / 4, in parts 2 * 2^-24 / 4
  // = 2^-25, which rounds to 0.
  EXPECT_EQ(got[0].data, (numbers{0, 0}));
  EXPECT_EQ(got[1].data, (numbers{std::ldexp(1.0, -24), std::ldexp(1.0, -24)}));
}

// Lion, LAMB, averages, accumulation

TEST(Optim, LionIsThePublishedAlgorithm) {
  for (const double decay : {0.0, 0.2})
    for (unsigned seed = 1; seed <= layouts; ++seed) {
      SCOPED_TRACE(seed);
      const optim::lion_options o{.beta1 = 0.7, .beta2 = 0.9, .weight_decay = decay};
      run r({joined({dims_of_leaves, dims_of_leaves, dims_of_leaves, {""}}),
             [=](const values& in) {
               const auto [w, m] = optim::lion(leaves_of(in, 0), leaves_of(in, 4), leaves_of(in, 8), in[12], o);
               values out = list_of(w);
               for (const value& v : list_of(m)) out.push_back(v);
               return out;
             }},
            seed);
      std::vector<numbers> w = r.some_leaves(), m;
      for (const numbers& leaf : w) m.push_back(numbers(leaf.size(), 0));
      std::vector<numbers> now = joined({w, m});
      for (int step = 1; step <= 3; ++step) {
        std::vector<numbers> g = r.some_leaves();
        if (step == 1) g[1].assign(g[1].size(), 0); // a direction of 0
        now = r(joined({now, g, {{0.1}}}));
        for (std::size_t l = 0; l < 4; ++l) {
          for (std::size_t i = 0; i < w[l].size(); ++i) {
            const double c = 0.7 * m[l][i] + (1 - 0.7) * g[l][i], direction = c > 0 ? 1 : c < 0 ? -1 : 0;
            w[l][i] -= 0.1 * (direction + decay * w[l][i]);
            m[l][i] = 0.9 * m[l][i] + (1 - 0.9) * g[l][i];
          }
          expect_near(now[l], w[l]);
          expect_near(now[4 + l], m[l]);
        }
      }
      if (HasFailure()) return;
    }
}

TEST(Optim, LambIsThePublishedAlgorithm) {
  for (unsigned seed = 1; seed <= layouts; ++seed) {
    SCOPED_TRACE(seed);
    const optim::adam_options o{.beta1 = 0.8, .beta2 = 0.9, .epsilon = 0.01, .weight_decay = 0.1};
    run r({joined({dims_of_leaves, dims_of_leaves, dims_of_leaves, {"", ""}, dims_of_leaves, {""}}),
           [=](const values& in) {
             const adam_state_of_leaves state{leaves_of(in, 4), leaves_of(in, 8), in[12], in[13]};
             const auto [w, s] = optim::lamb(leaves_of(in, 0), state, leaves_of(in, 14), in[18], o);
             values out = list_of(w);
             for (const leaves& l : {s.mean, s.square})
               for (const value& v : list_of(l)) out.push_back(v);
             out.push_back(s.mean_weight);
             out.push_back(s.square_weight);
             return out;
           }},
          seed);
    std::vector<numbers> w = r.some_leaves(), now;
    w[2].assign(w[2].size(), 0); // weights of zero: the step is not scaled
    now = w;
    for (int part = 0; part < 2; ++part)
      for (const numbers& leaf : w) now.push_back(numbers(leaf.size(), 0));
    now.push_back({0});
    now.push_back({0});
    adam_reference reference[4];
    for (int step = 1; step <= 3; ++step) {
      const std::vector<numbers> g = r.some_leaves();
      now = r(joined({now, g, {{0.3}}}));
      for (std::size_t l = 0; l < 4; ++l) {
        // The step of Adam, from weights of zero.
        numbers minus(w[l].size(), 0);
        optim::adam_options undecayed = o;
        undecayed.weight_decay = 0;
        reference[l].step(minus, g[l], step, 1, undecayed);
        double of_weights = 0, of_step = 0;
        for (std::size_t i = 0; i < w[l].size(); ++i) {
          minus[i] = 0.1 * w[l][i] - minus[i];
          of_weights += w[l][i] * w[l][i];
          of_step += minus[i] * minus[i];
        }
        const double trust = of_weights > 0 && of_step > 0 ? std::sqrt(of_weights / of_step) : 1;
        for (std::size_t i = 0; i < w[l].size(); ++i) w[l][i] -= 0.3 * trust * minus[i];
        expect_near(now[l], w[l]);
        expect_near(now[4 + l], reference[l].mean);
      }
    }
    if (HasFailure()) return;
  }
}

TEST(Optim, AMovingAverageForgetsAtItsRate) {
  for (unsigned seed = 1; seed <= layouts; ++seed) {
    SCOPED_TRACE(seed);
    run r({joined({dims_of_leaves, dims_of_leaves, {""}}),
           [](const values& in) {
             values out = list_of(optim::moving_average(leaves_of(in, 0), leaves_of(in, 4), in[8]));
             for (std::size_t l = 4; l < 9; ++l) out.push_back(in[l] * 1);
             return out;
           }},
          seed);
    const std::vector<numbers> average = r.some_leaves(), w = r.some_leaves();
    const std::vector<numbers> got = r(joined({average, w, {{0.75}}}));
    for (std::size_t l = 0; l < 4; ++l) {
      numbers wanted = average[l];
      for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = 0.75 * wanted[i] + 0.25 * w[l][i];
      expect_near(got[l], wanted);
    }
  }
}
TEST(Optim, AnAverageOfNarrowWeightsKeepsItsOwnType) {
  const mesh_value mesh = one_axis();
  recorder in(mesh);
  const value average = in.input(element::f32, along(mesh, "a")), w = in.input(element::bf16, along(mesh, "a"));
  EXPECT_EQ(element_at(optim::moving_average(std::array{average}, std::array{w}, 0.999)[0]), element::f32);
  EXPECT_EQ(element_at(optim::moving_average(std::array{w}, std::array{w}, 0.999)[0]), element::bf16);
  EXPECT_TRUE(in.made().found.ok());
}

// The mean over parts is the mean over the whole, and so is its gradient.
constexpr cleave::function loss_of_part([](auto w, auto x) {
  const auto y = dot(x, w[0], dim('b'));
  return mean(y * y);
});
TEST(Optim, AccumulatedGradientsAreThoseOfTheWholeBatch) {
  for (unsigned seed = 1; seed <= layouts; ++seed) {
    SCOPED_TRACE(seed);
    // p parts of a rows each.
    run r({{"bc", "gab"},
           [](const values& in) {
             const auto [loss, slope] = optim::accumulated(loss_of_part, dim('g'), std::array{in[0]}, in[1]);
             return values{slope[0], in[1] * 1, loss};
           },
           {},
           {""}},
          seed);
    const numbers w = r.some("bc"), x = r.some("gab");
    const auto rows = r.extent('g') * r.extent('a'), nb = r.extent('b'), nc = r.extent('c');
    numbers slope(w.size(), 0);
    double loss = 0;
    for (std::int64_t row = 0; row < rows; ++row)
      for (std::int64_t c = 0; c < nc; ++c) {
        double y = 0;
        const auto at = [&](std::int64_t b) { return x[static_cast<std::size_t>(row * nb + b)]; };
        for (std::int64_t b = 0; b < nb; ++b) y += at(b) * w[static_cast<std::size_t>(b * nc + c)];
        loss += y * y / static_cast<double>(rows * nc);
        for (std::int64_t b = 0; b < nb; ++b)
          slope[static_cast<std::size_t>(b * nc + c)] += 2 * y * at(b) / static_cast<double>(rows * nc);
      }
    const std::vector<numbers> got = r({w, x});
    expect_near(got[0], slope);
    expect_near(got[2], {loss});
    if (HasFailure()) return;
  }
}

TEST(Optim, DecayLeavesOutTheNamesOfItsPatterns) {
  for (unsigned seed = 1; seed <= layouts; ++seed) {
    SCOPED_TRACE(seed);
    run r({joined({dims_of_leaves, dims_of_leaves, {""}}),
           [](const values& in) {
             // vector is left out by its name, matrix of the second by its whole path.
             const std::pair both(leaves_of(in, 0), leaves_of(in, 4));
             const auto [one, other] = optim::decayed(both, in[8], {"*.vector", "1.mat*"});
             values out = list_of(one);
             for (const value& v : list_of(other)) out.push_back(v);
             out.push_back(in[8] * 1);
             return out;
           }},
          seed);
    const std::vector<numbers> w = joined({r.some_leaves(), r.some_leaves()});
    const std::vector<numbers> got = r(joined({w, {{0.25}}}));
    for (std::size_t l = 0; l < 8; ++l) {
      numbers wanted = w[l];
      if (l % 4 != 2 && l != 5)
        for (double& x : wanted) x *= 0.75;
      expect_near(got[l], wanted);
    }
  }
}
TEST(Optim, NamesFitPatterns) {
  static_assert(fits("layers[2].bias", "*.bias") && fits("bias", "bias") && fits("a.b", "*") && fits("", "*"));
  static_assert(!fits("bias2", "*bias") && !fits("a", "") && !fits("", "a") && fits("abcabc", "a*abc"));
  constexpr auto names = [] {
    std::size_t letters = 0;
    for_each_named_leaf<cleave::detail::is_value, std::array<leaves, 12>>("w", [&]<class>(std::string_view name) {
      letters += name == "w[11].matrix" || name == "w[0].number";
    });
    return letters;
  }();
  static_assert(names == 2);
}

} // namespace CLEAVE_SOURCE
