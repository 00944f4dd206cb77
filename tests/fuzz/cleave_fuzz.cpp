// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Random programs on random meshes, layouts and extents: their plans, simulated, must give what the plain evaluator
// gives and move what they were priced at. What fails is cut down to a small program and printed as C++.
//
//   cleave_fuzz [--seed S] [--cases N] [--minutes M] [--bytes N] [--computed-halos] [--within-workspace N] [--print]
//               [--memory] [--given-blocks] [--plans FILE]
//   cleave_fuzz [--seed S] [--cases N] --json FILE
//   cleave_fuzz --replay FILE [--above N] [--bytes N] [--verdicts FILE] [--plans FILE]
//   cleave_fuzz --smaller FILE
//
// --json writes programs that another compiler can be given, one a line (sketch_json.hpp, recorded_program.hpp).
// --given-blocks simulates the same plans with blocks of given sizes, very uneven ones and empty ones.
// --memory compares the memory of plans, and who exchanges parts with whom, with loops over devices.
// --replay plans recorded programs, and compares values and bytes with those of the record; at most N may move more.
// --bytes says what all programs together may move, so that plans do not become dearer unnoticed.
// --smaller writes, of the program in a file, those with one change that makes it smaller. FILE - is standard input or
// output. tests/oracle/against_jax.py uses all three.
#include "../given_blocks.hpp"
#include "../plan_text.hpp"
#include "check_memory.hpp"
#include "print_sketch.hpp"
#include "random_sketch.hpp"
#include "recorded_program.hpp"

#include <cleave/simulate/simulate.hpp>
#include <cleave/study/explain_plan.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <list>
#include <map>
#include <set>

namespace {

using namespace fuzz;

enum class outcome { fine, refused, wild, tie, unstable, no_plan, problem, values, bytes, memory, slope, threw };

constexpr std::string_view name_of(outcome o) {
  constexpr std::string_view names[] = {"fine",
                                        "refused",
                                        "not tame",
                                        "tie",
                                        "unstable",
                                        "no plan",
                                        "problem of the simulator",
                                        "values differ",
                                        "bytes differ",
                                        "memory differs",
                                        "gradient is not the slope",
                                        "exception"};
  return names[static_cast<int>(o)];
}

struct finding {
  outcome what = outcome::fine;
  std::string text{};
  /// What the plan moves, where nothing is wrong.
  std::int64_t moved = 0;
  bool wrong() const { return what >= outcome::no_plan; }
};

bool smooth(const sketch& s) {
  return std::all_of(s.steps.begin(), s.steps.end(), [](const step_line& l) { return (table[l.what].flags & 1) != 0; });
}

/// The gradient against central differences along a direction, in the plain evaluator. Where two widths disagree
/// nothing is said.
finding check_slope(const sketch& s, const recorded& r, const std::vector<host_array>& in,
                    const std::vector<host_array>& want) {
  std::vector<host_array> direction;
  double slope = 0;
  std::size_t input = 0, by = 0;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    if (s.steps[i].what != 0) continue;
    if (by < s.by.size() && s.by[by] == static_cast<int>(i)) {
      // In the order of the argument, in which the difference is made.
      const std::size_t result = want.size() - s.by.size() + by;
      const tensor_type &have = r.g().output_types[result], &type = r.g().nodes[r.g().inputs[input]].type;
      const host_array gradient = reordered(want[result], have, type);
      host_array d(in[input].extents);
      for (std::size_t k = 0; k < d.data.size(); ++k) {
        d.data[k] = argument(s.seed + 77, input, k, -1, 1, false);
        slope += d.data[k] * gradient.data[k];
      }
      direction.push_back(d);
      places.push_back(input);
      ++by;
    }
    ++input;
  }
  const auto moved = [&](double step) {
    std::vector<host_array> there = in;
    for (std::size_t k = 0; k < places.size(); ++k)
      for (std::size_t i = 0; i < there[places[k]].data.size(); ++i)
        there[places[k]].data[i] += step * direction[k].data[i];
    return evaluate(r.g(), r.at, there)[0].data[0];
  };
  const auto difference = [&](double step) { return (moved(step) - moved(-step)) / (2 * step); };
  const double coarse = difference(2e-5), fine = difference(1e-5),
               scale = 1 + std::fabs(fine) + std::fabs(want[0].data[0]);
  if (!(std::fabs(coarse - fine) <= 1e-6 * scale) || std::fabs(slope - fine) <= 1e-4 * scale) return {};
  return {outcome::slope,
          "the gradient gives " + std::to_string(slope) + " along a direction, differences " + std::to_string(fine)};
}

