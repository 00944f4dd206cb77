// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/candidates.hpp>
#include <cleave/rules/by_name.hpp>

namespace cleave::inline v0::rules {

/// Where slices are short or many, it is cheaper to bring each to one device: all of it, or its axes taken to another
/// dim. Whole slices on every device take memory that does not shrink with the mesh. So they are offered only where the
/// fewest bytes were asked for, or where the type fixes the length: a length that was only assumed may be far too
/// small.
constexpr void offer_whole_slices(const planner::cost_model& m, planner::assignment& a, std::size_t v,
                                  indexed_vector<strategy>& list) {
  const node& n = m.node_at(v);
  const int along = n.type.find(n.which[0]);
  if (along < 0) return;
  const axis_list axes = a.chosen.at[v].out[along];
  if (axes.size() == 0) return;
  strategy whole = a.chosen.at[v];
  whole.out.clear(along);
  if (m.rule.flop == 0 || m.g.dims[n.which[0]].extent != dynamic) planner::add_with_forwarding(m, a, v, whole, list);
  for (int i = 0; i < n.type.rank; ++i) {
    if (i == along || m.at[n.type[i]] < m.at.axes.product(whole.out[i]) * m.at.axes.product(axes)) continue;
    strategy taken = whole;
    taken.out.set(i, whole.out[i].then(axes));
    planner::add_with_forwarding(m, a, v, taken, list);
  }
}

} // namespace cleave::inline v0::rules
