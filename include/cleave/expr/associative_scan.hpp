// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/movement.hpp>

namespace cleave { inline namespace v0 {

namespace detail {
/// The dim of the indices within a chunk of a dim.
inline constexpr auto part_names = numbered_names("part ");

constexpr value index_at_least(recorder& in, dim_ref d, std::int64_t least, source where) {
  return in.elementwise(op::greater_equal,
                        std::array{in.iota(d, element::i32, where), in.constant(as_double(least), element::i32, where)},
                        where);
}
constexpr value choose_where(recorder& in, value predicate, value a, value b, source where) {
  return in.elementwise(op::select, std::array{predicate, a, b}, where, element::none, true);
}
} // namespace detail

/// Inside a function: running totals along a dim by your own operation `f(earlier, later)`, which must be associative
/// but need not commute (jax.lax.associative_scan). x is a value or an aggregate of values, such as the pairs of a
/// linear recurrence. The dim is split into `chunk` parts; the extent of `chunk` is fixed and divides the extent of the
/// dim. All parts are scanned side by side, and their totals go through log2(chunk) shifts (Hillis and Steele 1986).
/// Communication: if `chunk` is sharded, each shift moves one value for each slice. The result has the dims and element
/// types of x. Differentiable. Faults: dim_missing, window_open, carry_changes.
template <class X, class F>
constexpr X associative_scan(const X& x, dim_ref along, dim_ref chunk, const F& f, const char* file = __builtin_FILE(),
                             unsigned line = __builtin_LINE()) {
  const source where{file, line};
  X copy = x;
  recorder& in = *detail::recorder_of(copy);
  const auto refused = [&](const value&) { return value{&in, no_node}; };
  if (chunk.extent == dynamic) in.refuse(fault::window_open, "associative_scan", where, chunk.name);
  const int d = in.dim(along, "associative_scan", where);
  if (d < 0 || chunk.extent == dynamic || !detail::all_ok(x)) return tree_map(refused, x);
  const dim_ref part{detail::part_names[as_size(d)].text()}, one{"part one", 1};
  const X parts = tree_map([&](const value& v) { return detail::recorded_split(in, v, along, chunk, part, where); }, x);
  if (!detail::all_ok(parts)) return tree_map(refused, x);
  // Of one element each, bools too, which `sum` refuses.
  const auto first_part = [&](const value& v) {
    return in.reduce(reduction::sum, slice({v, file, line}, part, one, 0, 1), std::array{one}, where);
  };
  const X first = tree_map(first_part, parts);
  const auto [totals, within] = scan(
      part, first, std::pair(parts, in.iota(part, element::i32, where)),
      [&](const X& before, const auto& now) {
        const value later = in.elementwise(op::greater_equal,
                                           std::array{now.second, in.constant(1, element::i32, where)}, where);
        const X next = tree_map([&](const value& a,
                                    const value& b) { return detail::choose_where(in, later, a, b, where); },
                                f(before, now.first), now.first);
        return std::pair(next, next);
      },
      direction::forward, file, line);

  // Totals of all chunks up to each, then of those before it. If there is none, a neighbour stands in and is not
  // chosen.
  X total = totals;
  for (std::int64_t step = 1; step < chunk.extent; step *= 2) {
    const X before = tree_map([&](const value& v) { return shift({v, file, line}, chunk, step, border::edge); }, total);
    const value there = detail::index_at_least(in, chunk, step, where);
    total = tree_map([&](const value& a, const value& b) { return detail::choose_where(in, there, a, b, where); },
                     f(before, total), total);
  }
  const X before = tree_map(
      [&](const value& v, const value& like) {
        return like.ok() ? in.broadcast(shift({v, file, line}, chunk, 1, border::edge), in.at(like).type, where) : like;
      },
      total, within);
  const value there = detail::index_at_least(in, chunk, 1, where);
  const X all = tree_map([&](const value& a, const value& b) { return detail::choose_where(in, there, a, b, where); },
                         f(before, within), within);
  return tree_map([&](const value& v) { return detail::recorded_merge(in, v, chunk, part, along, where); }, all);
}

}} // namespace cleave::v0