/// Whether devices compute the halos of what is computed element by element, and how many of them they did.
struct {
  bool asked = false;
  long computed = 0;
} halos;
/// Where it is not 0: the bytes of workspace above which products gather operands panel by panel, and how many did.
struct {
  std::int64_t limit = 0;
  long products = 0;
} panels;

/// Whether memory is compared with loops over devices, instead of values with the plain evaluator.
bool compares_memory = false;

/// The same graph, whose halos are computed where they can be.
graph with_computed_halos(graph g) {
  for (node& n : g.nodes) n.computes_halo = is_elementwise(n.code);
  return g;
}

/// Whether dims have blocks of given sizes.
bool gives_blocks = false;

/// Where `plans` is given, the plan goes there as text.
finding check(const sketch& s, std::ostream* plans = nullptr) {
  recorded r;
  if (!record(s, r)) return {outcome::refused, {}};
  const graph& g = r.g();
  for (const node& n : g.nodes)
    if (shape_of(n.type, r.at).elements() > 20000) return {outcome::wild, {}};
  const sizes hints = s.expects ? r.at : sizes_for(g);
  std::list<block_table> tables;
  const auto give = [&](sizes& at) {
    if (gives_blocks) support::give_blocks(g, at, s.seed, tables);
  };
  give(r.at);
  try {
    const std::vector<host_array> in = arguments_of(s, r);
    const std::vector<host_array> want = evaluate(g, r.at, in);
    for (std::size_t k = 0; k < want.size(); ++k)
      if (!tame(g.output_types[k].element, want[k].data)) return {outcome::wild, {}};
    if (!s.by.empty() && smooth(s))
      if (finding f = check_slope(s, r, in, want); f.wrong() && stable(g, r.at, in, want)) return f;
    policy rule = s.repeat == 0 ? policy::time() : policy::bytes_first(s.repeat - 1);
    rule.workspace = panels.limit;
    const program p = partition(halos.asked ? with_computed_halos(g) : g, hints, rule);
    for (const step& step : p.steps)
      halos.computed += step.kind == step_kind::map && p.buffers[step.out].form == form::halo ? 1 : 0,
          panels.products += step.kind == step_kind::gemm && step.panels != 0 ? 1 : 0;
    if (plans != nullptr) *plans << plan_text("seed " + std::to_string(s.seed), p, hints, rule);
    if (p.found.fault == fault::layouts_tie) return {outcome::tie, {}};
    if (!p.found.ok())
      return {outcome::no_plan,
              "fault " + std::to_string(static_cast<int>(p.found.fault)) + " in " + std::string(p.found.op)};
    if (compares_memory) {
      const std::string wrong = wrong_memory(p, r.at, s.seed, give);
      return {wrong.empty() ? outcome::fine : outcome::memory, wrong};
    }
    const simulated got = simulate(p, r.at, in, s.seed);
    if (!got.problem.empty()) return {outcome::problem, got.problem};
    for (std::size_t k = 0; k < want.size(); ++k) {
      if (!(want[k].extents == got.results[k].extents))
        return {outcome::values, "result " + std::to_string(k) + " has other extents"};
      const std::int64_t i = first_difference(want[k].data, got.results[k].data,
                                              tolerance_of(g.output_types[k].element));
      if (i < 0) continue;
      if (!stable(g, r.at, in, want)) return {outcome::unstable, {}};
      const auto place = static_cast<std::size_t>(i);
      return {outcome::values, "result " + std::to_string(k) + " element " + std::to_string(i) + " is " +
                                   std::to_string(got.results[k].data[place]) + " instead of " +
                                   std::to_string(want[k].data[place])};
    }
    for (std::size_t k = 0; k < p.steps.size(); ++k)
      if (const std::int64_t priced = step_bytes(p, p.steps[k], r.at); priced != got.step_bytes[k])
        return {outcome::bytes, "step " + std::to_string(k) + " moves " + std::to_string(got.step_bytes[k]) +
                                    " bytes, its price is " + std::to_string(priced)};
    return {outcome::fine, {}, bytes(p, r.at)};
  } catch (const std::exception& e) {
    return {outcome::threw, e.what()};
  }
  return {};
}

