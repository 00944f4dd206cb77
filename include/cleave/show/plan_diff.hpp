// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/show/plan_record.hpp>

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace cleave { inline namespace v0 {

/// Collectives of one kind that a plan has for one operation: how many, and their bytes on the busiest device in all
/// iterations. Or arrays: how many, and their bytes on the device that has most.
struct collective_sum {
  std::string what;
  std::int64_t count = 0, bytes = 0;
  friend bool operator==(const collective_sum&, const collective_sum&) = default;
};

/// The differences between two plans.
struct plan_changes {
  /// Collectives of which only one plan has any, and those of which the two have other numbers or bytes.
  std::vector<collective_sum> removed, added;
  struct change {
    collective_sum before, after;
  };
  std::vector<change> changed;
  /// Arrays that differ: arguments and results by name, those of the workspace by type. A plan that lacks them has a
  /// count of 0.
  std::vector<change> arrays;
  /// Sums that differ: bytes, messages, flops, passes, memory, seconds.
  struct sum {
    std::string name;
    double before = 0, after = 0;
  };
  std::vector<sum> sums;

  /// Whether both plans have the same collectives with the same bytes.
  bool same_collectives() const { return removed.empty() && added.empty() && changed.empty(); }
  /// Whether nothing differs.
  bool none() const { return same_collectives() && arrays.empty() && sums.empty(); }
};

namespace show { namespace detail {

/// The collectives by kind, axes, layouts and operation. Lines are left out: they change when text moves.
inline std::map<std::string, collective_sum> collectives_of(const plan_record& plan) {
  std::map<std::string, collective_sum> all;
  for (const step_record& s : plan.steps) {
    if (!s.communicates) continue;
    std::string what = s.collective + " over " + s.axes + ": " + s.from + " -> " + s.to + ", for " + s.operation;
    if (s.loop != 0) what += ", in a loop";
    collective_sum& sum = all[what];
    sum.what = what;
    ++sum.count;
    sum.bytes += s.times * s.bytes_moved;
  }
  return all;
}
/// The arrays: arguments and results by name, and the others by type, since their names follow the text of the program.
inline std::map<std::string, collective_sum> arrays_of(const plan_record& plan) {
  std::map<std::string, collective_sum> all;
  for (const array_record& a : plan.arrays) {
    const bool named = a.role == "argument" || a.role == "result";
    collective_sum& sum = all[named ? a.role + " " + a.name : a.role + " " + a.type];
    sum.what = a.role + " " + (named && a.name != a.role ? a.name + " " : "") + a.type;
    ++sum.count;
    sum.bytes += a.bytes;
  }
  return all;
}
inline std::string counted(const collective_sum& c) {
  return std::to_string(c.count) + " x " + c.what + ", " + std::to_string(c.bytes) + " bytes";
}

}} // namespace show::detail

/// Compares two plans, such as those of one function with two layouts, or of two versions of a program.
inline plan_changes plan_diff(const plan_record& before, const plan_record& after) {
  plan_changes d;
  const auto was = show::detail::collectives_of(before), is = show::detail::collectives_of(after);
  for (const auto& [what, sum] : was)
    if (const auto other = is.find(what); other == is.end()) d.removed.push_back(sum);
    else if (!(other->second == sum)) d.changed.push_back({sum, other->second});
  for (const auto& [what, sum] : is)
    if (was.find(what) == was.end()) d.added.push_back(sum);
  auto arrays = show::detail::arrays_of(before), other_arrays = show::detail::arrays_of(after);
  for (const auto& [key, sum] : arrays) other_arrays.try_emplace(key);
  for (const auto& [key, sum] : other_arrays)
    if (const collective_sum& old = arrays[key]; !(old == sum)) d.arrays.push_back({old, sum});
  const auto add = [&](const char* name, auto one, auto other) {
    if (one != other) d.sums.push_back({name, static_cast<double>(one), static_cast<double>(other)});
  };
  add("bytes moved", before.bytes, after.bytes);
  add("messages", before.messages, after.messages);
  add("flops of products", before.flops, after.flops);
  add("passes", before.passes, after.passes);
  add("bytes read", before.bytes_read, after.bytes_read);
  add("bytes written", before.bytes_written, after.bytes_written);
  add("bytes of arguments", before.arguments, after.arguments);
  add("bytes of results", before.results, after.results);
  add("bytes of workspace", before.workspace, after.workspace);
  if (before.machine == after.machine) add("seconds", before.seconds, after.seconds);
  return d;
}

/// The changes as text: a minus before collectives of the first plan alone, a plus before those of the second. Empty if
/// there are none.
inline std::string to_string(const plan_changes& d) {
  std::string text;
  for (const collective_sum& c : d.removed) text += "- " + show::detail::counted(c) + "\n";
  for (const collective_sum& c : d.added) text += "+ " + show::detail::counted(c) + "\n";
  for (const auto* changes : {&d.changed, &d.arrays})
    for (const auto& [before, after] : *changes) {
      if (before.count > 0) text += "- " + show::detail::counted(before) + "\n";
      if (after.count > 0) text += "+ " + show::detail::counted(after) + "\n";
    }
  for (const plan_changes::sum& s : d.sums) {
    char line[160];
    std::snprintf(line, sizeof line, "%s: %.12g -> %.12g", s.name.c_str(), s.before, s.after);
    text += line;
    if (s.before > 0) {
      std::snprintf(line, sizeof line, " (%.4g of it)", s.after / s.before);
      text += line;
    }
    text += '\n';
  }
  return text;
}

}} // namespace cleave::v0
