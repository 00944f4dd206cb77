// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/legal.hpp>
#include <cleave/cost/node_price.hpp>
#include <cleave/cost/op_rules.hpp>

namespace cleave { inline namespace v0 { namespace planner {

/// Adds a strategy that reduces whatever is partial, and variants that forward partial sums of the operands.
constexpr void add_with_forwarding(const cost_model& m, const assignment& a, std::size_t v, strategy s,
                                   indexed_vector<strategy>& into) {
  const node& n = m.node_at(v);
  s.forwarded = 0;
  s.partial_operands = 0;
  if ((m.traits.at[v] & fetches_operands) != 0) fetch_from_own_layout(m, a, v, s);
  derive_unreduced(n, s);
  if (!valid(m, v, s)) return;
  into.push_back(s);
  if ((m.traits.at[v] & (is_linear | keeps_whole)) != is_linear) return;
  unsigned partial = 0;
  for (int k = 0; k < n.arity; ++k)
    if (produced(m, a, n.in[k]).is_partial()) partial |= 1u << k;
  const reduction through = partial_reduction(n);
  for (unsigned tried = 1; tried <= partial; ++tried) {
    if ((tried & ~partial) != 0) continue;
    axis_set common = 0x7f;
    bool combines = true;
    element of = element::none;
    for (int k = 0; k < n.arity; ++k) {
      if ((tried >> k & 1) == 0) continue;
      const layout l = produced(m, a, n.in[k]);
      of = m.node_at(n.in[k]).type.element;
      common = common & l.unreduced();
      combines = combines && l.combine() == through;
    }
    common = common & ~dividing_axes(s);
    const std::uint8_t who = partial_operands_of(n, of, narrowed(tried));
    if (who == 0 || common == 0 || !combines) continue;
    strategy t = s;
    t.forwarded = common;
    t.partial_operands = who;
    derive_unreduced(n, t);
    if (valid(m, v, t)) into.push_back(t);
  }
}

/// Every assignment of the mesh axes from `axis` on to the factors, in every order within a factor.
constexpr void add_ways_from(const cost_model& m, const assignment& a, std::size_t v, int axis, const strategy& so_far,
                             indexed_vector<strategy>& into) {
  if (axis == m.g.mesh.size()) {
    add_with_forwarding(m, a, v, so_far, into);
    return;
  }
  add_ways_from(m, a, v, axis + 1, so_far, into);
  if (m.at.axes[axis] == 1) return;
  int r = 0;
  const node_factors factors = m.factors(v);
  const node& n = m.nodes[v];
  const axis_sizes& sizes = m.at.axes;
  for (std::size_t i = 0; i < factors.count; ++i) {
    const factor& f = factors.items[i];
    const bool reduced = f.is_reduced();
    if (!reduced && f.at[in_result] < 0) continue;
    const int position = reduced ? r++ : f.at[in_result];
    const std::uint32_t have = reduced ? so_far.over.packed_axes(position) : so_far.out.packed_axes(position);
    std::int64_t parts = sizes.of[axis];
    int end = 0;
    for (std::uint32_t p = have; p != 0; p >>= 4, end += 4) parts *= sizes.of[(p & 15u) - 1u];
    const dim_id dim = reduced ? m.nodes[n.in.items[0]].type[f.at[0]] : n.type[position];
    if (m.at.dims.items[dim] < parts) continue;
    // The axis before those that the factor has, and after each of them.
    for (int p = 0; p <= end; p += 4) {
      axis_list list;
      list.packed = (have & ((1u << p) - 1u)) | static_cast<std::uint32_t>(axis + 1) << p | have >> p << (p + 4);
      strategy s = so_far;
      if (reduced) s.over.set(position, list);
      else s.out.set(position, list);
      add_ways_from(m, a, v, axis + 1, s, into);
    }
  }
}

constexpr void add_all_ways(const cost_model& m, assignment& a, std::size_t v, indexed_vector<strategy>& into) {
  add_ways_from(m, a, v, 0, strategy{}, into);
}

/// Makes a strategy of a node shard the result in another way, and its reduced dims as before if possible.
constexpr void shard_result(const cost_model& m, std::size_t v, layout l, strategy& s) {
  s.out.word = (l.word & layout::dims_mask) | (s.out.word & ~layout::dims_mask);
  const axis_set sharded = s.out.sharded();
  for (int i = 0; i < max_rank && (s.over.sharded() & sharded) != 0; ++i) s.over.give_up(i, sharded);
  fit(m, v, s);
}

/// Strategies worth trying for a node: from the layouts of its operands, from those that its consumers or the caller
/// want, and from its rules.
constexpr void find_candidates(const cost_model& m, assignment& a, std::size_t v, indexed_vector<strategy>& list) {
  const node& n = m.node_at(v);
  const std::uint32_t t = m.traits.at[v];
  list.clear();
  for (int k = 0; k < n.arity; ++k) {
    const std::size_t u = m.operand.at[m.first_slot.at[v] + as_size(k)];
    if ((m.traits.at[u] & rematerialised) != 0) continue;
    const layout own = produced(m, a, u);
    strategy s = a.chosen.at[v];
    project(m, v, k, own, s);
    add_with_forwarding(m, a, v, s, list);
    strategy bare;
    project(m, v, k, own, bare);
    if (!bare.divides_like(s)) add_with_forwarding(m, a, v, bare, list);
    // Elements that are fetched may be taken from a copy that another reader needs.
    const std::size_t copies = (t & fetches_operands) == 0 ? 0 : find_copies(m, a, u, own);
    for (std::size_t i = 0; i < copies; ++i) {
      for (strategy taken : {a.chosen.at[v], strategy{}}) {
        project(m, v, k, a.copies.at[i], taken);
        if (valid(m, v, taken)) list.push_back(taken);
      }
    }
  }
  const auto wanted = [&](layout l) {
    strategy s = a.chosen.at[v];
    shard_result(m, v, l, s);
    add_with_forwarding(m, a, v, s, list);
  };
  // The strategies offered here do not look for copies, so that these stay.
  const std::size_t copies = find_copies(m, a, v, produced(m, a, v));
  for (std::size_t i = 0; i < copies; ++i) wanted(a.copies.at[i]);
  if ((t & begins_loop) != 0 && m.next_of.at[v] != no_node) {
    wanted(produced(m, a, m.node_at(m.next_of.at[v]).in[0]));
    // As the value after the loop is needed.
    if (const std::size_t after = after_loop(m, v); after != no_node && a.price.at[after] > 0) {
      const std::size_t needs = find_copies(m, a, after, produced(m, a, after));
      for (std::size_t i = 0; i < needs; ++i) wanted(a.copies.at[i]);
    }
  }
  if (const op_rules& rules = m.rules(v); rules.offer.given) rules.offer.call(m, a, v, list);
}

}}} // namespace cleave::v0::planner

