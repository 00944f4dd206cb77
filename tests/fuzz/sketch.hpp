// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/cumulative.hpp>
#include <cleave/expr/gradient.hpp>
#include <cleave/expr/lookup.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>
#include <cleave/expr/random.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/expr/sort.hpp>
#include <cleave/plan/plan.hpp>
#include <cleave/simulate/array.hpp>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// Programs as plain lists, which can be recorded, cut down and printed as C++.
namespace fuzz {

using namespace cleave;

inline constexpr std::string_view axis_names[] = {"x", "y", "z", "w"};
/// Names live as long as graphs do.
inline constexpr std::string_view dim_names[] = {"a",   "b",   "c",   "d",   "e",   "n5",  "n6",  "n7",
                                                 "n8",  "n9",  "n10", "n11", "n12", "n13", "n14", "n15",
                                                 "n16", "n17", "n18", "n19", "n20", "n21", "n22", "n23",
                                                 "n24", "n25", "n26", "n27", "n28", "n29", "n30", "n31"};
inline constexpr int most_dims = 32;
inline constexpr int base_dims = 5;

/// A dim: its extent in the run, unless it follows from others, and whether the program says it.
struct sized_dim {
  std::int64_t size = -1;
  bool fixed = false;
  bool divisible = false;
};
struct sized_axis {
  std::int64_t size = 1;
  bool fixed = true;
};

/// A layout by numbers of dims and axes.
struct written_layout {
  struct entry {
    int dim = 0;
    std::vector<int> axes{};
  };
  std::vector<entry> dims{};
  std::vector<int> unreduced{};
  reduction combine = reduction::sum;
};

/// One operation: which one of the table, its operands (earlier steps), dims, numbers, and for a few a type or a
/// layout.
struct step_line {
  int what = 0;
  std::vector<int> in{};
  std::vector<int> dims{};
  std::vector<std::int64_t> numbers{};
  element type = element::none;
  written_layout where{};
};

struct asked_result {
  int step = 0;
  written_layout where{};
};

struct sketch {
  std::vector<sized_axis> axes{};
  std::vector<sized_dim> dims{};
  std::vector<step_line> steps{};
  std::vector<asked_result> results{};
  /// Inputs by which a number made of step `loss` is differentiated; none: no gradient.
  std::vector<int> by{};
  std::vector<written_layout> gradients{};
  int loss = -1;
  /// 0: time; else bytes_first(repeat - 1).
  int repeat = 0;
  /// Whether the plan is made for the sizes of the run, or for hints.
  bool expects = true;
  unsigned seed = 0;
};

/// What an operation of the table records from.
inline double number_beside(element e, std::int64_t quarters) {
  const double number = static_cast<double>(quarters) / 4;
  return has_number(e, number) ? number : std::trunc(number);
}

struct step_call {
  const sketch& all;
  const step_line& now;
  recorder& in;
  const std::vector<value>& made;

