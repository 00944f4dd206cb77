// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/candidates.hpp>
#include <cleave/ops/user.hpp>
#include <cleave/program/step.hpp>
#include <cleave/rules/annotation.hpp>

namespace cleave::rules {

constexpr dim_set whole_dims_of_call(const graph&, const node& n) { return n.over; }

/// A user's kernel: dims by name, but for those that it needs whole. A local call has the layouts that the user wrote
/// for its operands, which are resharded to them, and no choice.
constexpr void factors_of_call(const graph& g, const node& n, factor_list& list) {
  for (int i = 0; i < n.type.rank && !n.local; ++i) {
    if ((n.over & dim_bit(n.type[i])) != 0) continue;
    factor f;
    f.at[in_result] = static_cast<std::int8_t>(i);
    for (int k = 0; k < n.arity; ++k) f.at[k] = position_of(operand_type(g, n, k), n.type[i]);
    list.push_back(f);
  }
  for (int k = 0; k < n.arity && n.local; ++k) {
    const node& from = g.nodes[n.in[static_cast<std::size_t>(k)]];
    for (int i = 0; i < from.type.rank && annotation_of(from) == annotation::moved_layout; ++i) {
      if (from.pin.axes(i) == 0) continue;
      factor f;
      f.type = factor_type::need_replication;
      f.at[k] = static_cast<std::int8_t>(i);
      f.pin = from.pin[i];
      list.push_back(f);
    }
  }
}

/// A user's kernel may be sharded in every way that its dims allow; a local call has the layouts that the user wrote.
constexpr void offer_calls(const planner::cost_model& m, planner::assignment& a, std::size_t v,
                           std::vector<strategy>& list) {
  if (!m.node_at(v).local) planner::add_all_ways(m, a, v, list);
}

/// What the user says that the kernel moves, from the largest shards of its operands and its result.
constexpr cost moves_of_call(const placed_op& o, const sizes& s) {
  if (o.user->bytes == nullptr) return {};
  static_vector<shape, max_arity + 1> shards;
  for (int k = 0; k < o.arity; ++k) shards.push_back(largest_shape(shape_of(*o.in[k].type, s), o.in[k].where, s.axes));
  shards.push_back(largest_shape(shape_of(*o.out.type, s), o.out.where, s.axes));
  return {o.user->bytes(std::span<const shape>(shards.begin(), shards.end()), s.axes), 0};
}

constexpr void emit_call(const node& n, const placed_op& o, step& s) {
  s.user = n.user;
  s.loop = *o.out.type;
  s.space = o.out.where;
}

inline constexpr op_rules call{
    .what = op_class::call,
    .factors = &factors_of_call,
    .whole_dims = &whole_dims_of_call,
    .traits = planner::special,
    .moves = &moves_of_call,
    .weighed = false,
    .offer = &offer_calls,
    .emit = &emit_call,
    .kind_of_step = step_kind::call,
};

} // namespace cleave::rules
