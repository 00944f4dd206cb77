// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/graph/graph.hpp>

namespace cleave { inline namespace v0 {

/// Whether a layout is possible for a tensor of some rank: axes of the mesh, each used once, on dims that exist.
constexpr bool verify(const layout& l, int rank, const mesh_value& mesh) {
  if (l.word == 0) return true;
  const std::uint64_t sharded = l.sharded_bits(), unreduced = l.word >> layout::unreduced_at & 127u;
  if (((sharded | unreduced) >> mesh.axes.count) != 0 || (sharded & unreduced) != 0) return false;
  // Eight bits a position: the places along it that are taken, each once.
  std::uint64_t taken = 0;
  for (std::uint64_t rest = l.word & layout::dims_mask; rest != 0; rest >>= layout::bits_per_axis) {
    const int position = static_cast<int>(rest & 15u) - 1;
    if (position < 0) continue;
    const std::uint64_t place = std::uint64_t{1} << (rest >> 4 & 7u);
    if (position >= rank || (taken >> 8 * position & place) != 0) return false;
    taken |= place << 8 * position;
  }
  // No place is skipped.
  for (; taken != 0; taken >>= 8)
    if ((taken & 255u & ((taken & 255u) + 1)) != 0) return false;
  return true;
}

/// The invariants of every pass: operands before their readers, dims that exist and appear once in a tensor, possible
/// layouts, results that exist. Checked between passes.
constexpr bool verify(const graph& g) {
  const node* nodes = g.nodes.data();
  const std::size_t count = g.nodes.size();
  for (std::size_t v = 0; v < count; ++v) {
    const node& n = nodes[v];
    for (int k = 0; k < n.arity; ++k)
      if (n.in.items[k] >= v) return false;
    // Only an operation that takes a value out of a loop may read a value within it.
    const std::uint8_t reads_within = leaves_loop(n.code) ? n.of : n.loop;
    for (int k = 0; k < n.arity; ++k)
      if (const std::uint8_t loop = nodes[n.in.items[k]].loop;
          loop != 0 && loop != reads_within && !within(g.loops, reads_within, loop))
        return false;
    std::uint64_t seen = 0;
    for (int i = 0; i < n.type.rank; ++i) {
      const dim_id d = n.type.dims.items[i];
      if (d >= g.dims.count || (seen >> d & 1u) != 0) return false;
      seen |= std::uint64_t{1} << d;
    }
    if (n.type.element == element::none) return false;
    if (n.pin.word != 0 && !verify(n.pin, n.type.rank, g.mesh)) return false;
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

}} // namespace cleave::v0
