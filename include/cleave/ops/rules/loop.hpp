// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/ops/rules/by_name.hpp>

namespace cleave::rules {

/// Whether a node stacks values along its first dim, index by index.
constexpr bool stacks(const node& n) { return n.code == op::collect; }
constexpr dim_set stacked_dim(const graph&, const node& n) { return stacks(n) ? dim_bit(n.type[0]) : dim_set{0}; }
constexpr factor_list factors_of_loop(const graph& g, const node& n) {
  const factor_list all = factors_by_name(g, n);
  if (!stacks(n)) return all;
  factor_list list;
  for (std::size_t i = 1; i < all.size(); ++i) list.push_back(all[i]);
  return list;
}

inline constexpr op_rules loop{&factors_of_loop, &stacked_dim};

} // namespace cleave::rules
