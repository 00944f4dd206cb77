// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random graphs on random meshes with random layouts and extents: every plan, simulated, must give what the plain
// evaluator gives, and move what it was priced at.
#include <cleave/expr/functions.hpp>
#include <cleave/ops/print.hpp>
#include <cleave/simulate/evaluate.hpp>
#include <cleave/simulate/simulate.hpp>
#include <cleave/study/explain_plan.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace CLEAVE_SOURCE {

using namespace cleave;

constexpr std::string_view dim_names[] = {"a", "b", "c", "d", "e"};
constexpr std::string_view axis_names[] = {"x", "y", "z"};

class random_program {
 public:
  explicit random_program(unsigned seed) : random_(seed), in_(some_mesh()) {}

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  void build() {
    for (std::int64_t& e : extents_) {
      constexpr std::int64_t choices[] = {0, 1, 2, 3, 5, 8, 8, 12, 12, 16};
      e = choices[below(10)];
    }
    const int inputs = 2 + below(3);
    for (int n = 0; n < inputs; ++n)
      values_.push_back(in_.input(element::f64, some_spec(some_dims(), n > 0 && below(6) == 0)));
    const int ops = 2 + below(7);
    for (int n = 0; n < ops; ++n) step();
    for (int n = 0; n < 1 + below(2); ++n) {
      value v = values_[values_.size() - 1 - static_cast<std::size_t>(below(2))];
      std::vector<int> dims;
      for (int i = 0; i < in_.at(v).type.rank; ++i) dims.push_back(number(in_.made().dims[in_.at(v).type[i]].name));
      std::shuffle(dims.begin(), dims.end(), random_);
      in_.output(v, element::f64, some_spec(dims, below(6) == 0));
    }
  }
  const graph& made() const { return in_.made(); }
  sizes at() const {
    sizes s = sizes_for(made());
    for (std::size_t d = 0; d < made().dims.size(); ++d)
      s.dims[d] = extents_[static_cast<std::size_t>(number(made().dims[d].name))];
    return s;
  }
  std::vector<host_array> data() {
    std::vector<host_array> inputs;
    for (node_id i : made().inputs) {
      host_array a(shape_of(made().nodes[i].type, at()));
      for (double& x : a.data) x = std::uniform_real_distribution<double>(0.1, 1)(random_);
      inputs.push_back(a);
    }
    return inputs;
  }

 private:
  mesh_value some_mesh() {
    mesh_value m;
    const int axes = 1 + below(3);
    for (int a = 0; a < axes; ++a) m.axes.push_back({axis_names[a], 1 + below(axes == 1 ? 8 : axes == 2 ? 4 : 3)});
    return m;
  }
  static int number(std::string_view name) { return name[0] - 'a'; }
  dim_ref dim(int n) { return {dim_names[n], dynamic}; }

  std::vector<int> some_dims() {
    std::vector<int> dims{0, 1, 2, 3, 4};
    std::shuffle(dims.begin(), dims.end(), random_);
    dims.resize(static_cast<std::size_t>(1 + below(3)));
    return dims;
  }
  spec some_spec(const std::vector<int>& dims, bool partial) {
    spec s;
    s.mesh = in_.made().mesh;
    for (int d : dims) s.dims.push_back(placement(dim(d)));
    for (int a = 0; a < s.mesh.size(); ++a) {
      const int where = below(static_cast<int>(dims.size()) + 1);
      if (where < static_cast<int>(dims.size())) s.dims[static_cast<std::size_t>(where)].axes.push_back(axis_names[a]);
      else if (partial && below(2) == 0) s.unreduced.push_back(axis_names[a]);
    }
    return s;
  }
  value pick() { return values_[static_cast<std::size_t>(below(static_cast<int>(values_.size())))]; }
  bool has(value v, int d) {
    const int id = in_.made().find_dim(dim_names[d]);
    return id >= 0 && in_.at(v).type.has(static_cast<dim_id>(id));
  }
  bool partial_input(value v) { return in_.at(v).pin.unreduced() != 0; }

