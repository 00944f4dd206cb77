// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops under random meshes, layouts and extents: what the plain evaluator gives, and as many bytes as they are priced
// at; their gradients are the limits of differences.
#include "../differences.hpp"

#include <cleave/expr/associative_scan.hpp>
#include <cleave/expr/gradient.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/ops/print.hpp>
#include <cleave/simulate/simulate.hpp>
#include <cleave/study/explain_plan.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>

namespace CLEAVE_SOURCE {

using namespace cleave;

constexpr dim_ref layer{"layer"}, batch{"batch"}, embed{"embed"}, hidden{"hidden"};

/// Two dims of a layer of perceptrons, weights stacked.
value perceptrons(const value& x, const value& up, const value& down) {
  return dot(tanh(dot(x, up, embed)), down, hidden);
}
std::array<value, 2> pair_of(const value& a, const value& b) { return {a, b}; }

struct problem {
  const char* name;
  /// Of x[batch, embed], up[layer, embed, hidden], down[layer, hidden, embed].
  std::function<value(const value& x, const value& up, const value& down)> f;
  /// Whether its iterations are known, so that it has a derivative; and whether all of it runs, so that its bytes are
  /// its price.
  bool known = true, all_runs = true;
};

const problem problems[] = {
    {"residual",
     [](const value& x, const value& up, const value& down) {
       return scan(layer, x, pair_of(up, down),
                   [](const value& h, const auto& w) { return h + perceptrons(h, w[0], w[1]); });
     }},
    {"backward",
     [](const value& x, const value& up, const value& down) {
       return scan(
           layer, x, pair_of(up, down), [](const value& h, const auto& w) { return h + perceptrons(h, w[0], w[1]); },
           direction::backward);
     }},
    {"stacked results, what all iterations read",
     [](const value& x, const value& up, const value& down) {
       const auto [last, means] = scan(layer, x, pair_of(up, down), [&](const value& h, const auto& w) {
         const value next = h + perceptrons(h, w[0], w[1]) * x;
         return std::pair(next, mean(next * next, embed));
       });
       return last * sum(means, layer);
     }},
    {"remat",
     [](const value& x, const value& up, const value& down) {
       return scan(layer, x, pair_of(up, down),
                   remat(function([](const value& h, const auto& w) { return sin(h + perceptrons(h, w[0], w[1])); })));
     }},
    {"within remat",
     [](const value& x, const value& up, const value& down) {
       return remat(function([](const value& a, const value& b, const value& c) {
         return sin(scan(layer, a, pair_of(b, c),
                         [](const value& h, const auto& w) { return h + perceptrons(h, w[0], w[1]); }));
       }))(x, up, down);
     }},
    {"values that go round unchanged",
     [](const value& x, const value&, const value&) {
       const auto made = repeat_times(4, std::array{x, 2.0 * x, sin(x)},
                                      [&](const auto& s) { return std::array{1.0 * s[1], s[2] / 1.0, s[0] - 0.0}; });
       return made[0] - 3.0 * made[1] + made[2] * made[2];
     }},
    {"one in another",
     [](const value& x, const value& up, const value& down) {
       return scan(layer, x, pair_of(up, down), [](const value& h, const auto& w) {
         const value t = perceptrons(h, w[0], w[1]);
         return repeat_times(3, h, [&](const value& s) { return sin(s) + t * s; });
       });
     }},
    {"three values that change places",
     [](const value& x, const value& up, const value& down) {
       const value shared = perceptrons(x, sum(up, layer), sum(down, layer));
       const auto made = repeat_times(4, std::array{x, shared, 2.0 * x},
                                      [](const auto& v) { return std::array{v[1], v[2], v[0] * v[1]}; });
       return made[0] + made[1] - made[2];
     }},
    {"neighbours",
     [](const value& x, const value& up, const value& down) {
       return scan(layer, x, pair_of(up, down), [](const value& h, const auto& w) {
         return 0.5 * (shift(h, batch, 1) + shift(h, batch, -1)) + perceptrons(h, w[0], w[1]);
       });
     }},
    {"indices",
     [](const value& x, const value& up, const value& down) {
       const value index = cast<double>(x.in->iota(layer, element::i32, {}));
       return scan(layer, x, std::array{up, down, index},
                   [](const value& h, const auto& w) { return h + perceptrons(h, w[0], w[1]) * (1.0 + w[2]); });
     }},
    {"until",
     [](const value& x, const value& up, const value& down) {
       const value least = 0.01 + 0.01 * sum(up * up) + 0.01 * sum(down * down);
       return repeat_until(
           x, [](const value& v) { return 0.5 * v; }, [&](const value& v) { return max(abs(v)) < least; }, 20);
     },
     false, false},
    {"cond",
     [](const value& x, const value& up, const value& down) {
       return cond(
           sum(x) > 0.0, [&](const value& v) { return v + perceptrons(v, sum(up, layer), sum(down, layer)); },
           [](const value& v) { return v - sum(v, embed); }, x);
     },
     true, false},
    {"cond in a loop",
     [](const value& x, const value& up, const value& down) {
       return scan(layer, x, pair_of(up, down), [&](const value& h, const auto& w) {
         return cond(
             sum(h) > 0.2, [&](const value& v, const value& a) { return sin(v) + perceptrons(v, a, w[1]); },
             [](const value& v, const value& a) { return 0.5 * v * sum(a); }, h, w[0]);
       });
     },
     true, false},
};

class harness {
 public:
  explicit harness(unsigned seed) : random_(seed) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void run(const problem& what, unsigned seed) {
    mesh_value mesh;
    const int axes = 1 + below(3);
    static constexpr std::string_view names[] = {"x", "y", "z"};
    for (int a = 0; a < axes; ++a) mesh.axes.push_back({names[a], 1 + below(axes == 1 ? 6 : 3)});
    std::int64_t extents[] = {below(8) == 0 ? 0 : 1 + below(4), 1 + below(6), 1 + below(5), 1 + below(5)};
    recorder in(mesh);
    const std::initializer_list<dim_ref> forms[] = {{batch, embed}, {layer, embed, hidden}, {layer, hidden, embed}};
    std::vector<value> args;
    for (const auto& dims : forms) args.push_back(in.input(element::f64, layout_of(dims, mesh)));
    const bool differentiates = what.known && below(2) == 0;
    if (differentiates) {
      const auto loss = [&](const value& x, const value& up, const value& down) {
        return sum(sin(what.f(x, up, down)));
      };
      const auto [l, pullback] = vjp(loss, args[0], args[1], args[2]);
      const auto [dx, dup, ddown] = pullback(in.constant(1, element::f64, {}));
      in.output(l, element::f64, layout_of({}, mesh));
      in.output(dx, element::f64, layout_of({batch, embed}, mesh));
      in.output(dup, element::f64, layout_of({layer, embed, hidden}, mesh));
      in.output(ddown, element::f64, layout_of({layer, hidden, embed}, mesh));
    } else {
      const value made = what.f(args[0], args[1], args[2]);
      in.output(made, element::f64,
                layout_of(below(2) == 0 ? std::vector<dim_ref>{batch, embed} : std::vector<dim_ref>{embed, batch},
                          mesh));
    }
    const graph g = in.take();
    const auto told = [&] {
      return std::string(what.name) + ", seed " + std::to_string(seed) + "\n" + to_string(simplify(g));
    };
    ASSERT_TRUE(g.found.ok()) << told() << static_cast<int>(g.found.fault) << " " << g.found.op << " " << g.found.dim;
    sizes at;
    for (int a = 0; a < axes; ++a) at.axes[a] = mesh.axes[static_cast<std::size_t>(a)].size;
    for (std::size_t d = 0; d < g.dims.size(); ++d) {
      at.dims[d] = g.dims[d].extent;
      for (int k = 0; k < 4; ++k)
        if (g.dims[d].name == std::array{layer, batch, embed, hidden}[static_cast<std::size_t>(k)].name)
          at.dims[d] = extents[k];
    }
    derive_extents(g.rules, at);
    const program p = partition(g, at, seed % 2 == 0 ? policy::time() : policy::bytes_first(0));
    ASSERT_TRUE(p.found.ok()) << told() << static_cast<int>(p.found.fault);
    std::vector<host_array> data;
    for (node_id i : g.inputs) {
      host_array a(shape_of(g.nodes[i].type, at));
      for (double& x : a.data) x = std::uniform_real_distribution<double>(-1, 1)(random_);
      data.push_back(a);
    }
    const auto want = evaluate(g, at, data);
    const simulated got = simulate(p, at, data, seed);
    ASSERT_EQ(got.problem, "") << told() << explain(p, at);
    for (std::size_t r = 0; r < want.size(); ++r)
      ASSERT_EQ(first_difference(want[r].data, got.results[r].data, 1e-10), -1)
          << "result " << r << " of " << told() << explain(p, at);
    if (what.all_runs) {
      ASSERT_EQ(got.bytes, bytes(p, at)) << told();
    }
    if (differentiates) compare_slopes(g, at, data, want, told());
  }

