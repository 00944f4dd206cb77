// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares the planner with recorded decisions of XLA's SPMD partitioner, and checks every plan by simulating it.
//
//   cleave_oracle FILE [--verbose] [--family NAME] [--id PART]
//
// Each case is built through the recorder from its op, einsum and parameters, planned for the fewest bytes within the case's
// redundancy, priced for its real sizes, and simulated with small random data against the plain evaluator.
#include <cleave/expr/functions.hpp>
#include <cleave/plan/explain.hpp>
#include <cleave/simulate/evaluate.hpp>
#include <cleave/simulate/simulate.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <deque>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>

namespace {

using nlohmann::json;

struct malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Owns the names that graphs refer to.
class names {
public:
  std::string_view keep(std::string text) { return owned_.emplace_back(std::move(text)); }

private:
  std::deque<std::string> owned_;
};

cleave::element element_named(const std::string& dtype) {
  static const std::map<std::string, cleave::element> known{
      {"float32", cleave::element::f32},   {"float64", cleave::element::f64}, {"bfloat16", cleave::element::bf16},
      {"float16", cleave::element::f16},   {"int32", cleave::element::i32},   {"int64", cleave::element::i64},
      {"bool", cleave::element::boolean}};
  const auto at = known.find(dtype);
  if (at == known.end()) throw malformed("unknown dtype '" + dtype + "'");
  return at->second;
}

/// Records one case: its inputs with letters for dims, then its op.
class case_builder {
public:
  case_builder(const json& description, names& pool) : c_(description), pool_(pool), in_(read_mesh()) {}

  /// False for ops that the library does not have yet.
  bool build() {
    const std::string op = c_.at("op");
    if (op == "einsum") return einsum();
    if (op == "reshard") return input("abcdefg"), finish(values_[0]);
    if (op == "add") return add();
    if (op == "softmax") return input("abcdefg"), finish(softmax(values_[0], dim(letters_.back())));
    if (op == "layernorm") {
      input("abcdefg");
      const std::string last(1, letters_.back());
      return input(last), input(last), finish(layer_norm(values_[0], dim(last[0]), values_[1], values_[2]));
    }
    if (op == "mlp") return input(rank_of(0) == 2 ? "bd" : "bsd"), input("dh"), input("hd"), finish(mlp());
    if (op == "attention") return attention();
    return false;
  }
  cleave::recorder& recorded() { return in_; }

private:
  cleave::mesh_value read_mesh() {
    cleave::mesh_value mesh;
    const json& axes = c_.at("mesh").at("axes");
    for (std::size_t i = 0; i < axes.size(); ++i) mesh.axes.push_back({pool_.keep(axes[i]), c_.at("mesh").at("sizes").at(i)});
    return mesh;
  }
  cleave::dim_ref dim(char letter) { return {pool_.keep(std::string(1, letter)), extents_.at(letter)}; }

  cleave::spec layout(const std::string& letters, const json& axes) {
    cleave::spec s;
    s.mesh = in_.made().mesh;
    if (axes.size() != letters.size()) throw malformed("a spec has another rank than its tensor");
    for (std::size_t i = 0; i < letters.size(); ++i) {
      cleave::placement p(dim(letters[i]));
      if (axes[i].is_string()) p.axes.push_back(pool_.keep(axes[i]));
      if (axes[i].is_array())
        for (const json& axis : axes[i]) p.axes.push_back(pool_.keep(axis));
      s.dims.push_back(p);
    }
    return s;
  }

  /// The next input, its dims called by the first letters given.
  void input(std::string letters) {
    const json& i = c_.at("inputs").at(values_.size());
    const json& shape = i.at("shape");
    if (letters.size() < shape.size()) throw malformed("an input has more dims than its op takes");
    letters.resize(shape.size());
    for (std::size_t d = 0; d < letters.size(); ++d) extents_[letters[d]] = shape[d];
    if (values_.empty()) {
      letters_ = letters;
      type_ = element_named(i.at("dtype"));
    }
    values_.push_back(in_.input(element_named(i.at("dtype")), layout(letters, i.at("spec"))));
  }
  bool finish(cleave::value result) { return finish(result, letters_); }
  /// Asks for the result in the requested layout, or in the one that was chosen where none was requested.
  bool finish(cleave::value result, const std::string& letters) {
    const json& requested = c_.at("outputs_requested").at(0);
    in_.output(result, type_, layout(letters, requested.is_null() ? c_.at("outputs").at(0).at("spec") : requested));
    return true;
  }

