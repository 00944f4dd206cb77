// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/study/explain_plan.hpp>
#include <cleave/study/seconds.hpp>
#include <cleave/study/study.hpp>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// A plan at given sizes as plain data, for pages, files and comparisons.

namespace cleave { inline namespace v0 {

/// An array of a plan: an argument, a result, or memory of the workspace.
struct array_record {
  std::string name, type;
  /// `argument`, `result`, `value`, or `halo`.
  std::string role;
  /// Bytes on the device that has most.
  std::int64_t bytes = 0;
  /// The first and the last step that need its contents. Arguments and results have all steps.
  int first = 0, last = 0;
  /// Arrays of the workspace that never live together share a slot. -1: not in the workspace.
  int slot = -1;
  friend bool operator==(const array_record&, const array_record&) = default;
};

/// A step of a plan. Bytes and flops are those of one run on the busiest device.
struct step_record {
  /// The pass, as in `explain_passes`; the operation that the user wrote, and its place.
  std::string pass, operation, file;
  int line = 0;
  /// Indices into the arrays of the plan.
  std::vector<int> reads;
  int writes = 0;
  /// The innermost loop, counted from 1; 0: none. How often the step runs.
  int loop = 0;
  std::int64_t times = 1;
  std::int64_t bytes_read = 0, bytes_written = 0, bytes_moved = 0, flops = 0;
  /// The collective, its axes, the layouts before and after, and the reason. Empty: the step moves nothing. A slice and
  /// a mask move elements within a device, and do not communicate.
  std::string collective, axes, from, to, why;
  bool communicates = false;
  /// Whether it shares the messages, or the pass, of the step before it.
  bool joined = false;
  /// With a machine: seconds on the queues of computation and of the network, in the first iteration of its loops; and
  /// the seconds of all iterations during which the device only waits.
  double begin = 0, end = 0, network_begin = 0, network_end = 0, exposed = 0;
  friend bool operator==(const step_record&, const step_record&) = default;
};

/// A name with its size.
struct size_record {
  std::string name;
  std::int64_t size = 0;
  friend bool operator==(const size_record&, const size_record&) = default;
};

/// A plan at given sizes.
struct plan_record {
  std::vector<size_record> axes, dims;
  std::vector<array_record> arrays;
  std::vector<step_record> steps;
  /// The sums over all steps and iterations, on the busiest device.
  std::int64_t bytes = 0, messages = 0, flops = 0, passes = 0, bytes_read = 0, bytes_written = 0;
  /// Bytes of memory on the device that needs most.
  std::int64_t arguments = 0, results = 0, workspace = 0;
  /// With a machine: its name, and the predicted seconds of a call.
  std::string machine;
  double seconds = 0;
  friend bool operator==(const plan_record&, const plan_record&) = default;
};

namespace show { namespace detail {

inline constexpr const char* passes[] = {"elementwise", "reduction", "product", "kernel of yours",
                                         "move",        "exchange",  "look-up", "add rows",
                                         "scan",        "sort"};

/// Makes the record of a plan.
class recording_of_plan {
 public:
  recording_of_plan(const program_view& p, const sizes& at, const names_of_call& names)
      : p_(p), at_(at), names_(names), array_of_(p.buffers.size(), -1) {
    for (int a = 0; a < p.mesh.size(); ++a) made.axes.push_back({std::string(p.mesh.axes[a].name), at.axes[a]});
    for (std::size_t d = 0; d < p.dims.size(); ++d) made.dims.push_back({std::string(p.dims[d].name), at.dims[d]});
    for (std::size_t i = 0; i < p.steps.size(); ++i)
      if (writes(p.steps[i])) add_step(i);
    extend_lives_in_loops();
    made.bytes = cleave::bytes(p, at);
    made.messages = cleave::messages(p, at);
    made.flops = cleave::flops(p, at);
    const memory_parts memory = memory_of(p, at);
    made.arguments = memory.arguments;
    made.results = memory.results;
    made.workspace = memory.workspace.total();
  }
  void add_times(const machine& m) {
    made.machine = std::string(m.name);
    made.seconds = predict(p_, at_, m).seconds;
    std::vector<int> record_of(p_.steps.size(), -1);
    for (std::size_t i = 0; i < steps_.size(); ++i) record_of[steps_[i]] = static_cast<int>(i);
    for (const timed_step& t : timeline(p_, at_, m)) {
      if (record_of[t.step] < 0) continue;
      step_record& s = made.steps[static_cast<std::size_t>(record_of[t.step])];
      (t.network ? s.network_begin : s.begin) = t.begin;
      (t.network ? s.network_end : s.end) = t.end;
      s.exposed += t.exposed;
    }
  }

  plan_record made;