/// Smaller programs, one change each. Many are none at all, which the recorder says.
std::vector<sketch> smaller(const sketch& s) {
  std::vector<sketch> all;
  const auto add = [&](auto&& change) {
    sketch t = s;
    change(t);
    all.push_back(std::move(t));
  };
  if (!s.by.empty()) {
    add([](sketch& t) { t.by.clear(), t.gradients.clear(), t.loss = -1; });
    if (s.by.size() > 1)
      for (std::size_t k = 0; k < 2; ++k)
        add([&](sketch& t) {
          t.by.erase(t.by.begin() + static_cast<std::ptrdiff_t>(k)),
              t.gradients.erase(t.gradients.begin() + static_cast<std::ptrdiff_t>(k));
        });
    for (int i = 0; i < s.loss; ++i) add([&](sketch& t) { t.loss = i; });
  }
  for (std::size_t k = 0; k < s.results.size(); ++k)
    add([&](sketch& t) { t.results.erase(t.results.begin() + static_cast<std::ptrdiff_t>(k)); });
  // A step gone: what read it reads one of its operands, or any earlier step.
  for (int i = static_cast<int>(s.steps.size()); i-- > 0;)
    for (int other = i; other-- > -1;) {
      bool read = s.loss == i;
      for (const step_line& l : s.steps) read = read || std::find(l.in.begin(), l.in.end(), i) != l.in.end();
      for (const asked_result& a : s.results) read = read || a.step == i;
      if (!read && other != -1) continue;
      if (read && other == -1) continue;
      if (std::find(s.by.begin(), s.by.end(), i) != s.by.end()) continue;
      add([&](sketch& t) {
        const auto renumber = [&](int& n) { n = n == i ? std::max(other, 0) : n > i ? n - 1 : n; };
        t.steps.erase(t.steps.begin() + i);
        for (step_line& l : t.steps)
          for (int& n : l.in) renumber(n);
        for (asked_result& a : t.results) renumber(a.step);
        for (int& b : t.by) renumber(b);
        if (t.loss >= 0) renumber(t.loss);
      });
    }
  for (std::size_t a = 0; a < s.axes.size(); ++a) {
    const auto each_layout = [](sketch& t, auto&& f) {
      for (step_line& l : t.steps) f(l.where);
      for (asked_result& r : t.results) f(r.where);
      for (written_layout& w : t.gradients) f(w);
    };
    add([&](sketch& t) {
      t.axes.erase(t.axes.begin() + static_cast<std::ptrdiff_t>(a));
      const auto without = [&](std::vector<int>& list) {
        std::erase(list, static_cast<int>(a));
        for (int& n : list) n -= n > static_cast<int>(a) ? 1 : 0;
      };
      each_layout(t, [&](written_layout& w) {
        without(w.unreduced);
        for (auto& e : w.dims) without(e.axes);
      });
    });
    for (std::int64_t n : {std::int64_t{2}, s.axes[a].size - 1})
      if (n >= 1 && n < s.axes[a].size) add([&](sketch& t) { t.axes[a].size = n; });
    if (!s.axes[a].fixed) add([&](sketch& t) { t.axes[a].fixed = true; });
  }
  for (std::size_t d = 0; d < s.dims.size(); ++d) {
    for (std::int64_t n : {std::int64_t{0}, std::int64_t{1}, std::int64_t{2}, s.dims[d].size / 2, s.dims[d].size - 1})
      if (n >= 0 && n < s.dims[d].size) add([&](sketch& t) { t.dims[d].size = n; });
    if (s.dims[d].divisible) add([&](sketch& t) { t.dims[d].divisible = false; });
    if (s.dims[d].fixed) add([&](sketch& t) { t.dims[d].fixed = false; });
  }
  const auto shorter = [&](const written_layout& w, auto&& of) {
    for (std::size_t e = 0; e < w.dims.size(); ++e) {
      if (!w.dims[e].axes.empty()) add([&](sketch& t) { of(t).dims[e].axes.pop_back(); });
      if (w.dims[e].axes.size() > 1) add([&](sketch& t) { of(t).dims[e].axes.erase(of(t).dims[e].axes.begin()); });
    }
    if (!w.unreduced.empty()) add([&](sketch& t) { of(t).unreduced.pop_back(); });
    if (w.combine != reduction::sum) add([&](sketch& t) { of(t).combine = reduction::sum; });
  };
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    const step_line& l = s.steps[i];
    shorter(l.where, [i](sketch& t) -> written_layout& { return t.steps[i].where; });
    // An input with a dim less.
    for (std::size_t e = 0; l.what == 0 && e < l.where.dims.size(); ++e)
      add([&](sketch& t) {
        t.steps[i].where.dims.erase(t.steps[i].where.dims.begin() + static_cast<std::ptrdiff_t>(e));
      });
    if (l.what == 0 && l.type != element::f64 && l.type != element::i32)
      add([&](sketch& t) { t.steps[i].type = is_floating(l.type) ? element::f64 : element::i32; });
    if (l.what == 0) continue;
    for (std::size_t k = 0; k < l.dims.size() && table[l.what].text.find("%*") != std::string_view::npos; ++k)
      add([&](sketch& t) { t.steps[i].dims.erase(t.steps[i].dims.begin() + static_cast<std::ptrdiff_t>(k)); });
    for (std::size_t k = 0; k < l.numbers.size(); ++k)
      for (std::int64_t n : {std::int64_t{0}, std::int64_t{1}, l.numbers[k] - 1})
        if (n >= 0 && n < l.numbers[k]) add([&](sketch& t) { t.steps[i].numbers[k] = n; });
  }
  for (std::size_t k = 0; k < s.results.size(); ++k)
    shorter(s.results[k].where, [k](sketch& t) -> written_layout& { return t.results[k].where; });
  for (std::size_t k = 0; k < s.gradients.size(); ++k)
    shorter(s.gradients[k], [k](sketch& t) -> written_layout& { return t.gradients[k]; });
  if (s.repeat > 0) add([](sketch& t) { t.repeat = 0; });
  if (!s.expects) add([](sketch& t) { t.expects = true; });
  return all;
}

