// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/op_rules.hpp>

namespace cleave::inline v0::rules {

/// Where a dim is in a tensor; -1 where it is not.
constexpr std::int8_t position_of(const tensor_type& t, dim_id d) { return static_cast<std::int8_t>(t.find(d)); }
constexpr const tensor_type& operand_type(const graph& g, const node& n, int k) {
  return g.nodes.at[n.in.items[k]].type;
}

/// Dims by name: each dim of the result is sharded alike wherever it appears, and each dim of `over` is reduced.
constexpr void add_factors_by_name(const graph& g, const node& n, factor_list& list, int first_dim) {
  for (int i = first_dim; i < n.type.rank; ++i) {
    factor f;
    f.at[in_result] = static_cast<std::int8_t>(i);
    for (int k = 0; k < n.arity; ++k) f.at[k] = position_of(operand_type(g, n, k), n.type[i]);
    list.push_back(f);
  }
  if (n.over == 0 || n.arity == 0) return;
  const tensor_type& first = operand_type(g, n, 0);
  for (int i = 0; i < first.rank; ++i) {
    if ((n.over & dim_bit(first[i])) == 0) continue;
    factor f;
    f.type = factor_type::reduction;
    f.at[0] = static_cast<std::int8_t>(i);
    if (n.arity > 1) f.at[1] = position_of(operand_type(g, n, 1), first[i]);
    list.push_back(f);
  }
}
constexpr void factors_by_name(const graph& g, const node& n, factor_list& list) { add_factors_by_name(g, n, list, 0); }

} // namespace cleave::inline v0::rules
