// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/op_rules.hpp>
#include <cleave/program/step.hpp>
#include <cleave/rules/reverse_context.hpp>

namespace cleave { inline namespace v0 { namespace rules {

/// Arguments, literals, extents, indices. All but arguments are made by every device that needs them.
constexpr void factors_of_source(const graph&, const node&, factor_list&) {}
/// Whether every device makes the value for itself, in any layout.
constexpr bool is_made_everywhere(const node& n) { return n.code != op::input && class_of(n.code) == op_class::source; }
/// Whether its elements are the indices along a dim.
constexpr bool is_index(op code) { return code == op::iota; }
constexpr bool is_index(const node& n) { return is_index(n.code); }
/// Whether its elements are one number that does not depend on arguments.
constexpr bool is_uniform(const node& n) { return is_made_everywhere(n) && !is_index(n); }
constexpr std::uint32_t traits_of_source(const node& n) {
  return (is_made_everywhere(n) ? planner::rematerialised : 0u) | (is_uniform(n) ? planner::uniform : 0u);
}
/// An index is that of one of the dims of the step.
constexpr void express_source(const node& n, const tensor_type& loop, fused_op& t) {
  if (is_index(n)) t.arg = narrowed(loop.find(n.which[0]));
}

inline constexpr op_rules source{
    .what = op_class::source,
    .factors = &factors_of_source,
    .reads_any_order = true,
    .traits = planner::is_source | planner::fixed_strategy,
    .traits_of = &traits_of_source,
    .is_expression = &is_made_everywhere,
    .express = &express_source,
};

}}} // namespace cleave::v0::rules

namespace cleave { inline namespace v0 { namespace detail {

/// Pins the dims that the specification names (constrain) or the whole layout (reshard).
constexpr value recorded_annotation(recorder& in, op code, value x, const spec& s, source where) {
  if (!x.ok()) return in.missing(name_of(code), where);
  node n = in.node_on(code, x, where);
  if (!in.resolve(s, n.type, name_of(code), where, n.pin, n.pinned)) return {&in, no_node};
  const node& from = in.at(x);
  for (int i = 0; i < n.type.rank && code == op::constrain && from.code == op::constrain; ++i)
    if ((from.pinned & n.pinned) >> i & 1 && from.pin[i] != n.pin[i]) {
      in.refuse_node(n, fault::pinned_layouts_conflict, in.made().dims[n.type[i]].name);
      return {&in, no_node};
    }
  if (code == op::reshard) n.pinned = narrowed((1u << n.type.rank) - 1u);
  return in.push(n);
}

/// Pins the dims of a cotangent if the value to which it belongs has them pinned.
constexpr value constrained_like(recorder& in, value x, const node& primal) {
  if (!x.ok()) return x;
  node n = in.node_on(op::constrain, x, primal.where);
  for (int i = 0; i < n.type.rank; ++i) {
    const int from = primal.type.find(n.type[i]);
    if (from < 0 || (primal.pinned >> from & 1) == 0) continue;
    n.pin.set(i, primal.pin[from]);
    n.pinned = narrowed(n.pinned | 1u << i);
  }
  return n.pinned == 0 ? x : in.push(n);
}

/// A cotangent has the layout that the user wrote for the value.
constexpr void adjoint_of_annotation(reverse_context& c, std::size_t, const node& n, value g) {
  if (n.code == op::stop_gradient) return;
  c.add(n.in[0], n.code == op::constrain ? constrained_like(c.in(), g, n) : g, n.where);
}

}}} // namespace cleave::v0::detail

namespace cleave { inline namespace v0 { namespace rules {

/// The meaning of a node that computes nothing.
enum class annotation : std::uint8_t {
  none,
  /// The layout of a whole value, which is not that of partial sums.
  whole_layout,
  /// How positions are sharded, whole or partial: a constraint on a gradient.
  sharding,
  /// The very layout, by a move of its own.
  moved_layout,
  /// The values beyond it are computed again.
  recomputed,
};
constexpr annotation annotation_of(const node& n) {
  switch (n.code) {
    case op::constrain: return n.gradient ? annotation::sharding : annotation::whole_layout;
    case op::reshard: return annotation::moved_layout;
    case op::barrier: return annotation::recomputed;
    default: return annotation::none;
  }
}

constexpr std::uint32_t traits_of_annotation(const node& n) {
  switch (annotation_of(n)) {
    case annotation::moved_layout: return planner::fixed_strategy;
    case annotation::recomputed: return planner::transparent_if_whole;
    case annotation::whole_layout: return planner::keeps_whole;
    case annotation::sharding:
    case annotation::none: break;
  }
  return 0;
}

inline constexpr op_rules annotated{
    .what = op_class::annotation,
    .adjoint = &detail::adjoint_of_annotation,
    .factors = &factors_by_name,
    .traits_of = &traits_of_annotation,
};

}}} // namespace cleave::v0::rules
