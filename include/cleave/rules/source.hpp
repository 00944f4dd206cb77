// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/op_rules.hpp>

namespace cleave::rules {

/// Arguments, literals, extents, indices. All but arguments are made by every device that needs them.
constexpr factor_list factors_of_source(const graph&, const node&) { return {}; }
constexpr std::uint32_t traits_of_source(const node& n) { return n.code == op::input ? 0u : planner::rematerialised; }

inline constexpr op_rules source{.factors = &factors_of_source,
                                 .traits = planner::is_source | planner::fixed_strategy,
                                 .traits_of = &traits_of_source};

} // namespace cleave::rules
