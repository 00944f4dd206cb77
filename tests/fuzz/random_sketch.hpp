// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sketch.hpp"

#include <cleave/simulate/evaluate.hpp>

#include <algorithm>
#include <random>

namespace fuzz {

/// Numbers that every way of computing agrees upon: finite, and of integers those that doubles hold with all their
/// products.
inline bool tame(element e, std::span<const double> numbers) {
  const double most = is_floating(e) ? 1e3 : size_of(e) == 8 ? 1048576.0 : 4294967296.0;
  return std::all_of(numbers.begin(), numbers.end(), [&](double x) { return std::fabs(x) <= most; });
}

/// Which programs are made: any, or those that other compilers can be compared on. These have at most 8 devices, blocks
/// of equal size in arguments and results, no partial values, element types of 64 bits mostly, no random numbers, and
/// no arithmetic whose result is known beforehand.
enum class family : std::uint8_t { any, comparable };

/// Makes a random program, step by step: what the recorder refuses, or what gives numbers that are not tame, is thrown
/// again.
class random_sketch {
 public:
  explicit random_sketch(unsigned seed, family of = family::any)
      : random_(seed), comparable_(of == family::comparable) {
    made_.seed = seed;
  }

  sketch make() {
    mesh();
    base_dims_();
    made_.repeat = below(3) == 0 ? 1 + (below(2) != 0 ? below(4) : 1) : 0;
    made_.expects = below(3) != 0;
    inputs();
    const int steps = 1 + below(below(3) == 0 ? 16 : 7);
    for (int n = 0; n < steps; ++n)
      for (int tries = 0; tries < 60; ++tries)
        if (step()) break;
    results();
    if (below(4) == 0) gradient();
    return made_;
  }

 private:
  int below(int n) { return n <= 0 ? 0 : static_cast<int>(random_() % static_cast<unsigned>(n)); }
  template <class T>
  void shuffle(std::vector<T>& all) {
    for (std::size_t i = all.size(); i > 1; --i)
      std::swap(all[i - 1], all[static_cast<std::size_t>(below(static_cast<int>(i)))]);
  }

  void mesh() {
    if (comparable_) return comparable_mesh();
    const int axes = 1 + below(4);
    int devices = 1;
    for (int a = 0; a < axes; ++a) {
      constexpr int sizes[] = {1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 8};
      const int n = sizes[below(11)];
      made_.axes.push_back({devices * n <= 32 ? n : 1, below(4) != 0});
      devices *= static_cast<int>(made_.axes.back().size);
    }
    devices_ = devices;
  }
  void comparable_mesh() {
    constexpr std::int64_t meshes[][3] = {{2},    {3},    {4},    {4},    {6},       {8},       {8},       {2, 2},
                                          {2, 3}, {2, 4}, {2, 4}, {4, 2}, {2, 2, 2}, {2, 2, 2}, {2, 2, 2}, {2, 2, 2}};
    for (std::int64_t n : meshes[below(16)])
      if (n != 0) made_.axes.push_back({n, true}), devices_ *= static_cast<int>(n);
  }
  std::int64_t some_extent() {
    constexpr std::int64_t even_choices[] = {8, 8, 12, 16, 16, 24, 24, 24, 32, 48, 7};
    if (comparable_) return even_choices[below(11)];
    constexpr std::int64_t choices[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 12, 12, 13, 16};
    return choices[below(14)];
  }
  void base_dims_() {
    for (int d = 0; d < base_dims && comparable_; ++d) made_.dims.push_back({some_extent(), true, false});
    for (int d = 0; d < base_dims && !comparable_; ++d) {
      sized_dim n{some_extent(), below(5) == 0, false};
      n.divisible = n.size % devices_ == 0 && below(4) == 0;
      made_.dims.push_back(n);
    }
  }
  int fresh(std::int64_t size, bool fixed) {
    made_.dims.push_back({size, fixed, false});
    return static_cast<int>(made_.dims.size()) - 1;
  }