 private:
  spec layout_of(const std::vector<dim_ref>& dims, const mesh_value& mesh) {
    spec s;
    s.mesh = mesh;
    for (const dim_ref& d : dims) s.dims.push_back(placement(d));
    for (int a = 0; a < mesh.size(); ++a)
      if (const int where = below(static_cast<int>(dims.size()) + 1); where < static_cast<int>(dims.size()))
        s.dims[static_cast<std::size_t>(where)].axes.push_back(mesh.axes[static_cast<std::size_t>(a)].name);
    return s;
  }
  /// Along a random direction.
  void compare_slopes(const graph& g, const sizes& at, const std::vector<host_array>& data,
                      const std::vector<host_array>& want, const std::string& told) {
    std::vector<host_array> up = data, down = data;
    double slope = 0;
    const double step = 1e-5;
    for (std::size_t a = 0; a < data.size(); ++a)
      for (std::size_t i = 0; i < data[a].data.size(); ++i) {
        const double way = std::uniform_real_distribution<double>(-1, 1)(random_);
        slope += way * want[a + 1].data[i];
        up[a].data[i] += step * way;
        down[a].data[i] -= step * way;
      }
    const double differences = (evaluate(g, at, up)[0].data[0] - evaluate(g, at, down)[0].data[0]) / (2 * step);
    ASSERT_NEAR(slope, differences, 1e-4 * (1 + std::fabs(differences))) << told;
  }

