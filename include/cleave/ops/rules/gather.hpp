// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/ops/rules/by_name.hpp>

namespace cleave::rules {

/// Rows of a table: its other dims and those of the indices are common, the dim that is indexed is fetched from where
/// it is.
constexpr factor_list factors_of_gather(const graph& g, const node& n) {
  factor_list list = factors_by_name(g, n);
  factor f;
  f.type = factor_type::permutation;
  f.at[0] = detail::position_of(detail::operand_type(g, n, 0), n.which[0]);
  f.taken = 0;
  list.push_back(f);
  return list;
}

inline constexpr op_rules gather{&factors_of_gather, nullptr, nullptr, true};

} // namespace cleave::rules