  /// Whether an axis more still gives a dim blocks of equal size.
  bool even(const written_layout& w, int where, int axis) const {
    if (where >= static_cast<int>(w.dims.size())) return true;
    const auto& e = w.dims[static_cast<std::size_t>(where)];
    std::int64_t blocks = made_.axes[static_cast<std::size_t>(axis)].size;
    for (int a : e.axes) blocks *= made_.axes[static_cast<std::size_t>(a)].size;
    const std::int64_t said = made_.dims[static_cast<std::size_t>(e.dim)].size;
    const std::int64_t n = said >= 0 ? said : extent(e.dim);
    return n > 0 && n % blocks == 0;
  }
  written_layout layout_for(std::vector<int> dims, bool partial, bool all) {
    written_layout w;
    if (!all) dims.resize(static_cast<std::size_t>(below(static_cast<int>(dims.size()) + 1)));
    for (int d : dims) w.dims.push_back({d, {}});
    std::vector<int> axes;
    for (int a = 0; a < static_cast<int>(made_.axes.size()); ++a) axes.push_back(a);
    shuffle(axes);
    for (int a : axes) {
      const int where = below(static_cast<int>(dims.size()) + 1);
      if (comparable_ && !even(w, where, a)) continue;
      if (where < static_cast<int>(dims.size())) w.dims[static_cast<std::size_t>(where)].axes.push_back(a);
      else if (partial && below(3) != 0) w.unreduced.push_back(a);
    }
    if (partial && below(3) == 0) w.combine = static_cast<reduction>(below(4));
    return w;
  }
  element some_type() {
    constexpr element wide[] = {element::f64, element::f64, element::f64, element::i64, element::i32, element::boolean};
    if (comparable_) return wide[below(6)];
    constexpr element types[] = {element::f64, element::f64,     element::f64, element::f64,  element::f64,
                                 element::f64, element::f32,     element::f32, element::bf16, element::f16,
                                 element::i32, element::i32,     element::i64, element::i64,  element::u8,
                                 element::i8,  element::boolean, element::u32, element::u64};
    return types[below(19)];
  }

  void inputs() {
    const int n = 1 + below(3);
    const element first = below(3) == 0 ? some_type() : element::f64;
    for (int k = 0; k < n; ++k) {
      std::vector<int> dims{0, 1, 2, 3, 4};
      shuffle(dims);
      dims.resize(static_cast<std::size_t>(k == 0 ? 1 + below(3) : below(4)));
      const element type = below(4) == 0 ? some_type() : first;
      const bool partial = below(7) == 0 && !comparable_;
      step_line line{0, {}, {}, {}, type, layout_for(dims, partial, true)};
      // Doubles cannot hold what is beside 2^64, as terms of a sum are.
      if (type == element::u64 && line.where.combine == reduction::sum) line.where.unreduced.clear();
      if (is_floating(type))
        line.numbers = below(3) == 0 ? std::vector<std::int64_t>{-4, 4} : std::vector<std::int64_t>{1, 5};
      else if (type == element::boolean) line.numbers = {0, 8};
      else line.numbers = {type == element::u8 || type == element::u32 || type == element::u64 ? 0 : -12, 24};
      take(line);
    }
    if (made_.steps.empty()) take({0, {}, {}, {1, 5}, element::f64, layout_for({}, false, true)});
    if (below(3) == 0)
      take({0, {}, {}, {-60, 80}, below(2) != 0 ? element::i64 : element::i32, layout_for({}, false, true)});
    if (below(3) == 0 && !comparable_) take({0, {}, {}, {0, 400}, element::u32, layout_for({}, false, true)});
    if (below(3) == 0) {
      std::vector<int> dims{0, 1, 2, 3, 4};
      shuffle(dims);
      dims.resize(static_cast<std::size_t>(1 + below(2)));
      take({0, {}, {}, {-4, 36}, below(2) != 0 ? element::i64 : element::i32, layout_for(dims, false, true)});
    }
  }

