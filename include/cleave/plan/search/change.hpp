// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/cost/legal.hpp>
#include <cleave/cost/node_price.hpp>
#include <cleave/plan/search/fingerprint.hpp>

namespace cleave { inline namespace v0 { namespace planner {

/// The nodes that follow when the strategy of a node changes.
enum class followers : std::uint8_t { none, cheap, products };

/// Sets a strategy in the course of a change, and with it those that must follow. The old one goes to a.undo.
constexpr void lead_followers(const cost_model& m, assignment& a, std::size_t v);
constexpr void set_strategy(const cost_model& m, assignment& a, std::size_t v, const strategy& s) {
  if (a.undo.count == a.undo.capacity) a.undo.grow(1);
  a.undo.at[a.undo.count++] = {v, a.chosen.at[v]};
  const std::uint32_t first = m.first_slot.at[v], end = m.first_slot.at[v + 1];
  if (first != end) {
    const layout* need = a.need.at;
    if (a.undo_needs.count + (end - first) > a.undo_needs.capacity) a.undo_needs.grow(end - first);
    layout* before = a.undo_needs.at;
    std::size_t count = a.undo_needs.count;
    for (std::uint32_t slot = first; slot < end; ++slot, ++count) before[count].word = need[m.edge_of.at[slot]].word;
    a.undo_needs.count = count;
  }
  a.changed_in.at[v] = a.round;
  assign(m, a, v, s);
  if ((m.traits.at[v] & leads) != 0) lead_followers(m, a, v);
}
constexpr void lead_followers(const cost_model& m, assignment& a, std::size_t v) {
  for (std::uint32_t e = m.first_edge.at[v]; e < m.first_edge.at[v + 1]; ++e) {
    const std::size_t w = m.edges.at[e].to;
    const std::uint32_t t = m.traits.at[w];
    if ((t & follows_others) != 0 && a.moves_before_loop.at[w] == 0) {
      // The node that sets a carried value for the next iteration reads that value second.
      if (m.node_at(w).code == op::loop_yield && m.edges.at[e].number != 1) continue;
      const strategy after = following(m, a, w);
      if (!(after == a.chosen.at[w])) set_strategy(m, a, w, after);
    } else if ((t & may_be_transparent) != 0 && is_transparent(m, a, w)) {
      lead_followers(m, a, w);
    }
  }
}

/// A step that fetches missing elements still fetches from the layout of its operand, whatever its own layout.
constexpr void fetch_anew(const cost_model& m, assignment& a, std::size_t v) {
  if ((m.traits.at[v] & fetches_operands) == 0) return;
  strategy next = a.chosen.at[v];
  fetch_from_own_layout(m, a, v, next);
  if (!(next == a.chosen.at[v]) && valid(m, v, next)) set_strategy(m, a, v, next);
}

/// Sets a strategy and lets the ops that agreed with the old layout follow: elementwise ones, and products too if
/// asked. In the end also those that read carried values after the loop.
constexpr void ripple(const cost_model& m, assignment& a, std::size_t v, const strategy& s, bool products) {
  const layout old = a.chosen.at[v].out;
  set_strategy(m, a, v, s);
  if (a.undo.count > m.limits.ripple) return;
  const int rank = m.rank.at[v];
  const bool whole_sums = (s.out.word & ~layout::dims_mask) == 0;
  const std::size_t after = a.looks_further && (m.traits.at[v] & begins_loop) != 0 ? after_loop(m, v) : no_node;
  std::uint32_t e = m.first_edge.at[v], end = m.first_edge.at[v + 1];
  for (bool last = after == no_node;; ++e) {
    if (e == end) {
      if (last || m.first_edge.at[after] == m.first_edge.at[after + 1]) return;
      last = true;
      e = m.first_edge.at[after];
      end = m.first_edge.at[after + 1];
    }
    const std::size_t w = m.edges.at[e].to;
    const std::uint32_t t = m.traits.at[w];
    if (a.changed_in.at[w] == a.round || ((t & fixed_strategy) != 0 && a.moves_before_loop.at[w] == 0)) continue;
    if ((t & transparent_if_whole) != 0 && is_fixed(m, a, w)) continue;
    const bool product = (t & contracting) != 0;
    a.stopped_at_product = a.stopped_at_product || (product && !products);
    if (product ? !products : rank < m.rank.at[w]) continue;
    if ((t & special) == 0 && ((a.need.at[e].word ^ old.word) & layout::dims_mask) != 0) continue;
    const int k = m.edges.at[e].number;
    const strategy& was = a.chosen.at[w];
    if ((t & special) == 0) {
      // With nothing reduced, partial or pinned, and no position that the operand lacks, it comes out as the operand.
      const std::uint32_t slot = m.edges.at[e].slot;
      if (whole_sums && (t & has_pins) == 0 && m.missing.at[slot] == 0 && m.to_reduced.at[slot] == 0) {
        const position_map to = m.to_result.at[slot];
        const std::uint64_t made = to == same_positions ? s.out.word : mapped(s.out.word, to);
        if (made == was.out.word && was.forwarded.word == 0) continue;
        strategy next;
        next.out.word = made;
        ripple(m, a, w, next, products && !product);
        continue;
      }
    } else {
      strategy agreed = was;
      project(m, w, k, old, agreed);
      if (!agreed.divides_like(was)) {
        fetch_anew(m, a, w);
        continue;
      }
    }
    const node& reader = m.nodes[w];
    strategy next = was;
    project(m, w, k, s.out, next);
    next.forwarded.word = 0;
    next.partial_operands = 0;
    if (!whole_sums && (t & keeps_whole) == 0 && s.out.combine() == partial_reduction(reader))
      if (const std::uint8_t who = partial_operands_of(reader, m.nodes[v].type.element, narrowed(1u << k)); who != 0) {
        next.forwarded = s.out.unreduced() & ~dividing_axes(next);
        next.partial_operands = next.forwarded != 0 ? who : std::uint8_t{0};
      }
    derive_unreduced(reader, next);
    if (!(next == was) && valid(m, w, next)) ripple(m, a, w, next, products && !product);
  }
}

/// Begins a change: strategies that are set from here on can be taken back.
constexpr void begin_change(assignment& a) {
  ++a.round;
  a.undo.count = 0;
  a.undo_needs.count = 0;
  a.stopped_at_product = false;
}
/// Lets a change that was priced and grew be priced again.
constexpr void go_on_with_change(assignment& a) {
  ++a.round;
  for (std::size_t i = 0; i < a.undo.count; ++i) a.changed_in.at[a.undo.at[i].node] = a.round;
}
/// Takes a change back.
constexpr void take_back(const cost_model& m, assignment& a) {
  std::size_t needs = a.undo_needs.count;
  for (std::size_t i = a.undo.count; i-- > 0;) {
    const std::size_t v = a.undo.at[i].node;
    a.chosen.at[v] = a.undo.at[i].before;
    const std::uint32_t first = m.first_slot.at[v];
    for (std::uint32_t slot = m.first_slot.at[v + 1]; slot-- > first;)
      a.need.at[m.edge_of.at[slot]] = a.undo_needs.at[--needs];
  }
}

constexpr std::size_t add_transparent_readers(const cost_model& m, assignment& a, std::size_t u, std::size_t found) {
  for (std::uint32_t e = m.first_edge.at[u]; e < m.first_edge.at[u + 1]; ++e) {
    const std::size_t w = m.edges.at[e].to;
    if ((m.traits.at[w] & may_be_transparent) == 0 || a.counted_in.at[w] == a.round) continue;
    a.counted_in.at[w] = a.round;
    a.priced.at[found++] = w;
  }
  return found;
}
/// The nodes whose price a set of changed nodes takes part in, each once: a.priced.
constexpr std::size_t find_priced(const cost_model& m, assignment& a) {
  std::size_t found = 0;
  int* counted = a.counted_in.at;
  const int round = a.round;
  for (std::size_t i = 0; i < a.undo.count; ++i) {
    const std::size_t v = a.undo.at[i].node;
    const std::uint32_t end = m.first_slot.at[v + 1];
    std::size_t u = v;
    for (std::uint32_t slot = m.first_slot.at[v];; ++slot) {
      if (counted[u] != round) {
        counted[u] = round;
        a.priced.at[found++] = u;
        if ((m.traits.at[u] & read_through) != 0) found = add_transparent_readers(m, a, u, found);
      }
      if (slot == end) break;
      u = m.operand.at[slot];
    }
  }
  return found;
}

/// Marks a node and its readers as worth another look.
constexpr void mark_fresh(const cost_model& m, assignment& a, fingerprints& f, std::size_t u) {
  a.fresh.at[u] = 1;
  f.valid.at[u] = 0;
  for (std::uint32_t e = m.first_edge.at[u]; e < m.first_edge.at[u + 1]; ++e) {
    const std::size_t w = m.edges.at[e].to;
    a.fresh.at[w] = 1;
    f.valid.at[w] = 0;
    if ((m.traits.at[w] & may_be_transparent) != 0) mark_fresh(m, a, f, w);
  }
}

/// Prices transparent nodes after a node anew, however long the chain.
constexpr void price_through(const cost_model& m, assignment& a, std::size_t u) {
  if ((m.traits.at[u] & read_through) == 0) return;
  for (std::uint32_t e = m.first_edge.at[u]; e < m.first_edge.at[u + 1]; ++e) {
    const std::size_t w = m.edges.at[e].to;
    if ((m.traits.at[w] & may_be_transparent) == 0) continue;
    a.price.at[w] = node_price(m, a, w);
    price_through(m, a, w);
  }
}
/// Prices anew all that a change touches.
constexpr void price_change(const cost_model& m, assignment& a) {
  const std::size_t found = find_priced(m, a);
  for (std::size_t i = 0; i < found; ++i) a.price.at[a.priced.at[i]] = node_price(m, a, a.priced.at[i]);
  for (std::size_t i = 0; i < a.undo.count; ++i) price_through(m, a, a.undo.at[i].node);
}
/// The work of all when a change is made; each node counts as often as it was set, which is once but for followers in
/// loops.
constexpr double flops_after_change(const cost_model& m, const assignment& a) {
  double flops = a.flops;
  for (std::size_t i = 0; i < a.undo.count; ++i) {
    const std::size_t u = a.undo.at[i].node;
    if ((m.traits.at[u] & has_flops) == 0) continue;
    flops += flops_with(m, u, a.chosen.at[u]);
    flops -= a.work.at[u];
  }
  return flops;
}
/// Takes the work of changed nodes down.
constexpr void count_work(const cost_model& m, assignment& a) {
  for (std::size_t i = 0; i < a.undo.count; ++i)
    if (const std::size_t u = a.undo.at[i].node; (m.traits.at[u] & has_flops) != 0)
      a.work.at[u] = flops_with(m, u, a.chosen.at[u]);
}
/// Keeps a change that was made: prices and work follow.
constexpr void keep_change(const cost_model& m, assignment& a) {
  a.flops = flops_after_change(m, a);
  count_work(m, a);
  ++a.round;
  price_change(m, a);
  if (a.keeps_journal)
    for (std::size_t i = 0; i < a.undo.count; ++i) a.journal.push_back(a.undo.at[i]);
}

/// Accepts the change that was begun if the whole becomes cheaper by it. With `tie`, only tells whether it would cost
/// no more.
constexpr bool accept_if_cheaper(const cost_model& m, assignment& a, fingerprints& f, bool* tie = nullptr) {
  const double flops_after = flops_after_change(m, a);
  const std::size_t found = find_priced(m, a);
  double after = 0, before = 0;
  for (std::size_t i = 0; i < found; ++i) before += a.price.at[a.priced.at[i]];
  before += flops_price(m, a, a.flops);
  const double work = flops_price(m, a, flops_after);
  const double most = before + m.limits.equal_prices * before, least = before - m.limits.equal_prices * before;
  // Prices only add up: a change that costs too much before all of it is priced costs too much.
  const double enough = tie != nullptr ? most : least;
  for (std::size_t i = 0; i < found && after + work <= enough; ++i) {
    const double price = node_price(m, a, a.priced.at[i]);
    a.new_prices.at[i] = price;
    after += price;
  }
  after += work;
  if (tie != nullptr) *tie = after <= most;
  if (tie != nullptr || !(after < least)) return false;
  for (std::size_t i = 0; i < found; ++i) a.price.at[a.priced.at[i]] = a.new_prices.at[i];
  for (std::size_t i = 0; i < a.undo.count; ++i) {
    const std::size_t u = a.undo.at[i].node;
    price_through(m, a, u);
    mark_fresh(m, a, f, u);
    for (std::uint32_t slot = m.first_slot.at[u]; slot < m.first_slot.at[u + 1]; ++slot)
      mark_fresh(m, a, f, m.operand.at[slot]);
    if (a.keeps_journal) a.journal.push_back(a.undo.at[i]);
  }
  count_work(m, a);
  a.flops = flops_after;
  return true;
}

/// Makes a change if the whole becomes cheaper by it. With `tie`, only tells whether it would cost no more.
constexpr bool try_change(const cost_model& m, assignment& a, fingerprints& f, std::size_t v, const strategy& s,
                          followers who, bool* tie = nullptr) {
  if (s == a.chosen.at[v]) return false;
  ++a.tries;
  begin_change(a);
  if (who == followers::none) set_strategy(m, a, v, s);
  else ripple(m, a, v, s, who == followers::products);
  if (accept_if_cheaper(m, a, f, tie)) return true;
  take_back(m, a);
  return false;
}

}}} // namespace cleave::v0::planner
