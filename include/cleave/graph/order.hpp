// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/graph/graph.hpp>

#include <utility>

namespace cleave { inline namespace v0 {

namespace detail {

/// Puts the nodes of a graph in an order in which the nodes of each loop are adjacent: its inputs before it, its
/// results directly after it.
struct loop_order {
  const graph& g;
  indexed_vector<node_id> order{};
  indexed_vector<std::uint8_t> placed = indexed_vector<std::uint8_t>(g.nodes.size(), 0);
  bool loop_placed[max_loops + 1]{};

  constexpr void place(node_id v) {
    std::uint8_t* done = placed.data();
    if (done[v] != 0) return;
    done[v] = 1;
    const node& n = g.nodes[v];
    if (n.of != 0 && leaves_loop(n.code)) {
      place_loop(n.of);
      return;
    }
    for (int k = 0; k < n.arity; ++k)
      if (done[n.in.items[k]] == 0) place(n.in.items[k]);
    order.push_back(v);
  }
  constexpr void place_loop(std::uint8_t loop) {
    if (loop_placed[loop]) return;
    loop_placed[loop] = true;
    const node* nodes = g.nodes.data();
    const std::size_t count = g.nodes.size();
    // The edges into the loop; its own nodes are in recorded order.
    for (std::size_t v = 0; v < count; ++v) {
      const node& n = nodes[v];
      if (n.code == op::trip_count && n.of == loop) place(narrowed(v));
      if (n.loop != loop && (n.loop == 0 || !within(g.loops, n.loop, loop))) continue;
      for (int k = 0; k < n.arity; ++k)
        if (const std::uint8_t from = nodes[n.in.items[k]].loop; from != loop && !within(g.loops, from, loop))
          place(n.in.items[k]);
    }
    for (std::size_t v = 0; v < count; ++v)
      if (nodes[v].loop == loop) place(narrowed(v));
    for (std::size_t v = 0; v < count; ++v) {
      if (nodes[v].of != loop || !leaves_loop(nodes[v].code)) continue;
      placed[v] = 1;
      order.push_back(narrowed(v));
    }
  }
};

} // namespace detail

/// The same graph with the nodes of each loop adjacent. Loops that no result needs are left out.
constexpr graph ordered(graph g) {
  if (g.loops.empty()) return g;
  const std::size_t count = g.nodes.size();
  const node* before = g.nodes.data();
  detail::loop_order o{g};
  o.order.reserve(count);
  for (std::size_t v = 0; v < count; ++v)
    if (before[v].loop == 0 && before[v].code != op::trip_count) o.place(narrowed(v));
  indexed_vector<node_id> renamed(count, no_node);
  node_id* now = renamed.data();
  const node_id* order = o.order.data();
  const std::size_t placed = o.order.size();
  indexed_vector<node> nodes;
  nodes.reserve(count);
  for (std::size_t i = 0; i < placed; ++i) {
    now[order[i]] = narrowed(i);
    nodes.push_back(before[order[i]]);
    node& n = nodes[i];
    for (int k = 0; k < n.arity; ++k) n.in.items[k] = now[n.in.items[k]];
  }
  g.nodes = std::move(nodes);
  for (node_id& i : g.inputs) i = now[i];
  for (node_id& r : g.outputs) r = now[r];
  return g;
}

}} // namespace cleave::v0
