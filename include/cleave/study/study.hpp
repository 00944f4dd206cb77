// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/field_names.hpp>
#include <cleave/plan/partition.hpp>
#include <cleave/study/explain.hpp>
#include <cleave/study/layout_table.hpp>
#include <cleave/study/seconds.hpp>
#include <cleave/study/work.hpp>

#include <array>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

// Planning at run time: no compiler, no device, no MPI, no Kokkos. A function is recorded once; layouts, sizes and the
// machine are data. A plan takes milliseconds.

namespace cleave { inline namespace v0 {

namespace detail {

/// The sentence that the compiler would print.
[[gnu::cold]] inline std::string_view sentence_of(fault f) {
  static constexpr std::string_view sentences[] = {
      "",
      "the compiler has reported this function",
#define CLEAVE_FAULT(code, sentence) sentence,
#include <cleave/base/fault_list.hpp>
  };
  return sentences[static_cast<std::size_t>(f)];
}
inline void refuse(const verdict& v) {
  if (!v.ok()) raise<plan_error>(wording::plan_fault(sentence_of(v.fault), v));
}

template <class T>
struct is_named_leaf : std::bool_constant<TensorType<T> || Number<T>> {};

} // namespace detail

/// The names of the leaves of the arguments and of the result of a function: those of the members of aggregates.
template <class Signature>
struct names_of_signature;
template <class R, class... Args>
struct names_of_signature<R(Args...)> {
  /// The leaves of one argument, or of the result: `parameters.layers.query`. An argument without a given name has its
  /// place: `arg 0.layers.query`.
  template <class A>
  static void add(std::vector<std::string>& all, const std::string& name) {
    for_each_named_leaf<detail::is_named_leaf, std::remove_cvref_t<A>>(name, [&]<class Leaf>(std::string_view leaf) {
      all.emplace_back(leaf);
    });
  }
  static std::vector<std::string> arguments(std::initializer_list<std::string_view> given) {
    std::vector<std::string> all;
    std::size_t i = 0;
    const auto next = [&] {
      const std::string name = i < given.size() ? std::string(given.begin()[i]) : "arg " + std::to_string(i);
      return ++i, name;
    };
    (add<Args>(all, next()), ...);
    return all;
  }
  static std::vector<std::string> results() {
    std::vector<std::string> all;
    add<R>(all, "result");
    return all;
  }
};

/// A plan that was made at run time, with the sizes and the names that it was made for.
class studied_plan {
 public:
  program_view view() const { return program_; }
  const sizes& planned_for() const { return at_; }
  /// The names of the arguments and the results, which live as long as the plan.
  names_of_call names() const { return {{arguments_.data(), arguments_.size()}, {results_.data(), results_.size()}}; }

  /// As the numbers of `plan`, for the sizes that it was planned for.
  int collectives() const {
    int n = 0;
    for (const step& s : program_.steps) n += begins_collective(s) ? 1 : 0;
    return n;
  }
  /// The number of collectives of one kind.
  int count(kind k) const {
    int n = 0;
    for (const step& s : program_.steps) n += k != kind::none && s.move == k && !s.joined ? 1 : 0;
    return n;
  }
  /// Bytes that the busiest device receives, and the operations of its products. Both throw plan_error if there are
  /// more than a number of 64 bits holds; those of `predict` have no such limit.
  std::int64_t bytes() const { return counted("bytes", cleave::bytes(view(), at_)); }
  std::int64_t flops() const { return counted("flops", cleave::flops(view(), at_)); }
  /// The time on a machine, in seconds.
  prediction predict(const machine& m) const { return cleave::predict(view(), at_, m); }
  /// The operations of its products by their use; `predict(m).flops` also has work that devices repeat.
  products_by_use work(const machine& m) const { return products_->at(at_, m); }
  /// The memory of the device that needs most, in bytes.
  memory_parts memory() const { return memory_of(view(), at_); }
  /// The same if pipelines ran as 1F1B, or interleaved: a model, since no program here runs so (`sizes_in_flight`).
  memory_parts memory_in_flight() const { return cleave::memory_in_flight(view(), at_); }
  /// Whether `memory` is exact.
  bool memory_is_exact() const { return cleave::memory_is_exact(view(), at_); }
  /// The same with the workspace of the first device, which takes less time to find.
  memory_parts memory_of_first_device() const {
    memory_parts m = detail::memory_of_call(view(), at_);
    m.workspace = workspace_on(view(), at_, coordinates{});
    return m;
  }

