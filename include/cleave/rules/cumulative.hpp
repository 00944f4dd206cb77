// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/assignment.hpp>
#include <cleave/rules/by_name.hpp>

namespace cleave::rules {

/// What running totals along a dim move: an exclusive prefix scan of one value of each slice.
constexpr cost scan_cost(const tensor_type& type, const layout& where, int along, const sizes& s) {
  const std::int64_t devices = s.axes.product(where[along]);
  if (devices == 1) return {};
  std::int64_t slices = 1, rounds = 0;
  for (int i = 0; i < type.rank; ++i)
    if (i != along) slices = times(slices, block_extent(s[type[i]], s.axes.product(where[i])));
  for (std::int64_t n = 1; n < devices; n *= 2) ++rounds;
  return {slices * size_of(type.element), slices > 0 ? rounds : 0};
}

constexpr cost moves_of_cumulative(const planner::cost_model& m, std::size_t v, const strategy& s) {
  const node& n = m.node_at(v);
  return scan_cost(n.type, s.out, n.type.find(n.which[0]), m.at);
}

inline constexpr op_rules cumulative{.factors = &factors_by_name, .moves = &moves_of_cumulative};

} // namespace cleave::rules
