// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/candidates.hpp>
#include <cleave/propagate/complete.hpp>

namespace cleave { inline namespace v0 { namespace planner {

/// If all operands are sharded over an axis along a reduced dim, a result that only its readers want sharded over that
/// axis gives it up: the sum is partial, and scattered afterwards.
constexpr void yield_reduced_axes(const cost_model& m, std::size_t v, const completion& layouts, layout& out) {
  const node& n = m.node_at(v);
  unsigned along = 0, brought = 0;
  const node_factors factors = m.factors(v);
  for (std::size_t i = 0; i < factors.count; ++i) {
    const factor& f = factors.items[i];
    unsigned all = ~0u;
    for (int k = 0; k < n.arity; ++k) {
      if (f.at[k] < 0) continue;
      const unsigned axes = layouts[n.in[k]].axes(f.at[k]);
      all &= axes;
      if (!f.is_reduced()) brought |= axes;
    }
    if (f.is_reduced()) along |= all;
  }
  if ((out.sharded() & along & ~brought) == 0) return;
  for (int i = 0; i < n.type.rank; ++i) out.give_up(i, along & ~brought);
}

/// The strategy that completion suggests.
constexpr strategy suggested(const cost_model& m, const assignment& a, std::size_t v, const completion& layouts) {
  const node& n = m.node_at(v);
  strategy s;
  s.out = layouts[v].reduced();
  const bool moved = rules::annotation_of(n) == rules::annotation::moved_layout;
  if (n.code == op::input || moved || n.local) {
    s.out = n.pin;
    if (moved) {
      s.forwarded = n.pin.unreduced();
      s.partial_operands = s.forwarded != 0 ? 1 : 0;
    }
    return s;
  }
  if (n.arity == 0 || (m.traits.at[v] & (special | reduces)) == 0) return s;
  fit(m, v, s);
  fetch_from_own_layout(m, a, v, s);
  yield_reduced_axes(m, v, layouts, s.out);
  unsigned used = s.out.sharded();
  int r = 0;
  const node_factors factors = m.factors(v);
  for (std::size_t i = 0; i < factors.count; ++i) {
    const factor& f = factors.items[i];
    if (!f.is_reduced()) continue;
    axis_list list = layouts[n.in[0]][f.at[0]];
    if (f.at[1] >= 0) {
      const axis_list other = layouts[n.in[1]][f.at[1]];
      if (other.starts_with(list)) list = other;
    }
    axis_list kept;
    for (int j = 0; j < list.size() && (used >> list[j] & 1) == 0; ++j) kept.push_back(list[j]);
    used |= kept.mask();
    s.over.set(r++, kept);
  }
  derive_unreduced(n, s);
  return s;
}

/// Partial sums stay partial through linear ops to begin with, if that makes them no larger: sums of several then meet
/// before one reduction, which no change of a single op would find.
constexpr void keep_sums_partial(const cost_model& m, assignment& a, std::size_t v) {
  const node& n = m.node_at(v);
  if (n.arity == 0 || (m.traits.at[v] & (is_linear | contracting | remaps)) != is_linear || is_fixed(m, a, v)) return;
  bool partial = false;
  for (int k = 0; k < n.arity; ++k) partial = partial || produced(m, a, n.in[k]).is_partial();
  if (!partial) return;
  a.candidates.clear();
  add_with_forwarding(m, a, v, a.chosen.at[v], a.candidates);
  for (const strategy& s : a.candidates)
    if (s.forwarded != 0)
      for (int k = 0; k < n.arity; ++k)
        if ((s.partial_operands >> k & 1) != 0 && m.node_at(n.in[k]).type.rank >= n.type.rank) assign(m, a, v, s);
}

/// Chooses a strategy that forwards partial sums, if it may.
constexpr bool forward_sums(const cost_model& m, assignment& a, std::size_t v, axis_set axes, std::uint8_t operands,
                            strategy s) {
  s.forwarded = axes;
  s.partial_operands = operands;
  derive_unreduced(m.node_at(v), s);
  if (axes == 0 || (m.traits.at[v] & keeps_whole) != 0 || !valid(m, v, s)) return false;
  assign(m, a, v, s);
  return true;
}

/// The elements of a value in all iterations.
constexpr double reduced_elements(const cost_model& m, std::size_t v) {
  return static_cast<double>(shape_of(m.node_at(v).type, m.at).elements()) * m.weight.at[v];
}
/// Forwards partial sums to the term of a running sum: through sums at indices, stacks of an inner loop, and linear ops
/// of those, at most `depth` in a row. Only there: a stack of partial sums is as large on every device as the whole, so
/// if nothing accumulates each is reduced in its iteration. Sums of fewer elements than `least` in all iterations are
/// reduced there too.
constexpr void forward_into(const cost_model& m, assignment& a, std::size_t v, double least, int depth) {
  const node& n = m.node_at(v);
  for (int k = 0; k < n.arity && !a.chosen.at[v].out.is_partial(); ++k) {
    const std::size_t operand = m.operand.at[m.first_slot.at[v] + as_size(k)];
    const bool only_here = m.first_edge.at[operand + 1] - m.first_edge.at[operand] == 1;
    if (depth > 1 && only_here && (rules::stacks(m.node_at(operand)) || (m.traits.at[operand] & is_linear) != 0))
      forward_into(m, a, operand, least, depth - 1);
    const layout from = produced(m, a, operand);
    if (from.is_partial() && reduced_elements(m, operand) < least) continue;
    strategy as_it_comes = a.chosen.at[v];
    project(m, v, k, from, as_it_comes);
    if (rules::stacks(n) && from.combine() == reduction::sum) forward_sums(m, a, v, from.unreduced(), 1, as_it_comes);
    a.candidates.clear();
    add_with_forwarding(m, a, v, as_it_comes, a.candidates);
    for (const strategy& s : a.candidates)
      if (s.forwarded != 0 && !is_fixed(m, a, v)) assign(m, a, v, s);
  }
}

/// A running sum of partial sums stays partial from iteration to iteration, and is reduced once, after the loop.
/// Changes of single ops would not find that: the sum is partial only if its previous value is.
constexpr void accumulate_partially(const cost_model& m, assignment& a, std::size_t carried) {
  const node_id next = m.next_of.at[carried];
  const std::size_t sum = m.node_at(next).in[0];
  const node& total = m.node_at(sum);
  if (!rules::adds_operands(total) || m.first_edge.at[carried + 1] - m.first_edge.at[carried] != 2) return;
  const int own = total.in[0] == carried ? 0 : 1;
  const std::size_t term = total.in[1 - own];
  if (total.in[own] != carried || term == carried || is_fixed(m, a, sum)) return;
  forward_into(m, a, term, reduced_elements(m, m.node_at(carried).in[0]), 32);
  const layout part = produced(m, a, term);
  if (!part.is_partial() || part.combine() != reduction::sum) return;
  strategy s;
  project(m, sum, 1 - own, part, s);
  const strategy before = a.chosen.at[carried];
  strategy begun = before;
  begun.out = layout{};
  for (int i = 0; i < m.node_at(carried).type.rank; ++i)
    begun.out.set(i, s.out[total.type.find(m.node_at(carried).type[i])]);
  a.chosen.at[carried] = begun;
  if (!forward_sums(m, a, carried, part.unreduced(), 1, begun) || !forward_sums(m, a, sum, part.unreduced(), 3, s))
    a.chosen.at[carried] = before;
  assign(m, a, carried, a.chosen.at[carried]);
  assign(m, a, next, following(m, a, next));
}

/// The assignment with which the search begins: the layouts of the completion, with sums kept partial.
constexpr void start(const cost_model& m, assignment& a, const completion& layouts) {
  for (std::size_t v = 0; v < m.count; ++v) {
    assign(m, a, v, (m.traits.at[v] & follows_others) != 0 ? following(m, a, v) : suggested(m, a, v, layouts));
    keep_sums_partial(m, a, v);
  }
  for (std::size_t v = 0; v < m.count; ++v)
    if (m.next_of.at[v] != no_node) accumulate_partially(m, a, v);
}

/// Prices an assignment from nothing.
constexpr void price_all(const cost_model& m, assignment& a) {
  a.flops = 0;
  double once = 0;
  for (std::size_t v = 0; v < m.count; ++v) {
    a.price.at[v] = node_price(m, a, v);
    if ((m.traits.at[v] & has_flops) == 0) continue;
    a.work.at[v] = flops_with(m, v, a.chosen.at[v]);
    a.flops += a.work.at[v];
    once += flops_once(m, v);
  }
  a.flops_once = once;
  a.allowed_flops = once * (m.rule.repeat > 0 ? m.rule.repeat : 1);
}

}}} // namespace cleave::v0::planner