  /// The tables of `explain` and `explain_passes`, the latter with the names of arguments and results.
  std::string explain() const { return cleave::explain(view(), at_); }
  /// The steps with their seconds on a machine, and the sums of each loop.
  std::string explain(const machine& m) const { return cleave::explain(view(), at_, m); }
  std::string explain_passes() const { return cleave::explain_passes(view(), at_, names()); }
  /// C++ to paste behind a plan of that name, so that it fails to compile if it has other collectives or bytes.
  std::string asserts(std::string_view plan = "plan") const {
    std::map<kind, int> all;
    for (const step& s : program_.steps)
      if (begins_collective(s)) ++all[s.move];
    const std::string begin = "static_assert(" + std::string(plan) + ".";
    std::string text = begin + "collectives() == " + std::to_string(collectives()) + ");\n";
    for (const auto& [k, n] : all)
      text += begin + "count(cleave::kind::" + std::string(name_of(k)) + ") == " + std::to_string(n) + ");\n";
    return text + begin + "bytes({" + given_ + "}) == " + std::to_string(bytes()) + ");\n";
  }
  /// The steps on the two queues of a device, as lines with commas: the number of the step; its queue; the collective,
  /// or the operation that the user wrote; its axes; seconds at which it begins and ends in the first iteration of its
  /// loops; how often it runs; seconds during which the device only waits for it; and bytes that it receives, in all.
  std::string timeline(const machine& m) const {
    const program_view p = view();
    std::string text = "step,queue,what,axes,begin_s,end_s,times,exposed_s,bytes\n";
    for (const timed_step& t : cleave::timeline(p, at_, m)) {
      const step& s = p.steps[t.step];
      char line[160];
      std::snprintf(line, sizeof line, ",%.9g,%.9g,%.0f,%.9g,%.0f\n", t.begin, t.end, t.times, t.exposed,
                    t.network ? t.times * static_cast<double>(step_bytes(p, s, at_)) : 0);
      text.append(std::to_string(t.step)).append(t.network ? ",network," : ",compute,");
      text.append(t.network ? name_of(s.move) : name_of(s.code)).append(",\"");
      if (t.network) text.append(to_string(s.axes, p.mesh));
      text.append("\"").append(line);
    }
    return text;
  }
  /// The predicted time and its parts, and of each kind of collective the number, the bytes, the seconds, their share
  /// of the time, and the seconds during which the device only waits.
  std::string report(const machine& m) const {
    struct sum {
      int count = 0;
      double bytes = 0, seconds = 0, exposed = 0;
    };
    std::map<std::tuple<std::string, std::string, bool>, sum> collectives;
    const program_view p = view();
    std::vector<double> exposed(p.steps.size(), 0.0);
    for (const timed_step& t : cleave::timeline(p, at_, m)) exposed[t.step] += t.exposed;
    for (std::size_t i = 0; i < p.steps.size(); ++i) {
      const step& s = p.steps[i];
      if (!is_collective(s) || s.joined || at_.axes.product(s.axes) == 1) continue;
      sum& all = collectives[{std::string(name_of(s.move)), to_string(s.axes, p.mesh), s.in_loop != 0}];
      const auto times = static_cast<double>(step_iterations(p, s, at_));
      ++all.count;
      all.bytes += times * static_cast<double>(step_bytes(p, s, at_));
      all.seconds += times * detail::seconds_of_collective(p, s, at_, m);
      all.exposed += exposed[i];
    }
    const prediction whole = predict(m);
    const memory_parts memory = this->memory();
    char line[256];
    std::string text;
    const auto add = [&](const char* format, auto... values) {
      std::snprintf(line, sizeof line, format, values...);
      text += line;
    };
    add("%.*s: %.4g s a call; products %.4g s, other passes %.4g s, collectives %.4g s (%.4g s exposed)\n",
        static_cast<int>(m.name.size()), m.name.data(), whole.seconds, whole.products, whole.passes, whole.network,
        whole.exposed);
    add("%.4g Tflop a device, %.1f %% of peak; %.4g GB through memory, %.4g GB received\n", whole.flops / 1e12,
        100 * whole.utilization(), whole.memory_bytes / 1e9, whole.network_bytes / 1e9);
    const products_by_use use = work(m);
    const double repeated = whole.flops - use.model.flops - use.recomputed.flops - use.idle.flops;
    add("of these the model %.4g Tflop, %.1f %% of peak; computed again %.4g, in idle stages %.4g, on several devices "
        "%.4g\n",
        use.model.flops / 1e12, 100 * use.model.seconds / whole.seconds, use.recomputed.flops / 1e12,
        use.idle.flops / 1e12, repeated / 1e12);
    constexpr double gib = 1 << 30;
    add("memory %.4g GiB: arguments %.4g, results %.4g (in the same memory), workspace %.4g",
        static_cast<double>(memory.total()) / gib, static_cast<double>(memory.arguments) / gib,
        static_cast<double>(memory.results) / gib, static_cast<double>(memory.workspace.total()) / gib);
    if (m.memory > 0) add(" of %.4g", m.memory / gib);
    text += '\n';
    if (const std::int64_t piped = memory_in_flight().total(); piped < memory.total())
      add("memory %.4g GiB if stages ran one forward and one backward pass in turn\n",
          static_cast<double>(piped) / gib);
    for (const auto& [key, all] : collectives)
      add("  %3d x %-18s over %-12s %-8s %12.4f GB %10.4g s %5.1f %%, %.4g s exposed\n", all.count,
          std::get<0>(key).c_str(), std::get<1>(key).c_str(), std::get<2>(key) ? "in loops" : "", all.bytes / 1e9,
          all.seconds, 100 * all.seconds / whole.seconds, all.exposed);
    return text;
  }