  value x(std::size_t k = 0) const { return made[static_cast<std::size_t>(now.in[k])]; }
  dim_ref named(int d) const {
    const sized_dim& s = all.dims[static_cast<std::size_t>(d)];
    return {dim_names[d], s.fixed ? s.size : dynamic, s.divisible};
  }
  dim_ref d(std::size_t k = 0) const { return named(now.dims[k]); }
  std::vector<dim_ref> list() const {
    std::vector<dim_ref> refs;
    for (int each : now.dims) refs.push_back(named(each));
    return refs;
  }
  /// A one-hot form, also along a dim that the labels have: what is compared then is label and index.
  value hot() const {
    const int along = in.made().find_dim(d().name);
    if (along < 0 || !in.at(x()).type.has(along)) return one_hot<double>(x(), d());
    return cast<double>(x() == in.iota(d(), in.at(x()).type.element, source{}));
  }
  /// A sum over some dims, of bools too: then whether one of them holds.
  value total(value of, const std::vector<dim_ref>& over) const {
    return in.reduce(reduction::sum, of, over, source{});
  }
  std::int64_t n(std::size_t k = 0) const { return now.numbers[k]; }
  /// A number beside the first operand: quarters, of which integers have the whole part.
  double real(std::size_t k = 0) const { return number_beside(in.at(x()).type.element, now.numbers[k]); }
  border edge(std::size_t k) const { return static_cast<border>(now.numbers[k]); }
  running order(std::size_t k = 0) const { return static_cast<running>(now.numbers[k]); }
  spec layout_of(const written_layout& w) const {
    spec s;
    s.mesh = in.made().mesh;
    s.combine = w.combine;
    for (const auto& e : w.dims) {
      placement p(named(e.dim));
      for (int a : e.axes) p.axes.push_back(axis_names[a]);
      s.dims.push_back(p);
    }
    for (int a : w.unreduced) s.unreduced.push_back(axis_names[a]);
    return s;
  }
  window look(std::size_t k) const {
    return {d(3 * k), d(3 * k + 1), d(3 * k + 2), n(5 * k), n(5 * k + 1), n(5 * k + 2), n(5 * k + 3), edge(5 * k + 4)};
  }
};

/// Functions under remat and custom_vjp, which take theirs by type.
namespace bodies {
inline constexpr cleave::function wave([](auto v) { return sin(v) * tanh(v); });
inline constexpr cleave::function blend([](auto v, auto u) { return tanh(v * u) + v; });
inline constexpr cleave::function both([](auto v, auto u) { return std::pair(tanh(v + u), v * u); });
inline constexpr auto own = custom_vjp([](auto v) { return std::pair(tanh(v), v); },
                                       [](auto v, auto g) { return g * (1 - tanh(v) * tanh(v)); });
} // namespace bodies

/// An operation: how it is written, what a random step of it takes, and how it is recorded. Text and recording stand
/// side by side so that the program that is printed is the one that failed.
///
/// Text: $k operand, %k dim, %* all dims, #k number, &k number of quarters, ?k border, !k order, ^ element type, ~
/// layout.
///
/// Recipe: operands f (floating), n (numeric), b (bool), i (whole numbers), v (any), s (element type of the one
/// before), k (rank 0, whole); dims d (of the first operand), e (of the second), C (some that the first two share), D
/// (some of the first), O (any), Q (those of the first and others), g (new, follows from others), G (new, of some
/// extent), F and W (new, short and fixed), U and V (new, of 2 and 3), S (new, divides the first); numbers 0-9 (up to),
/// I (1 to 3), A (-4 to 4), T (-20 to 20), B (border), R (order), L (a place in the first dim), E (the same, or the
/// end); t (type), l (whole layout), p (partial layout), c (layout of some dims).
struct table_entry {
  std::string_view text;
  std::string_view recipe;
  /// 1: everywhere differentiable; 2: chosen more often.
  int flags;
  value (*record)(const step_call&);
};

inline const table_entry table[] = {
    {"input", "", 1, [](const step_call& c) { return c.in.input(c.now.type, c.layout_of(c.now.where)); }},
    // elementwise
    {"-$0", "n", 1, [](const step_call& c) { return -c.x(); }},
    {"abs($0)", "n", 0, [](const step_call& c) { return abs(c.x()); }},
    {"sign($0)", "n", 0, [](const step_call& c) { return sign(c.x()); }},
    {"exp($0)", "f", 1, [](const step_call& c) { return exp(c.x()); }},
    {"expm1($0)", "f", 1, [](const step_call& c) { return expm1(c.x()); }},
    {"log($0)", "f", 0, [](const step_call& c) { return log(c.x()); }},
    {"tanh($0)", "f", 1, [](const step_call& c) { return tanh(c.x()); }},
    {"sqrt($0)", "f", 0, [](const step_call& c) { return sqrt(c.x()); }},
    {"rsqrt($0)", "f", 0, [](const step_call& c) { return rsqrt(c.x()); }},
    {"erf($0)", "f", 1, [](const step_call& c) { return erf(c.x()); }},
    {"gelu($0)", "f", 1, [](const step_call& c) { return gelu(c.x()); }},
    {"relu($0)", "n", 0, [](const step_call& c) { return relu(c.x()); }},
    {"sigmoid($0)", "f", 1, [](const step_call& c) { return sigmoid(c.x()); }},
    {"sin($0)", "f", 1, [](const step_call& c) { return sin(c.x()); }},
    {"cos($0)", "f", 1, [](const step_call& c) { return cos(c.x()); }},
    {"floor($0)", "f", 0, [](const step_call& c) { return floor(c.x()); }},
    {"conj($0)", "n", 1, [](const step_call& c) { return conj(c.x()); }},
    {"real($0)", "n", 1, [](const step_call& c) { return real(c.x()); }},
    {"!$0", "b", 0, [](const step_call& c) { return !c.x(); }},
    {"cast($0, ^)", "vt", 0, [](const step_call& c) { return cast(c.x(), c.now.type); }},
    {"$0 + $1", "ns", 3, [](const step_call& c) { return c.x() + c.x(1); }},
    {"$0 - $1", "ns", 3, [](const step_call& c) { return c.x() - c.x(1); }},
    {"$0 * $1", "ns", 3, [](const step_call& c) { return c.x() * c.x(1); }},
    {"$0 / $1", "ns", 0, [](const step_call& c) { return c.x() / c.x(1); }},
    {"$0 * &0", "f9", 1, [](const step_call& c) { return c.x() * c.real(); }},
    {"$0 + #0", "n9", 1, [](const step_call& c) { return c.x() + c.n(); }},
    {"$0 * #0", "n3", 1, [](const step_call& c) { return c.x() * c.n(); }},
    {"$0 / #0", "nI", 3, [](const step_call& c) { return c.x() / c.n(); }},
    {"#0 - $0", "n3", 1, [](const step_call& c) { return c.n() - c.x(); }},
    {"pow($0, $1)", "ns", 0, [](const step_call& c) { return pow(c.x(), c.x(1)); }},
    {"pow($0, #0)", "n3", 0, [](const step_call& c) { return pow(c.x(), c.n()); }},
    {"maximum($0, $1)", "ns", 0, [](const step_call& c) { return maximum(c.x(), c.x(1)); }},
    {"minimum($0, $1)", "ns", 0, [](const step_call& c) { return minimum(c.x(), c.x(1)); }},
    {"$0 == $1", "vs", 0, [](const step_call& c) { return c.x() == c.x(1); }},
    {"$0 != $1", "vs", 0, [](const step_call& c) { return c.x() != c.x(1); }},
    {"$0 < $1", "ns", 0, [](const step_call& c) { return c.x() < c.x(1); }},
    {"$0 <= $1", "ns", 0, [](const step_call& c) { return c.x() <= c.x(1); }},
    {"$0 > &0", "n9", 0, [](const step_call& c) { return c.x() > c.real(); }},
    {"$0 >= $1", "ns", 0, [](const step_call& c) { return c.x() >= c.x(1); }},
    {"$0 + $1", "bs", 0, [](const step_call& c) { return c.x() + c.x(1); }},
    {"$0 - $1", "bs", 2, [](const step_call& c) { return c.x() - c.x(1); }},
    {"$0 * $1", "bs", 0, [](const step_call& c) { return c.x() * c.x(1); }},
    {"$0 / $1", "bs", 0, [](const step_call& c) { return c.x() / c.x(1); }},
    {"$0 & $1", "bs", 0, [](const step_call& c) { return c.x() & c.x(1); }},
    {"$0 | $1", "bs", 0, [](const step_call& c) { return c.x() | c.x(1); }},
    {"select($0, $1, $2)", "bvs", 0, [](const step_call& c) { return select(c.x(), c.x(1), c.x(2)); }},
    {"select($0 > &0, $0, $1)", "ns9", 2, [](const step_call& c) { return select(c.x() > c.real(), c.x(), c.x(1)); }},
    // broadcast, product, reductions
    {"broadcast($0, %*)", "vQ", 1, [](const step_call& c) { return c.in.broadcast(c.x(), c.list(), source{}); }},
    {"dot($0, $1, %*)", "nsC", 3, [](const step_call& c) { return c.in.dot(c.x(), c.x(1), c.list(), source{}); }},
    {"dot($0, $1, %*)", "ffC", 3, [](const step_call& c) { return c.in.dot(c.x(), c.x(1), c.list(), source{}); }},
    {"sum($0, %*)", "vD", 3, [](const step_call& c) { return c.in.reduce(reduction::sum, c.x(), c.list(), source{}); }},
    {"sum($0, %0) - sum($1, %0)", "bsd", 2, [](const step_call& c) { return any(c.x(), c.d()) - any(c.x(1), c.d()); }},
    {"sum($0, %0) / #0", "ndI", 1, [](const step_call& c) { return sum(c.x(), c.d()) / c.n(); }},
    {"max($0, %*)", "vD", 0, [](const step_call& c) { return c.in.reduce(reduction::max, c.x(), c.list(), source{}); }},
    {"min($0, %*)", "vD", 0, [](const step_call& c) { return c.in.reduce(reduction::min, c.x(), c.list(), source{}); }},
    {"prod($0, %*)", "vD", 0, [](const step_call& c) { return c.in.reduce(reduction::prod, c.x(), c.list(), source{}); }},
    {"maximum(max($0, %0), -8)", "fd", 0, [](const step_call& c) { return maximum(max(c.x(), c.d()), -8); }},
    {"minimum(min($0, %0), 8)", "nd", 0, [](const step_call& c) { return minimum(min(c.x(), c.d()), 8); }},
    {"mean($0, %0)", "fd", 1, [](const step_call& c) { return mean(c.x(), c.d()); }},
    {"mean($0)", "f", 1, [](const step_call& c) { return mean(c.x()); }},
    {"any($0, %0)", "vd", 0, [](const step_call& c) { return any(c.x(), c.d()); }},
    {"all($0, %0)", "vd", 0, [](const step_call& c) { return all(c.x(), c.d()); }},
    {"variance($0, %0)", "fd", 1, [](const step_call& c) { return variance(c.x(), c.d()); }},
    {"variance($0)", "f", 1, [](const step_call& c) { return variance(c.x()); }},
    {"moments($0, %0).first", "fd", 1, [](const step_call& c) { return moments(c.x(), c.d()).first; }},
    {"softmax($0, %0)", "fd", 1, [](const step_call& c) { return softmax(c.x(), c.d()); }},
    {"log_softmax($0, %0)", "fd", 1, [](const step_call& c) { return log_softmax(c.x(), c.d()); }},
    {"logsumexp($0, %0)", "fd", 1, [](const step_call& c) { return logsumexp(c.x(), c.d()); }},
    {"layer_norm($0, %0, 1, 0.5)", "fd", 0, [](const step_call& c) { return layer_norm(c.x(), c.d(), 1, 0.5); }},
    {"layer_norm($0, %0, $1, $2)", "fssd", 0, [](const step_call& c) { return layer_norm(c.x(), c.d(), c.x(1), c.x(2)); }},
    {"argmax($0, %0)", "vd", 0, [](const step_call& c) { return argmax(c.x(), c.d()); }},
    {"argmin($0, %0)", "vd", 0, [](const step_call& c) { return argmin(c.x(), c.d()); }},
    {"top_k($0, %0, %1).first", "ndF", 0, [](const step_call& c) { return top_k(c.x(), c.d(), c.d(1)).first; }},
    {"top_k($0, %0, %1).second", "ndF", 0, [](const step_call& c) { return top_k(c.x(), c.d(), c.d(1)).second; }},
    {"one_hot<double>($0, %0)", "iG", 0, [](const step_call& c) { return c.hot(); }},
    {"dot(one_hot<double>($0, %0), $1, %0)", "ife", 0, [](const step_call& c) { return dot(c.hot(), c.x(1), c.d()); }},
    {"$0 + cleave::count<double>($0, %0)", "fd", 1, [](const step_call& c) { return c.x() + cleave::cast(cleave::count<double>(c.x(), c.d()), c.in.at(c.x()).type.element); }},
    // views and annotations
    {"rename($0, %0, %1)", "vdg", 3, [](const step_call& c) { return rename(c.x(), c.d(), c.d(1)); }},
    {"split($0, %0, %1, %2)", "vdgS", 3, [](const step_call& c) { return split(c.x(), c.d(), c.d(1), c.d(2)); }},
    {"merge($0, %0, %1, %2)", "vddg", 3, [](const step_call& c) { return merge(c.x(), c.d(), c.d(1), c.d(2)); }},
    {"constrain($0, ~)", "vc", 3, [](const step_call& c) { return constrain(c.x(), c.layout_of(c.now.where)); }},
    {"reshard($0, ~)", "vl", 3, [](const step_call& c) { return reshard(c.x(), c.layout_of(c.now.where)); }},
    {"reshard($0, ~)", "vp", 1, [](const step_call& c) { return reshard(c.x(), c.layout_of(c.now.where)); }},
    {"stop_gradient($0)", "v", 0, [](const step_call& c) { return stop_gradient(c.x()); }},
    {"cleave::remat(wave)($0)", "f", 1, [](const step_call& c) { return remat(bodies::wave)(c.x()); }},
    {"cleave::remat(blend)($0, $1)", "fs", 1, [](const step_call& c) { return remat(bodies::blend)(c.x(), c.x(1)); }},
    {"own($0)", "f", 1, [](const step_call& c) { return bodies::own(c.x()); }},
    // other indices
    {"slice($0, %0, %1, #0, #1, #2)", "vdgLEI", 3, [](const step_call& c) { return slice(c.x(), c.d(), c.d(1), c.n(), c.n(1), c.n(2)); }},
    {"pad($0, %0, %1, #0, #1, #2)", "vdg332", 3, [](const step_call& c) { return pad(c.x(), c.d(), c.d(1), c.n(), c.n(1), c.n(2)); }},
    {"pad($0, %0, %1, #0, #1, #2, &3)", "ndg3329", 1, [](const step_call& c) { return pad(c.x(), c.d(), c.d(1), c.n(), c.n(1), c.n(2), c.real(3)); }},
    {"shift($0, %0, #0, ?1)", "vdAB", 3, [](const step_call& c) { return shift(c.x(), c.d(), c.n(), c.edge(1)); }},
    {"shift($0, %0, 1) + shift($0, %0, -1) - $0", "nd", 3, [](const step_call& c) { return shift(c.x(), c.d(), 1) + shift(c.x(), c.d(), -1) - c.x(); }},
    {"shift($0, %0, 1, ?0) + shift($0, %1, -1, ?0)", "nddB", 1, [](const step_call& c) { return shift(c.x(), c.d(), 1, c.edge(0)) + shift(c.x(), c.d(1), -1, c.edge(0)); }},
    {"roll($0, %0, #0)", "vdT", 1, [](const step_call& c) { return roll(c.x(), c.d(), c.n()); }},
    {"roll($0, %0, $1)", "vkd", 1, [](const step_call& c) { return roll(c.x(), c.d(), c.x(1)); }},
    {"flip($0, %0)", "vd", 1, [](const step_call& c) { return flip(c.x(), c.d()); }},
    {"rotate_halves(concat(%1, cleave::piece($0, %0), cleave::piece(-$0, %0)), %1)", "ndg", 1,
     [](const step_call& c) { return rotate_halves(concat(c.d(1), piece(c.x(), c.d()), piece(-c.x(), c.d())), c.d(1)); }},
    {"repeat($0, %0, %1, #0)", "vdgI", 1, [](const step_call& c) { return repeat(c.x(), c.d(), c.d(1), c.n()); }},
    {"tile($0, %0, %1, #0)", "vdgI", 1, [](const step_call& c) { return tile(c.x(), c.d(), c.d(1), c.n()); }},
    {"diagonal($0, %0, %1)", "vdd", 1, [](const step_call& c) { return diagonal(c.x(), c.d(), c.d(1)); }},
    {"diagonal($0 * rename($0, %0, %1), %0, %1)", "ndg", 1, [](const step_call& c) { return diagonal(c.in.dot(c.x(), rename(c.x(), c.d(), c.d(1)), dim_set{0}, source{}), c.d(), c.d(1)); }},
    {"concat(%1, cleave::piece($0, %0), cleave::piece(-$0, %0))", "ndg", 1, [](const step_call& c) { return concat(c.d(1), piece(c.x(), c.d()), piece(-c.x(), c.d())); }},
    {"concat(%2, cleave::piece($0, %0), cleave::piece($1, %1), cleave::piece($0, %0))", "vsdeg", 3,
     [](const step_call& c) { return concat(c.d(2), piece(c.x(), c.d()), piece(c.x(1), c.d(1)), piece(c.x(), c.d())); }},
    {"stack(%0, $0, $1)", "vsU", 1, [](const step_call& c) { return stack(dim_ref{dim_names[c.now.dims[0]]}, c.x(), c.x(1)); }},
    {"stack(%0, $0, $1, -$0)", "nsV", 1, [](const step_call& c) { return stack(dim_ref{dim_names[c.now.dims[0]]}, c.x(), c.x(1), -c.x()); }},
    {"windows($0, cleave::window{%0, %1, %2, #0, #1, #2, #3, ?4})", "vdgFII22B", 3, [](const step_call& c) { return windows(c.x(), c.look(0)); }},
    {"sum(windows($0, cleave::window{%0, %1, %2, #0, #1, #2, #3, ?4}), %2)", "vdgFII22B", 1, [](const step_call& c) { return c.total(windows(c.x(), c.look(0)), {c.d(2)}); }},
    {"windows($0, cleave::window{%0, %1, %2, #0, #1, #2, #3, ?4}, cleave::window{%3, %4, %5, #5, #6, #7, #8, ?9})", "vdgFdgFII22BII22B", 1,
     [](const step_call& c) { return windows(c.x(), c.look(0), c.look(1)); }},
    {"windows($0, cleave::window{%0, %1, %2, #0, #1, #2, #3, ?4}, cleave::window{%3, %4, %5, #5, #6, #7, #8, ?9}, cleave::window{%6, %7, %8, #10, #11, #12, #13, ?14})",
     "vdgFdgFdgFII22BII22BII22B", 1, [](const step_call& c) { return windows(c.x(), c.look(0), c.look(1), c.look(2)); }},
    {"sum(windows($0, cleave::window{%0, %0, %1, 1, 1, 1, 1, ?0}, cleave::window{%2, %2, %3, 1, 1, 1, 1, ?1}), %1, %3)", "ndVdVBB", 1,
     [](const step_call& c) {
       return sum(windows(c.x(), window{c.d(0), c.d(0), c.d(1), 1, 1, 1, 1, c.edge(0)}, window{c.d(2), c.d(2), c.d(3), 1, 1, 1, 1, c.edge(1)}), c.d(1), c.d(3));
     }},
    {"dynamic_slice($0, %0, %1, $1)", "vkdW", 1, [](const step_call& c) { return dynamic_slice(c.x(), c.d(), c.d(1), c.x(1)); }},
    {"dynamic_update($0, %0, dynamic_slice(-$0, %0, %1, $1 / 2), %1, $1)", "nkdW", 1,
     [](const step_call& c) { return dynamic_update(c.x(), c.d(), dynamic_slice(-c.x(), c.d(), c.d(1), c.x(1) / 2), c.d(1), c.x(1)); }},
    {"interior($0, $1, #0, %0)", "vsd2", 1, [](const step_call& c) { return interior(c.x(), c.x(1), c.n(), c.d()); }},
    {"interior(shift($0, %0, 1), $0, #0, %0, %1)", "vdd2", 1, [](const step_call& c) { return interior(shift(c.x(), c.d(), 1), c.x(), c.n(), c.d(), c.d(1)); }},
    {"cumulative_sum($0, %0, !0)", "ndR", 3, [](const step_call& c) { return cumulative_sum(c.x(), c.d(), c.order()); }},
    {"cumulative_prod($0, %0, !0)", "ndR", 0, [](const step_call& c) { return cumulative_prod(c.x(), c.d(), c.order()); }},
    {"maximum(cumulative_max($0, %0, !0), -8)", "ndR", 0, [](const step_call& c) { return maximum(cumulative_max(c.x(), c.d(), c.order()), -8); }},
    {"minimum(cumulative_min($0, %0, !0), 8)", "ndR", 0, [](const step_call& c) { return minimum(cumulative_min(c.x(), c.d(), c.order()), 8); }},
    {"gather($0, %0, $1)", "vid", 3, [](const step_call& c) { return gather(c.x(), c.d(), c.x(1)); }},
    {"scatter_add($0, $1, %0)", "niG", 3, [](const step_call& c) { return scatter_add(c.x(), c.x(1), c.d()); }},
    {"sort($0, %0)", "nd", 1, [](const step_call& c) { return sort(c.x(), c.d()); }},
    {"sort($0, %0, cleave::order::descending)", "nd", 1, [](const step_call& c) { return sort(c.x(), c.d(), order::descending); }},
    {"argsort($0, %0)", "nd", 0, [](const step_call& c) { return argsort(c.x(), c.d()); }},
    {"searchsorted(sort($0, %0), rename($0, %0, %1), %0)", "ndg", 0, [](const step_call& c) { return searchsorted(sort(c.x(), c.d()), rename(c.x(), c.d(), c.d(1)), c.d()); }},
    {"searchsorted(sort($0, %0), max($0, %0), %0, cleave::side::right)", "nd", 0, [](const step_call& c) { return searchsorted(sort(c.x(), c.d()), max(c.x(), c.d()), c.d(), side::right); }},
    {"take_along($0, argsort($0, %0), %0)", "nd", 1, [](const step_call& c) { return take_along(c.x(), argsort(c.x(), c.d()), c.d()); }},
    // loops
    {"cleave::scan(%0, 0 * sum($0, %0), $0, blend)", "fd", 1, [](const step_call& c) { return scan(c.d(), 0 * sum(c.x(), c.d()), c.x(), bodies::blend); }},
    {"cleave::scan(%0, 0 * sum($0, %0), $0, both, cleave::direction::backward).second", "fd", 1,
     [](const step_call& c) { return scan(c.d(), 0 * sum(c.x(), c.d()), c.x(), bodies::both, direction::backward).second; }},
    {"cleave::repeat_times(#0, $0, wave)", "f3", 1, [](const step_call& c) { return repeat_times(c.n(), c.x(), bodies::wave); }},
    {"cleave::cond(sum($0) > 0, wave, own, $0)", "f", 1, [](const step_call& c) { return cond(sum(c.x()) > 0, bodies::wave, bodies::own, c.x()); }},
    // random numbers
    {"uniform<double>($0, %*)", "kO", 1, [](const step_call& c) { return detail::drawn(c.in, op::random, element::f64, c.x(), c.list(), "uniform"); }},
    {"normal<double>($0, %*)", "kO", 1, [](const step_call& c) { return detail::drawn(c.in, op::normal, element::f64, c.x(), c.list(), "normal"); }},
    {"random_bits($0, %*)", "kO", 0, [](const step_call& c) { return detail::drawn(c.in, op::random, element::u32, c.x(), c.list(), "random_bits"); }},
    {"uniform_like($0, #0)", "f9", 1, [](const step_call& c) { return uniform_like(c.x(), c.n()); }},
    {"$0 + normal_like($0, #0)", "f9", 1, [](const step_call& c) { return c.x() + normal_like(c.x(), c.n()); }},
    {"dropout($0, 0.5, $1)", "fk", 1, [](const step_call& c) { return dropout(c.x(), 0.5, c.x(1)); }},
    {"bernoulli($0, 0.5, %0)", "kG", 0, [](const step_call& c) { return bernoulli(c.x(), 0.5, c.d()); }},
    {"uniform<double>(fold_in($0, #0), %*)", "kO9", 1, [](const step_call& c) { return detail::drawn(c.in, op::random, element::f64, fold_in(c.x(), c.n()), c.list(), "uniform"); }},
};
inline constexpr int table_size = static_cast<int>(sizeof(table) / sizeof(table[0]));

/// A layout for the dims that a value has: dims that it has not are left out, missing ones are added whole.
inline written_layout fitted(const written_layout& w, const std::vector<int>& dims) {
  written_layout r;
  r.combine = w.combine;
  r.unreduced = w.unreduced;
  for (const auto& e : w.dims)
    if (std::find(dims.begin(), dims.end(), e.dim) != dims.end()) r.dims.push_back(e);
  for (int d : dims)
    if (std::none_of(r.dims.begin(), r.dims.end(), [&](const auto& e) { return e.dim == d; }))
      r.dims.push_back({d, {}});
  return r;
}

/// A recorded sketch.
struct recorded {
  std::unique_ptr<recorder> in{};
  std::vector<value> made{};
  value loss{};
  sizes at{};
  /// Layouts of the results as they were asked for: the loss, the others, the gradients.
  std::vector<asked_result> results{};