  cleave::value product(cleave::value a, const std::string& la, cleave::value b, const std::string& lb, const std::string& out) {
    std::vector<cleave::dim_ref> over;
    for (char l : la)
      if (lb.find(l) != std::string::npos && out.find(l) == std::string::npos) over.push_back(dim(l));
    return in_.dot(a, b, over, {});
  }
  bool einsum() {
    if (c_.at("einsum").is_null()) {
      // The two that are sums of products, told apart by what they read.
      const std::size_t inputs = c_.at("inputs").size();
      if (inputs == 4) {
        input("ab"), input("bc"), input("ab"), input("bc");
        return finish(product(values_[0], "ab", values_[1], "bc", "ac") + product(values_[2], "ab", values_[3], "bc", "ac"), "ac");
      }
      if (inputs == 3) {
        input("ab"), input("bc"), input("ac");
        return finish(2.0 * product(values_[0], "ab", values_[1], "bc", "ac") - values_[2], "ac");
      }
      return false;
    }
    const std::string text = c_.at("einsum");
    const std::size_t arrow = text.find("->"), comma = text.find(',');
    if (arrow == std::string::npos || comma == std::string::npos) throw malformed("einsum '" + text + "' is not a,b->c");
    const std::string a = text.substr(0, comma), b = text.substr(comma + 1, arrow - comma - 1), out = text.substr(arrow + 2);
    input(a), input(b);
    return finish(product(values_[0], a, values_[1], b, out), out);
  }
  /// NumPy's broadcasting: the second operand has the last dims of the first.
  bool add() {
    input("abcdefg");
    if (rank_of(1) > letters_.size()) throw malformed("the second operand of add has more dims than the first");
    input(letters_.substr(letters_.size() - rank_of(1)));
    return finish(values_[0] + values_[1]);
  }
  std::size_t rank_of(std::size_t input) const { return c_.at("inputs").at(input).at("shape").size(); }
  cleave::value mlp() {
    return values_[0] + dot(relu(dot(values_[0], values_[1], dim('d'))), values_[2], dim('h'));
  }
  /// x + causal softmax(q k^T / sqrt(key)) v, projected back. The sequence has a second name where it is attended to.
  bool attention() {
    input("bsd"), input("dhk"), input("dhk"), input("dhk"), input("hkd");
    extents_['t'] = extents_.at('s');
    const cleave::value x = values_[0], other = rename(x, dim('s'), dim('t'));
    const cleave::value q = dot(x, values_[1], dim('d')), k = dot(other, values_[2], dim('d')), v = dot(other, values_[3], dim('d'));
    const cleave::value scores = dot(q, k, dim('k')) * (1 / std::sqrt(static_cast<double>(extents_.at('k'))));
    const cleave::value row = in_.iota(dim('s'), cleave::element::i32, {}), column = in_.iota(dim('t'), cleave::element::i32, {});
    const cleave::value past =
        in_.elementwise(cleave::op::greater_equal, std::array{row, column}, {}, cleave::element::boolean, true);
    const cleave::value weights = softmax(select(past, scores, -1e30), dim('t'));
    return finish(x + dot(dot(weights, v, dim('t')), values_[4], dim('h'), dim('k')));
  }

