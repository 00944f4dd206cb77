// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/regions.hpp>

namespace cleave {

namespace detail {

/// The values of the partitioned program in single assignment: computed, moved or renamed.
struct piece_list {
  const graph& g;
  const std::vector<strategy>& chosen;
  const sizes& at;
  const policy& rule;

  /// slice: what a stack has at the index of a trip. next: written into the memory of the carried value in[1]. collect: written at the
  /// index of the trip into the piece after it, which is the stack.
  enum class made_by : std::uint8_t { node, move, rename, region, slice, next, collect };
  struct piece {
    made_by how = made_by::node;
    node_id node = 0;
    tensor_type type{};
    layout where{};
    std::array<std::size_t, max_arity> in{};
    std::uint8_t arity = 0;
    hop by{};
    int uses = 0;
    bool free = false;
    bool fused = false;
    std::size_t storage = 0;
    int buffer = -1;
    /// Reads the region in[0] at a distance: loaded by those who read it.
    bool looks_around = false;
    /// Of a region: which one.
    std::size_t region = 0;
    /// The loop in which it is computed.
    std::uint8_t loop = 0;
  };
  std::vector<piece> pieces{};
  /// Pieces of each node, the first one as computed.
  std::vector<std::vector<std::size_t>> copies{};
  region_finder around;
  /// The pieces of regions.
  std::vector<std::size_t> region_pieces{};
  /// The pieces that say how often a loop runs and when it ends, by loop.
  static constexpr std::size_t no_piece = ~std::size_t{0};
  std::array<std::size_t, max_loops + 1> trips{}, until{};
  /// The pieces that are asked for, by result.
  std::vector<std::size_t> results{};

  constexpr piece_list(const graph& from, const std::vector<strategy>& strategies, const sizes& s, const policy& p)
      : g(from), chosen(strategies), at(s), rule(p), around{from, strategies, s} {}

  constexpr const node& node_at(std::size_t v) const { return g.nodes[v]; }
  constexpr bool source_everywhere(node_id v) const {
    return class_of(node_at(v).code) == op_class::source && node_at(v).code != op::input;
  }

  constexpr std::size_t push(const piece& p) {
    pieces.push_back(p);
    copies[p.node].push_back(pieces.size() - 1);
    return pieces.size() - 1;
  }

  /// The piece of a node in a layout; moves are emitted where it is not there yet.
  constexpr std::size_t copy(node_id u, const layout& want) {
    for (std::size_t i : copies[u])
      if (pieces[i].where == want) return i;
    piece p;
    p.node = u;
    p.type = node_at(u).type;
    // A copy in another layout is made where the value is: what enters a loop once is moved once, before it.
    p.loop = node_at(u).loop;
    if (source_everywhere(u)) {
      p.where = want.reduced();
      if (want.unreduced() == 0) return push(p);
      // Every device can make the whole value; as a partial one it is masked like any other.
      const std::size_t whole = push(p);
      piece m = p;
      m.how = made_by::move;
      m.by = {kind::mask, want.unreduced(), want};
      m.where = want;
      m.arity = 1;
      m.in[0] = whole;
      return push(m);
    }
    const shape global = shape_of(p.type, at);
    const std::int64_t element_bytes = size_of(p.type.element);
    std::size_t start = copies[u][0];
    path best = find_path(global, element_bytes, pieces[start].where, want, at.axes, rule);
    for (std::size_t i : copies[u]) {
      if (pieces[i].where.unreduced() != 0) continue;
      const path other = find_path(global, element_bytes, pieces[i].where, want, at.axes, rule);
      if (other.score < best.score) {
        best = other;
        start = i;
      }
    }
    for (const hop& h : best.hops) {
      piece m = p;
      m.how = made_by::move;
      m.by = h;
      m.where = h.to;
      m.arity = 1;
      m.in[0] = start;
      start = push(m);
    }
    return start;
  }

  /// The piece of the region in which a node looks around.
  constexpr std::size_t region(std::size_t v) {
    const std::size_t r = around.region_of[v];
    if (region_pieces[r] != region_finder::none) return region_pieces[r];
    const region_finder::found_region& found = around.regions[r];
    piece p;
    p.how = made_by::region;
    p.loop = node_at(found.operand).loop;
    p.node = static_cast<node_id>(v);
    p.type = found.shape.type;
    p.where = found.shape.made;
    p.arity = 1;
    p.in[0] = copy(found.operand, found.shape.taken);
    p.region = r;
    pieces.push_back(p);
    return region_pieces[r] = pieces.size() - 1;
  }

  constexpr void make_pieces() {
    copies.assign(g.nodes.size(), {});
    around.find();
    region_pieces.assign(around.regions.size(), region_finder::none);
    trips.fill(no_piece);
    until.fill(no_piece);
    for (std::size_t v = 0; v < g.nodes.size(); ++v) {
      const node& n = node_at(v);
      if (source_everywhere(static_cast<node_id>(v))) continue;
      piece p;
      p.node = static_cast<node_id>(v);
      p.type = n.type;
      p.where = chosen[v].out;
      p.arity = n.arity;
      p.loop = n.loop;
      const factor_list factors = factors_of(g, n);
      if (around.region_of[v] != region_finder::none) {
        p.looks_around = true;
        p.in[0] = region(v);
        push(p);
        continue;
      }
      for (int k = 0; k < n.arity; ++k)
        p.in[static_cast<std::size_t>(k)] = copy(n.in[static_cast<std::size_t>(k)], required(n, factors, chosen[v], k));
      if (class_of(n.code) == op_class::annotation) {
        copies[v].push_back(p.in[0]);
        continue;
      }
      if (class_of(n.code) == op_class::loop) {
        loop_piece(p, n);
        continue;
      }
      if (class_of(n.code) == op_class::view) p.how = made_by::rename;
      push(p);
    }
  }

  constexpr void loop_piece(piece p, const node& n) {
    switch (n.code) {
      case op::carry:
        // Set before the loop begins.
        p.loop = g.loops[n.of - 1u].around;
        push(p);
        return;
      case op::each:
        p.how = g.loops[n.of - 1u].along == no_dim ? made_by::rename : made_by::slice;
        push(p);
        return;
      case op::next:
        p.how = made_by::next;
        p.arity = 1;
        p.in[1] = copies[n.in[1]][0];
        push(p);
        return;
      case op::last:
        p.how = made_by::rename;
        p.in[0] = copies[n.in[0]][0];
        push(p);
        return;
      case op::collect: {
        piece each = p;
        each.how = made_by::collect;
        each.loop = n.of;
        each.type = node_at(n.in[0]).type;
        for (int i = 0; i < each.type.rank; ++i) each.where.set(i, p.where[i + 1]);
        each.where.clear(each.type.rank);
        pieces.push_back(each);
        p.how = made_by::rename;
        p.in[0] = pieces.size() - 1;
        push(p);
        return;
      }
      case op::trips: trips[n.of] = p.in[0]; return;
      default: until[n.of] = p.in[0]; return;
    }
  }

  constexpr void find_results() {
    for (std::size_t r = 0; r < g.outputs.size(); ++r) {
      const node_id v = g.outputs[r];
      layout asked = chosen[v].out.reduced();
      if (source_everywhere(v)) asked = layout{};
      if (g.outputs_pinned) {
        asked = g.output_layouts[r];
        for (int i = 0; i < node_at(v).type.rank; ++i)
          asked.set(i, g.output_layouts[r][g.output_types[r].find(node_at(v).type[i])]);
      }
      results.push_back(copy(v, asked));
    }
  }
};

} // namespace detail

} // namespace cleave
