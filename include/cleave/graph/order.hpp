// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/graph/graph.hpp>

namespace cleave {

namespace detail {

/// Puts the nodes of a graph in an order in which each loop is one stretch: what it reads from outside before it, what
/// it gives right after it.
struct loop_order {
  const graph& g;
  std::vector<node_id> order{};
  std::vector<std::uint8_t> placed = std::vector<std::uint8_t>(g.nodes.size(), 0);
  std::array<bool, max_loops + 1> loop_placed{};

  constexpr void place(node_id v) {
    if (placed[v] != 0) return;
    placed[v] = 1;
    const node& n = g.nodes[v];
    if (leaves_loop(n.code)) {
      place_loop(n.of);
      return;
    }
    for (int k = 0; k < n.arity; ++k) place(n.in[static_cast<std::size_t>(k)]);
    order.push_back(v);
  }
  constexpr void place_loop(std::uint8_t loop) {
    if (loop_placed[loop]) return;
    loop_placed[loop] = true;
    // What crosses into it; its own nodes are in recorded order.
    for (std::size_t v = 0; v < g.nodes.size(); ++v) {
      const node& n = g.nodes[v];
      if (n.code == op::trip_count && n.of == loop) place(static_cast<node_id>(v));
      if (!within(g.loops, n.loop, loop)) continue;
      for (int k = 0; k < n.arity; ++k)
        if (const node_id u = n.in[static_cast<std::size_t>(k)]; !within(g.loops, g.nodes[u].loop, loop)) place(u);
    }
    for (std::size_t v = 0; v < g.nodes.size(); ++v)
      if (g.nodes[v].loop == loop) place(static_cast<node_id>(v));
    for (std::size_t v = 0; v < g.nodes.size(); ++v) {
      const node& n = g.nodes[v];
      if (!leaves_loop(n.code) || n.of != loop) continue;
      placed[v] = 1;
      order.push_back(static_cast<node_id>(v));
    }
  }
};

} // namespace detail

/// The same graph with the nodes of each loop side by side. Loops that no result needs are left out.
constexpr graph ordered(graph g) {
  if (g.loops.empty()) return g;
  detail::loop_order o{g};
  for (std::size_t v = 0; v < g.nodes.size(); ++v)
    if (g.nodes[v].loop == 0 && g.nodes[v].code != op::trip_count) o.place(static_cast<node_id>(v));
  std::vector<node_id> now(g.nodes.size(), no_node);
  std::vector<node> nodes;
  nodes.reserve(g.nodes.size());
  for (node_id v : o.order) {
    now[v] = static_cast<node_id>(nodes.size());
    nodes.push_back(g.nodes[v]);
    node& n = nodes.back();
    for (int k = 0; k < n.arity; ++k) n.in[static_cast<std::size_t>(k)] = now[n.in[static_cast<std::size_t>(k)]];
  }
  g.nodes = static_cast<std::vector<node>&&>(nodes);
  for (node_id& i : g.inputs) i = now[i];
  for (node_id& r : g.outputs) r = now[r];
  return g;
}

} // namespace cleave
