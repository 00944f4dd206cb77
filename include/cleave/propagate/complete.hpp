// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/rules/all.hpp>

#include <vector>

namespace cleave {

/// A layout for every value of a graph, by node.
using completion = std::vector<layout>;

namespace detail {

/// Bidirectional propagation. Each visit of a node looks at one factor after another: if the lists that its tensors
/// have for it are prefixes of one another, the longest becomes the list of all, as far as no tensor has the axes
/// already on another dim and the user did not pin the dim there.
struct completer {
  const graph& g;
  completion layouts;
  /// Positions that may not change: what the user wrote.
  std::vector<std::uint8_t> fixed;
  std::vector<factor_list> factors;
  /// Readers, grouped by what they read.
  std::vector<std::size_t> first_reader;
  std::vector<node_id> readers;
  /// Whether a tensor of a node changed since the node was last looked at.
  std::vector<std::uint8_t> fresh;

  constexpr explicit completer(const graph& from)
      : g(from), layouts(from.nodes.size(), layout{}), fixed(from.nodes.size(), 0),
        factors(from.nodes.size(), factor_list{}), first_reader(from.nodes.size() + 1, 0), fresh(from.nodes.size(), 1) {
    for (std::size_t v = 0; v < g.nodes.size(); ++v) {
      const node& n = g.nodes[v];
      factors[v] = factors_of(g, n);
      for (int k = 0; k < n.arity; ++k) ++first_reader[n.in[static_cast<std::size_t>(k)] + 1u];
    }
    for (std::size_t v = 0; v < g.nodes.size(); ++v) first_reader[v + 1] += first_reader[v];
    readers.assign(first_reader.back(), 0);
    std::vector<std::size_t> next(first_reader.begin(), first_reader.end());
    for (std::size_t v = 0; v < g.nodes.size(); ++v)
      for (int k = 0; k < g.nodes[v].arity; ++k)
        readers[next[g.nodes[v].in[static_cast<std::size_t>(k)]]++] = static_cast<node_id>(v);
    for (std::size_t v = 0; v < g.nodes.size(); ++v) {
      const node& n = g.nodes[v];
      layouts[v] = n.pin.reduced();
      fixed[v] = n.pinned;
    }
    for (std::size_t r = 0; r < g.outputs.size(); ++r) {
      if (!g.outputs_pinned) continue;
      const std::size_t v = g.outputs[r];
      const tensor_type& asked = g.output_types[r];
      // A result guides completion like an annotation, but does not bind the value that is moved into it.
      for (int i = 0; i < g.nodes[v].type.rank; ++i) {
        const int j = asked.find(g.nodes[v].type[i]);
        if (j >= 0) offer(v, i, g.output_layouts[r][j]);
      }
    }
  }

  constexpr bool offer(std::size_t v, int position, axis_list list) {
    layout& l = layouts[v];
    const axis_list have = l[position];
    if (have.packed == list.packed || (fixed[v] >> position & 1) != 0 || !list.starts_with(have)) return false;
    if (g.dims[g.nodes[v].type[position]].extent == 1) return false;
    const unsigned others = l.sharded() & ~have.mask();
    bool changed = false;
    for (int j = have.size(); j < list.size() && (others >> list[j] & 1) == 0; ++j) {
      l.append(position, list[j]);
      changed = true;
    }
    if (changed) {
      fresh[v] = 1;
      for (std::size_t e = first_reader[v]; e < first_reader[v + 1]; ++e) fresh[readers[e]] = 1;
    }
    return changed;
  }

