// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/assignment.hpp>
#include <cleave/cost/sorting.hpp>
#include <cleave/rules/by_name.hpp>

namespace cleave::rules {

/// Whether the indices that elements had are asked for, not the elements.
constexpr bool gives_indices(const node& n) { return n.code == op::argsort; }

/// What sorting moves, charged as if the elements were spread evenly: an all-to-all of the operand, and of the indices
/// where they are wanted, of which a sample's worth is handed on to a neighbour; samples, the elements at the cuts with
/// their indices, and counts.
constexpr cost sort_cost(const tensor_type& type, const layout& where, int along, bool indices, const sizes& s) {
  const std::int64_t n = s.axes.product(where[along]);
  if (n == 1) return {};
  std::int64_t slices = 1;
  for (int i = 0; i < type.rank; ++i)
    if (i != along) slices = times(slices, block_extent(s[type[i]], s.axes.product(where[i])));
  const sorting how(n, slices, s[type[along]]);
  if (slices == 0 || how.extent == 0) return {};
  const std::int64_t key = size_of(type.element), each = key + (indices ? 4 : 0);
  const std::int64_t elements = (n - 1) * slices * how.block * each / n + slices * how.stride() * each;
  const std::int64_t sampled = (n - 1) * how.decided() * how.samples_of(how.block) * each;
  const std::int64_t cuts = (slices - how.decided_by(n - 1)) * (n - 1) * (key + 8);
  const std::int64_t counts = 2 * (n - 1) * slices * 8;
  return {elements + sampled + cuts + counts, (indices ? 10 : 7) * (n - 1)};
}

constexpr cost moves_of_sort(const planner::cost_model& m, std::size_t v, const strategy& s) {
  const node& n = m.node_at(v);
  return sort_cost(m.node_at(n.in[0]).type, s.out, n.type.find(n.which[0]), gives_indices(n), m.at);
}

inline constexpr op_rules sort{.factors = &factors_by_name, .moves = &moves_of_sort};

} // namespace cleave::rules