namespace cleave { inline namespace v0 { namespace rules {

/// If slices are short or many, it is cheaper to bring each to one device: all of it, or its axes moved to another dim.
/// Whole slices on every device take memory that does not shrink with the mesh. So they are offered only if the fewest
/// bytes were asked for, or if the type fixes the length: a length that was only assumed may be far too small.
constexpr void offer_whole_slices(const planner::cost_model& m, planner::assignment& a, std::size_t v,
                                  indexed_vector<strategy>& list) {
  const node& n = m.node_at(v);
  const int along = n.type.find(n.which[0]);
  if (along < 0) return;
  const axis_list axes = a.chosen.at[v].out[along];
  if (axes.size() == 0) return;
  strategy whole = a.chosen.at[v];
  whole.out.clear(along);
  if (m.rule.flop == 0 || m.g.dims[n.which[0]].extent != dynamic) planner::add_with_forwarding(m, a, v, whole, list);
  for (int i = 0; i < n.type.rank; ++i) {
    if (i == along || m.at[n.type[i]] < m.at.axes.product(whole.out[i]) * m.at.axes.product(axes)) continue;
    strategy taken = whole;
    taken.out.set(i, whole.out[i].then(axes));
    planner::add_with_forwarding(m, a, v, taken, list);
  }
}

}}} // namespace cleave::v0::rules