  std::mt19937 random_;
};

TEST(Loops, AreWhatTheySay) {
  for (unsigned seed = 0; seed < 1500 && !::testing::Test::HasFatalFailure(); ++seed)
    harness(seed).run(problems[seed % std::size(problems)], seed);
}

TEST(Loops, AssociativeScansAreRecurrences) {
  for (const std::int64_t chunks : {1, 2, 4, 6}) {
    mesh_value mesh;
    mesh.axes.push_back({"x", 2});
    recorder in(mesh);
    spec s;
    s.mesh = mesh;
    s.dims = {placement(batch), placement(dim_ref{"time", 12})};
    s.dims[1].axes.push_back("x");
    const value a = in.input(element::f64, s), b = in.input(element::f64, s);
    const auto states = [&](const value& p, const value& q) {
      return associative_scan(std::array{p, q}, {"time", 12}, {"chunk", chunks},
                              [](const auto& earlier, const auto& later) {
                                return std::array{later[0] * earlier[0], later[0] * earlier[1] + later[1]};
                              })[1];
    };
    const auto [loss, pullback] = vjp([&](const value& p, const value& q) { return sum(sin(states(p, q))); }, a, b);
    const auto [da, db] = pullback(in.constant(1, element::f64, {}));
    in.output(loss, element::f64, [&] {
      spec none;
      none.mesh = mesh;
      return none;
    }());
    for (const value& v : {states(a, b), da, db}) in.output(v, element::f64, s);
    const graph g = in.take();
    ASSERT_TRUE(g.found.ok()) << static_cast<int>(g.found.fault);
    sizes at = sizes_for(g, std::array{named_size{"batch", 3}});
    std::vector<host_array> data;
    for (node_id i : g.inputs) {
      host_array x(shape_of(g.nodes[i].type, at));
      for (std::size_t k = 0; k < x.data.size(); ++k)
        x.data[k] = std::sin(static_cast<double>(k * (data.size() + 1)) + 0.3);
      data.push_back(x);
    }
    const auto want = evaluate(g, at, data);
    for (std::size_t row = 0; row < 3; ++row) {
      double h = 0;
      for (std::size_t t = 0; t < 12; ++t) {
        h = data[0].data[row * 12 + t] * h + data[1].data[row * 12 + t];
        EXPECT_NEAR(want[1].data[row * 12 + t], h, 1e-13) << chunks;
      }
    }
    const program p = partition(g, at);
    const simulated got = simulate(p, at, data);
    ASSERT_EQ(got.problem, "");
    EXPECT_EQ(got.bytes, bytes(p, at));
    for (std::size_t r = 0; r < want.size(); ++r)
      EXPECT_EQ(first_difference(want[r].data, got.results[r].data, 1e-12), -1) << chunks;
    for (std::size_t k = 0; k < 2; ++k)
      for (std::size_t i = 0; i < data[k].data.size(); i += 5) {
        auto up = data, down = data;
        up[k].data[i] += 1e-6;
        down[k].data[i] -= 1e-6;
        const double differences = (evaluate(g, at, up)[0].data[0] - evaluate(g, at, down)[0].data[0]) / 2e-6;
        EXPECT_NEAR(want[k + 2].data[i], differences, 1e-6 * (1 + std::fabs(differences)));
      }
  }
}

// A gradient of a gradient goes through loops that run backwards.
TEST(Loops, HaveSecondDerivatives) {
  mesh_value mesh;
  mesh.axes.push_back({"x", 2});
  recorder in(mesh);
  spec s;
  s.mesh = mesh;
  s.dims = {placement(batch), placement(embed)};
  s.dims[0].axes.push_back("x");
  const value x = in.input(element::f64, s);
  const auto f = [](const value& v) { return sum(repeat_times(3, v, [](const value& u) { return sin(u) * u; })); };
  const auto slope = [&](const value& v) {
    const auto [l, pullback] = vjp(f, v);
    const value g = pullback(in.constant(1, element::f64, {}));
    return sum(g * g);
  };
  const auto [square, pullback] = vjp(slope, x);
  in.output(square);
  in.output(pullback(in.constant(1, element::f64, {})));
  const graph g = in.take();
  ASSERT_TRUE(g.found.ok());
  sizes at = sizes_for(g);
  at.dims[static_cast<std::size_t>(g.find_dim("batch"))] = 3;
  at.dims[static_cast<std::size_t>(g.find_dim("embed"))] = 2;
  host_array a(shape_of(g.nodes[g.inputs[0]].type, at));
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = 0.3 * static_cast<double>(i) - 0.7;
  differences::expect_gradient(g, at, a);
}

// A scan that begins anew where a flag says so: the flags are bools.
TEST(Loops, ScanPairsOfBoolsAndNumbers) {
  mesh_value mesh;
  mesh.axes.push_back({"x", 2});
  recorder in(mesh);
  spec s;
  s.mesh = mesh;
  s.dims = {placement(dim_ref{"time", 8})};
  s.dims[0].axes.push_back("x");
  const value x = in.input(element::f64, s), begins = in.input(element::boolean, s);
  const auto sums =
      associative_scan(std::pair(begins, x), {"time", 8}, {"chunk", 4}, [](const auto& earlier, const auto& later) {
        return std::pair(earlier.first | later.first, select(later.first, later.second, earlier.second + later.second));
      });
  in.output(sums.second, element::f64, s);
  const graph g = in.take();
  ASSERT_TRUE(g.found.ok()) << static_cast<int>(g.found.fault);
  const sizes at = sizes_for(g);
  std::vector<host_array> data(2, host_array(shape_of(g.nodes[g.inputs[0]].type, at)));
  for (std::size_t t = 0; t < 8; ++t) data[0].data[t] = static_cast<double>(t + 1);
  data[1].data[2] = data[1].data[5] = 1;
  const std::vector<double> want{1, 3, 3, 7, 12, 6, 13, 21};
  const host_array whole = evaluate(g, at, data)[0];
  EXPECT_EQ(first_difference(want, whole.data, 0), -1);
  const program p = partition(g, at);
  ASSERT_TRUE(p.found.ok());
  EXPECT_EQ(first_difference(want, simulate(p, at, data).results[0].data, 0), -1);
}

// Random nests of branches, loops and recomputed parts: first and second derivatives against differences, and what the
// devices compute against the evaluator.
class nests {
 public:
  explicit nests(unsigned seed) : random_(seed), program_(seed) {}

