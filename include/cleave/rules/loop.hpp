// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/assignment.hpp>
#include <cleave/program/step.hpp>
#include <cleave/rules/by_name.hpp>

namespace cleave::rules {

/// Whether a node stacks values along its first dim, index by index.
constexpr bool stacks(const node& n) { return n.code == op::collect; }
constexpr dim_set stacked_dim(const graph&, const node& n) { return stacks(n) ? dim_bit(n.type[0]) : dim_set{0}; }
constexpr void factors_of_loop(const graph& g, const node& n, factor_list& list) {
  add_factors_by_name(g, n, list, stacks(n) ? 1 : 0);
}

constexpr std::uint32_t traits_of_loop(const node& n) {
  std::uint32_t t = 0;
  if (n.code == op::last) t |= planner::transparent | planner::fixed_strategy;
  if (n.code == op::each || n.code == op::next) t |= planner::follows_others | planner::fixed_strategy;
  if (n.code == op::carry) t |= planner::begins_loop;
  if (stacks(n)) t |= planner::special;
  return t;
}

/// What is read at an index of a stack is sharded as the stack is, and what goes to the next iteration as the carried
/// value is.
constexpr strategy follow_loop(const planner::cost_model& m, const planner::assignment& a, std::size_t v) {
  const node& n = m.node_at(v);
  strategy s;
  if (n.code == op::next) {
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

/// What a loop carries is set by a step of its own; all else of a loop is its operand, in other memory.
constexpr bool sets_carried(const node& n) { return n.code == op::carry; }
constexpr void express_loop(const node&, const tensor_type&, tape_op& t) { t.code = op::identity; }

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

} // namespace cleave::rules
