// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/loops.hpp>
#include <cleave/study/explain_plan.hpp>
#include <cleave/study/seconds.hpp>

#include <algorithm>
#include <cstdio>
#include <string>

namespace cleave { inline namespace v0 {

namespace detail {

/// `loop 2 along layer, 64 iterations`, or `loop 2 of line 24, 64 iterations` if its dim is not one of the user;
/// of those around it too.
inline std::string name_of_loop(const program_view& p, std::uint8_t loop, const sizes& at) {
  if (loop == 0) return "outside of loops";
  const loop_info& l = p.loops[loop - 1u];
  std::string name = "loop " + std::to_string(loop);
  const bool counts = l.along == no_dim || std::any_of(trip_names.begin(), trip_names.end(), [&](const auto& of_trips) {
                        return of_trips.text().data() == p.dims[l.along].name.data();
                      });
  const auto first = std::find_if(p.steps.begin(), p.steps.end(),
                                  [&](const step& s) { return s.in_loop == loop && s.where.line != 0; });
  if (!counts) name.append(" along ").append(p.dims[l.along].name);
  else if (first != p.steps.end()) name.append(" of line ").append(std::to_string(first->where.line));
  name.append(", ").append(grouped(l.along != no_dim ? at[l.along] : l.iterations)).append(" iterations");
  return l.around == 0 ? name : name + " in loop " + std::to_string(l.around);
}

} // namespace detail

/// The steps that take time on a machine: the collective or the pass, the operation and line that caused it, how often
/// it runs, its seconds in all iterations, their share of the call, and of a collective the seconds during which the
/// device only waits. Then the sums of each loop, whose shares are those of computation and waiting.
inline std::string explain(const program_view& p, const sizes& at, const machine& m) {
  const double whole = predict(p, at, m).seconds;
  char text[48];
  const auto formatted = [&](const char* format, double number) {
    std::snprintf(text, sizeof text, format, number);
    return std::string(text);
  };
  const auto share = [&](double seconds) { return formatted("%.1f %%", whole > 0 ? 100 * seconds / whole : 0); };
  struct sum {
    double compute = 0, network = 0, exposed = 0;
  };
  indexed_vector<sum> loops(p.loops.size() + 1);
  indexed_vector<indexed_vector<std::string>> rows{
      {"loop", "step", "over", "for", "times", "seconds", "share", "exposed"}};
  for (const timed_step& t : timeline(p, at, m)) {
    const step& s = p.steps[t.step];
    const double seconds = t.times * (t.end - t.begin);
    sum& all = loops[s.in_loop];
    (t.network ? all.network : all.compute) += seconds;
    all.exposed += t.exposed;
    const char* pass = s.kind == step_kind::gemm ? "product" : s.kind == step_kind::map ? "elementwise" : "pass";
    rows.push_back({s.in_loop == 0 ? "" : std::to_string(s.in_loop), t.network ? std::string(name_of(s.move)) : pass,
                    t.network ? to_string(s.axes, p.mesh) : "", detail::short_origin(s), formatted("%.0f", t.times),
                    formatted("%.3e", seconds), share(seconds), t.network ? formatted("%.3e", t.exposed) : ""});
  }
  std::string all = detail::table(rows, 4);
  rows = {{"", "computation", "collectives", "exposed", "share"}};
  for (std::size_t l = 0; l < loops.size(); ++l) {
    const sum& s = loops[l];
    rows.push_back({detail::name_of_loop(p, static_cast<std::uint8_t>(l), at), formatted("%.3e", s.compute),
                    formatted("%.3e", s.network), formatted("%.3e", s.exposed), share(s.compute + s.exposed)});
  }
  return all + detail::table(rows, 1) + "total " + formatted("%.4g", whole) + " s a call on " + std::string(m.name) +
         "\n";
}
/// The same for a compiled plan, with sizes by name: `explain(plan, machines::a100, {batch = 512, data = 8})`.
template <class Plan, class Verdict>
std::string explain(const planned<Plan, Verdict>& plan, const machine& m,
                    std::initializer_list<named_size> named = {}) {
  return explain(plan.view(), plan.sized(named), m);
}

}} // namespace cleave::v0
