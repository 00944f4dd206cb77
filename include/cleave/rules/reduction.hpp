// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/program/step.hpp>
#include <cleave/rules/by_name.hpp>

namespace cleave::rules {

constexpr bool is_reduction_node(const node&) { return true; }

inline constexpr op_rules reduction{
    .what = op_class::reduction,
    .factors = &factors_by_name,
    .reads_any_order = true,
    .gives_any_order = true,
    .propagates_late = true,
    .is_expression = &is_reduction_node,
    .folds = true,
    .kind_of_step = step_kind::fold,
};

} // namespace cleave::rules
