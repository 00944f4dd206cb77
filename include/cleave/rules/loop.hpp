// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/assignment.hpp>
#include <cleave/cost/op_rules.hpp>
#include <cleave/program/step.hpp>
#include <cleave/record/recorder.hpp>

namespace cleave { inline namespace v0 { namespace detail {

constexpr bool leaves_ok(indexed_span<const value> all) {
  for (const value& v : all)
    if (!v.ok()) return false;
  return true;
}

constexpr value loop_part(recorder& in, op code, std::uint8_t loop, const tensor_type& type,
                          indexed_span<const value> operands, source where, dim_id along = 0) {
  node n;
  n.code = code;
  n.which[0] = along;
  n.type = type;
  n.of = loop;
  const loop_list& loops = in.made().loops;
  n.loop = is_outside_its_loop(code) ? loops[loop - 1u].around : loop;
  return in.append(n, operands, where);
}

/// A stack with the dim along which a loop runs first, so that the slice at an index is contiguous.
constexpr value stack_first(recorder& in, value x, dim_id along, source where) {
  if (!x.ok()) return x;
  const tensor_type t = in.at(x).type;
  if (!t.has(along)) return in.fail(fault::dim_missing, "scan", where, in.made().dims[along].name);
  if (t[0] == along) return x;
  tensor_type first;
  first.element = t.element;
  first.append(along);
  for (int i = 0; i < t.rank; ++i)
    if (t[i] != along) first.append(t[i]);
  return in.reordered(x, first, where);
}

constexpr value carry_into(recorder& in, std::uint8_t loop, value x, source where) {
  return loop_part(in, op::carry, loop, in.at(x).type, std::array{x}, where);
}
/// The slice of a stack at the index of the iteration; of a loop along no dim, the value itself.
constexpr value loop_slice_of(recorder& in, std::uint8_t loop, value stack, source where) {
  const tensor_type whole = in.at(stack).type;
  tensor_type t;
  t.element = whole.element;
  const dim_id along = in.made().loops[loop - 1u].along;
  for (int i = along == no_dim ? 0 : 1; i < whole.rank; ++i) t.append(whole[i]);
  return loop_part(in, op::loop_slice, loop, t, std::array{stack}, where, along);
}

/// Whether a value is computed anew in every iteration of a loop, and not another name for a carried value or a stack.
constexpr bool is_made_by_loop(const node& n, std::uint8_t loop) {
  const op_class what = class_of(n.code);
  return n.loop == loop &&
         (what == op_class::elementwise || what == op_class::contraction || what == op_class::reduction);
}
/// The next value of a carry, in its memory order and computed anew in every iteration: names for other values are
/// copied.
constexpr value computed_for(recorder& in, std::string_view op, value carried, value next, source where) {
  if (!carried.ok() || !next.ok()) return {&in, no_node};
  const tensor_type was = in.at(carried).type, is = in.at(next).type;
  if (was.element != is.element) return in.fail(fault::carry_changes, op, where);
  if ((was.set() ^ is.set()) != 0) {
    const dim_set other = was.set() ^ is.set();
    dim_id d = 0;
    while ((other & dim_bit(d)) == 0) ++d;
    return in.fail(fault::carry_changes, op, where, in.made().dims[d].name);
  }
  return is_made_by_loop(in.at(next), in.at(carried).of) && was == is ? next : in.reordered(next, was, where);
}
constexpr value loop_yield_of(recorder& in, value carried, value next, source where) {
  if (!carried.ok() || !next.ok()) return {&in, no_node};
  return loop_part(in, op::loop_yield, in.at(carried).of, in.at(carried).type, std::array{next, carried}, where);
}
constexpr value loop_result_of(recorder& in, value next, source where) {
  if (!next.ok()) return next;
  return loop_part(in, op::loop_result, in.at(next).of, in.at(next).type, std::array{next}, where);
}
/// A value of every iteration, stacked: the dim of the loop first.
constexpr value loop_stack_of(recorder& in, std::uint8_t loop, value x, source where) {
  if (!x.ok()) return x;
  const tensor_type each = in.at(x).type;
  const dim_id along = in.made().loops[loop - 1u].along;
  if (each.has(along)) return in.fail(fault::dim_used_twice, "scan", where, in.made().dims[along].name);
  if (each.rank == max_rank) return in.fail(fault::rank_too_high, "scan", where);
  tensor_type stack;
  stack.element = each.element;
  stack.append(along);
  for (int i = 0; i < each.rank; ++i) stack.append(each[i]);
  return loop_part(in, op::loop_stack, loop, stack, std::array{x}, where);
}

/// How often a loop runs: a whole number, or once if a predicate holds.
constexpr void set_trip_count(recorder& in, std::string_view op, std::uint8_t loop, value times, source where) {
  if (!times.ok()) return;
  const tensor_type t = in.at(times).type;
  if (t.rank != 0 || (!is_integer(t.element) && t.element != element::boolean))
    in.refuse(fault::not_a_count, op, where);
  else static_cast<void>(loop_part(in, op::trip_count, loop, t, std::array{times}, where));
}
constexpr void set_break(recorder& in, std::string_view op, std::uint8_t loop, value predicate, source where) {
  if (!predicate.ok()) return;
  const tensor_type t = in.at(predicate).type;
  if (t.rank != 0 || t.element != element::boolean) return in.refuse(fault::not_a_predicate, op, where);
  // It is read after the carried values have been updated.
  if (!is_made_by_loop(in.at(predicate), loop)) predicate = in.reordered(predicate, t, where);
  static_cast<void>(loop_part(in, op::break_if, loop, t, std::array{predicate}, where));
}

}}} // namespace cleave::v0::detail

