// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the programs about published models share: a list of runs is planned, its collectives are compared with those
// that the program expects, and a table has the published and the predicted numbers.
#pragma once

#include <cleave/study/search.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace published {

struct run {
  std::string name;
  const cleave::study& of;
  std::vector<cleave::named_size> sizes;
  cleave::machine on;
  /// The seconds of a step. 0: none were published.
  double seconds = 0;
  /// The collectives of the plan, by kind.
  std::string collectives{};
  /// The published part of the peak, with recomputed work, if there is no time. 0: none.
  double utilization = 0;
  /// Runs whose errors are told apart from those of the other runs on the machine. Empty: these others.
  std::string kind{};
};

/// The runs whose errors are summed up.
inline std::string sum_of(const run& r) { return std::string(r.on.name) + (r.kind.empty() ? "" : ", ") + r.kind; }

inline cleave::studied_plan planned(const run& r) { return r.of.plan({r.sizes.data(), r.sizes.size()}); }
/// With the prices of the machine, as a search plans.
inline cleave::studied_plan planned_as_searched(const run& r) {
  cleave::policy rule = cleave::policy_of(r.on);
  rule.takes_ties = true;
  return r.of.plan({r.sizes.data(), r.sizes.size()}, rule);
}

/// How many collectives of each kind a plan has, over more than one device: `all_gather 4, all_reduce 1`.
inline std::string collectives_of(const cleave::studied_plan& p) {
  std::map<std::string, int> all;
  for (const cleave::step& s : p.view().steps)
    if (cleave::begins_collective(s) && p.planned_for().axes.product(s.axes) > 1)
      ++all[std::string(cleave::name_of(s.move))];
  std::string text;
  for (const auto& [name, count] : all)
    text.append(text.empty() ? "" : ", ").append(name).append(" ").append(std::to_string(count));
  return text;
}
/// The axes with more than one device: `X 8, Y 16`.
inline std::string mesh_of(const run& r) {
  std::string text;
  for (const auto& a : r.of.recorded().mesh.axes)
    for (const cleave::named_size& n : r.sizes)
      if (n.name == a.name && n.size > 1)
        text.append(text.empty() ? "" : ", ").append(a.name).append(" ").append(std::to_string(n.size));
  return text;
}
/// How well two orders agree (Spearman): 1 if they are the same.
inline double rank_correlation(const std::vector<double>& a, const std::vector<double>& b) {
  const auto rank = [](const std::vector<double>& all, double x) {
    return static_cast<double>(std::count_if(all.begin(), all.end(), [&](double y) { return y < x; }));
  };
  double squares = 0;
  const auto n = static_cast<double>(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(rank(a, a[i]) - rank(b, b[i]), 2);
  return n > 1 ? 1 - 6 * squares / (n * (n * n - 1)) : 1;
}

/// Of the runs on one machine.
struct errors {
  std::vector<double> published, predicted;

  void add(double said, double got) {
    published.push_back(said);
    predicted.push_back(got);
  }
  double error(std::size_t i) const { return std::abs(predicted[i] / published[i] - 1); }
  double mean() const {
    double sum = 0;
    for (std::size_t i = 0; i < published.size(); ++i) sum += error(i);
    return sum / static_cast<double>(published.size());
  }
  void print(const std::string& name) const {
    double worst = 0;
    for (std::size_t i = 0; i < published.size(); ++i) worst = std::max(worst, error(i));
    std::printf("%s: mean error %.1f %%, worst %.1f %%, rank correlation %.3f\n", name.c_str(), 100 * mean(),
                100 * worst, rank_correlation(published, predicted));
  }
};

/// Constants of machines that are chosen to fit published runs, because no data sheet has them.
struct fitted_constants {
  std::vector<std::string> names;
  std::vector<double> start, most;
  /// The machine of a run with these constants.
  cleave::machine (*with)(const run&, const std::vector<double>&);
};
/// Those of most programs.
inline fitted_constants usual_constants() {
  return {{"efficiency", "of the memory's bandwidth", "of the links'"},
          {0.85, 0.8, 1},
          {1, 1, 1e9},
          [](const run& r, const std::vector<double>& c) {
            cleave::machine m = r.on;
            m.efficiency = c[0];
            m.memory_efficiency = c[1];
            const auto scale = [&](cleave::link& l) {
              l.bandwidth *= c[2];
              l.far_bandwidth *= c[2];
            };
            scale(m.every_axis);
            for (cleave::machine::axis_link& l : m.links) scale(l.wires);
            return m;
          }};
}
struct planned_run {
  const run* of;
  cleave::studied_plan plan;
};
inline errors errors_of(const std::vector<planned_run>& runs, const fitted_constants& of,
                        const std::vector<double>& c) {
  errors all;
  for (const planned_run& r : runs) all.add(r.of->seconds, r.plan.predict(of.with(*r.of, c)).seconds);
  return all;
}
/// The constants with the least mean error: steps up and down, one constant at a time, in ever smaller steps.
inline std::vector<double> fitted_to(const std::vector<planned_run>& runs, const fitted_constants& of) {
  std::vector<double> best = of.start;
  double least = errors_of(runs, of, best).mean();
  for (double step = 0.2; step > 0.01;) {
    bool better = false;
    for (std::size_t i = 0; i < best.size(); ++i)
      for (const double factor : {1 + step, 1 / (1 + step)}) {
        std::vector<double> other = best;
        other[i] = std::min(other[i] * factor, of.most[i]);
        if (const double error = errors_of(runs, of, other).mean(); error < least) {
          best = other;
          least = error;
          better = true;
        }
      }
    if (!better) step /= 2;
  }
  return best;
}
/// Fits the constants of each machine to every other run that is of no kind, and says how well they predict the runs
/// that they have not seen; then the other way around.
inline void hold_out(const std::vector<run>& runs, const fitted_constants& of) {
  std::map<std::string, std::vector<planned_run>> halves[2];
  std::map<std::string, int> number;
  for (const run& r : runs)
    if (r.seconds > 0 && r.kind.empty()) {
      const std::string name(r.on.name);
      halves[number[name]++ % 2][name].push_back({&r, planned(r)});
    }
  for (const int half : {0, 1})
    for (const auto& [name, seen] : halves[half]) {
      const std::vector<double> c = fitted_to(seen, of);
      std::printf("%s: fitted to %zu runs:", name.c_str(), seen.size());
      for (std::size_t i = 0; i < c.size(); ++i)
        std::printf("%s %s %.2f", i == 0 ? "" : ",", of.names[i].c_str(), c[i]);
      std::printf("\n");
      errors_of(seen, of, c).print("  these");
      errors_of(halves[1 - half][name], of, c).print("  the others");
    }
}

/// One line of the table.
inline void print(const run& r, const cleave::studied_plan& p, const cleave::prediction& t, bool csv) {
  const cleave::products_by_use use = p.work(r.on);
  const double model = use.model.seconds / t.seconds, used = model + use.recomputed.seconds / t.seconds;
  char said[32] = "", error[32] = "", of_peak[64];
  std::snprintf(of_peak, sizeof of_peak, csv ? "%.1f" : "%.1f %%", 100 * used);
  if (r.utilization > 0 && !csv)
    std::snprintf(of_peak, sizeof of_peak, "%.1f %% (published %.1f %%)", 100 * used, 100 * r.utilization);
  if (r.seconds > 0) {
    std::snprintf(said, sizeof said, "%.3f", r.seconds);
    std::snprintf(error, sizeof error, csv ? "%+.1f" : "%+.1f %%", 100 * (t.seconds / r.seconds - 1));
  }
  std::printf(csv ? "%s,\"%s\",%s,%.3f,%s,%.1f,%s,\"%s\",%.1f,%.1f\n"
                  : "| %s | %s | %s | %.3f | %s | %.1f %% | %s | %s | %.1f | %.1f |\n",
              r.name.c_str(), mesh_of(r).c_str(), said, t.seconds, error, 100 * model, of_peak,
              collectives_of(p).c_str(), t.network_bytes / 1e9, static_cast<double>(p.memory().total()) / (1 << 30));
}

/// Published models, by the name under which the program plans them.
struct program {
  std::string name;
  std::vector<run> (*runs)();
  /// For --search NAME.
  void (*search)(const run&) = nullptr;
  /// For --measured FILE: compares a table of measured configurations.
  int (*compare)(const char* file) = nullptr;
  /// For --hold-out.
  fitted_constants constants;

  program(const char* called, std::vector<run> (*all)(), void (*searches)(const run&) = nullptr,
          int (*compares)(const char*) = nullptr, const fitted_constants& of = usual_constants())
      : name(called), runs(all), search(searches), compare(compares), constants(of) {
    programs().push_back(*this);
  }
  static std::vector<program>& programs() {
    static std::vector<program> all;
    return all;
  }
};

/// Plans all runs of a program and prints its table.
inline int publish(const std::vector<run>& runs, bool csv) {
  std::printf(csv ? "run,mesh,published_s,predicted_s,error_percent,model_percent,with_recomputed_percent,"
                    "collectives,received_GB,memory_GiB\n"
                  : "| run | mesh | published s | predicted s | error | model | with recomputation | "
                    "collectives | GB received | GiB |\n|---|---|---|---|---|---|---|---|---|---|\n");
  std::map<std::string, errors> by_kind;
  errors all;
  int unexpected = 0;
  for (const run& r : runs) {
    const cleave::studied_plan p = planned(r);
    const cleave::prediction t = p.predict(r.on);
    print(r, p, t, csv);
    // Bytes and operations throw if there are more than 64 bits hold.
    if (p.bytes() < 0 || p.flops() < 0 || !std::isfinite(t.seconds))
      throw std::runtime_error(r.name + ": the numbers of the plan are out of range");
    if (t.exposed > t.network * (1 + 1e-9))
      throw std::runtime_error(r.name + ": the device waits for longer than collectives take");
    if (r.seconds > 0) {
      by_kind[sum_of(r)].add(r.seconds, t.seconds);
      all.add(r.seconds, t.seconds);
    }
    if (collectives_of(p) != r.collectives) {
      std::fprintf(stderr, "%s: expected the collectives \"%s\", got \"%s\"\n", r.name.c_str(), r.collectives.c_str(),
                   collectives_of(p).c_str());
      ++unexpected;
    }
  }
  if (csv) return unexpected == 0 ? 0 : 1;
  for (const auto& [kind, some] : by_kind) some.print(kind);
  if (by_kind.size() > 1) all.print("all");
  return unexpected == 0 ? 0 : 1;
}

/// The main program: `scale MODEL ...`.
inline int publish(int count, char** words) {
  const std::string name = count > 1 ? words[1] : "", option = count > 2 ? words[2] : "";
  const auto here = std::find_if(program::programs().begin(), program::programs().end(),
                                 [&](const program& p) { return p.name == name; });
  const bool known = here != program::programs().end();
  if (known && count == 2) return publish(here->runs(), false);
  if (known && count == 3 && option == "--csv") return publish(here->runs(), true);
  if (known && count == 3 && option == "--hold-out") return hold_out(here->runs(), here->constants), 0;
  if (known && count == 4 && option == "--measured" && here->compare != nullptr) return here->compare(words[3]);
  if (known && count == 4)
    for (const run& r : here->runs())
      if (r.name == words[3]) {
        if (option == "--report") std::printf("%s%s", planned(r).explain().c_str(), planned(r).report(r.on).c_str());
        else if (option == "--timeline") std::printf("%s", planned(r).timeline(r.on).c_str());
        else if (option == "--search" && here->search != nullptr) here->search(r);
        else break;
        return 0;
      }
  if (count == 2 && name == "--list") {
    for (const program& p : program::programs()) std::printf("%s\n", p.name.c_str());
    return 0;
  }
  std::printf(
      "usage: scale --list | MODEL [--csv | --hold-out | --report NAME | --timeline NAME%s%s]\nplans published "
      "models and predicts their step times; MODEL is one of:\n",
      known && here->search == nullptr ? "" : " | --search NAME",
      known && here->compare == nullptr ? "" : " | --measured FILE");
  for (const program& p : program::programs()) std::printf("  %s\n", p.name.c_str());
  if (known) std::printf("NAME is one of:\n");
  if (known)
    for (const run& r : here->runs()) std::printf("  %s\n", r.name.c_str());
  return option == "--help" || name == "--help" ? 0 : 2;
}

} // namespace published