  /// Appends a step if it records and its numbers are tame.
  bool take(const step_line& line) {
    const std::size_t dims = made_.dims.size();
    made_.steps.push_back(line);
    const bool fine = dims <= most_dims && attempt(line);
    if (fine) return true;
    made_.steps.pop_back();
    dirty_ = true;
    return false;
  }
  bool attempt(const step_line& line) {
    if (dirty_ || now_.in == nullptr) {
      const step_line last = made_.steps.back();
      made_.steps.pop_back();
      if (!record_steps(made_, now_)) return false;
      made_.steps.push_back(last);
      known_.resize(std::min(known_.size(), now_.g().nodes.size()));
      dirty_ = false;
    }
    if (!record_step(made_, line, now_) || !size(made_, now_)) return false;
    const graph& g = now_.g();
    if (g.nodes.size() > 120) return false;
    for (std::size_t i = known_.size(); i < g.nodes.size(); ++i)
      if (shape_of(g.nodes[i].type, now_.at).elements() > (comparable_ ? 30000 : 3000)) return false;
    if (!g.loops.empty()) {
      graph alone = g;
      const node_id last = now_.made.back().id;
      alone.outputs = {last};
      alone.output_types = {g.nodes[last].type};
      alone.output_layouts = {layout{}};
      return tame(g.nodes[last].type.element, evaluate(alone, now_.at, arguments_of(made_, now_))[0].data);
    }
    // What is known stays as it was: the extents of earlier dims do not change.
    simulation::evaluator run{g, now_.at, {}};
    run.values = known_;
    std::size_t arguments = 0;
    for (std::size_t i = 0; i < g.nodes.size(); ++i) {
      const bool argument = g.nodes[i].code == op::input;
      if (i >= known_.size()) {
        if (argument) run.values.push_back(arguments_of(made_, now_)[arguments]);
        else run.values.push_back(run.compute(g.nodes[i]));
      }
      arguments += argument ? 1 : 0;
    }
    const node_id id = now_.made.back().id;
    if (!tame(g.nodes[id].type.element, run.values[id].data)) return false;
    known_ = std::move(run.values);
    return true;
  }

  /// An operand of a letter of the recipe; -1: none.
  int operand_for(char c, element like) {
    std::vector<int> fits;
    for (int i = 0; i < static_cast<int>(now_.made.size()); ++i) {
      const tensor_type& t = now_.in->at(now_.made[static_cast<std::size_t>(i)]).type;
      const element e = t.element;
      const bool whole = !is_floating(e) && e != element::boolean;
      const bool fit = c == 'f'   ? is_floating(e)
                       : c == 'n' ? e != element::boolean
                       : c == 'b' ? e == element::boolean
                       : c == 'i' ? whole && t.rank > 0
                       : c == 'k' ? whole && t.rank == 0
                       : c == 's' ? e == like
                                  : true;
      if (!fit) continue;
      fits.push_back(i);
      // Later values more often, so that programs get deep.
      if (i + 3 > static_cast<int>(now_.made.size())) fits.insert(fits.end(), 2, i);
    }
    return fits.empty() ? -1 : fits[static_cast<std::size_t>(below(static_cast<int>(fits.size())))];
  }
  std::int64_t extent(int d) const { return now_.at.dims[static_cast<std::size_t>(now_.g().find_dim(dim_names[d]))]; }

  bool step() {
    if (dirty_ && !record_again()) return false;
    step_line line;
    do line.what = 1 + below(table_size - 1);
    while (((table[line.what].flags & 2) == 0 && below(3) == 0) || (comparable_ && !is_comparable(line.what)));
    const std::size_t dims_before = made_.dims.size();
    if (fill(line) && take(line)) return true;
    made_.dims.resize(dims_before);
    return false;
  }
  /// Operations that others have too: no random numbers, no partial values.
  static bool is_comparable(int what) {
    const std::string_view text = table[what].text;
    for (std::string_view own : {"uniform", "normal", "random_bits", "dropout", "bernoulli", "fold_in"})
      if (text.find(own) != std::string_view::npos) return false;
    return table[what].recipe.find('p') == std::string_view::npos;
  }
  bool record_again() {
    dirty_ = false;
    if (!record_steps(made_, now_) || !size(made_, now_)) return false;
    known_.resize(std::min(known_.size(), now_.g().nodes.size()));
    return true;
  }