  /// Appends one operation that the recorder accepts.
  void step() {
    for (int tries = 0; tries < 50; ++tries) {
      const value a = pick(), b = pick();
      const bool whole = !partial_input(a) && !partial_input(b);
      value made;
      switch (below(10)) {
        case 0:
          if (whole) made = below(2) != 0 ? exp(-a) : tanh(a);
          break;
        case 1: made = 0.5 * a; break;
        case 2:
        case 3: {
          if (!whole) break;
          const dim_set sa = in_.at(a).type.set(), sb = in_.at(b).type.set();
          if ((sa & sb) != sa && (sa & sb) != sb) break;
          made = below(3) == 0 ? a * b : below(2) != 0 ? a + b : a - b;
          break;
        }
        case 4:
        case 5:
        case 6: {
          std::vector<dim_ref> over;
          for (int d = 0; d < 5; ++d)
            if (has(a, d) && has(b, d) && below(3) != 0) over.push_back(dim(d));
          if (in_.at(a).type.rank + in_.at(b).type.rank > 6) break;
          if (partial_input(a) && partial_input(b)) break;
          made = in_.dot(a, b, over, {});
          break;
        }
        case 7: {
          std::vector<dim_ref> over;
          for (int d = 0; d < 5; ++d)
            if (has(a, d) && below(2) == 0) over.push_back(dim(d));
          if (over.empty()) break;
          // An empty maximum is not a number that arithmetic keeps.
          made = in_.reduce(reduction::sum, a, over, {});
          break;
        }
        case 8: {
          if (!whole) break;
          std::vector<int> dims;
          for (int d = 0; d < 5; ++d)
            if (has(a, d)) dims.push_back(d);
          if (dims.empty() || in_.at(a).code == op::constrain) break;
          made = below(2) != 0 ? reshard(a, some_spec(dims, false)) : constrain(a, some_spec(dims, false));
          break;
        }
        default: {
          if (!whole) break;
          const dim_set sa = in_.at(a).type.set(), sb = in_.at(b).type.set();
          if ((sa & sb) != sb) break;
          made = select(a > 0.5, a, b);
        }
      }
      if (!made.ok()) continue;
      if (in_.at(made).type.rank > 4) continue;
      values_.push_back(made);
      return;
    }
  }

  std::mt19937 random_;
  recorder in_;
  std::vector<value> values_{};
  std::array<std::int64_t, 5> extents_{};
};

TEST(Fuzz, SimulatedPlansAgreeWithTheEvaluatorAndTheirPrice) {
  int planned = 0, ties = 0;
  for (unsigned seed = 1; seed <= 6000; ++seed) {
    random_program r(seed);
    r.build();
    ASSERT_TRUE(r.made().found.ok()) << "seed " << seed << " fault " << static_cast<int>(r.made().found.fault);
    const sizes at = r.at();
    // Hints need not be the sizes of the run: the plan is right for every size.
    const sizes hints = seed % 2 == 0 ? at : sizes_for(r.made());
    const policy rule = seed % 3 == 0   ? policy::bytes_first(1)
                        : seed % 3 == 1 ? policy::bytes_first(8)
                                        : policy::time();
    const program p = partition(r.made(), hints, rule);
    if (p.found.fault == fault::layouts_tie) {
      ++ties;
      continue;
    }
    ASSERT_TRUE(p.found.ok()) << "seed " << seed << " fault " << static_cast<int>(p.found.fault);
    ++planned;
    const auto inputs = r.data();
    const auto wanted = evaluate(r.made(), at, inputs);
    const simulated got = simulate(p, at, inputs);
    const std::string story = "seed " + std::to_string(seed) + "\n" + to_string(r.made()) + explain(p, at);
    ASSERT_EQ(got.problem, "") << story;
    ASSERT_EQ(wanted.size(), got.results.size());
    for (std::size_t o = 0; o < wanted.size(); ++o) {
      ASSERT_EQ(wanted[o].extents, got.results[o].extents) << story;
      for (std::size_t i = 0; i < wanted[o].data.size(); ++i)
        ASSERT_NEAR(wanted[o].data[i], got.results[o].data[i], 1e-9 * (1 + std::fabs(wanted[o].data[i])))
            << story << "result " << o << " element " << i;
    }
    ASSERT_EQ(bytes(p, at), got.bytes) << story;
  }
  EXPECT_GT(planned, 5000) << ties << " ties";
}

} // namespace CLEAVE_SOURCE