/// The smallest program that still fails in the same way.
sketch shrunk(sketch s, outcome what) {
  int left = 6000;
  for (bool better = true; better && left > 0;) {
    better = false;
    for (sketch& t : smaller(s)) {
      if (--left <= 0) break;
      if (check(t).what != what) continue;
      s = std::move(t);
      better = true;
      break;
    }
  }
  return s;
}

/// Calls `work` with a file, or with a standard stream where it is called -.
template <class File, class Stream>
void with_file(const std::string& name, Stream& standard, const std::function<void(Stream&)>& work) {
  if (name == "-") return work(standard);
  File file(name);
  if (!file) throw std::runtime_error("the file " + name + " cannot be opened");
  work(file);
}

int write_programs(const std::string& name, unsigned seed, long cases) {
  long written = 0;
  with_file<std::ofstream, std::ostream>(name, std::cout, [&](std::ostream& out) {
    for (long k = 0; k < cases; ++k)
      if (const auto made = to_compare(random_sketch(seed + static_cast<unsigned>(k), family::comparable).make(),
                                       tame)) {
        out << *made << "\n";
        ++written;
      }
  });
  std::fprintf(stderr, "fuzz: %ld of %ld programs written, seed %u\n", written, cases, seed);
  return 0;
}

int write_smaller(const std::string& name) {
  with_file<std::ifstream, std::istream>(name, std::cin, [&](std::istream& in) {
    for (const sketch& s : smaller(from_json(json::parse(in))))
      if (const auto made = to_compare(s, tame)) std::cout << *made << "\n";
  });
  return 0;
}

/// The tally of a replay.
struct replay_tally {
  long programs = 0, wrong = 0, ties = 0, above = 0, unreadable = 0, ratios = 0;
  std::int64_t bytes = 0;
  double log_ratio = 0;