  const graph& g() const { return in->made(); }
  std::vector<int> dims_of(value v) const {
    std::vector<int> dims;
    const tensor_type t = in->at(v).type;
    for (int i = 0; i < t.rank; ++i) dims.push_back(number_of(in->made().dims[t[i]].name));
    return dims;
  }
  static int number_of(std::string_view name) {
    return static_cast<int>(std::find(std::begin(dim_names), std::end(dim_names), name) - std::begin(dim_names));
  }
};

inline mesh_value mesh_of(const sketch& s) {
  mesh_value m;
  for (std::size_t a = 0; a < s.axes.size(); ++a)
    m.axes.push_back({axis_names[a], s.axes[a].fixed ? s.axes[a].size : dynamic});
  return m;
}

/// Sizes of the run; false where they contradict each other or something stays open.
inline bool size(const sketch& s, recorded& r) {
  const graph& g = r.g();
  r.at = {};
  for (std::size_t a = 0; a < s.axes.size(); ++a) r.at.axes[static_cast<int>(a)] = s.axes[a].size;
  for (std::size_t d = 0; d < g.dims.size(); ++d) {
    r.at.dims[d] = g.dims[d].extent;
    // Dims that the library names itself follow from these.
    const auto said = static_cast<std::size_t>(recorded::number_of(g.dims[d].name));
    if (said < s.dims.size() && s.dims[said].size >= 0) r.at.dims[d] = s.dims[said].size;
  }
  if (!derive_extents(g.rules, r.at)) return false;
  for (std::size_t d = 0; d < g.dims.size(); ++d)
    if (r.at.dims[d] == dynamic || (g.dims[d].extent != dynamic && g.dims[d].extent != r.at.dims[d])) return false;
  return true;
}

/// Records one more step; false where the recorder refuses it.
inline bool record_step(const sketch& s, const step_line& line, recorded& r) {
  for (int i : line.in)
    if (i < 0 || i >= static_cast<int>(r.made.size())) return false;
  value v;
  try {
    v = table[line.what].record(step_call{s, line, *r.in, r.made});
  } catch (const std::length_error&) {
    // More maps or dims than a graph can have.
    return false;
  }
  if (v.in == nullptr || !v.ok() || !r.g().found.ok()) return false;
  r.made.push_back(v);
  return true;
}

/// Records the steps alone, while a program is made.
inline bool record_steps(const sketch& s, recorded& r) {
  r.in = std::make_unique<recorder>(mesh_of(s));
  r.made.clear();
  for (const step_line& line : s.steps)
    if (!record_step(s, line, r)) return false;
  return true;
}

/// The whole program: its steps, under value_and_grad where it is differentiated, and its results.
inline bool record(const sketch& s, recorded& r) {
  r.in = std::make_unique<recorder>(mesh_of(s));
  r.made.clear();
  r.results.clear();
  indexed_vector<value> variables;
  bool started = s.by.empty();
  for (const step_line& line : s.steps) {
    if (line.what != 0 && !started) {
      started = true;
      for (int i : s.by) detail::make_variables(r.made[static_cast<std::size_t>(i)], variables);
    }
    if (!record_step(s, line, r)) return false;
  }
  const auto ask = [&](value v, const written_layout& w, int step) {
    const written_layout fits = fitted(w, r.dims_of(v));
    r.in->output(v, r.in->at(v).type.element, step_call{s, s.steps[0], *r.in, r.made}.layout_of(fits));
    r.results.push_back({step, fits});
  };
  indexed_vector<value> cotangents;
  if (!s.by.empty()) {
    if (!started) return false;
    const value last = r.made[static_cast<std::size_t>(s.loss)];
    r.loss = sum(last * sin(last));
    if (!r.loss.ok() || !is_floating(r.in->at(r.loss).type.element)) return false;
    const value one = r.in->constant(1, r.in->at(r.loss).type.element, {});
    cotangents = detail::pulled_back(*r.in, std::array{r.loss}, std::array{one}, variables);
    for (const value& v : cotangents)
      if (!v.ok()) return false;
    if (!r.g().found.ok()) return false;
    ask(r.loss, {}, -1);
  }
  for (const asked_result& a : s.results) ask(r.made[static_cast<std::size_t>(a.step)], a.where, a.step);
  for (std::size_t k = 0; k < cotangents.size(); ++k) ask(cotangents[k], s.gradients[k], s.by[k]);
  return r.g().found.ok() && !r.g().outputs.empty() && size(s, r);
}

/// Numbers of the arguments: the same in the program that is printed.
inline double argument(unsigned seed, std::size_t which, std::size_t element, double low, double high, bool whole) {
  std::uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u + which * 0xbf58476d1ce4e5b9u + element * 0x94d049bb133111ebu;
  for (int i = 0; i < 3; ++i) x = (x ^ (x >> 31)) * 0xd6e8feb86659fd93u;
  const double u = low + (high - low) * static_cast<double>(x >> 11) / 9007199254740992.0;
  return whole ? static_cast<double>(static_cast<std::int64_t>(u < 0 ? u - 1 : u)) : u;
}
/// From where to where the numbers of an input are.
inline std::pair<double, double> range_of(const step_line& line) {
  return {static_cast<double>(line.numbers[0]) / 4, static_cast<double>(line.numbers[1]) / 4};
}

inline std::vector<host_array> arguments_of(const sketch& s, const recorded& r) {
  std::vector<host_array> all;
  for (const step_line& line : s.steps) {
    if (line.what != 0) continue;
    const std::size_t k = all.size();
    host_array a(shape_of(r.g().nodes[r.g().inputs[k]].type, r.at));
    const auto [low, high] = range_of(line);
    for (std::size_t i = 0; i < a.data.size(); ++i)
      a.data[i] = argument(s.seed, k, i, low, high, !is_floating(line.type));
    all.push_back(a);
  }
  return all;
}

} // namespace fuzz
