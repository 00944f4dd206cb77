// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "print_sketch.hpp"

#include <nlohmann/json.hpp>

#include <stdexcept>

/// Sketches as JSON, one object a program: what tests/oracle/against_jax.py reads and what recorded programs are made
/// of.
///
///   seed            of the program, and of its arguments (see `argument` in sketch.hpp)
///   axes            sizes of the mesh axes x, y, z
///   dims            [extent, fixed, divisible] of dims a, b, c, d, e, n5, ...; an extent of -1 follows from the others
///   steps           op: the text of an entry of the table in sketch.hpp; in: earlier steps; dims, numbers; for some a
///                   type and a layout (where). An input has its range in quarters as numbers
///   results         step and layout of each result
///   by, loss,       inputs by which sum(v * sin(v)) of step `loss` is differentiated, and the layouts of their
///   gradients       gradients; the results are then that sum, the results above, the gradients
///
/// A layout: dims [[dim, axes...], ...] in memory order, the axes major first; unreduced [axes...] where it has some.
namespace fuzz {

using nlohmann::json;

inline json layout_to_json(const written_layout& w) {
  json dims = json::array();
  for (const auto& e : w.dims) {
    json entry = json::array({e.dim});
    for (int a : e.axes) entry.push_back(a);
    dims.push_back(entry);
  }
  json all{{"dims", dims}};
  if (!w.unreduced.empty()) all["unreduced"] = w.unreduced, all["combine"] = static_cast<int>(w.combine);
  return all;
}
inline written_layout layout_from_json(const json& from) {
  written_layout w;
  for (const json& entry : from.at("dims")) {
    w.dims.push_back({entry.at(0).get<int>(), {}});
    for (std::size_t k = 1; k < entry.size(); ++k) w.dims.back().axes.push_back(entry[k].get<int>());
  }
  if (from.contains("unreduced")) {
    w.unreduced = from["unreduced"].get<std::vector<int>>();
    w.combine = static_cast<reduction>(from.at("combine").get<int>());
  }
  return w;
}

inline json to_json(const sketch& s) {
  json all{{"seed", s.seed}};
  for (const sized_axis& a : s.axes) all["axes"].push_back(a.size);
  for (const sized_dim& d : s.dims) all["dims"].push_back(json::array({d.size, d.fixed, d.divisible}));
  for (const step_line& line : s.steps) {
    json step{{"op", table[line.what].text}};
    if (!line.in.empty()) step["in"] = line.in;
    if (!line.dims.empty()) step["dims"] = line.dims;
    if (!line.numbers.empty()) step["numbers"] = line.numbers;
    if (line.type != element::none) step["type"] = name_of(line.type);
    if (line.what == 0 || table[line.what].text.find('~') != std::string_view::npos)
      step["where"] = layout_to_json(line.where);
    all["steps"].push_back(step);
  }
  all["results"] = json::array();
  for (const asked_result& r : s.results) {
    json result = layout_to_json(r.where);
    result["step"] = r.step;
    all["results"].push_back(result);
  }
  if (!s.by.empty()) {
    all["by"] = s.by;
    all["loss"] = s.loss;
    for (const written_layout& w : s.gradients) all["gradients"].push_back(layout_to_json(w));
  }
  return all;
}

/// The entry of the table with a text. Entries with one text record alike.
inline int entry_named(const std::string& text) {
  for (int k = 0; k < table_size; ++k)
    if (table[k].text == text) return k;
  throw std::invalid_argument("no operation is written '" + text + "'");
}
inline element element_named(const std::string& name) {
  for (int e = 0; e <= static_cast<int>(element::f64); ++e)
    if (name_of(static_cast<element>(e)) == name) return static_cast<element>(e);
  throw std::invalid_argument("no element type is called '" + name + "'");
}

inline sketch from_json(const json& all) {
  sketch s;
  s.seed = all.at("seed").get<unsigned>();
  for (const json& a : all.at("axes")) s.axes.push_back({a.get<std::int64_t>(), true});
  for (const json& d : all.at("dims"))
    s.dims.push_back({d.at(0).get<std::int64_t>(), d.at(1).get<bool>(), d.at(2).get<bool>()});
  for (const json& step : all.at("steps")) {
    step_line line;
    line.what = entry_named(step.at("op").get<std::string>());
    if (step.contains("in")) line.in = step["in"].get<std::vector<int>>();
    if (step.contains("dims")) line.dims = step["dims"].get<std::vector<int>>();
    if (step.contains("numbers")) line.numbers = step["numbers"].get<std::vector<std::int64_t>>();
    if (step.contains("type")) line.type = element_named(step["type"].get<std::string>());
    if (step.contains("where")) line.where = layout_from_json(step["where"]);
    s.steps.push_back(line);
  }
  for (const json& r : all.at("results")) s.results.push_back({r.at("step").get<int>(), layout_from_json(r)});
  if (all.contains("by")) {
    s.by = all["by"].get<std::vector<int>>();
    s.loss = all.at("loss").get<int>();
    for (const json& g : all.at("gradients")) s.gradients.push_back(layout_from_json(g));
  }
  return s;
}

} // namespace fuzz