  const json& c_;
  names& pool_;
  cleave::recorder in_;
  std::map<char, std::int64_t> extents_{};
  std::vector<cleave::value> values_{};
  std::string letters_{};
  cleave::element type_ = cleave::element::f32;
};

/// The least extent with the same remainders over every group of axes, so that small data meet the same cases.
std::int64_t shrunk(std::int64_t extent, const cleave::axis_sizes& axes) {
  for (std::int64_t small = 1; small < extent; ++small) {
    bool alike = true;
    for (unsigned set = 1; set < 128; ++set) {
      const std::int64_t n = axes.product(static_cast<cleave::axis_set>(set));
      alike = alike && (extent % n == 0) == (small % n == 0) && (extent < n) == (small < n);
    }
    if (alike && small > 1) return small;
  }
  return extent;
}

/// What is wrong with the values or the bytes of a plan, if anything.
std::optional<std::string> check(const cleave::graph& g, const cleave::program& p, const cleave::sizes& at) {
  std::mt19937_64 random(7);
  std::vector<cleave::host_array> inputs;
  for (cleave::node_id i : g.inputs) {
    cleave::host_array a(shape_of(g.nodes[i].type, at));
    for (double& x : a.data) x = std::uniform_real_distribution<double>(-1, 1)(random);
    inputs.push_back(std::move(a));
  }
  const auto wanted = cleave::evaluate(g, at, inputs);
  const cleave::simulated got = cleave::simulate(p, at, inputs);
  if (!got.problem.empty()) return got.problem;
  for (std::size_t r = 0; r < wanted.size(); ++r)
    for (std::size_t i = 0; i < wanted[r].data.size(); ++i)
      if (!(std::fabs(wanted[r].data[i] - got.results[r].data[i]) <= 1e-9 * (1 + std::fabs(wanted[r].data[i]))))
        return "element " + std::to_string(i) + " is " + std::to_string(got.results[r].data[i]) + " instead of " +
               std::to_string(wanted[r].data[i]);
  if (const std::int64_t priced = bytes(p, at); priced != got.bytes)
    return "priced " + std::to_string(priced) + " bytes, simulated " + std::to_string(got.bytes);
  return std::nullopt;
}

struct tally {
  int cases = 0, run = 0, wrong = 0, above_gspmd = 0, above_bound = 0, ratios = 0;
  double log_ratio = 0;
  std::map<std::string, int> not_run;
};

std::string shown(const json& number) { return number.is_null() ? "-" : cleave::detail::grouped(static_cast<std::int64_t>(number.get<double>())); }

void run_case(const json& c, names& pool, bool verbose, tally& t) {
  const std::string id = c.at("id");
  ++t.cases;
  case_builder builder(c, pool);
  if (!builder.build()) {
    ++t.not_run[c.at("family")];
    return;
  }
  const cleave::graph& g = builder.recorded().made();
  if (!g.found.ok()) throw malformed("the recorder rejects it in " + std::string(g.found.op) + " (fault " + std::to_string(static_cast<int>(g.found.fault)) + ")");
  ++t.run;
  const cleave::sizes real = cleave::sizes_for(g);
  const double repeat = c.at("redundancy").is_null() ? 1.0 : c.at("redundancy").get<double>();
  const cleave::program p = partition(g, real, cleave::policy::bytes_first(repeat));
  std::string notes;
  if (!p.found.ok()) {
    ++t.wrong;
    std::printf("%-60s no plan (fault %d)\n", id.c_str(), static_cast<int>(p.found.fault));
    return;
  }
  cleave::sizes small = real;
  for (std::size_t d = 0; d < g.dims.size(); ++d) small.dims[d] = shrunk(real.dims[d], real.axes);
  if (const auto problem = check(g, p, small)) {
    ++t.wrong;
    notes += "  WRONG: " + *problem;
  }
  const json& gspmd = c.at("gspmd");
  // XLA's CPU pipeline widens bf16 to f32.
  const double widened = c.at("inputs").at(0).at("dtype") == "bfloat16" ? 0.5 : 1.0;
  const double scattered = widened * gspmd.at("bytes_with_reduce_scatter").get<double>();
  const double ours = static_cast<double>(bytes(p, real));
  if (ours > scattered + 64) {
    ++t.above_gspmd;
    notes += "  ABOVE GSPMD";
  }
  if (!c.at("bound_bytes").is_null() && ours > c.at("bound_bytes").get<double>() + c.at("tolerance_bytes").get<double>()) {
    ++t.above_bound;
    notes += "  ABOVE BOUND";
  }
  if (const double theirs = widened * gspmd.at("bytes").get<double>(); ours > 0 && theirs > 0) {
    t.log_ratio += std::log(ours / theirs);
    ++t.ratios;
  }
  std::printf("%-60s %14s %14s %14s %14s %14s%s\n", id.c_str(), cleave::detail::grouped(static_cast<std::int64_t>(ours)).c_str(),
              shown(gspmd.at("bytes")).c_str(), shown(gspmd.at("bytes_with_reduce_scatter")).c_str(),
              shown(gspmd.at("shardy_bytes")).c_str(), shown(c.at("bound_bytes")).c_str(), notes.c_str());
  if (verbose) std::printf("%s\n", explain(p, real).c_str());
}

} // namespace

int main(int argc, char** argv) {
  std::string file, family, part;
  bool verbose = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--verbose") verbose = true;
    else if (option == "--family" && i + 1 < argc) family = argv[++i];
    else if (option == "--id" && i + 1 < argc) part = argv[++i];
    else if (option.starts_with("--") || !file.empty()) file.clear(), i = argc;
    else file = option;
  }
  if (file.empty()) {
    std::fprintf(stderr, "usage: cleave_oracle FILE [--verbose] [--family NAME] [--id PART]\n");
    return 2;
  }
  tally t;
  std::string current = "the top level";
  try {
    std::ifstream stream(file);
    if (!stream) throw malformed("cannot open it");
    const json all = json::parse(stream);
    names pool;
    std::printf("%-60s %14s %14s %14s %14s %14s\n", "bytes a device", "ours", "GSPMD", "with scatter", "Shardy", "bound");
    for (const json& c : all.at("cases")) {
      current = "case '" + c.at("id").get<std::string>() + "'";
      if (!family.empty() && c.at("family") != family) continue;
      if (!part.empty() && c.at("id").get<std::string>().find(part) == std::string::npos) continue;
      run_case(c, pool, verbose, t);
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "cleave_oracle: %s: %s: %s\n", file.c_str(), current.c_str(), e.what());
    return 2;
  }
  if (!t.not_run.empty()) {
    std::string list;
    for (const auto& [name, count] : t.not_run) list += (list.empty() ? "" : ", ") + name + " " + std::to_string(count);
    std::printf("not run: %s\n", list.c_str());
  }
  std::printf("oracle: cases %d, run %d, wrong %d, above gspmd %d, above bound %d, geomean ours/gspmd %.3f\n", t.cases, t.run, t.wrong,
              t.above_gspmd, t.above_bound, t.ratios > 0 ? std::exp(t.log_ratio / t.ratios) : 1.0);
  return t.wrong + t.above_gspmd + t.above_bound == 0 ? 0 : 1;
}