  bool fill(step_line& line) {
    const std::string_view recipe = table[line.what].recipe;
    element like = element::none;
    std::vector<std::vector<int>> dims;
    std::int64_t begin = 0;
    for (char c : recipe) {
      if (std::string_view("fnbivsk").find(c) != std::string_view::npos) {
        const int i = operand_for(c, like);
        if (i < 0) return false;
        const value v = now_.made[static_cast<std::size_t>(i)];
        if (c != 'k') like = now_.in->at(v).type.element;
        // Differences of unsigned numbers of 64 bits leave what doubles hold.
        if (like == element::u64 && recipe[0] == 'n') return false;
        line.in.push_back(i);
        dims.push_back(now_.dims_of(v));
        continue;
      }
      const std::vector<int> first = dims.empty() ? std::vector<int>{} : dims[0],
                             second = dims.size() > 1 ? dims[1] : std::vector<int>{};
      const auto some = [&](const std::vector<int>& of) {
        return of[static_cast<std::size_t>(below(static_cast<int>(of.size())))];
      };
      switch (c) {
        case 'd':
        case 'e': {
          const auto& of = c == 'd' ? first : second;
          if (of.empty()) return false;
          line.dims.push_back(some(of));
          break;
        }
        case 'C':
          for (int d : first)
            if (std::find(second.begin(), second.end(), d) != second.end() && below(3) != 0) line.dims.push_back(d);
          break;
        case 'D':
          for (int d : first)
            if (below(2) != 0) line.dims.push_back(d);
          if (line.dims.empty()) return false;
          break;
        case 'Q':
        case 'O': {
          if (c == 'Q') line.dims = first;
          std::vector<int> others{0, 1, 2, 3, 4};
          shuffle(others);
          for (int d : others)
            if (line.dims.size() < 4 && below(3) == 0 &&
                std::find(line.dims.begin(), line.dims.end(), d) == line.dims.end())
              line.dims.push_back(d);
          if (below(2) != 0) shuffle(line.dims);
          if (line.dims.empty()) return false;
          break;
        }
        case 'g': line.dims.push_back(fresh(-1, false)); break;
        case 'G': line.dims.push_back(below(3) == 0 ? below(base_dims) : fresh(some_extent(), below(3) == 0)); break;
        case 'F': line.dims.push_back(fresh(1 + below(3), true)); break;
        case 'W': line.dims.push_back(fresh(1 + below(4), true)); break;
        case 'U': line.dims.push_back(fresh(2, true)); break;
        case 'V': line.dims.push_back(fresh(3, true)); break;
        case 'S': {
          const std::int64_t n = extent(line.dims[0]);
          std::int64_t m = 1 + below(4);
          while (m > 1 && n % m != 0) --m;
          line.dims.push_back(fresh(m, below(2) != 0));
          // The major part is said too, sometimes.
          if (below(2) != 0 || n == 0)
            made_.dims[static_cast<std::size_t>(line.dims[1])] = {n / m, below(2) != 0, false};
          break;
        }
        case 'I': line.numbers.push_back(1 + below(3)); break;
        case 'A': line.numbers.push_back(below(9) - 4); break;
        case 'T': line.numbers.push_back(below(40) - 20); break;
        case 'B':
        case 'R': line.numbers.push_back(below(4)); break;
        case 'L': {
          const auto n = static_cast<int>(extent(line.dims[0]));
          begin = below(n + 1);
          line.numbers.push_back(begin > 0 && below(3) == 0 ? begin - n - (begin == n ? 1 : 0) : begin);
          if (begin == n) line.numbers.back() = begin;
          break;
        }
        case 'E': {
          const auto n = static_cast<int>(extent(line.dims[0]));
          line.numbers.push_back(below(3) == 0 ? to_the_end : begin + below(n - static_cast<int>(begin) + 1));
          break;
        }
        case 't': line.type = some_type(); break;
        case 'l': line.where = layout_for(first, false, true); break;
        case 'p': line.where = layout_for(first, true, true); break;
        case 'c': {
          std::vector<int> of = first;
          shuffle(of);
          line.where = layout_for(of, false, false);
          break;
        }
        default: line.numbers.push_back(below(c - '0' + 1));
      }
    }
    const std::string_view text = table[line.what].text;
    // Nothing that is 0 or 1 whatever the operand is.
    if (comparable_ && (text.find("* #0") != std::string_view::npos || text.find("* &0") != std::string_view::npos ||
                        text.starts_with("pow($0, #0")))
      line.numbers[0] = std::max<std::int64_t>(line.numbers[0], 1);
    // Nor what x < x or x - x is.
    constexpr std::string_view folded[] = {"$0 - $1", "$0 / $1",  "$0 == $1", "$0 != $1",
                                           "$0 < $1", "$0 <= $1", "$0 >= $1", "sum($0, %0) - sum($1, %0)"};
    if (comparable_ && line.in.size() == 2 && line.in[0] == line.in[1])
      for (std::string_view own : folded)
        if (text == own) return false;
    // Two windows along one dim are refused.
    if (text.find("window{%0, %1") != std::string_view::npos) same_dims(line);
    return true;
  }
  /// Windows that leave a dim as long as it is, half of the time.
  void same_dims(step_line& line) {
    for (std::size_t k = 0; 3 * k < line.dims.size(); ++k) {
      if (below(2) != 0) continue;
      const std::int64_t reach = line.numbers[5 * k + 1] *
                                 (made_.dims[static_cast<std::size_t>(line.dims[3 * k + 2])].size - 1);
      line.dims[3 * k + 1] = line.dims[3 * k];
      line.numbers[5 * k] = 1;
      line.numbers[5 * k + 2] = below(static_cast<int>(reach) + 1);
      line.numbers[5 * k + 3] = reach - line.numbers[5 * k + 2];
    }
  }

