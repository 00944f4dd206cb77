// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/rules/call.hpp>
#include <cleave/plan/rules/contraction.hpp>
#include <cleave/plan/rules/remap.hpp>
#include <cleave/plan/rules/rows.hpp>
#include <cleave/plan/rules/scan.hpp>

namespace cleave::detail {

/// The rules of every class; those that are not named here move nothing and offer nothing.
inline constexpr planning_rules_table all_planning_rules = [] {
  planning_rules_table all{};
  all[static_cast<std::size_t>(op_class::contraction)] = contraction_rules;
  all[static_cast<std::size_t>(op_class::call)] = call_rules;
  all[static_cast<std::size_t>(op_class::remap)] = remap_rules;
  all[static_cast<std::size_t>(op_class::gather)] = gather_rules;
  all[static_cast<std::size_t>(op_class::scatter)] = scatter_rules;
  all[static_cast<std::size_t>(op_class::scan)] = scan_rules;
  return all;
}();

} // namespace cleave::detail
