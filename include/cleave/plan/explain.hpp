// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/underlying.hpp>
#include <cleave/ops/print.hpp>
#include <cleave/plan/plan.hpp>

#include <algorithm>
#include <string>

namespace cleave::inline v0 {

namespace detail {

/// 1234567 as `1,234,567`.
inline std::string grouped(std::int64_t number) {
  const std::string digits = std::to_string(number);
  std::string s;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) s += ',';
    s += digits[i];
  }
  return s;
}

/// Why a step communicates: a move as its collective says, the others as the rules of their operation say.
inline std::string why(const program_view& p, const step& s) {
  if (s.kind == step_kind::move) {
    std::string text(words_of(s.move).reason);
    if (const std::size_t place = text.find('%'); place != std::string::npos)
      text.replace(place, 1, to_string(s.axes, p.mesh));
    return text;
  }
  if (s.move == kind::none) return {};
  const bool region = has_neighbours(p.buffers[s.out]);
  std::string text(region ? "each device reads the neighbours of its block" : pricing_of(s.kind).reason);
  if (s.joined) return text + ", in the same messages";
  return s.in_flight ? text + ", while others compute" : text;
}

/// Of a step in a loop: how often it runs.
inline std::string times_iterations(const program_view& p, const step& s, const sizes& at) {
  return s.in_loop == 0 ? std::string() : " x " + grouped(step_iterations(p, s, at));
}

inline std::string table(const indexed_vector<indexed_vector<std::string>>& rows) {
  indexed_vector<std::size_t> width(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::string s;
  for (const auto& row : rows) {
    std::string out;
    for (std::size_t c = 0; c < row.size(); ++c) {
      out += row[c];
      if (c + 1 < row.size()) out.append(width[c] - row[c].size() + 2, ' ');
    }
    s += out + "\n";
  }
  return s;
}

} // namespace detail

/// The layout of each value of a graph, one operation for each line. A partial sum is shown as its operation leaves it,
/// before it is reduced for its readers.
inline std::string explain_layouts(const graph& recorded, const sizes& hints, const policy& rule = policy::time()) {
  graph g = simplify(recorded);
  indexed_vector<layout> layouts;
  for (const strategy& s : choose(g, hints, rule).by_node) layouts.push_back(s.out);
  return to_string(g, layouts);
}

/// The same for a function under a signature: `explain_layouts<Y(X, W)>(f)`.
template <class Signature, class F>
std::string explain_layouts(const function<F>&) {
  const graph g = recording<F, Signature>::record();
  return explain_layouts(g, sizes_for(g));
}

/// A table of every step that moves data or could move data: the collective, the layout before and after, the bytes of
/// the busiest device for the given sizes, the operation and line that caused it, and the reason. What shares the messages
/// of the line above it has a plus.
inline std::string explain(const program_view& p, const sizes& at) {
  indexed_vector<indexed_vector<std::string>> rows{{"collective", "over", "from", "to", "bytes", "for", "why"}};
  for (const step& s : p.steps) {
    if (s.move == kind::none) continue;
    const buffer &from = p.buffers[s.in[0]], &to = p.buffers[s.out];
    std::string origin = origin_name(s.code, s.gradient);
    if (s.where.line != 0) origin.append(" ").append(s.where.name()).append(":").append(std::to_string(s.where.line));
    rows.push_back(
        {s.joined ? "+ " + std::string(name_of(s.move)) : std::string(name_of(s.move)), to_string(s.axes, p.mesh),
         to_string(from.type, from.where, p.dims, p.mesh), to_string(to.type, to.where, p.dims, p.mesh),
         detail::grouped(step_bytes(p, s, at)) + detail::times_iterations(p, s, at), origin, detail::why(p, s)});
  }
  std::string text = detail::table(rows);
  if (rows.size() == 1) text = "no communication\n";
  int maps = 0, folds = 0, products = 0, calls = 0;
  for (const step& s : p.steps) {
    maps += s.kind == step_kind::map;
    folds += s.kind == step_kind::fold;
    products += s.kind == step_kind::gemm;
    calls += s.kind == step_kind::call;
  }
  text += "total " + detail::grouped(bytes(p, at)) + " bytes a device; " + std::to_string(products) + " products (" +
          detail::grouped(flops(p, at)) + " flops a device), " + std::to_string(maps) + " fused elementwise passes, " +
          std::to_string(folds) + " reductions, " +
          (calls > 0 ? std::to_string(calls) + (calls > 1 ? " kernels" : " kernel") + " of yours, " : "") +
          "workspace " + detail::grouped(workspace(p, at)) + " bytes\n";
  return text;
}