  void add(const json& record, std::ostream* verdicts, std::ostream* plans) {
    replayed r;
    try {
      ++programs;
      r = replay(record, plans);
    } catch (const std::exception& e) {
      ++unreadable;
      r.what = verdict_of_record::wrong_plan;
      r.text = std::string("cannot be read: ") + e.what();
    }
    constexpr const char* names[] = {"fine", "tie", "wrong value", "wrong plan", "above"};
    const char* const what = names[static_cast<int>(r.what)];
    const std::string seed = record.contains("seed") ? record["seed"].dump() : "?";
    ties += r.what == verdict_of_record::tie ? 1 : 0;
    above += r.what == verdict_of_record::above ? 1 : 0;
    wrong += r.what == verdict_of_record::wrong_value || r.what == verdict_of_record::wrong_plan ? 1 : 0;
    if (r.what != verdict_of_record::fine) std::printf("seed %s: %s: %s\n", seed.c_str(), what, r.text.c_str());
    bytes += r.ours;
    if (r.ours > 0 && r.theirs > 0) ++ratios, log_ratio += std::log(static_cast<double>(r.ours) / r.theirs);
    if (verdicts != nullptr) *verdicts << json{{"verdict", what}, {"text", r.text}, {"ours", r.ours}} << "\n";
  }
};

/// How many recorded programs may move more than GSPMD, and what all programs may move together.
struct move_limits {
  long above = 0;
  std::int64_t bytes = std::numeric_limits<std::int64_t>::max();
};