 private:
  /// The array that has the memory of a buffer, under the name that it has at step `i`.
  int array(std::size_t buffer, std::size_t i) {
    const cleave::buffer& b = p_.buffers[buffer];
    if (b.form == form::view || b.form == form::slice) return array(b.of, i);
    int& known = array_of_[buffer];
    if (known < 0) {
      known = static_cast<int>(made.arrays.size());
      array_record a;
      a.name = array_name(p_, buffer, i, names_);
      a.type = to_string(b.type, b.where, p_.dims, p_.mesh);
      a.role = b.role == role::input    ? "argument"
               : b.role == role::output ? "result"
               : has_neighbours(b)      ? "halo"
                                        : "value";
      a.bytes = largest_elements(b, p_.maps, at_) * size_of(b.type.element);
      a.first = b.role == role::workspace ? static_cast<int>(made.steps.size()) : 0;
      a.slot = b.role == role::workspace ? b.index : -1;
      made.arrays.push_back(std::move(a));
    }
    array_record& a = made.arrays[static_cast<std::size_t>(known)];
    a.last = std::max(a.last, static_cast<int>(made.steps.size()));
    return known;
  }
  void add_step(std::size_t i) {
    const step& s = p_.steps[i];
    step_record r;
    r.pass = passes[underlying(s.kind)];
    r.operation = origin_name(s.code, s.gradient);
    if (s.where.line != 0) r.file = s.where.name(), r.line = static_cast<int>(s.where.line);
    for (const std::uint16_t b : arrays_read(p_, s)) r.reads.push_back(array(b, i));
    r.writes = array(s.out, i + 1);
    r.loop = s.in_loop;
    r.times = step_iterations(p_, s, at_);
    const pass_bytes own = bytes_of_pass(p_, s, at_);
    r.bytes_read = own.read;
    r.bytes_written = own.written;
    r.bytes_moved = own.moved;
    if (const auto& most = pricing_of(s.kind).most_flops; most.given) r.flops = most.call(placed(p_, s), at_);
    r.joined = s.joined;
    if (s.move != kind::none) {
      const buffer &from = p_.buffers[s.in[0]], &to = p_.buffers[s.out];
      r.collective = name_of(s.move);
      r.axes = to_string(s.axes, p_.mesh);
      r.from = to_string(from.type, from.where, p_.dims, p_.mesh);
      r.to = to_string(to.type, to.where, p_.dims, p_.mesh);
      r.why = reason_of(p_, s, at_);
      r.communicates = is_collective(s);
    }
    made.passes += is_in_pass(s) ? 0 : r.times;
    made.bytes_read += r.times * r.bytes_read;
    made.bytes_written += r.times * r.bytes_written;
    made.steps.push_back(std::move(r));
    steps_.push_back(i);
  }
  /// Memory that is needed both in a loop and outside of it, or is read before it is written in an iteration, lives in
  /// the whole loop.
  void extend_lives_in_loops() {
    const int count = static_cast<int>(made.steps.size());
    for (array_record& a : made.arrays)
      if (a.slot < 0) a.first = 0, a.last = std::max(count - 1, 0);
    for (int begin = 0; begin < count;) {
      const auto loop_at = [&](int i) { return made.steps[static_cast<std::size_t>(i)].loop; };
      int end = begin;
      while (end < count && (loop_at(end) != 0) == (loop_at(begin) != 0)) ++end;
      if (loop_at(begin) != 0)
        for (std::size_t k = 0; k < made.arrays.size(); ++k) extend(static_cast<int>(k), begin, end - 1);
      begin = end;
    }
  }
  void extend(int k, int begin, int end) {
    array_record& a = made.arrays[static_cast<std::size_t>(k)];
    if (a.slot < 0 || a.last < begin || a.first > end) return;
    bool whole = a.first < begin || a.last > end;
    for (int i = std::max(begin, a.first); i <= std::min(end, a.last) && !whole; ++i) {
      const step_record& s = made.steps[static_cast<std::size_t>(i)];
      if (std::find(s.reads.begin(), s.reads.end(), k) != s.reads.end()) whole = true;
      else if (s.writes == k) break;
    }
    if (!whole) return;
    a.first = std::min(a.first, begin);
    a.last = std::max(a.last, end);
  }

  const program_view p_;
  const sizes& at_;
  names_of_call names_;
  std::vector<int> array_of_;
  std::vector<std::size_t> steps_;
};

/// The names of the arguments and results of a plan that the compiler made; none if it has no signature.
template <class Plan>
struct names_of_plan {
  explicit names_of_plan(std::initializer_list<std::string_view>) {}
  names_of_call names() const { return {}; }
};
template <class F, class Signature, class... Options>
struct names_of_plan<plan_of<F, Signature, Options...>> {
  explicit names_of_plan(std::initializer_list<std::string_view> given)
      : arguments(names_of_signature<Signature>::arguments(given)) {}
  names_of_call names() const { return {{arguments.data(), arguments.size()}, {results.data(), results.size()}}; }

  std::vector<std::string> arguments, results = names_of_signature<Signature>::results();
};

}} // namespace show::detail

/// The record of a plan at given sizes.
inline plan_record record_of(const program_view& p, const sizes& at, const names_of_call& names = {}) {
  return show::detail::recording_of_plan(p, at, names).made;
}
/// The same with the times of a machine.
inline plan_record record_of(const program_view& p, const sizes& at, const machine& m,
                             const names_of_call& names = {}) {
  show::detail::recording_of_plan r(p, at, names);
  r.add_times(m);
  return std::move(r.made);
}
/// The same of a compiled plan, with sizes by name, and names of its arguments in order:
/// `record_of(plan, {batch = 1024, data = 2}, {"x", "weights"})`. Those without a name are `arg 0`, ...
template <class Plan, class Verdict>
plan_record record_of(const planned<Plan, Verdict>& plan, std::initializer_list<named_size> named = {},
                      std::initializer_list<std::string_view> arguments = {}) {
  const show::detail::names_of_plan<Plan> given(arguments);
  return record_of(plan.view(), plan.sized(named), given.names());
}
template <class Plan, class Verdict>
plan_record record_of(const planned<Plan, Verdict>& plan, const machine& m,
                      std::initializer_list<named_size> named = {},
                      std::initializer_list<std::string_view> arguments = {}) {
  const show::detail::names_of_plan<Plan> given(arguments);
  return record_of(plan.view(), plan.sized(named), m, given.names());
}
/// The same of a plan that was made at run time, with the names of its arguments and results.
inline plan_record record_of(const studied_plan& plan) {
  return record_of(plan.view(), plan.planned_for(), plan.names());
}
inline plan_record record_of(const studied_plan& plan, const machine& m) {
  return record_of(plan.view(), plan.planned_for(), m, plan.names());
}

}} // namespace cleave::v0
