// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/ops/factor.hpp>

#include <span>

namespace cleave {

constexpr std::span<const dim_map> maps_of(const graph& g, const node& n) {
  return std::span(g.maps).subspan(n.first_map, n.maps);
}

namespace rules {

/// Dims that a map names are sharded on both sides as each side likes; those of windows are whole; the others are
/// common.
constexpr factor_list factors_of_remap(const graph& g, const node& n) {
  factor_list list;
  dim_set mapped = 0;
  for (int m = 0; m < n.maps; ++m) {
    const dim_map& map = g.maps[static_cast<std::size_t>(n.first_map + m)];
    factor f;
    f.type = factor_type::permutation;
    f.at[map.operand] = detail::position_of(detail::operand_type(g, n, map.operand), map.from);
    if ((mapped & dim_bit(map.to)) == 0) f.at[in_result] = detail::position_of(n.type, map.to);
    f.taken = static_cast<std::int8_t>(m);
    list.push_back(f);
    mapped |= dim_bit(map.to);
    if (map.window != no_dim) mapped |= dim_bit(map.window);
  }
  for (int i = 0; i < n.type.rank; ++i) {
    if ((mapped & dim_bit(n.type[i])) != 0) continue;
    factor f;
    f.at[in_result] = static_cast<std::int8_t>(i);
    for (int k = 0; k < n.arity; ++k) f.at[k] = detail::position_of(detail::operand_type(g, n, k), n.type[i]);
    list.push_back(f);
  }
  return list;
}
constexpr dim_set windows_of(const graph& g, const node& n) {
  dim_set set = 0;
  for (const dim_map& m : maps_of(g, n))
    if (m.window != no_dim) set |= dim_bit(m.window);
  return set;
}

inline constexpr op_rules remap{&factors_of_remap, &windows_of, nullptr, true};

} // namespace rules

} // namespace cleave
