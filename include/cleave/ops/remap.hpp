// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/ops/table.hpp>

#include <algorithm>
#include <span>
#include <vector>

namespace cleave {

constexpr std::span<const dim_map> maps_of(const graph& g, const node& n) { return std::span(g.maps).subspan(n.first_map, n.maps); }

/// Whether the step of a node fetches what it lacks of its operands, which so may be divided as they like.
constexpr bool fetches(const node& n) { return class_of(n.code) == op_class::remap || n.code == op::gather; }

/// Dims of the result that may not be divided: those of windows, what a user's kernel needs whole, and the one along which a
/// loop stacks.
constexpr dim_set whole_dims(const graph& g, const node& n) {
  if (n.code == op::call) return n.over;
  if (n.code == op::collect) return dim_bit(n.type[0]);
  dim_set set = 0;
  for (const dim_map& m : maps_of(g, n))
    if (m.window != no_dim) set |= dim_bit(m.window);
  return set;
}

} // namespace cleave