int replay_records(const std::string& name, const move_limits& most, const std::string& verdicts,
                   const std::string& plans) {
  replay_tally t;
  std::ofstream said, planned;
  if (!verdicts.empty()) said.open(verdicts);
  if (!plans.empty()) planned.open(plans);
  with_file<std::ifstream, std::istream>(name, std::cin, [&](std::istream& in) {
    for (std::string line; std::getline(in, line);)
      if (!line.empty())
        t.add(json::parse(line), verdicts.empty() ? nullptr : &said, plans.empty() ? nullptr : &planned);
  });
  std::printf(
      "replay: programs %ld, wrong %ld, above gspmd %ld, ties %ld, unreadable %ld, bytes %lld, geomean "
      "ours/gspmd %.3f\n",
      t.programs, t.wrong, t.above, t.ties, t.unreadable, static_cast<long long>(t.bytes),
      t.ratios > 0 ? std::exp(t.log_ratio / static_cast<double>(t.ratios)) : 1.0);
  return t.programs > 0 && t.wrong == 0 && t.above <= most.above && t.bytes <= most.bytes ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  unsigned seed = 1;
  long cases = 2000;
  double minutes = 0;
  bool print = false, understood = true;
  std::string plans, programs, records, verdicts, program;
  move_limits most;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--seed" && i + 1 < argc) seed = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    else if (option == "--cases" && i + 1 < argc) cases = std::strtol(argv[++i], nullptr, 10);
    else if (option == "--minutes" && i + 1 < argc)
      minutes = std::strtod(argv[++i], nullptr), cases = minutes > 0 ? 2000000000L : cases;
    else if (option == "--print") print = true;
    else if (option == "--computed-halos") halos.asked = true;
    else if (option == "--memory") compares_memory = true;
    else if (option == "--given-blocks") gives_blocks = true;
    else if (option == "--within-workspace" && i + 1 < argc) panels.limit = std::strtoll(argv[++i], nullptr, 10);
    else if (option == "--plans" && i + 1 < argc) plans = argv[++i];
    else if (option == "--json" && i + 1 < argc) programs = argv[++i];
    else if (option == "--replay" && i + 1 < argc) records = argv[++i];
    else if (option == "--above" && i + 1 < argc) most.above = std::strtol(argv[++i], nullptr, 10);
    else if (option == "--bytes" && i + 1 < argc) most.bytes = std::strtoll(argv[++i], nullptr, 10);
    else if (option == "--verdicts" && i + 1 < argc) verdicts = argv[++i];
    else if (option == "--smaller" && i + 1 < argc) program = argv[++i];
    else understood = false;
  }
  if (!understood) {
    std::fprintf(stderr,
                 "usage: cleave_fuzz [--seed S] [--cases N] [--minutes M] [--bytes N]\n"
                 "                   [--computed-halos] [--within-workspace N] [--print] [--memory]\n"
                 "                   [--given-blocks] [--plans FILE]\n"
                 "       cleave_fuzz [--seed S] [--cases N] --json FILE\n"
                 "       cleave_fuzz --replay FILE [--above N] [--bytes N] [--verdicts FILE] [--plans FILE]\n"
                 "       cleave_fuzz --smaller FILE\n");
    return 2;
  }
  try {
    if (!programs.empty()) return write_programs(programs, seed, cases);
    if (!records.empty()) return replay_records(records, most, verdicts, plans);
    if (!program.empty()) return write_smaller(program);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cleave_fuzz: %s\n", e.what());
    return 2;
  }
  std::ofstream written;
  if (!plans.empty()) written.open(plans);
  if (!plans.empty() && !written) {
    std::fprintf(stderr, "cleave_fuzz: the file of plans cannot be opened\n");
    return 2;
  }
  const auto start = std::chrono::steady_clock::now();
  std::map<outcome, long> tally;
  std::map<int, long> used;
  std::set<std::string> seen;
  long done = 0, wrong = 0, gradients = 0;
  std::int64_t moved = 0;
  for (; done < cases; ++done) {
    if (minutes > 0 && std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > 60 * minutes)
      break;
    // Any case again by itself: --seed of it, --cases 1.
    const unsigned its = seed + static_cast<unsigned>(done);
    const sketch s = random_sketch(its).make();
    if (print) std::printf("%s\n", to_cpp(s, "seed " + std::to_string(its)).c_str()), std::fflush(stdout);
    gradients += s.by.empty() ? 0 : 1;
    for (const step_line& l : s.steps) ++used[l.what];
    const finding f = check(s, plans.empty() ? nullptr : &written);
    ++tally[f.what];
    moved += f.moved;
    if (!f.wrong()) continue;
    ++wrong;
    const sketch small = shrunk(s, f.what);
    const finding last = check(small);
    // Failures of the same operations in the same way are said once.
    std::set<std::string_view> ops;
    for (const step_line& l : small.steps) ops.insert(table[l.what].text);
    std::string sort(name_of(f.what));
    for (char c : last.text)
      if (f.what == outcome::problem && (c < '0' || c > '9')) sort.push_back(c);
    for (std::string_view o : ops)
      if (f.what != outcome::problem) sort.append(" ").append(o);
    if (!seen.insert(sort).second) continue;
    const std::string text = to_cpp(small, "seed " + std::to_string(its) + ", " + std::string(name_of(f.what)) + ": " +
                                               last.text);
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }
  for (const auto& [what, n] : tally) std::printf("%s %ld, ", std::string(name_of(what)).c_str(), n);
  std::printf("gradients %ld, kinds of failure %zu, bytes %lld\n", gradients, seen.size(),
              static_cast<long long>(moved));
  if (halos.asked) std::printf("halos computed %ld\n", halos.computed);
  if (panels.limit > 0) std::printf("products in panels %ld\n", panels.products);
  // An operation that is never tried is a fault of the generator.
  for (int k = 1; k < table_size && done >= 20000; ++k)
    if (used[k] == 0) std::printf("never: %s\n", std::string(table[k].text).c_str());
  // A generator or a recorder that refuses everything would find nothing wrong. A single case may be refused.
  const bool tried = done < 20 || (2 * tally[outcome::fine] > done && (!halos.asked || halos.computed > done / 1000) &&
                                   (panels.limit == 0 || panels.products > done / 2000));
  if (!tried)
    std::printf(
        "fuzz: of %ld cases only %ld were planned and compared, with %ld computed halos, %ld products in panels\n",
        done, tally[outcome::fine], halos.computed, panels.products);
  std::printf("fuzz: cases %ld, wrong %ld, seed %u\n", done, wrong, seed);
  if (moved > most.bytes)
    std::printf("fuzz: the plans move more than %lld bytes\n", static_cast<long long>(most.bytes));
  return wrong == 0 && tried && moved <= most.bytes ? 0 : 1;
}
