// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/cost_model.hpp>

namespace cleave { inline namespace v0 { namespace planner {

/// The layout that operand `k` of a node must have for a strategy.
constexpr layout required(const cost_model& m, std::size_t v, const strategy& s, int k) {
  const std::uint32_t slot = m.first_slot.at[v] + static_cast<std::uint32_t>(k);
  if ((m.traits.at[v] & special) != 0) return required(m.node_at(v), m.factors(v), s, k);
  layout l;
  const position_map to = m.from_result.at[slot];
  const std::uint64_t dims = s.out.word & layout::dims_mask;
  l.word = to == same_positions || dims == 0 ? dims : mapped(dims, to);
  if (s.over.word != 0) l.word |= mapped(s.over.word, m.from_reduced.at[slot]);
  if ((s.partial_operands >> k & 1) != 0) {
    l.set_partial(s.forwarded.word, m.nodes[v].combine);
  }
  return l;
}

/// The state of a node before a change, to take the change back.
struct change {
  std::size_t node;
  strategy before;
};

/// A strategy for each node, and the values derived from them: the only state that changes during the search.
struct assignment {
  indexed_vector<strategy> chosen{};
  /// The layout that each reader needs of a value, by edge.
  indexed_vector<layout> need{};
  /// The price of the copies of each node's result and of its own step; up to date except in the middle of a change.
  indexed_vector<double> price{};
  /// Floating-point operations of each node on one device; like prices.
  indexed_vector<double> work{};
  /// Their sum: now, with no work repeated, and at most.
  double flops = 0;
  double flops_once = 0;
  double allowed_flops = 0;

  /// Of a node that reads from outside a loop (chosen_last): whether its layout is chosen by itself, so that the stack
  /// or the other value is moved before the loop. Set by look_further.
  indexed_vector<std::uint8_t> moves_before_loop{};

  /// Whether something near a node changed since it was last looked at.
  indexed_vector<std::uint8_t> fresh{};
  /// Changes tried so far, and the number of the last pricing, by which nodes are marked as counted or changed in it.
  int tries = 0;
  int round = 0;
  indexed_vector<int> counted_in{}, changed_in{};
  /// Whether the search offers strategies and tries changes that help only once the others no longer do: before, they
  /// would often lead to a worse end.
  bool looks_further = false;
  /// Whether a product would have followed the last change, had products been asked to.
  bool stopped_at_product = false;
  /// Reused space: changed nodes and their previous needs, nodes to be priced and their prices, copies of a value,
  /// candidates.
  flat_list<change> undo{};
  flat_list<layout> undo_needs{};
  indexed_vector<std::size_t> priced{};
  indexed_vector<double> new_prices{};
  indexed_vector<layout> copies{};
  indexed_vector<double> copy_prices{};
  indexed_vector<strategy> candidates{};
  /// If accepted changes may be taken back: the previous state of the nodes.
  bool keeps_journal = false;
  indexed_vector<change> journal{};

  constexpr explicit assignment(const cost_model& m) {
    chosen.assign(m.count, strategy{});
    need.assign(m.operand.size(), layout{});
    price.assign(m.count, 0);
    work.assign(m.count, 0);
    moves_before_loop.assign(m.count, 0);
    fresh.assign(m.count, 1);
    counted_in.assign(m.count, 0);
    changed_in.assign(m.count, 0);
    priced.assign(m.count + 1, 0);
    new_prices.assign(m.count, 0);
    copies.assign(m.most_copies, layout{});
    copy_prices.assign(m.most_copies, 0);
  }
};

/// Whether a node's result is its operand, in the same layout. A barrier keeps the produced layout of its operand, so
/// that its consumers move it anew; partial sums are reduced first. So does the value of a carry after its loop.
constexpr layout produced(const cost_model& m, const assignment& a, std::size_t v);
constexpr bool is_transparent(const cost_model& m, const assignment& a, std::size_t v) {
  const std::uint32_t t = m.traits.at[v] & may_be_transparent;
  return t != 0 && (t == transparent || !produced(m, a, m.operand.at[m.first_slot.at[v]]).is_partial());
}
/// The layout in which a value is produced.
constexpr layout produced(const cost_model& m, const assignment& a, std::size_t v) {
  if ((m.traits.at[v] & may_be_transparent) == 0) return a.chosen.at[v].out;
  const layout below = produced(m, a, m.operand.at[m.first_slot.at[v]]);
  if ((m.traits.at[v] & transparent) != 0 || !below.is_partial()) return below;
  return a.chosen.at[v].out;
}
/// Nothing may change a node whose layout the user wrote or that has none to choose.
constexpr bool is_fixed(const cost_model& m, const assignment& a, std::size_t v) {
  const std::uint32_t t = m.traits.at[v];
  return ((t & fixed_strategy) != 0 && a.moves_before_loop.at[v] == 0) ||
         ((t & transparent_if_whole) != 0 && is_transparent(m, a, v));
}
/// The value of a carry after its loop; none: no_node.
constexpr std::size_t after_loop(const cost_model& m, std::size_t v) {
  if ((m.traits.at[v] & begins_loop) == 0 || m.next_of.at[v] == no_node) return no_node;
  const node_id next = m.next_of.at[v];
  for (std::uint32_t e = m.first_edge.at[next]; e < m.first_edge.at[next + 1]; ++e)
    if ((m.traits.at[m.edges.at[e].to] & transparent) != 0) return m.edges.at[e].to;
  return no_node;
}

/// The layout that a reader needs of a value.
constexpr layout needed(const cost_model& m, const assignment& a, const cost_model::edge& e) {
  if ((m.traits.at[e.to] & may_be_transparent) != 0 && is_transparent(m, a, e.to))
    return produced(m, a, m.operand.at[e.slot]);
  return a.need.at[m.edge_of.at[e.slot]];
}
/// The layout in which the caller wants a result.
constexpr layout asked_of(const cost_model& m, const assignment& a, std::size_t result) {
  return m.g.outputs_pinned ? m.asked.at[result] : produced(m, a, m.g.outputs.at[result]).reduced();
}

/// The strategy of a node that has no choice.
constexpr strategy following(const cost_model& m, const assignment& a, std::size_t v) {
  return m.rules(v).follow.call(m, a, v);
}

/// Sets a strategy and the layouts that its operands need.
constexpr void assign(const cost_model& m, assignment& a, std::size_t v, const strategy& s) {
  a.chosen.at[v] = s;
  const std::uint32_t first = m.first_slot.at[v], end = m.first_slot.at[v + 1];
  const std::uint32_t* edge_of = m.edge_of.at;
  if ((m.traits.at[v] & special) != 0 || s.over.word != 0 || s.partial_operands != 0) {
    for (std::uint32_t slot = first; slot < end; ++slot)
      a.need.at[edge_of[slot]] = required(m, v, s, static_cast<int>(slot - first));
    return;
  }
  const std::uint64_t dims = s.out.word & layout::dims_mask;
  for (std::uint32_t slot = first; slot < end; ++slot) {
    const position_map to = m.from_result.at[slot];
    a.need.at[edge_of[slot]].word = to == same_positions || dims == 0 ? dims : mapped(dims, to);
  }
}

}}} // namespace cleave::v0::planner