 private:
  friend class study;
  std::int64_t counted(std::string_view what, std::int64_t n) const {
    if (n == std::numeric_limits<std::int64_t>::max()) raise<plan_error>(wording::beyond_counting(what, given_));
    return n;
  }
  studied_plan(program made, const sizes& at, std::vector<std::string> arguments, std::vector<std::string> results,
               std::shared_ptr<const recorded_products> products, std::string given)
      : program_(std::move(made)), at_(at), arguments_(std::move(arguments)), results_(std::move(results)),
        products_(std::move(products)), given_(std::move(given)) {}

  program program_;
  sizes at_;
  std::vector<std::string> arguments_, results_;
  std::shared_ptr<const recorded_products> products_;
  /// The sizes as they were given: `batch = 64, data = 8`.
  std::string given_;
};

/// A function that was recorded to be planned at run time, for any layouts and sizes:
/// `auto s = study::of<Y(X, W)>(f, {"x", "weights"}); s.lay_out("weights*", layout_table("hidden / model"));`
class study {
 public:
  /// Records a function under a signature of tensor types; `names` are those of its arguments. Throws plan_error if the
  /// function cannot be recorded.
  template <class Signature, class F>
  static study of(const function<F>&, std::initializer_list<std::string_view> names = {}) {
    using of_signature = names_of_signature<Signature>;
    study s;
    s.graph_ = recording<F, Signature>::record();
    detail::refuse(s.graph_.found);
    s.arguments_ = of_signature::arguments(names);
    s.results_ = of_signature::results();
    s.products_ = std::make_shared<const recorded_products>(s.graph_);
    return s;
  }

