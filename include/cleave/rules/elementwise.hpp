// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/program/step.hpp>
#include <cleave/rules/by_name.hpp>

namespace cleave::rules {

/// Whether a node adds its two operands up.
constexpr bool adds_operands(const node& n) { return n.code == op::add; }

constexpr bool is_elementwise_node(const node&) { return true; }
/// To run along more dims is to be read with stride 0.
constexpr void express_elementwise(const node& n, const tensor_type&, tape_op& t) {
  if (n.code == op::broadcast) t.code = op::identity;
}

inline constexpr op_rules elementwise{
    .what = op_class::elementwise,
    .factors = &factors_by_name,
    .reads_any_order = true,
    .gives_any_order = true,
    .traits = planner::elementwise_op,
    .is_expression = &is_elementwise_node,
    .express = &express_elementwise,
    .kind_of_step = step_kind::map,
};

} // namespace cleave::rules