  constexpr bool visit(std::size_t v, bool from_narrow) {
    const node& n = g.nodes[v];
    if (n.arity == 0) return false;
    bool changed = false;
    // Axes that an earlier factor of this node has taken: one axis divides one factor of an op.
    unsigned taken = 0;
    for (const factor& f : factors[v]) {
      if (f.minor >= 0) {
        changed = visit_view(v, f) || changed;
        continue;
      }
      axis_list longest;
      bool agree = true;
      if (f.type == factor_type::need_replication) continue;
      for (int k = 0; k <= n.arity; ++k) {
        const int position = f.at[slot(n, k)];
        if (position < 0) continue;
        if (!from_narrow && is_elementwise(n.code) && k != n.arity &&
            g.nodes[n.in[static_cast<std::size_t>(k)]].type.rank < n.type.rank)
          continue;
        const axis_list list = layouts[tensor_at(n, v, k)][position];
        if (list.starts_with(longest)) longest = list;
        else if (!longest.starts_with(list)) agree = false;
      }
      if (!agree || longest.empty() || (longest.mask() & taken) != 0) continue;
      taken |= longest.mask();
      for (int k = 0; k <= n.arity; ++k)
        if (f.at[slot(n, k)] >= 0) changed = offer(tensor_at(n, v, k), f.at[slot(n, k)], longest) || changed;
    }
    return changed;
  }

  /// A split or merged dim and its two parts, as far as their blocks are the same.
  constexpr bool visit_view(std::size_t v, const factor& f) {
    const node& n = g.nodes[v];
    const bool split = f.minor_in_result;
    const auto parts_of_view = rules_of(n).parts;
    const std::size_t fine = split ? v : n.in[0], coarse = split ? n.in[0] : v;
    const int major = split ? f.at[in_result] : f.at[0], whole = split ? f.at[0] : f.at[in_result];
    const view_parts parts = parts_of_view(g, n, layouts[coarse][whole]);
    bool changed = offer(fine, major, parts.major);
    if (layouts[fine][major] == parts.major) changed = offer(fine, f.minor, parts.minor) || changed;
    const axis_list both = layouts[fine][major].then(layouts[fine][f.minor]);
    const view_parts back = parts_of_view(g, n, both);
    if (back.exact && back.minor == layouts[fine][f.minor]) changed = offer(coarse, whole, both) || changed;
    else if (parts_of_view(g, n, layouts[fine][major]).exact)
      changed = offer(coarse, whole, layouts[fine][major]) || changed;
    return changed;
  }

  /// The tensors of a node: its operands, and after them its result.
  static constexpr std::size_t slot(const node& n, int k) {
    return static_cast<std::size_t>(k == n.arity ? in_result : k);
  }
  static constexpr std::size_t tensor_at(const node& n, std::size_t v, int k) {
    return k == n.arity ? v : n.in[static_cast<std::size_t>(k)];
  }

  constexpr void run(bool products, bool from_narrow) {
    fresh.assign(g.nodes.size(), 1);
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t v = 0; v < g.nodes.size(); ++v) changed = step(v, products, from_narrow) || changed;
      for (std::size_t v = g.nodes.size(); v-- > 0;) changed = step(v, products, from_narrow) || changed;
    }
  }

  constexpr bool step(std::size_t v, bool products, bool from_narrow) {
    if (fresh[v] == 0) return false;
    fresh[v] = 0;
    const op_class what = class_of(g.nodes[v].code);
    if (what == op_class::source) return false;
    if (!products && (what == op_class::contraction || what == op_class::reduction)) return false;
    return visit(v, from_narrow);
  }
};

} // namespace detail

/// Completes the layouts of a graph from what the user wrote, to a fixpoint. Order: cheap ops (elementwise, views,
/// annotations) forward and backward until nothing changes, then all ops likewise, and last from operands that are
/// broadcast: a bias does not decide over the activations to which it is added. A single element is not divided. Nodes
/// in recorded order, factors in the order of the result's dims and then the contracted ones. Lists only grow, so it
/// ends. Deterministic; what the user wrote is never overridden; conflicts stay for the partitioner, which prices them.
constexpr completion complete(const graph& g) {
  detail::completer c(g);
  c.run(false, false);
  c.run(true, false);
  c.run(true, true);
  return static_cast<completion&&>(c.layouts);
}

} // namespace cleave
