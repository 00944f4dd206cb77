// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/graph/graph.hpp>

#include <bit>

namespace cleave {

/// Whether a layout is possible for a tensor of some rank: axes of the mesh, each used once, on dims that exist.
constexpr bool verify(const layout& l, int rank, const mesh_value& mesh) {
  if (l.word == 0) return true;
  const unsigned beyond = ~static_cast<unsigned>(mesh.all());
  if ((l.used() & beyond) != 0 || (l.sharded() & l.unreduced()) != 0) return false;
  unsigned seen = 0;
  for (int i = 0; i < rank; ++i) {
    // Each place along a position is taken once.
    const axis_list list = l[i];
    if (list.mask() != l.axes(i) || list.size() != std::popcount(static_cast<unsigned>(l.axes(i)))) return false;
    seen |= l.axes(i);
  }
  return seen == l.sharded();
}

/// What every pass may rely on and must keep: operands before their readers, dims that exist and appear once in a
/// tensor, possible layouts, results that exist. Checked between passes.
constexpr bool verify(const graph& g) {
  for (std::size_t v = 0; v < g.nodes.size(); ++v) {
    const node& n = g.nodes[v];
    for (int k = 0; k < n.arity; ++k)
      if (n.in[static_cast<std::size_t>(k)] >= v) return false;
    // Only what takes a value out of a loop may read one that is within it.
    const bool out = leaves_loop(n.code);
    for (int k = 0; k < n.arity; ++k)
      if (!within(g.loops, out ? n.of : n.loop, g.nodes[n.in[static_cast<std::size_t>(k)]].loop)) return false;
    dim_set seen = 0;
    for (int i = 0; i < n.type.rank; ++i) {
      if (n.type[i] >= g.dims.size() || (seen & dim_bit(n.type[i])) != 0) return false;
      seen |= dim_bit(n.type[i]);
    }
    if (n.type.element == element::none || !verify(n.pin, n.type.rank, g.mesh)) return false;
  }
  for (node_id i : g.inputs)
    if (i >= g.nodes.size() || g.nodes[i].code != op::input) return false;
  if (g.outputs.size() != g.output_types.size() || g.outputs.size() != g.output_layouts.size()) return false;
  for (std::size_t r = 0; r < g.outputs.size(); ++r) {
    if (g.outputs[r] >= g.nodes.size()) return false;
    if (g.output_types[r].set() != g.nodes[g.outputs[r]].type.set()) return false;
    if (!verify(g.output_layouts[r], g.output_types[r].rank, g.mesh)) return false;
  }
  return true;
}

} // namespace cleave
