// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/exchange.hpp>
#include <cleave/plan/search/assignment.hpp>
#include <cleave/plan/sorting.hpp>

namespace cleave::detail {

constexpr cost moves_of_scan(const cost_model& m, std::size_t v, const strategy& s) {
  const node& n = m.node_at(v);
  const int along = n.type.find(n.which[0]);
  if (is_sort(n)) return sort_cost(m.node_at(n.in[0]).type, s.out, along, gives_indices(n), m.at);
  return scan_cost(n.type, s.out, along, m.at);
}

inline constexpr planning_rules scan_rules{&moves_of_scan};

} // namespace cleave::detail
