// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random programs of every op and element type: views, indices, counts, selections, reductions of every kind over
// partial arguments, results that are arguments or other results. Whole numbers as data, so that sums are exact in
// every order and values are compared bit by bit; functions that round only where nothing is compared afterwards.
#include <cleave/expr/functions.hpp>
#include <cleave/simulate/simulate.hpp>
#include <cleave/study/explain_plan.hpp>

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace CLEAVE_SOURCE {

using namespace cleave;

constexpr std::string_view axis_names[] = {"x", "y", "z"};
/// The last three are a split of one: whole = major * minor.
constexpr std::string_view dim_names[] = {"a", "b", "c", "d", "e", "whole", "major", "minor"};
constexpr int whole = 5, major = 6, minor = 7, dims = 8;
constexpr element types[] = {element::f64, element::f32, element::bf16, element::i32, element::u8, element::boolean};

class random_program {
 public:
  explicit random_program(unsigned seed) : random_(seed), in_(some_mesh()) {
    constexpr std::int64_t choices[] = {0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 12};
    for (std::int64_t& e : extents_) e = choices[below(11)];
    // b renamed is c.
    extents_[2] = extents_[1];
    promised_ = below(2) != 0;
    if (promised_) extents_[major] = devices() * (1 + below(2));
    extents_[minor] = 1 + below(4);
    extents_[whole] = extents_[major] * extents_[minor];
    for (int n = 2 + below(3); n > 0; --n) input();
    for (int n = 2 + below(8); n > 0; --n) step();
    for (int n = 1 + below(3); n > 0; --n) result();
  }
  const graph& made() const { return in_.made(); }
  sizes at() const {
    sizes s = sizes_for(made());
    for (std::size_t d = 0; d < made().dims.size(); ++d)
      s.dims[d] = extents_[static_cast<std::size_t>(number(made().dims[d].name))];
    return s;
  }
  std::vector<host_array> data() {
    std::vector<host_array> all;
    for (node_id i : made().inputs) {
      const element e = made().nodes[i].type.element;
      host_array a(shape_of(made().nodes[i].type, at()));
      for (double& x : a.data) x = simulation::stored(e, e == element::boolean ? below(2) : below(7) - 3);
      all.push_back(std::move(a));
    }
    return all;
  }

 private:
  struct known {
    value v;
    /// Exact whole numbers; false after a function that rounds.
    bool exact;
  };

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool coin(int n = 2) { return below(n) == 0; }
  mesh_value some_mesh() {
    mesh_value m;
    const int axes = 1 + below(3);
    for (int a = 0; a < axes; ++a) m.axes.push_back({axis_names[a], 1 + below(axes == 1 ? 8 : axes == 2 ? 4 : 3)});
    return m;
  }
  std::int64_t devices() const {
    std::int64_t n = 1;
    for (const axis_info& a : in_.made().mesh.axes) n *= a.size;
    return n;
  }
  static int number(std::string_view name) {
    int n = 0;
    while (dim_names[n] != name) ++n;
    return n;
  }
  dim_ref dim(int n) const { return {dim_names[n], dynamic, n == major && promised_}; }
  int number_at(value v, int i) const { return number(in_.made().dims[in_.at(v).type[i]].name); }
  std::vector<int> dims_of(value v) const {
    std::vector<int> list;
    for (int i = 0; i < in_.at(v).type.rank; ++i) list.push_back(number_at(v, i));
    return list;
  }
  bool has(value v, int d) const {
    const std::vector<int> list = dims_of(v);
    return std::find(list.begin(), list.end(), d) != list.end();
  }
  element type(value v) const { return in_.at(v).type.element; }

  /// Axes at random on dims; some of the others unreduced.
  spec some_spec(const std::vector<int>& list, bool partial) {
    spec s;
    s.mesh = in_.made().mesh;
    for (int d : list) s.dims.push_back(placement(dim(d)));
    std::vector<int> order{0, 1, 2};
    std::shuffle(order.begin(), order.end(), random_);
    for (int a : order) {
      if (a >= s.mesh.size()) continue;
      const auto where = static_cast<std::size_t>(below(static_cast<int>(list.size()) + 1));
      if (where < list.size()) s.dims[where].axes.push_back(axis_names[a]);
      else if (partial && coin()) s.unreduced.push_back(axis_names[a]);
    }
    return s;
  }

  void input() {
    std::vector<int> list{0, 1, 2, 3, 4, whole, major, minor};
    std::shuffle(list.begin(), list.end(), random_);
    list.resize(static_cast<std::size_t>(below(4)));
    spec s = some_spec(list, coin(5));
    s.combine = static_cast<reduction>(below(4));
    const element e = types[below(6)];
    values_.push_back({in_.input(e, s), true});
  }

  known pick() { return values_[static_cast<std::size_t>(below(static_cast<int>(values_.size())))]; }
  /// The recorder refuses partial arguments where they do not commute; those are not asked for.
  bool partial(value v) const {
    return (in_.at(v).code == op::input || in_.at(v).code == op::reshard) && in_.at(v).pin.unreduced() != 0;
  }
  std::vector<dim_ref> some_of(value v) {
    std::vector<dim_ref> list;
    for (int d : dims_of(v))
      if (coin()) list.push_back(dim(d));
    return list;
  }

  void step() {
    for (int tries = 0; tries < 60; ++tries) {
      const known a = pick(), b = pick();
      const value v = one(a, b);
      if (!v.ok() || in_.at(v).type.rank > 6) continue;
      values_.push_back({v, exact_});
      return;
    }
  }
  value one(known a, known b) {
    exact_ = a.exact;
    const bool pa = partial(a.v), pb = partial(b.v);
    const element e = type(a.v);
    const dim_set sa = in_.at(a.v).type.set(), sb = in_.at(b.v).type.set();
    const bool alike = e == type(b.v) && ((sa & sb) == sa || (sa & sb) == sb);
    switch (below(15)) {
      case 0: return pa ? value{} : in_.elementwise(some_unary(e), std::array{a.v}, {});
      case 1:
        return pa ? value{} : is_floating(e) ? rounded(a.v) : in_.elementwise(op::logical_not, std::array{a.v}, {});
      case 2:
        if (pa && (in_.at(a.v).pin.combine() != reduction::sum || e == element::boolean)) return {};
        return pa && coin() ? -a.v : a.v * factor(e);
      case 3:
      case 4: {
        if (pa || pb || !alike) return {};
        exact_ = a.exact && b.exact;
        constexpr op codes[] = {op::add, op::sub, op::mul, op::maximum, op::minimum, op::add};
        return in_.elementwise(codes[below(6)], std::array{a.v, b.v}, {});
      }
      case 5: {
        if (pa || pb || !alike || !a.exact || !b.exact) return {};
        constexpr op codes[] = {op::equal, op::not_equal, op::less, op::less_equal, op::greater, op::greater_equal};
        return in_.elementwise(codes[below(6)], std::array{a.v, b.v}, {});
      }
      case 6: {
        // A predicate from b, when it has no dim that a lacks.
        if (pa || pb || (sa & sb) != sb || !b.exact) return {};
        return select(type(b.v) == element::boolean ? b.v : b.v > 0, a.v, a.v * (e == element::boolean ? 1 : 2));
      }
      case 7:
      case 8: {
        if ((pa && pb) || e != type(b.v)) return {};
        if ((pa || pb) && (in_.at(pa ? a.v : b.v).pin.combine() != reduction::sum || e == element::boolean)) return {};
        std::vector<dim_ref> over;
        for (int d : dims_of(a.v))
          if (has(b.v, d) && !coin(3) && over.size() < 8) over.push_back(dim(d));
        exact_ = a.exact && b.exact;
        return in_.dot(a.v, b.v, over, {});
      }
      case 9: {
        const reduction how = pa ? in_.at(a.v).pin.combine() : static_cast<reduction>(below(4));
        // Products outgrow exact numbers, and the maximum of nothing is infinite.
        if (how == reduction::prod && is_floating(e) && !pa) return {};
        const std::vector<dim_ref> over = some_of(a.v);
        if (is_floating(e) && (how == reduction::max || how == reduction::min) && empty(a.v)) return {};
        return in_.reduce(how, a.v, over, {});
      }
      case 10: {
        if (pa) return {};
        if (has(a.v, 1) && !has(a.v, 2)) return rename(a.v, dim(1), dim(2));
        return has(a.v, 2) && !has(a.v, 1) ? rename(a.v, dim(2), dim(1)) : value{};
      }
      case 11: {
        if (pa) return {};
        if (has(a.v, whole) && !has(a.v, major) && !has(a.v, minor))
          return split(a.v, dim(whole), dim(major), dim(minor));
        return has(a.v, major) && has(a.v, minor) && !has(a.v, whole) ? merge(a.v, dim(major), dim(minor), dim(whole))
                                                                      : value{};
      }
      case 12: {
        if (pa) return {};
        const std::vector<int> list = dims_of(a.v);
        if (coin(3)) return reshard(a.v, some_spec(list, sums(a.v) && coin(4)));
        return in_.at(a.v).code == op::constrain ? value{} : constrain(a.v, some_spec(list, false));
      }
      case 13: {
        if (coin()) return in_.iota(dim(below(dims)), coin() ? element::i32 : element::f64, {});
        dim_set counted = 0;
        for (int d : dims_of(a.v)) counted |= dim_bit(static_cast<dim_id>(in_.made().find_dim(dim_names[d])));
        return in_.count(counted, coin() ? element::i32 : element::f64, {});
      }
      default: {
        if (pa) return {};
        const element to = types[below(6)];
        return a.exact || is_floating(to) ? cast(a.v, to) : value{};
      }
    }
  }
  /// 1 or 2; bool has no 2.
  double factor(element e) {
    const int f = 1 + below(2);
    return e == element::boolean ? 1 : f;
  }
  bool empty(value v) const {
    for (int d : dims_of(v))
      if (extents_[static_cast<std::size_t>(d)] == 0) return true;
    return false;
  }
  op some_unary(element e) {
    constexpr op real[] = {op::neg, op::abs, op::sign, op::relu, op::floor};
    return e == element::boolean ? op::logical_not : exact_ ? real[below(5)] : real[below(2)];
  }
  value rounded(value v) {
    exact_ = false;
    constexpr op codes[] = {op::tanh, op::sigmoid, op::sin, op::cos, op::gelu, op::erf};
    return in_.elementwise(codes[below(6)], std::array{v}, {});
  }

  /// Values that may be asked for as partial sums: of products and of chains of arithmetic.
  bool sums(value v) const { return type(v) != element::boolean; }
  void result() {
    const known k = coin(4) ? pick() : values_.back();
    std::vector<int> list = dims_of(k.v);
    std::shuffle(list.begin(), list.end(), random_);
    const spec s = some_spec(list, sums(k.v) && coin(4));
    in_.output(k.v, type(k.v), s);
  }

  std::mt19937 random_;
  recorder in_;
  std::vector<known> values_{};
  std::array<std::int64_t, dims> extents_{};
  bool promised_ = false;
  bool exact_ = true;
};

TEST(Programs, OfEveryOpGiveWhatTheyMeanAndMoveWhatTheyCost) {
  int planned = 0;
  std::map<op, int> met;
  std::map<kind, int> moves;
  for (unsigned seed = 1; seed <= 4000; ++seed) {
    random_program r(seed);
    ASSERT_TRUE(r.made().found.ok()) << "seed " << seed << " fault " << static_cast<int>(r.made().found.fault) << " in "
                                     << r.made().found.op;
    const sizes at = r.at();
    const sizes hints = seed % 2 == 0 ? at : sizes_for(r.made());
    const policy rule = seed % 3 == 0   ? policy::bytes_first(1)
                        : seed % 3 == 1 ? policy::bytes_first(8)
                                        : policy::time();
    const program p = partition(r.made(), hints, rule);
    if (p.found.fault == fault::layouts_tie) continue;
    const auto story = [&] {
      std::string text = "seed " + std::to_string(seed) + "\n" + to_string(r.made());
      for (std::size_t o = 0; o < r.made().outputs.size(); ++o)
        text += "asked " +
                to_string(r.made().output_types[o], r.made().output_layouts[o], r.made().dims, r.made().mesh) + "\n";
      return text + explain(p, at);
    };
    if (!p.found.ok()) {
      ADD_FAILURE() << "seed " << seed << " fault " << static_cast<int>(p.found.fault) << " in " << p.found.op << "\n"
                    << to_string(r.made());
      continue;
    }
    ++planned;
    for (const node& n : r.made().nodes) ++met[n.code];
    for (const step& s : p.steps) ++moves[s.move];
    const auto arguments = r.data();
    const auto wanted = evaluate(r.made(), at, arguments);
    const simulated got = simulate(p, at, arguments, seed);
    if (!got.problem.empty()) {
      ADD_FAILURE() << got.problem << "\n" << story();
      continue;
    }
    for (std::size_t o = 0; o < wanted.size(); ++o) {
      const buffer& result = p.buffers[p.arguments + o];
      EXPECT_TRUE(result.type == r.made().output_types[o] && result.where == r.made().output_layouts[o]) << story();
      EXPECT_EQ(wanted[o].extents, got.results[o].extents) << story();
      EXPECT_EQ(first_difference(wanted[o].data, got.results[o].data, 1e-9), -1) << "result " << o << "\n" << story();
    }
    EXPECT_EQ(bytes(p, at), got.bytes) << story();
    EXPECT_EQ(flops(p, at), got.flops) << story();
  }
  EXPECT_GT(planned, 3000);
  for (op code : {op::iota, op::count, op::select, op::dot, op::reduce, op::rename, op::split, op::merge, op::constrain,
                  op::reshard, op::cast})
    EXPECT_GT(met[code], 20) << name_of(code);
  for (kind k : {kind::slice, kind::mask, kind::all_reduce, kind::reduce_scatter, kind::all_gather, kind::all_to_all,
                 kind::collective_permute})
    EXPECT_GT(moves[k], 20) << name_of(k);
}

} // namespace CLEAVE_SOURCE
