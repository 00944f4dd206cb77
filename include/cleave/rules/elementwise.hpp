// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/rules/by_name.hpp>

namespace cleave::rules {

/// Whether a node adds its two operands up.
constexpr bool adds_operands(const node& n) { return n.code == op::add; }

inline constexpr op_rules elementwise{.factors = &factors_by_name, .traits = planner::elementwise_op};

} // namespace cleave::rules