  void results() {
    if (dirty_) record_again();
    const int n = 1 + below(2);
    for (int k = 0; k < n; ++k) {
      const int last = static_cast<int>(made_.steps.size()) - 1;
      const int i = k == 0 ? last : std::max(0, last - below(4));
      std::vector<int> dims = now_.dims_of(now_.made[static_cast<std::size_t>(i)]);
      if (below(2) != 0) shuffle(dims);
      made_.results.push_back({i, layout_for(dims, below(6) == 0 && !comparable_, true)});
    }
  }
  /// A gradient by one input or two, where the recorder has one.
  void gradient() {
    sketch with = made_;
    int last = 0;
    for (int i = 0; i < static_cast<int>(now_.made.size()); ++i) {
      const bool floats = is_floating(now_.in->at(now_.made[static_cast<std::size_t>(i)]).type.element);
      if (made_.steps[static_cast<std::size_t>(i)].what == 0) {
        if (floats && with.by.size() < 2 && (with.by.empty() || below(3) == 0)) with.by.push_back(i);
      } else if (floats) {
        last = i;
      }
    }
    if (with.by.empty() || last == 0) return;
    with.loss = last;
    for (int i : with.by)
      with.gradients.push_back(
          layout_for(now_.dims_of(now_.made[static_cast<std::size_t>(i)]), below(6) == 0 && !comparable_, true));
    if (below(2) != 0) with.results.clear();
    recorded r;
    if (record(with, r)) made_ = with;
  }

  std::mt19937 random_;
  sketch made_{};
  recorded now_{};
  std::vector<host_array> known_{};
  bool dirty_ = false;
  int devices_ = 1;
  bool comparable_ = false;
};

} // namespace fuzz