/// The bytes that the busiest device has of what a step reads, every array once: a shard and its halo, or a region,
/// whatever the number of reads.
inline std::int64_t bytes_read(const program_view& p, const step& s, const sizes& at) {
  std::int64_t bytes = 0;
  indexed_vector<std::size_t> seen;
  for (std::uint16_t in : s.in) {
    const std::size_t array = p.buffers[in].form == form::view ? p.buffers[in].of : in;
    if (std::find(seen.begin(), seen.end(), array) != seen.end()) continue;
    seen.push_back(array);
    bytes += largest_elements(p.buffers[array], p.maps, at) * size_of(p.buffers[array].type.element);
  }
  return bytes;
}

/// A table of every step: what it is, for which operation, the bytes that the busiest device reads and writes in its
/// memory, and those that it moves. One line is one pass over memory, so that passes too many are seen.
inline std::string explain_passes(const program_view& p, const sizes& at) {
  constexpr const char* kinds[] = {"elementwise", "reduction", "product", "kernel of yours",
                                   "move",        "exchange",  "look-up", "add rows",
                                   "scan",        "sort"};
  indexed_vector<indexed_vector<std::string>> rows{{"pass", "for", "reads", "writes", "moves"}};
  for (const step& s : p.steps) {
    if (!writes(s)) continue;
    std::string origin = origin_name(s.code, s.gradient);
    if (s.where.line != 0) origin.append(" ").append(s.where.name()).append(":").append(std::to_string(s.where.line));
    const buffer& to = p.buffers[s.out];
    // An update writes what it has.
    const buffer& brought = s.keeps ? p.buffers[s.in[0]] : to;
    const std::int64_t written = largest_elements(brought, p.maps, at) * size_of(to.type.element);
    // What fills a halo reads as much as it writes.
    const std::int64_t read = has_neighbours(to) ? written : bytes_read(p, s, at);
    rows.push_back({kinds[underlying(s.kind)], origin, detail::grouped(read), detail::grouped(written),
                    detail::grouped(step_bytes(p, s, at)) + detail::times_iterations(p, s, at)});
  }
  return detail::table(rows);
}
/// The same for a compiled plan, with sizes by name.
template <class Plan, class Verdict>
std::string explain_passes(const planned<Plan, Verdict>& plan, std::initializer_list<named_size> named = {}) {
  return explain_passes(plan.view(), plan.sized(named));
}

/// The same for a compiled plan, with sizes by name: `explain(plan, {batch = 1024, data = 2})`. Sizes that are neither
/// fixed nor given are hints; they are listed below the table.
template <class Plan, class Verdict>
std::string explain(const planned<Plan, Verdict>& plan, std::initializer_list<named_size> named = {}) {
  const program_view p = plan.view();
  const sizes at = plan.sized(named);
  std::string text = explain(p, at);
  std::string hints;
  const auto hinted = [&](std::string_view name, std::int64_t fixed, std::int64_t value) {
    for (const named_size& n : named)
      if (n.name == name) return;
    if (fixed == dynamic)
      hints.append(hints.empty() ? "" : ", ").append(name).append(" = ").append(std::to_string(value));
  };
  for (int a = 0; a < p.mesh.size(); ++a) hinted(p.mesh.axes[a].name, p.mesh.axes[a].size, at.axes[a]);
  // What follows from what was given is not assumed.
  sizes known;
  set_known_extents(p, named, known);
  for (std::size_t d = 0; d < p.dims.size(); ++d) hinted(p.dims[d].name, known.dims[d], at.dims[d]);
  if (!hints.empty()) text += "assumed, since known only at run time: " + hints + "\n";
  return text;
}

} // namespace cleave::inline v0
