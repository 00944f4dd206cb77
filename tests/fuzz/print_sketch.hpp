// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "sketch.hpp"

#include <string>

/// A sketch as a C++ program that shows what is wrong with its plan.
namespace fuzz {

namespace printing {

inline std::string joined(const std::vector<std::string>& all) {
  std::string text;
  for (const std::string& each : all) text += (text.empty() ? "" : ", ") + each;
  return text;
}
inline std::string number(double n) {
  std::string text = std::to_string(n);
  text.erase(text.find_last_not_of('0') + 1);
  return text + (text.back() == '.' ? "0" : "");
}
inline std::string layout(const written_layout& w) {
  std::vector<std::string> entries;
  for (const auto& e : w.dims) {
    std::string entry(dim_names[e.dim]);
    for (int a : e.axes) entry.append(" / ").append(axis_names[a]);
    entries.push_back(entry);
  }
  std::vector<std::string> axes;
  for (int a : w.unreduced) axes.emplace_back(axis_names[a]);
  if (!axes.empty())
    entries.push_back("cleave::unreduced<cleave::reduction::" + std::string(name_of(w.combine)) + ">(" + joined(axes) +
                      ")");
  return "mesh(" + joined(entries) + ")";
}
inline std::string type_name(element e) {
  constexpr const char* names[] = {"void",         "bool",          "std::int8_t",
                                   "std::uint8_t", "std::int32_t",  "std::uint32_t",
                                   "std::int64_t", "std::uint64_t", "cleave::bfloat16",
                                   "cleave::half", "float",         "double",
                                   "void",         "void"};
  return names[static_cast<int>(e)];
}
inline std::string tensor(element e, const written_layout& w) {
  return "cleave::abstract<" + type_name(e) + ", " + layout(w) + ">";
}

/// The text of an operation, with its operands filled in.
inline std::string filled(const step_line& line, const recorded& r) {
  constexpr const char* borders[] = {"zero", "periodic", "edge", "reflect"};
  constexpr const char* orders[] = {"forward", "forward_exclusive", "backward", "backward_exclusive"};
  static_assert(static_cast<int>(border::zero) == 0 && static_cast<int>(border::periodic) == 1);
  std::string out;
  const std::string_view text = table[line.what].text;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '~') out += layout(line.where);
    else if (c == '^') out += "cleave::element_of<" + type_name(line.type) + ">";
    else if (c == '%' && text[i + 1] == '*') {
      std::vector<std::string> dims;
      for (int d : line.dims) dims.emplace_back(dim_names[d]);
      // Without dims no comma is left before the bracket.
      if (dims.empty()) out.resize(out.size() - 2);
      out += joined(dims);
      ++i;
    } else if (std::string_view("$%#&?!").find(c) != std::string_view::npos && i + 1 < text.size() &&
               text[i + 1] >= '0' && text[i + 1] <= '9') {
      std::size_t k = 0;
      while (i + 1 < text.size() && text[i + 1] >= '0' && text[i + 1] <= '9')
        k = 10 * k + static_cast<std::size_t>(text[++i] - '0');
      if (c == '$') out += "v" + std::to_string(line.in[k]);
      else if (c == '%') out += dim_names[line.dims[k]];
      else if (c == '#') out += line.numbers[k] == to_the_end ? "cleave::to_the_end" : std::to_string(line.numbers[k]);
      else if (c == '&') {
        const value beside = r.made[static_cast<std::size_t>(line.in[0])];
        out += number(number_beside(r.in->at(beside).type.element, line.numbers[k]));
      } else if (c == '?') out += std::string("cleave::border::") + borders[line.numbers[k]];
      else out += std::string("cleave::running::") + orders[line.numbers[k]];
    } else {
      out += c;
    }
  }
  return out;
}

} // namespace printing

