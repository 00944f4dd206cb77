// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/graph/compose_maps.hpp>

// A condition at a face is a choice between neighbours in one array, by the index along a dim. Its neighbours along
// another dim are the same choice between neighbours that are farther away: it is chosen again where it is read, and is
// not stored, nor has it a halo of its own.

namespace cleave { inline namespace v0 { namespace detail {

/// A shift of choices between neighbours, which becomes choices between shifts.
struct shifted_choice {
  graph& to;
  const node shift;
  dim_set dims = 0;
  /// The array of the neighbours, the nodes that are made again, and whether some are neighbours.
  node_id array = no_node;
  std::size_t made = 0;
  bool around = false;

  static constexpr bool chooses(op code) { return code == op::select || code == op::neg || code == op::cast; }
  /// Choices that are made again at most. Not measured.
  static constexpr std::size_t most_made = 24;

  /// Whether it can be. Its operand is in the graph.
  constexpr bool applies() {
    bool moves = shift.pinned == 0 && shift.arity == 1 && composes(shift.code);
    for (const dim_map& m : maps_of(to, shift)) {
      dims |= dim_bit(m.to);
      moves = moves && m.from == m.to && m.window == no_dim && m.outside != border::zero && m.stride == 1 &&
              m.divisor == 1;
    }
    return moves && chooses_from_array(shift.in[0]) && around;
  }
  /// The node that it becomes; those before it are appended.
  constexpr node at(node_id v) {
    node n = to.nodes[v];
    if (chooses(n.code)) {
      for (int k = 0; k < n.arity; ++k)
        if (const node_id u = n.in[k]; (to.nodes[u].type.set() & dims) != 0) {
          to.nodes.push_back(at(u));
          n.in[k] = narrowed(to.nodes.size() - 1);
        }
      return n;
    }
    n = shift;
    n.type = to.nodes[v].type;
    n.in[0] = v;
    if (v != array) compose_remaps(to, n);
    return n;
  }

 private:
  constexpr bool chooses_from_array(node_id v) {
    const node& n = to.nodes[v];
    if ((n.type.set() & dims) == 0) return true;
    if (++made > most_made || n.loop != shift.loop) return false;
    if (chooses(n.code)) {
      for (int k = 0; k < n.arity; ++k)
        if (!chooses_from_array(n.in[k])) return false;
      return n.pinned == 0 && !n.computes_halo;
    }
    const bool moved = n.maps != 0 && n.arity == 1 && n.pinned == 0 && composes(n.code) && composed_maps(to, n, shift);
    around = around || moved;
    const node_id from = moved ? n.in[0] : v;
    if (array == no_node) array = from;
    return array == from;
  }
};

}}} // namespace cleave::v0::detail