  /// Whether there is a plan: for some layouts two cost the same.
  bool check(int depth) {
    recorder in(mesh());
    const spec la = layout_of({"embed"}), lb = layout_of({"embed"}), lw = layout_of({"layer", "embed"}),
               whole = layout_of({});
    const value a = in.input(element::f64, la), b = in.input(element::f64, lb), w = in.input(element::f64, lw);
    const value one = in.constant(1, element::f64, {});
    const auto loss = [&](const value& x, const value& y, const value& z) {
      return sum(nest(program_, depth, x, y, z, false) * (y + 0.5));
    };
    indexed_vector<value> first;
    const auto slopes = [&](const value& x, const value& y, const value& z) {
      const auto [l, pullback] = vjp(loss, x, y, z);
      const auto [dx, dy, dz] = pullback(one);
      for (const value& v : {l, dx, dy, dz}) first.push_back(v);
      return sum(sin(dx) * x) + 0.1 * sum(dy * dy) + sum(cos(dz) * z);
    };
    const auto [h, pullback] = vjp(slopes, a, b, w);
    const auto [hx, hy, hz] = pullback(one);
    in.output(first[0], element::f64, whole), in.output(h, element::f64, whole);
    in.output(first[1], element::f64, la), in.output(first[2], element::f64, lb), in.output(first[3], element::f64, lw);
    in.output(hx, element::f64, la), in.output(hy, element::f64, lb), in.output(hz, element::f64, lw);
    const graph g = in.take();
    EXPECT_TRUE(g.found.ok()) << program_;
    const sizes at = sizes_for(g, std::vector<named_size>{{"embed", 1 + below(5)}, {"layer", below(4)}});
    std::vector<host_array> data;
    for (node_id i : g.inputs) data.push_back(filled(shape_of(g.nodes[i].type, at)));
    const std::vector<host_array> want = evaluate(g, at, data);
    compare_with_differences(g, at, data, want);
    const program p = partition(g, at);
    if (p.found.fault == fault::layouts_tie) return false;
    EXPECT_TRUE(p.found.ok()) << program_;
    const simulated got = simulate(p, at, data);
    EXPECT_EQ(got.problem, "") << program_;
    for (std::size_t r = 0; r < want.size() && got.problem.empty(); ++r)
      EXPECT_EQ(first_difference(want[r].data, got.results[r].data, 1e-8), -1) << program_ << ", result " << r;
    return true;
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  double between() { return std::uniform_real_distribution<double>(-1, 1)(random_); }
  host_array filled(const shape& s) {
    host_array a(s);
    for (double& x : a.data) x = between();
    return a;
  }
  mesh_value mesh() {
    mesh_value m;
    m.axes.push_back({"x", 1 + below(3)});
    m.axes.push_back({"y", 1 + below(2)});
    mesh_ = m;
    return m;
  }
  spec layout_of(const std::vector<std::string_view>& dims) {
    spec s;
    s.mesh = mesh_;
    for (const std::string_view d : dims) s.dims.push_back(placement(dim_ref{d}));
    for (const char* axis : {"x", "y"})
      if (const auto k = static_cast<std::size_t>(below(static_cast<int>(dims.size()) + 1)); k < dims.size())
        s.dims[k].axes.push_back(axis);
    return s;
  }
  /// Changes all inputs a little along a random direction.
  void compare_with_differences(const graph& g, const sizes& at, const std::vector<host_array>& data,
                                const std::vector<host_array>& want) {
    constexpr double step = 1e-6;
    auto up = data, down = data;
    double slope[2] = {}, scale[2] = {1, 1};
    for (std::size_t k = 0; k < 3; ++k)
      for (std::size_t i = 0; i < data[k].data.size(); ++i) {
        const double d = between();
        up[k].data[i] += step * d;
        down[k].data[i] -= step * d;
        for (std::size_t order = 0; order < 2; ++order) {
          slope[order] += d * want[2 + 3 * order + k].data[i];
          scale[order] += std::fabs(d * want[2 + 3 * order + k].data[i]);
        }
      }
    const auto above = evaluate(g, at, up), below = evaluate(g, at, down);
    for (std::size_t order = 0; order < 2; ++order)
      EXPECT_NEAR(slope[order], (above[order].data[0] - below[order].data[0]) / (2 * step), 1e-4 * scale[order])
          << program_ << ", derivative " << order + 1;
  }
  static value leaf(std::uint_fast32_t kind, const value& a, const value& b) {
    switch (kind % 8) {
      case 0: return sin(a) * b;
      case 1: return tanh(a * a + b);
      case 2: return sin(a + sum(b, embed) * 0.3);
      case 3: return select(a > b, a * b, sin(b));
      case 4: return softmax(a, embed) * b + a * 0.5;
      case 5: return roll(b, embed, 1) * 0.7 + sin(a);
      case 6: return shift(a, embed, 1) * sin(a) + b * 0.3;
      default: return a;
    }
  }
  static value nest(std::uint_fast32_t seed, int depth, const value& a, const value& b, const value& w, bool in_scan) {
    std::mt19937 draw(seed);
    const auto kind = draw(), one = draw(), other = draw();
    const value c = leaf(kind / 8, a, b);
    if (depth == 0) return c;
    const auto body = [=](std::uint_fast32_t of, bool within) {
      return [=](const value& x, const value& y) { return nest(of, depth - 1, x, y, w, within); };
    };
    switch (in_scan ? kind % 4 : kind % 6) {
      case 0: return value(cond(sum(a) > 0.2, body(one, in_scan), body(other, in_scan), c, b)) + a * 0.1;
      case 1: return value(remat(function(body(one, in_scan)))(c, b));
      case 2: return repeat_times(2, c, [=](const value& x) { return nest(one, depth - 1, x, b, w, in_scan); });
      case 3: return sin(nest(one, depth - 1, c, b, w, in_scan)) * nest(other, depth - 1, b, c, w, in_scan);
      case 4: return value(scan(layer, c, w, body(one, true))) + b * 0.1;
      default: {
        const auto [last, all] = scan(
            layer, c, w,
            [=](const value& x, const value& y) {
              const value next = nest(one, depth - 1, x, y, w, true);
              return std::pair(next, next * x + y * b);
            },
            (other & 1) != 0 ? direction::forward : direction::backward);
        return last * 0.5 + sum(all, layer) * 0.3;
      }
    }
  }

  std::mt19937 random_;
  unsigned program_;
  mesh_value mesh_{};
};
TEST(Loops, NestsHaveSecondDerivatives) {
  int planned = 0;
  for (unsigned seed = 0; seed < 120; ++seed) planned += nests(seed).check(1 + static_cast<int>(seed % 3)) ? 1 : 0;
  EXPECT_GT(planned, 100);
}

// What is captured may be where a gradient ends: in a predicate, or behind stop_gradient.
TEST(Loops, OwnDerivativesCaptureWhatHasNoSlope) {
  mesh_value mesh;
  mesh.axes.push_back({"x", 1});
  recorder in(mesh);
  spec s;
  s.mesh = mesh;
  s.dims = {placement(embed)};
  const value x = in.input(element::f64, s), y = in.input(element::f64, s);
  const auto loss = [](const value& a, const value& b) {
    const auto masked =
        custom_vjp([=](const value& u) { return std::pair(select(b > 0.0, u, 0.0) * stop_gradient(b), std::tuple(u)); },
                   [=](const auto&, const value& g) { return select(b > 0.0, g, 0.0) * stop_gradient(b); });
    return sum(masked(a));
  };
  const auto [l, pullback] = vjp(loss, x, y);
  const auto [dx, dy] = pullback(in.constant(1, element::f64, {}));
  in.output(dx), in.output(dy);
  const graph g = in.take();
  ASSERT_TRUE(g.found.ok()) << static_cast<int>(g.found.fault);
  const sizes at = sizes_for(g, std::vector<named_size>{{"embed", 2}});
  std::vector<host_array> data(2, host_array(shape_of(g.nodes[g.inputs[0]].type, at)));
  data[0].data[0] = data[0].data[1] = 3;
  data[1].data[0] = 5, data[1].data[1] = -5;
  const auto slopes = evaluate(g, at, data);
  EXPECT_EQ(slopes[0].data[0], 5);
  EXPECT_EQ(slopes[0].data[1], 0);
  EXPECT_EQ(slopes[1].data[0], 0);
}

// What the second derivative keeps of a branch is a value that the first one carries: u of the slope of u * v by v.
TEST(Loops, KeepWhatABranchCarries) {
  mesh_value mesh;
  mesh.axes.push_back({"x", 1});
  recorder in(mesh);
  spec number;
  number.mesh = mesh;
  const value x = in.input(element::f64, number), y = in.input(element::f64, number);
  const value one = in.constant(1, element::f64, {});
  const auto f = [](const value& a, const value& b) {
    return cond(
        a > 0.9, [](const value& u, const value& v) { return u * v; },
        [](const value& u, const value& v) { return u + v; }, a, b);
  };
  const auto square_of_slope = [&](const value& a, const value& b) {
    const auto [l, pullback] = vjp(f, a, b);
    const auto [da, db] = pullback(one);
    return db * db;
  };
  const auto [square, pullback] = vjp(square_of_slope, x, y);
  const auto [dx, dy] = pullback(one);
  in.output(dx), in.output(dy);
  const graph g = in.take();
  ASSERT_TRUE(g.found.ok());
  const sizes at = sizes_for(g);
  std::vector<host_array> data;
  for (const double v : {1.2, 0.9}) data.emplace_back(shape{}).data[0] = v;
  const program p = partition(g, at);
  ASSERT_TRUE(p.found.ok());
  const simulated got = simulate(p, at, data);
  ASSERT_EQ(got.problem, "");
  EXPECT_DOUBLE_EQ(got.results[0].data[0], 2.4);
  EXPECT_DOUBLE_EQ(got.results[1].data[0], 0);
}

// What no iteration changes is computed and moved before the loop; copies of what goes on are in it.
TEST(Loops, DoOnceWhatDoesNotChange) {
  mesh_value mesh;
  mesh.axes.push_back({"x", 4});
  recorder in(mesh);
  spec sharded, whole;
  sharded.mesh = whole.mesh = mesh;
  sharded.dims = {placement(embed), placement(hidden)};
  sharded.dims[0].axes.push_back("x");
  whole.dims = {placement(batch), placement(embed)};
  const value x = in.input(element::f64, whole), w = in.input(element::f64, sharded);
  const value y = repeat_times(10, x, [&](const value& v) {
    return tanh(rename(dot(v,
                           exp(reshard(w,
                                       [&] {
                                         spec s = sharded;
                                         s.dims[0].axes = {};
                                         return s;
                                       }())),
                           embed),
                       hidden, embed));
  });
  in.output(y, element::f64, whole);
  const graph g = in.take();
  ASSERT_TRUE(g.found.ok());
  sizes at = sizes_for(g);
  for (std::size_t d = 0; d < g.dims.size(); ++d)
    if (g.loops[0].along != d) at.dims[d] = 8;
  const program p = partition(g, at);
  int inside = 0, outside = 0;
  for (const step& s : p.steps) (s.in_loop == 0 ? outside : inside) += is_collective(s) ? 1 : 0;
  EXPECT_EQ(inside, 0);
  EXPECT_EQ(outside, 1);
  EXPECT_EQ(bytes(p, at), 8 * 8 * 8 * 3 / 4);
}

// The gradient of what all iterations read is added up iteration by iteration, partial as it comes, and reduced once
// after the loop.
TEST(Loops, AccumulateGradientsAndReduceThemOnce) {
  mesh_value mesh;
  mesh.axes.push_back({"x", 4});
  recorder in(mesh);
  spec parts, weights, none;
  parts.mesh = weights.mesh = none.mesh = mesh;
  parts.dims = {placement(layer), placement(batch), placement(embed)};
  parts.dims[1].axes.push_back("x");
  weights.dims = {placement(embed), placement(hidden)};
  const value x = in.input(element::f64, parts), w = in.input(element::f64, weights);
  const auto loss = [&](const value& v) {
    return scan(layer, in.constant(0, element::f64, {}), x,
                [&](const value& total, const value& part) { return total + sum(tanh(dot(part, v, embed))); });
  };
  const auto [total, pullback] = vjp(loss, w);
  in.output(total, element::f64, none);
  in.output(pullback(in.constant(1, element::f64, {})), element::f64, weights);
  const graph g = in.take();
  ASSERT_TRUE(g.found.ok());
  const sizes at = sizes_for(g, std::array{named_size{"layer", 5}, named_size{"batch", 8}, named_size{"embed", 3},
                                           named_size{"hidden", 2}});
  const program p = partition(g, at);
  int inside = 0;
  for (const step& s : p.steps) inside += is_collective(s) && s.in_loop != 0 ? 1 : 0;
  EXPECT_EQ(inside, 0);
  EXPECT_EQ(bytes(p, at), 2 * 3 * (3 * 2 + 1) * 8 / 4);
  std::vector<host_array> data;
  for (node_id i : g.inputs) {
    host_array a(shape_of(g.nodes[i].type, at));
    for (std::size_t k = 0; k < a.data.size(); ++k) a.data[k] = std::sin(static_cast<double>(k + data.size()));
    data.push_back(a);
  }
  const auto want = evaluate(g, at, data);
  const simulated got = simulate(p, at, data);
  ASSERT_EQ(got.problem, "");
  for (std::size_t r = 0; r < 2; ++r) EXPECT_EQ(first_difference(want[r].data, got.results[r].data, 1e-12), -1);
}

// A loop reads a stack in the memory order that its slices have, though the stack is also a result in another.
TEST(Loops, ReadWhatIsAResultInAnotherOrder) {
  mesh_value mesh;
  mesh.axes.push_back({"x", 2});
  recorder in(mesh);
  spec stacked, turned, rows;
  stacked.mesh = turned.mesh = rows.mesh = mesh;
  stacked.dims = {placement(layer), placement(embed)};
  turned.dims = {placement(embed), placement(layer)};
  rows.dims = {placement(embed)};
  const value x = in.input(element::f64, stacked), start = in.input(element::f64, rows);
  const value doubled = x * 2;
  in.output(scan(layer, start, doubled, [](const value& h, const value& w) { return h * w + h; }), element::f64, rows);
  in.output(doubled, element::f64, turned);
  const graph g = in.take();
  ASSERT_TRUE(g.found.ok());
  const sizes at = sizes_for(g, std::array{named_size{"layer", 3}, named_size{"embed", 4}});
  host_array a(shape_of(g.nodes[g.inputs[0]].type, at)), h(shape_of(g.nodes[g.inputs[1]].type, at));
  for (std::size_t i = 0; i < a.data.size(); ++i) a.data[i] = static_cast<double>(i) / 8;
  for (std::size_t i = 0; i < h.data.size(); ++i) h.data[i] = static_cast<double>(i + 1);
  const simulated got = simulate(partition(g, at), at, std::array{a, h});
  ASSERT_EQ(got.problem, "");
  for (std::size_t e = 0; e < 4; ++e) {
    double want = h.data[e];
    for (std::size_t l = 0; l < 3; ++l) {
      want = want * a.data[l * 4 + e] * 2 + want;
      EXPECT_EQ(got.results[1].data[e * 3 + l], 2 * a.data[l * 4 + e]);
    }
    EXPECT_DOUBLE_EQ(got.results[0].data[e], want);
  }
}

TEST(Loops, RunAWholeNumberOfTimes) {
  for (const double times : {-1.0, 2.5}) {
    recorder in(mesh_value{});
    const value x = in.input(element::f64, spec{});
    in.output(repeat_times(times, x, [](const value& u) { return u + 1; }));
    EXPECT_EQ(in.take().found.fault, fault::not_a_count) << times;
  }
}

} // namespace CLEAVE_SOURCE
