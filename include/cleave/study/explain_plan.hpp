// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/ops/print.hpp>
#include <cleave/plan/plan.hpp>
#include <cleave/plan/price.hpp>
#include <cleave/program/kept_halo.hpp>

#include <algorithm>
#include <string>

namespace cleave { inline namespace v0 {

/// The names of the arguments and of the results of a call, for tables; empty: they have numbers.
struct names_of_call {
  indexed_span<const std::string> arguments{}, results{};
};

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

/// The operation and the line of a step, `dot:12`.
inline std::string short_origin(const step& s) {
  return origin_name(s.code, s.gradient) + (s.where.line != 0 ? ":" + std::to_string(s.where.line) : std::string());
}

/// The products that overlap with a move in flight, and the last one before its wait.
inline std::string hidden_behind(const program_view& p, const step& s) {
  const std::size_t begun = as_size(&s - p.steps.data());
  std::int64_t products = 0;
  const step* last = nullptr;
  for (std::size_t i = begun + 1; i < p.steps.size(); ++i) {
    const step& other = p.steps[i];
    if (other.kind == step_kind::wait && other.begun == begun) break;
    if (other.kind != step_kind::gemm) continue;
    ++products;
    last = &other;
  }
  if (last == nullptr) return ", while others compute";
  return ", while " + grouped(products) + (products > 1 ? " products are" : " product is") + " computed, until " +
         short_origin(*last) + " is over";
}

} // namespace detail

/// Why a step communicates: a move as its collective says, the others as the rules of their operation say.
inline std::string reason_of(const program_view& p, const step& s, const sizes& at) {
  const auto with_product = [&](std::string text) {
    if (s.pieces == 0) return text;
    text += s.move == kind::all_gather ? ", while the product with it is computed" : ", while the product is computed";
    return text + " (" + std::to_string(s.pieces) + (s.pieces > 1 ? " pieces" : " piece") + " of each block)";
  };
  if (s.kind == step_kind::move) {
    std::string text(words_of(s.move).reason);
    if (const std::size_t place = text.find('%'); place != std::string::npos)
      text.replace(place, 1, to_string(s.axes, p.mesh));
    if (s.panels != 0) return text + ", panel by panel while the product is computed";
    return s.in_flight ? text + detail::hidden_behind(p, s) : with_product(text);
  }
  if (s.move == kind::none) return {};
  const bool region = has_neighbours(p.buffers[s.out]);
  std::string text(region ? "each device reads the neighbours of its block" : pricing_of(s.kind).reason);
  if (s.joined) text += ", in the same messages";
  else if (s.in_flight) text += ", while others compute";
  if (may_keep_halo(p, s, at))
    text.append(", unless arg ").append(std::to_string(p.buffers[s.in[0]].index)).append(" keeps them");
  return text;
}

namespace detail {

/// The workspace by purpose; of scratch memory, which all steps share, the most that each kind of step needs.
inline std::string described(const workspace_parts& w, const program_view& p) {
  std::string text = "workspace " + grouped(w.total()) + " bytes";
  const auto list = [](std::string& to, const char* what, std::int64_t bytes) {
    if (bytes != 0) to.append(to.empty() ? "" : ", ").append(what).append(" ").append(grouped(bytes));
  };
  std::string parts, shared;
  list(parts, "values", w.values);
  list(parts, "held by messages", w.held);
  list(shared, "moves", w.moves);
  list(shared, "passes", w.passes);
  list(shared, "kernels of yours", w.kernels);
  list(parts, "scratch", w.scratch());
  if (!shared.empty()) parts.append(" for ").append(shared);
  if (w.total() != w.values) text.append(" (").append(parts).append(")");
  int routed = 0, asking = 0;
  for (const step& s : p.steps) {
    routed += is_routed(s);
    asking += s.kind == step_kind::call && s.user->workspace_here.given;
  }
  if (routed > 0) text += ", and what look-ups and sorts keep";
  if (asking > 0) text += ", and what kernels of yours ask for when they are bound";
  return text;
}

/// A table whose columns from `numbers` on are aligned to the right.
inline std::string table(const indexed_vector<indexed_vector<std::string>>& rows, std::size_t numbers) {
  indexed_vector<std::size_t> width(rows.front().size(), 0);
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) width[c] = std::max(width[c], row[c].size());
  std::string s;
  for (const auto& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string gap(width[c] - row[c].size(), ' ');
      s.append(c > 0 ? "  " : "").append(c < numbers ? row[c] + gap : gap + row[c]);
    }
    while (s.back() == ' ') s.pop_back();
    s += '\n';
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
/// the busiest device for the given sizes, the operation and line that caused it, and the reason. A plus marks a step
/// that shares the messages of the line above it.
inline std::string explain(const program_view& p, const sizes& at) {
  indexed_vector<indexed_vector<std::string>> rows{{"collective", "over", "from", "to", "bytes", "for", "why"}};
  for (const step& s : p.steps) {
    if (s.move == kind::none) continue;
    const buffer &from = p.buffers[s.in[0]], &to = p.buffers[s.out];
    std::string origin = origin_name(s.code, s.gradient);
    if (s.where.line != 0) origin.append(" ").append(s.where.name()).append(":").append(std::to_string(s.where.line));
    const std::string times = s.in_loop == 0 ? std::string() : " x " + detail::grouped(step_iterations(p, s, at));
    rows.push_back({s.joined ? "+ " + std::string(name_of(s.move)) : std::string(name_of(s.move)),
                    to_string(s.axes, p.mesh), to_string(from.type, from.where, p.dims, p.mesh),
                    to_string(to.type, to.where, p.dims, p.mesh), detail::grouped(step_bytes(p, s, at)) + times, origin,
                    reason_of(p, s, at)});
  }
  std::string text = detail::table(rows, rows.front().size());
  if (rows.size() == 1) text = "no communication\n";
  int maps = 0, folds = 0, products = 0, calls = 0;
  for (const step& s : p.steps) {
    maps += s.kind == step_kind::map && !s.joined;
    folds += s.kind == step_kind::fold;
    products += s.kind == step_kind::gemm;
    calls += s.kind == step_kind::call;
  }
  text += "total " + detail::grouped(bytes(p, at)) + " bytes a device; " + std::to_string(products) + " products (" +
          detail::grouped(flops(p, at)) + " flops a device), " + std::to_string(maps) + " fused elementwise passes, " +
          std::to_string(folds) + " reductions, " +
          (calls > 0 ? std::to_string(calls) + (calls > 1 ? " kernels" : " kernel") + " of yours, " : "") +
          detail::described(parts_of_workspace(p, at), p) + "\n";
  return text;
}

/// An array by the name or the place that it has in the call, `arg 0` or `result 1`, or else by the operation and the
/// line of the step that wrote it last before step `at`: `dot:12`, and `dot:12#2` for the second array of this line.
inline std::string array_name(const program_view& p, std::size_t array, std::size_t at,
                              const names_of_call& names = {}) {
  const buffer& b = p.buffers[array];
  if (b.form == form::halo) return "halo of " + array_name(p, b.of, at, names);
  if (b.form == form::slice) return "slice of " + array_name(p, b.of, at, names);
  if (b.role == role::input)
    return b.index < names.arguments.size() ? names.arguments[b.index] : "arg " + std::to_string(b.index);
  if (b.role == role::output)
    return b.index < names.results.size() ? names.results[b.index] : "result " + std::to_string(b.index);
  const std::size_t count = p.steps.size();
  // A carried value may be written after the step, or under another name of its memory.
  const auto is_written = [&](std::size_t i, bool by_memory) {
    const step& s = p.steps[i];
    if (!writes(s) || s.out == array || !by_memory) return writes(s) && s.out == array;
    return same_memory(p.buffers[s.out], b);
  };
  std::size_t back = 1;
  for (const bool by_memory : {false, true}) {
    if (by_memory && back <= count) break;
    for (back = 1; back <= count && !is_written((at + count - back) % count, by_memory);) ++back;
  }
  if (back > count) return "slot " + std::to_string(b.index);
  const std::size_t writer = (at + count - back) % count;
  if (b.form == form::region) return "region of " + array_name(p, p.steps[writer].in[0], at, names);
  const std::string name = detail::short_origin(p.steps[writer]);
  indexed_vector<std::uint16_t> others;
  for (std::size_t i = 0; i < writer; ++i) {
    const step& s = p.steps[i];
    const bool is_array = writes(s) && p.buffers[s.out].role == role::workspace && p.buffers[s.out].form == form::shard;
    if (!is_array || s.out == array || detail::short_origin(s) != name) continue;
    if (std::find(others.begin(), others.end(), s.out) == others.end()) others.push_back(s.out);
  }
  return others.empty() ? name : name + "#" + std::to_string(others.size() + 1);
}

namespace detail {

/// How a pass is pipelined with others.
inline const char* with_others(const step& s) {
  if (s.pieces != 0) return s.kind == step_kind::gemm ? " in pieces" : " of pieces";
  if (s.panels != 0) return s.kind == step_kind::gemm ? " in panels" : " of panels";
  return s.kind == step_kind::move && s.in_flight ? " begins" : "";
}

} // namespace detail

/// A table of every step, one line each: its kind, its operation, the arrays that it reads and writes, and the bytes
/// that the busiest device reads and writes in its memory and moves. An array is read once, whatever the number of its
/// elements that one result needs. One line is one pass over memory, which shows needless passes, and may have several
/// results; its boxes are those of ranges of indices (index_bound). Of steps that run a band of rows at a time, which
/// the kernels decide, a part of these bytes stays in the caches. A copy into memory that the array already has, or
/// whose names are swapped, is none. The last line has the sums, with the iterations of loops.
inline std::string explain_passes(const program_view& p, const sizes& at, const names_of_call& names = {}) {
  constexpr const char* kinds[] = {"elementwise", "reduction", "product", "kernel of yours",
                                   "move",        "exchange",  "look-up", "add rows",
                                   "scan",        "sort"};
  const bool in_loops = p.loops.size() > 0;
  indexed_vector<indexed_vector<std::string>> rows{
      {"pass", "for", "reads", "writes", "bytes read", "written", "moved"}};
  if (in_loops) rows.front().push_back("times");
  pass_bytes total;
  std::int64_t passes = 0;
  for (std::size_t i = 0; i < p.steps.size(); ++i) {
    const step& s = p.steps[i];
    if (!writes(s) || is_in_pass(s)) continue;
    std::string origin = origin_name(s.code, s.gradient), reads;
    if (s.where.line != 0) origin.append(" ").append(s.where.name()).append(":").append(std::to_string(s.where.line));
    for (std::uint16_t array : arrays_read(p, s))
      reads.append(reads.empty() ? "" : ", ").append(array_name(p, array, i, names));
    pass_bytes bytes;
    std::string results;
    for (const step& one : pass_of(p.steps, i)) {
      const pass_bytes own = bytes_of_pass(p, one, at);
      bytes.read += own.read;
      bytes.written += own.written;
      bytes.moved += own.moved;
      // The next step reads its own result.
      const std::size_t next = as_size(&one - p.steps.data()) + 1;
      results.append(results.empty() ? "" : ", ").append(array_name(p, one.out, next, names));
    }
    const auto boxes = std::ranges::count(bounds_of(p, s), true, &index_bound::ends);
    const std::string in_boxes = boxes > 0 ? " in " + std::to_string(boxes) + " boxes" : "";
    rows.push_back({std::string(kinds[underlying(s.kind)]) + detail::with_others(s) + in_boxes, origin, reads, results,
                    detail::grouped(bytes.read), detail::grouped(bytes.written), detail::grouped(bytes.moved)});
    const std::int64_t times = step_iterations(p, s, at);
    if (in_loops) rows.back().push_back(detail::grouped(times));
    passes += times;
    total.read += times * bytes.read;
    total.written += times * bytes.written;
    total.moved += times * bytes.moved;
  }
  rows.push_back({"total", detail::grouped(passes) + (passes == 1 ? " pass" : " passes"), "", "",
                  detail::grouped(total.read), detail::grouped(total.written), detail::grouped(total.moved)});
  if (in_loops) rows.back().push_back("");
  return detail::table(rows, 4);
}
/// The same for a compiled plan, with sizes by name.
template <class Plan, class Verdict>
std::string explain_passes(const planned<Plan, Verdict>& plan, std::initializer_list<named_size> named = {}) {
  return explain_passes(plan.view(), plan.sized(named));
}

namespace detail {
/// Those of the given sizes that differ by more than a factor of 8 from the ones for which the function was planned.
template <class Plan, class Verdict>
std::string far_sizes(const planned<Plan, Verdict>& plan, std::initializer_list<named_size> named) {
  const program_view p = plan.view();
  const sizes expected = plan.sized({});
  std::string far, options;
  const auto compare = [&](std::string_view name, std::int64_t size, std::int64_t planned_for) {
    const auto [least, most] = std::minmax(size, planned_for);
    if ((most - 1) / 8 < least) return;
    const std::string_view comma = far.empty() ? "" : ", ";
    far.append(comma).append(name).append(" = ").append(std::to_string(planned_for));
    options.append(comma).append("expect<").append(name).append(", ").append(std::to_string(size)).append(">");
  };
  for (const named_size& n : named) {
    for (int a = 0; a < p.mesh.size(); ++a)
      if (n.is_of_axis(p.mesh.axes[a].name)) compare(n.name, n.size, expected.axes[a]);
    for (std::size_t d = 0; d < p.dims.size(); ++d)
      if (n.is_of_dim(p.dims[d].name)) compare(n.name, n.size, expected.dims[d]);
  }
  if (far.empty()) return far;
  return "planned for " + far + ": another plan may be better at these sizes, see " + options + "\n";
}
} // namespace detail

/// The same for a compiled plan, with sizes by name: `explain(plan, {batch = 1024, data = 2})`. Sizes that are neither
/// fixed nor given are hints; they are listed below the table, as are sizes that are far from those of the plan.
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
  // Sizes that follow from given ones are not assumed.
  sizes known;
  set_known_extents(p, named, known);
  for (std::size_t d = 0; d < p.dims.size(); ++d) hinted(p.dims[d].name, known.dims[d], at.dims[d]);
  if (!hints.empty()) text += "assumed, since known only at run time: " + hints + "\n";
  return text + detail::far_sizes(plan, named);
}

/// Prints the text of `explain` for the plan.
template <class Stream, class Plan, class Verdict>
Stream& operator<<(Stream& out, const planned<Plan, Verdict>& plan) {
  return out << explain(plan), out;
}

}} // namespace cleave::v0