inline std::string to_cpp(const sketch& s, const std::string& what) {
  using namespace printing;
  recorded r;
  if (!record(s, r)) return "// not a program\n";
  const graph& g = r.g();
  std::string t = "// " + what + "\n";
  t += "#include <cleave/expr/cumulative.hpp>\n#include <cleave/expr/gradient.hpp>\n#include "
       "<cleave/expr/lookup.hpp>\n#include <cleave/expr/loops.hpp>\n#include <cleave/expr/movement.hpp>\n"
       "#include <cleave/expr/random.hpp>\n#include <cleave/expr/reductions.hpp>\n#include "
       "<cleave/expr/sort.hpp>\n#include <cleave/study/explain_plan.hpp>\n#include "
       "<cleave/plan/plan.hpp>\n#include "
       "<cleave/simulate/simulate.hpp>\n\n"
       "#include <cstdio>\n\n";
  std::vector<std::string> axes, sizes, expected;
  for (std::size_t a = 0; a < s.axes.size(); ++a) {
    const std::string name(axis_names[a]), n = std::to_string(s.axes[a].size);
    t += "inline constexpr cleave::axis<\"" + name + "\"" + (s.axes[a].fixed ? ", " + n : "") + "> " + name + ";\n";
    axes.push_back(name);
    sizes.push_back(name + " = " + n);
  }
  t += "inline constexpr cleave::mesh mesh{" + joined(axes) + "};\n";
  for (std::size_t d = 0; d < g.dims.size(); ++d) {
    const std::string name(g.dims[d].name);
    const std::int64_t n = g.dims[d].extent;
    t += "inline constexpr cleave::dim<\"" + name + "\"" +
         (n != dynamic          ? ", " + std::to_string(n)
          : g.dims[d].divisible ? ", cleave::dynamic"
                                : "") +
         (g.dims[d].divisible ? ", cleave::promise::divisible" : "") + "> " + name + ";\n";
    sizes.push_back(name + " = " + std::to_string(r.at.dims[d]));
  }
  t += "inline constexpr cleave::function wave([](auto v) { return sin(v) * tanh(v); });\n"
       "inline constexpr cleave::function blend([](auto v, auto u) { return tanh(v * u) + v; });\n"
       "inline constexpr cleave::function both([](auto v, auto u) { return std::pair(tanh(v + u), v * u); });\n"
       "inline constexpr auto own = cleave::custom_vjp([](auto v) { return std::pair(tanh(v), v); }, [](auto v, auto "
       "g) { return g * (1 - tanh(v) * tanh(v)); });\n\n";
  std::vector<std::string> parameters, types, results, asked, ranges, which;
  std::string body;
  for (std::size_t i = 0; i < s.steps.size(); ++i) {
    const step_line& line = s.steps[i];
    const std::string name = "v" + std::to_string(i);
    if (line.what == 0) {
      if (std::find(s.by.begin(), s.by.end(), static_cast<int>(i)) != s.by.end())
        which.push_back(std::to_string(parameters.size()));
      parameters.push_back("[[maybe_unused]] auto " + name);
      types.push_back(tensor(line.type, line.where));
      ranges.push_back("{" + number(range_of(line).first) + ", " + number(range_of(line).second) + ", " +
                       (is_floating(line.type) ? "false" : "true") + "}");
    } else {
      body += "  auto " + name + " = " + filled(line, r) + ";\n";
    }
  }
  for (std::size_t k = 0; k < r.results.size(); ++k) {
    const asked_result& a = r.results[k];
    asked.push_back(tensor(g.output_types[k].element, a.where));
    if (a.step < 0) results.push_back("sum(v" + std::to_string(s.loss) + " * sin(v" + std::to_string(s.loss) + "))");
    else if (results.size() < r.results.size() - s.by.size()) results.push_back("v" + std::to_string(a.step));
  }
  t += "constexpr cleave::function body([](" + joined(parameters) + ") {\n" + body + "  return std::tuple(" +
       joined(results) + ");\n});\n";
  t += s.by.empty() ? "constexpr auto whole = body;\n"
                    : "constexpr auto whole = cleave::value_and_grad<" + joined(which) + ">(body);\n";
  t += "using signature = std::tuple<" + joined(asked) + ">(" + joined(types) + ");\n\n";
  t += "int main() {\n  using namespace cleave;\n";
  t += "  const graph g = recording<decltype(whole)::body_type, signature>::record();\n";
  t += "  const std::vector<named_size> run{" + joined(sizes) + "};\n  const sizes at = sizes_for(g, run);\n";
  t += "  const cleave::program p = partition(g, " + std::string(s.expects ? "at" : "sizes_for(g)") + ", " +
       (s.repeat == 0 ? std::string("policy::time()") : "policy::bytes_first(" + std::to_string(s.repeat - 1) + ")") +
       ");\n";
  t += "  if (!p.found.ok()) return std::printf(\"no plan: fault %d\\n\", static_cast<int>(p.found.fault)), 1;\n";
  t += "  std::printf(\"%s\", explain(p, at).c_str());\n";
  t += "  struct range { double low, high; bool whole; } ranges[] = {" + joined(ranges) + "};\n";
  t +=
      "  std::vector<host_array> in;\n"
      "  for (std::size_t k = 0; k < g.inputs.size(); ++k) {\n"
      "    in.emplace_back(shape_of(g.nodes[g.inputs[k]].type, at));\n"
      "    for (std::size_t i = 0; i < in[k].data.size(); ++i) {\n"
      "      std::uint64_t x = (" +
      std::to_string(s.seed) +
      "ull + 1) * 0x9e3779b97f4a7c15u + k * 0xbf58476d1ce4e5b9u + i * 0x94d049bb133111ebu;\n"
      "      for (int n = 0; n < 3; ++n) x = (x ^ (x >> 31)) * 0xd6e8feb86659fd93u;\n"
      "      const double u = ranges[k].low + (ranges[k].high - ranges[k].low) * static_cast<double>(x >> 11) / "
      "9007199254740992.0;\n"
      "      in[k].data[i] = ranges[k].whole ? static_cast<double>(static_cast<std::int64_t>(u < 0 ? u - 1 : u)) : u;\n"
      "    }\n  }\n";
  t += "  const auto want = evaluate(g, at, in);\n  const simulated got = simulate(p, at, in, " +
       std::to_string(s.seed) +
       ");\n"
       "  if (!got.problem.empty()) return std::printf(\"problem: %s\\n\", got.problem.c_str()), 1;\n"
       "  for (std::size_t r = 0; r < want.size(); ++r)\n"
       "    if (const auto i = first_difference(want[r].data, got.results[r].data, 1e-9); i >= 0)\n"
       "      std::printf(\"result %zu element %lld: %.17g instead of %.17g\\n\", r, static_cast<long long>(i), "
       "got.results[r].data[static_cast<std::size_t>(i)], want[r].data[static_cast<std::size_t>(i)]);\n"
       "  for (std::size_t i = 0; i < p.steps.size(); ++i)\n"
       "    if (const auto priced = step_bytes(p, p.steps[i], at); priced != got.step_bytes[i])\n"
       "      std::printf(\"step %zu moves %lld bytes, its price is %lld\\n\", i, static_cast<long "
       "long>(got.step_bytes[i]), static_cast<long long>(priced));\n}\n";
  return t;
}

} // namespace fuzz