namespace cleave { inline namespace v0 { namespace rules {

/// Whether a node stacks values along its first dim, index by index.
constexpr bool stacks(const node& n) { return n.code == op::loop_stack; }
constexpr dim_set stacked_dim(const graph&, const node& n) { return stacks(n) ? dim_bit(n.type[0]) : dim_set{0}; }
constexpr void factors_of_loop(const graph& g, const node& n, factor_list& list) {
  add_factors_by_name(g, n, list, stacks(n) ? 1 : 0);
}

constexpr std::uint32_t traits_of_loop(const node& n) {
  std::uint32_t t = 0;
  if (n.code == op::loop_result) t |= planner::transparent | planner::fixed_strategy;
  if (n.code == op::loop_slice || n.code == op::loop_yield) t |= planner::follows_others | planner::fixed_strategy;
  if (n.code == op::loop_slice) t |= planner::chosen_last;
  if (n.code == op::carry) t |= planner::begins_loop;
  if (stacks(n)) t |= planner::special;
  return t;
}

/// A slice that a loop reads is sharded as its stack; the next value of a carry is sharded as the carry.
constexpr strategy follow_loop(const planner::cost_model& m, const planner::assignment& a, std::size_t v) {
  const node& n = m.node_at(v);
  strategy s;
  if (n.code == op::loop_yield) {
    s.out = a.chosen.at[n.in[1]].out;
    s.forwarded = s.out.unreduced();
    s.partial_operands = s.forwarded != 0 ? 3 : 0;
    return s;
  }
  const layout stack = planner::produced(m, a, n.in[0]);
  const tensor_type& whole = m.node_at(n.in[0]).type;
  for (int i = 0; i < n.type.rank; ++i) s.out.set(i, stack[whole.find(n.type[i])]);
  return s;
}

/// A carry is set by a step of its own; every other loop node is its operand, in other memory.
constexpr bool sets_carried(const node& n) { return n.code == op::carry; }
constexpr void express_loop(const node&, const tensor_type&, fused_op& t) { t.code = op::identity; }

inline constexpr op_rules loop{
    .what = op_class::loop,
    .factors = &factors_of_loop,
    .whole_dims = &stacked_dim,
    .traits_of = &traits_of_loop,
    .follow = &follow_loop,
    .is_expression = &sets_carried,
    .express = &express_loop,
    .kind_of_step = step_kind::map,
};

}}} // namespace cleave::v0::rules
