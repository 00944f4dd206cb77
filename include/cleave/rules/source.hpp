// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/op_rules.hpp>
#include <cleave/program/step.hpp>

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
