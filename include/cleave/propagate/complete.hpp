// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/rules/all.hpp>

namespace cleave { inline namespace v0 {

/// A layout for every value of a graph, by node.
using completion = indexed_vector<layout>;

namespace detail {

/// The state of propagation. Constant evaluation reads arrays through plain pointers: a call of std::vector's
/// operator[] costs it three times as much.
struct propagation {
  const graph& g;
  const factor_table& factors;
  completion layouts;
  /// Positions that the user wrote, which may not change.
  indexed_vector<std::uint8_t> fixed;
  /// Readers, grouped by the node that they read.
  indexed_vector<std::size_t> first_reader;
  indexed_vector<node_id> readers;
  /// Whether a tensor of a node changed since the node was last looked at.
  indexed_vector<std::uint8_t> fresh{};
  const node* nodes;
  layout* of;

  constexpr propagation(const graph& from, const factor_table& all)
      : g(from), factors(all), layouts(from.nodes.size(), layout{}), fixed(from.nodes.size(), 0),
        first_reader(from.nodes.size() + 1, 0), nodes(from.nodes.data()), of(layouts.data()) {
    fresh.assign(from.nodes.size(), 1);
  }
  propagation(const propagation&) = delete;
  propagation& operator=(const propagation&) = delete;
};

constexpr void find_readers(propagation& p) {
  const std::size_t count = p.g.nodes.size();
  for (std::size_t v = 0; v < count; ++v) {
    const node_id* in = p.nodes[v].in.items;
    for (int k = 0; k < p.nodes[v].arity; ++k) ++p.first_reader.at[in[k] + 1u];
  }
  for (std::size_t v = 0; v < count; ++v) p.first_reader.at[v + 1] += p.first_reader.at[v];
  p.readers.assign(p.first_reader.back(), 0);
  indexed_vector<std::size_t> next(p.first_reader.begin(), p.first_reader.end());
  for (std::size_t v = 0; v < count; ++v) {
    const node_id* in = p.nodes[v].in.items;
    for (int k = 0; k < p.nodes[v].arity; ++k) p.readers.at[next.at[in[k]]++] = static_cast<node_id>(v);
  }
}

/// Lets a list of axes become that of a position, as far as it continues the present list and its axes shard no other
/// position. Returns whether something changed.
constexpr bool offer(propagation& p, std::size_t v, int position, axis_list list) {
  layout& l = p.of[v];
  const axis_list have = l[position];
  if (have.packed == list.packed || (p.fixed.at[v] >> position & 1) != 0 || !list.starts_with(have)) return false;
  if (p.g.dims[p.nodes[v].type[position]].extent == 1) return false;
  const unsigned others = l.sharded_bits() & ~have.bits();
  const int begin = have.size(), end = list.size();
  int j = begin;
  for (; j < end && (others >> list[j] & 1) == 0; ++j) l.append(position, list[j]);
  if (j == begin) return false;
  std::uint8_t* fresh = p.fresh.at;
  fresh[v] = 1;
  const node_id* readers = p.readers.at;
  const std::size_t last = p.first_reader.at[v + 1];
  for (std::size_t e = p.first_reader.at[v]; e < last; ++e) fresh[readers[e]] = 1;
  return true;
}

/// The layouts that the user wrote: of values, which are fixed, and of results. A result guides completion like an
/// annotation, but does not bind the value that is moved into it.
constexpr void take_written(propagation& p) {
  for (std::size_t v = 0; v < p.g.nodes.size(); ++v) {
    p.of[v] = p.nodes[v].pin.reduced();
    p.fixed.at[v] = p.nodes[v].pinned;
  }
  for (std::size_t r = 0; p.g.outputs_pinned && r < p.g.outputs.size(); ++r) {
    const std::size_t v = p.g.outputs[r];
    for (int i = 0; i < p.nodes[v].type.rank; ++i)
      if (const int j = p.g.output_types[r].find(p.nodes[v].type[i]); j >= 0) offer(p, v, i, p.g.output_layouts[r][j]);
  }
}

/// A split or merged dim and its two parts, as far as their blocks are the same.
constexpr bool visit_view(propagation& p, std::size_t v, const factor& f) {
  const node& n = p.nodes[v];
  const bool split = f.minor_in_result;
  const auto parts_of_view = rules_of(n).parts.call;
  const std::size_t fine = split ? v : n.in[0], coarse = split ? n.in[0] : v;
  const int major = split ? f.at[in_result] : f.at[0], whole = split ? f.at[0] : f.at[in_result];
  const view_parts parts = parts_of_view(p.g, n, p.of[coarse][whole]);
  bool changed = offer(p, fine, major, parts.major);
  if (p.of[fine][major] == parts.major) changed = offer(p, fine, f.minor, parts.minor) || changed;
  const axis_list both = p.of[fine][major].then(p.of[fine][f.minor]);
  const view_parts back = parts_of_view(p.g, n, both);
  if (back.exact && back.minor == p.of[fine][f.minor]) changed = offer(p, coarse, whole, both) || changed;
  else if (parts_of_view(p.g, n, p.of[fine][major]).exact)
    changed = offer(p, coarse, whole, p.of[fine][major]) || changed;
  return changed;
}

/// One factor of a node: if the lists that its tensors have for it are prefixes of one another, the longest becomes the
/// list of all. `tensors` are the operands and after them the result; `taken` the axes of the factors before it, since
/// one axis shards one factor of an op.
constexpr bool visit_factor(propagation& p, const factor& f, const std::size_t* tensors, int arity, unsigned silent,
                            unsigned& taken) {
  axis_list longest;
  // The tensors that have it.
  unsigned agree = 0;
  const std::int8_t* at = f.at;
  // The list of the tensor before, which is mostly that of the next.
  std::uint64_t last_word = 0;
  int last_position = -1;
  axis_list last;
  for (int k = 0; k <= arity; ++k) {
    const int here = at[k == arity ? in_result : k];
    if (here < 0 || (silent >> k & 1) != 0) continue;
    const std::uint64_t there = p.of[tensors[k]].word & layout::dims_mask;
    if (there == 0) continue;
    if (there != last_word || here != last_position) {
      last_word = there;
      last_position = here;
      last.packed = layout{there}.packed_axes(here);
    }
    if (last.packed == 0) continue;
    if (last.packed == longest.packed) {
      agree |= 1u << k;
    } else if (longest.packed == 0 || last.starts_with(longest)) {
      longest = last;
      agree = 1u << k;
    } else if (!longest.starts_with(last)) {
      return false;
    }
  }
  if (longest.packed == 0) return false;
  const unsigned axes = longest.bits();
  if ((axes & taken) != 0) return false;
  taken |= axes;
  bool changed = false;
  for (int k = 0; k <= arity; ++k)
    if (const int here = at[k == arity ? in_result : k]; here >= 0 && (agree >> k & 1) == 0)
      changed = offer(p, tensors[k], here, longest) || changed;
  return changed;
}

/// All factors of a node. Unless `from_narrow`, the operands that an elementwise op broadcasts are silent.
constexpr bool visit(propagation& p, std::size_t v, const op_rules& rules, bool from_narrow) {
  const node& n = p.nodes[v];
  const int arity = n.arity;
  if (arity == 0) return false;
  std::size_t tensors[max_arity + 1]{};
  unsigned silent = 0;
  const bool broadcasts = (rules.traits & planner::elementwise_op) != 0;
  const node_id* in = n.in.items;
  std::uint64_t words = p.of[v].word;
  for (int k = 0; k < arity; ++k) {
    tensors[k] = in[k];
    words |= p.of[in[k]].word;
    if (!from_narrow && broadcasts && p.nodes[in[k]].type.rank < n.type.rank) silent |= 1u << k;
  }
  tensors[arity] = v;
  // Nothing is sharded yet that could be propagated.
  if (words == 0) return false;
  unsigned taken = 0;
  bool changed = false;
  const node_factors factors = p.factors[v];
  for (std::size_t i = 0; i < factors.count; ++i) {
    const factor& f = factors.items[i];
    if (f.minor >= 0) changed = visit_view(p, v, f) || changed;
    else if (f.type != factor_type::need_replication)
      changed = visit_factor(p, f, tensors, arity, silent, taken) || changed;
  }
  return changed;
}

constexpr bool visit_anew(propagation& p, std::size_t v, bool products, bool from_narrow) {
  p.fresh.at[v] = 0;
  const op_rules& rules = rules_of(p.nodes[v]);
  return (products || !rules.propagates_late) && visit(p, v, rules, from_narrow);
}

/// Visits all nodes, forward and backward, until nothing changes.
constexpr void propagate(propagation& p, bool products, bool from_narrow) {
  const std::size_t count = p.g.nodes.size();
  for (std::size_t v = 0; v < count; ++v) p.fresh.at[v] = 1;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t v = 0; v < count; ++v)
      if (p.fresh.at[v] != 0) changed = visit_anew(p, v, products, from_narrow) || changed;
    for (std::size_t v = count; v-- > 0;)
      if (p.fresh.at[v] != 0) changed = visit_anew(p, v, products, from_narrow) || changed;
  }
}

} // namespace detail

/// Completes the layouts of a graph from those that the user wrote, to a fixpoint. Order: cheap ops (elementwise,
/// views, annotations) forward and backward until nothing changes, then all ops likewise, and last from operands that
/// are broadcast: a bias does not decide over the activations to which it is added. A single element is not sharded.
/// Nodes in recorded order, factors in the order of the result's dims and then the contracted ones. Lists only grow, so
/// it ends. Deterministic; layouts of the user are never overridden; conflicts stay for the partitioner, which prices
/// them.
constexpr completion complete(const graph& g, const factor_table& factors) {
  detail::propagation p(g, factors);
  detail::find_readers(p);
  detail::take_written(p);
  detail::propagate(p, false, false);
  detail::propagate(p, true, false);
  detail::propagate(p, true, true);
  return static_cast<completion&&>(p.layouts);
}
constexpr completion complete(const graph& g) { return complete(g, factors_of(g)); }

}} // namespace cleave::v0
