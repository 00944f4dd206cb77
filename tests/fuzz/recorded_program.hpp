// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "../plan_text.hpp"
#include "sketch_json.hpp"
#include "stable.hpp"

#include <cleave/graph/simplify.hpp>
#include <cleave/plan/price.hpp>
#include <cleave/simulate/simulate.hpp>

/// Programs with what another partitioner made of them.
///
/// A record is a sketch as JSON (sketch_json.hpp) and
///
///   values    of each result: two sums of its elements with weights, and the sum of their absolute values
///   gspmd     bytes: what its collectives move per device; scattered: the same with its all-reduce + slice charged as
///             a reduce-scatter; work: how often its products are done (1: once), at most
///
/// The weights are `argument` of sketch.hpp: of the program's seed, number 1000 + 2 r + k for sum k of result r, from
/// -1 to 1.
namespace fuzz {

/// Records a program with all extents fixed, as other compilers know them.
inline bool record_static(const sketch& s, recorded& r) {
  if (!record(s, r)) return false;
  sketch known = s;
  for (std::size_t d = 0; d < r.g().dims.size(); ++d)
    if (const auto n = static_cast<std::size_t>(recorded::number_of(r.g().dims[d].name)); n < known.dims.size())
      known.dims[n] = {r.at.dims[d], true, false};
  return record(known, r);
}

struct weighted_sums {
  double sum[2]{}, size = 0;
};
inline weighted_sums sums_of(const host_array& a, unsigned seed, std::size_t result) {
  weighted_sums s;
  for (std::size_t i = 0; i < a.data.size(); ++i) {
    for (std::size_t k = 0; k < 2; ++k) s.sum[k] += a.data[i] * argument(seed, 1000 + 2 * result + k, i, -1, 1, false);
    s.size += std::fabs(a.data[i]);
  }
  return s;
}

/// Flops of the products of a program, each done once.
inline double flops_once(const graph& recorded, const sizes& at) {
  const graph g = simplify(recorded);
  double once = 0;
  for (const node& n : g.nodes) {
    if (n.code != op::dot || n.over == 0) continue;
    double work = 2 * static_cast<double>(iterations_of(g.loops, n.loop, at));
    const dim_set dims = g.nodes[n.in[0]].type.set() | g.nodes[n.in[1]].type.set();
    for (dim_id d = 0; d < max_dims; ++d)
      if ((dims & dim_bit(d)) != 0) work *= static_cast<double>(at[d]);
    once += work;
  }
  return once;
}

/// A program with what only recording says: the extents of its dims, its steps as text, the flops of its products. None
/// where it is refused, too large, or its numbers follow from the arguments to no accuracy.
inline std::optional<json> to_compare(const sketch& s, bool (*tame)(element, std::span<const double>)) {
  recorded r;
  if (!record_static(s, r)) return std::nullopt;
  const graph& g = r.g();
  for (const node& n : g.nodes)
    if (shape_of(n.type, r.at).elements() > 60000) return std::nullopt;
  const std::vector<host_array> in = arguments_of(s, r), want = evaluate(g, r.at, in);
  for (std::size_t k = 0; k < want.size(); ++k)
    if (!tame(g.output_types[k].element, want[k].data)) return std::nullopt;
  if (!stable(g, r.at, in, want)) return std::nullopt;
  json all = to_json(s);
  for (std::size_t d = 0; d < g.dims.size(); ++d) all["extents"][std::string(g.dims[d].name)] = r.at.dims[d];
  for (const step_line& line : s.steps) all["text"].push_back(line.what == 0 ? "" : printing::filled(line, r));
  all["results"] = json::array();
  for (const asked_result& a : r.results)
    if (a.step >= 0) {
      json result = layout_to_json(a.where);
      result["step"] = a.step;
      all["results"].push_back(result);
    }
  // The gradients are told apart from the results by their own list.
  if (!s.by.empty()) {
    const std::size_t others = r.results.size() - 1 - s.by.size();
    json results = json::array(), gradients = json::array();
    for (std::size_t k = 0; k < s.results.size() && k < others; ++k) results.push_back(all["results"][k]);
    for (std::size_t k = 0; k < s.by.size(); ++k) gradients.push_back(layout_to_json(r.results[1 + others + k].where));
    all["results"] = results;
    all["gradients"] = gradients;
  }
  all["flops"] = flops_once(g, r.at);
  return all;
}

/// Records have the work with six digits behind the point.
inline constexpr double rounded_work = 1e-6;

enum class verdict_of_record : std::uint8_t { fine, tie, wrong_value, wrong_plan, above };

struct replayed {
  verdict_of_record what = verdict_of_record::fine;
  std::string text{};
  std::int64_t ours = 0;
  double theirs = 0, scattered = 0;
};

/// Plans and simulates a recorded program, and compares it with what the record says. Where `plans` is given, the plan
/// goes there as text.
inline replayed replay(const json& record, std::ostream* plans = nullptr) {
  replayed result;
  const auto wrong = [&](verdict_of_record what, std::string text) {
    result.what = what;
    result.text = std::move(text);
    return result;
  };
  const sketch s = from_json(record);
  recorded r;
  if (!record_static(s, r)) return wrong(verdict_of_record::wrong_plan, "the recorder refuses it");
  const graph& g = r.g();
  const json& theirs = record.at("gspmd");
  const std::vector<host_array> in = arguments_of(s, r), want = evaluate(g, r.at, in);
  for (std::size_t k = 0; k < want.size() && record.contains("values"); ++k) {
    const weighted_sums sums = sums_of(want[k], s.seed, k);
    const json& values = record["values"].at(k);
    for (std::size_t i = 0; i < 2; ++i)
      if (std::fabs(sums.sum[i] - values.at(i).get<double>()) > 1e-8 * (1e-3 + sums.size))
        return wrong(verdict_of_record::wrong_value,
                     "result " + std::to_string(k) + ": weighted sum " + std::to_string(sums.sum[i]) + ", theirs " +
                         std::to_string(values.at(i).get<double>()) + ", absolute " + std::to_string(sums.size) +
                         ", theirs " + std::to_string(values.at(2).get<double>()));
  }
  const policy rule = policy::bytes_first(std::max(1.0, theirs.value("work", 1.0) * (1 + rounded_work)));
  const program p = partition(g, r.at, rule);
  if (plans != nullptr) *plans << plan_text("seed " + std::to_string(s.seed), p, r.at, rule);
  if (p.found.fault == fault::layouts_tie) return wrong(verdict_of_record::tie, "layouts tie");
  if (!p.found.ok())
    return wrong(verdict_of_record::wrong_plan, "no plan: fault " + std::to_string(static_cast<int>(p.found.fault)));
  const simulated got = simulate(p, r.at, in, s.seed);
  if (!got.problem.empty()) return wrong(verdict_of_record::wrong_plan, got.problem);
  for (std::size_t k = 0; k < want.size(); ++k)
    if (first_difference(want[k].data, got.results[k].data, tolerance_of(g.output_types[k].element)) >= 0)
      return wrong(verdict_of_record::wrong_value, "result " + std::to_string(k) + " of the plan differs");
  result.ours = bytes(p, r.at);
  for (std::size_t k = 0; k < p.steps.size(); ++k)
    if (step_bytes(p, p.steps[k], r.at) != got.step_bytes[k])
      return wrong(verdict_of_record::wrong_plan, "the price of a step is not what it moves");
  result.theirs = theirs.at("bytes").get<double>();
  result.scattered = theirs.at("scattered").get<double>();
  if (static_cast<double>(result.ours) > result.scattered + 64)
    return wrong(verdict_of_record::above,
                 std::to_string(result.ours) + " bytes, GSPMD " + std::to_string(std::llround(result.scattered)));
  return result;
}

} // namespace fuzz