  /// The names of all tensors among the arguments, and among the results: `parameters.layers.query`.
  const std::vector<std::string>& arguments() const { return arguments_; }
  const std::vector<std::string>& results() const { return results_; }
  const graph& recorded() const { return graph_; }
  /// The layout of an argument or a result of that name, as text.
  std::string layout_of(std::string_view name) const {
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      if (arguments_[i] == name) {
        const node& n = graph_.nodes[graph_.inputs[i]];
        return to_string(n.type, n.pin, graph_.dims, graph_.mesh);
      }
    for (std::size_t i = 0; i < results_.size(); ++i)
      if (results_[i] == name)
        return to_string(graph_.output_types[i], graph_.output_layouts[i], graph_.dims, graph_.mesh);
    raise<layout_error>(wording::nothing_of_that_name(name));
  }

  /// Lays out the arguments and the results whose names fit a pattern, in which `*` stands for any letters. Throws
  /// layout_error if none does, or if the rules name a dim or an axis that the function lacks.
  study& lay_out(std::string_view pattern, const layout_table& rules) {
    check(rules);
    bool any = false;
    for (std::size_t i = 0; i < arguments_.size(); ++i)
      if (fits(arguments_[i], pattern)) {
        node& n = graph_.nodes[graph_.inputs[i]];
        n.pin = rules.of(n.type, graph_.dims, graph_.mesh);
        any = true;
      }
    for (std::size_t i = 0; i < results_.size(); ++i)
      if (fits(results_[i], pattern)) {
        graph_.output_layouts[i] = rules.of(graph_.output_types[i], graph_.dims, graph_.mesh);
        any = true;
      }
    if (!any) raise<layout_error>(wording::nothing_of_that_name(pattern));
    return *this;
  }
  /// Lays out the values that the function pins with `constrain`.
  study& constrain(const layout_table& rules) {
    check(rules);
    for (node& n : graph_.nodes)
      if (constrains(n.code)) {
        n.pin = rules.of(n.type, graph_.dims, graph_.mesh);
        n.pinned = static_cast<std::uint8_t>((1u << n.type.rank) - 1u);
      }
    return *this;
  }
  /// Lets completion choose the layouts that the function pins with `constrain`.
  study& unconstrain() {
    for (node& n : graph_.nodes)
      if (constrains(n.code)) n.pin = {}, n.pinned = 0;
    return *this;
  }

  /// Plans for sizes by name; those that are omitted are the fixed or hinted ones. Throws shape_error if the function
  /// lacks a name or cannot have a size, plan_error if there is no plan.
  studied_plan plan(indexed_span<const named_size> named, const policy& rule = policy::time()) const {
    if (const verdict v = check_sizes(graph_, named); !v.ok()) detail::refused_size(v);
    for (const named_size& n : named) {
      if (!has_name(graph_, n)) detail::unknown_size(n.name);
      for (const named_size* other = named.begin(); other != &n; ++other)
        if (other->name == n.name && other->what == n.what) detail::size_given_again(n.name);
    }
    std::string given;
    for (const named_size& n : named)
      given.append(given.empty() ? "" : ", ").append(n.name).append(" = ").append(std::to_string(n.size));
    const sizes at = sizes_for(graph_, named);
    program made = partition(graph_, at, rule);
    detail::refuse(made.found);
    return studied_plan(std::move(made), at, arguments_, results_, products_, std::move(given));
  }
  /// The same for the rates of a machine.
  studied_plan plan(std::initializer_list<named_size> named, const machine& m) const {
    return plan(named, policy_of(m));
  }
  /// The same for a list in braces: `s.plan({batch = 512, data = 8})`.
  studied_plan plan(std::initializer_list<named_size> named, const policy& rule = policy::time()) const {
    return plan(indexed_span<const named_size>(named.begin(), named.end()), rule);
  }

 private:
  study() = default;
  void check(const layout_table& rules) const {
    for (const layout_table::rule& r : rules.rules()) {
      if (graph_.find_dim(r.dim) < 0) raise<layout_error>(wording::rule_for_unknown_dim(r.dim));
      for (const std::string& axis : r.axes)
        if (graph_.mesh.find(axis) < 0) raise<layout_error>(wording::rule_for_unknown_axis(r.dim, axis));
    }
  }

  graph graph_{};
  std::vector<std::string> arguments_, results_;
  std::shared_ptr<const recorded_products> products_;
};

}} // namespace cleave::v0
