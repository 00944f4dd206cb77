// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/deferred_sums.hpp>

namespace cleave::detail {

/// Improves a completed graph by changes of one node and the ops that follow it, in a few sweeps.
struct improver : deferred_sums {
  /// Whether something near a node changed since it was last looked at.
  std::vector<std::uint8_t> fresh{};
  /// A node that is held while the others are improved around it.
  std::size_t held_node = no_node;
  int tries = 0;
  /// The pricing in which a value was counted last.
  std::vector<int> counted_in{};
  int round = 0;

  constexpr improver(const graph& from, const sizes& s, const policy& p, known_ways& known) : deferred_sums(from, s, p, known) {
    fresh.assign(from.nodes.size(), 1);
    counted_in.assign(from.nodes.size(), 0);
  }

  struct change {
    std::size_t node;
    strategy before;
  };

  /// Sets a strategy, and with it those that must follow.
  constexpr void set(std::size_t v, const strategy& s, std::vector<change>& undo) {
    undo.push_back({v, chosen[v]});
    chosen[v] = s;
    if (!g.loops.empty()) lead(v, undo);
  }
  constexpr void lead(std::size_t v, std::vector<change>& undo) {
    for (std::size_t e = first_edge[v]; e < first_edge[v + 1]; ++e) {
      const std::size_t w = edges[e].to;
      if (node_at(w).code == op::each || (node_at(w).code == op::next && edges[e].operand == 1)) {
        const strategy after = following(w);
        if (!(after == chosen[w])) set(w, after, undo);
      } else if (passes_on(w)) {
        lead(w, undo);
      }
    }
  }

  /// Sets a strategy and lets the ops that agreed with the old layout follow: elementwise ones, and products too if
  /// asked. What changed goes to `undo`.
  constexpr void apply(std::size_t v, const strategy& s, bool products, std::vector<change>& undo) {
    const layout old = chosen[v].out;
    set(v, s, undo);
    if (undo.size() > 32) return;
    for (std::size_t e = first_edge[v]; e < first_edge[v + 1]; ++e) {
      const std::size_t w = edges[e].to;
      const op_class what = class_of(node_at(w).code);
      if (settled(w) || what == op_class::source || (what == op_class::contraction && !products)) continue;
      if (what != op_class::contraction && node_at(v).type.rank < node_at(w).type.rank) continue;
      const strategy was = chosen[w];
      strategy agreed = was;
      project(w, edges[e].operand, old, agreed);
      if (!agreed.divides_like(was)) continue;
      strategy next = was;
      project(w, edges[e].operand, s.out, next);
      next.pass = 0;
      next.bringers = 0;
      const std::uint8_t who = bringers_of(node_at(w).code, node_at(v).type.element, static_cast<std::uint8_t>(1u << edges[e].operand));
      if (s.out.unreduced != 0 && who != 0 && !keeps_whole(node_at(w)) &&
          s.out.combine == (node_at(w).code == op::reduce ? node_at(w).combine : reduction::sum)) {
        next.pass = static_cast<axis_set>(s.out.unreduced & ~dividing_axes(next));
        next.bringers = next.pass != 0 ? who : std::uint8_t{0};
      }
      seal(node_at(w), next);
      if (next == was || !valid(w, next)) continue;
      bool seen = false;
      for (const change& c : undo) seen = seen || c.node == w;
      if (!seen) apply(w, next, products && what != op_class::contraction, undo);
    }
  }

  /// The part of the plan's price that a set of changed nodes takes part in.
  constexpr double price_around(const std::vector<change>& changed) {
    ++round;
    double total = 0;
    const auto add = [&](std::size_t u) {
      if (counted_in[u] == round) return;
      counted_in[u] = round;
      total += node_score(u);
      for (std::size_t e = first_edge[u]; e < first_edge[u + 1]; ++e)
        if (may_pass_on(edges[e].to) && counted_in[edges[e].to] != round) {
          counted_in[edges[e].to] = round;
          total += node_score(edges[e].to);
        }
    };
    for (const change& c : changed) {
      add(c.node);
      for (int k = 0; k < node_at(c.node).arity; ++k) add(node_at(c.node).in[static_cast<std::size_t>(k)]);
    }
    return total;
  }

  /// Marks a node and its readers as worth another look.
  constexpr void touch(std::size_t u) {
    fresh[u] = 1;
    looks_so[u] = 0;
    for (std::size_t e = first_edge[u]; e < first_edge[u + 1]; ++e) {
      fresh[edges[e].to] = 1;
      looks_so[edges[e].to] = 0;
      if (may_pass_on(edges[e].to)) touch(edges[e].to);
    }
  }

  /// The least that a strategy can cost: what its operands must be moved for it and are not moved already.
  constexpr double least(std::size_t v, const strategy& s) const {
    double total = exchange_score(v, s);
    for (int k = 0; k < node_at(v).arity; ++k) {
      const std::size_t u = node_at(v).in[static_cast<std::size_t>(k)];
      // What is looked at around an element may be moved before it is spread over windows.
      if (anywhere(u) || class_of(node_at(u).code) == op_class::remap) continue;
      const layout need = required(node_at(v), factors[v], s, k);
      if (need == home(u) || read_elsewhere(u, v, need)) continue;
      total += way(u, home(u), need);
    }
    return total;
  }
  constexpr bool read_elsewhere(std::size_t u, std::size_t v, const layout& l) const {
    for (std::size_t e = first_edge[u]; e < first_edge[u + 1]; ++e)
      if (edges[e].to != v && needed_by(edges[e].to, edges[e].operand) == l)
        return true;
    return false;
  }

  /// What follows a node when its strategy changes.
  enum class followers : std::uint8_t { none, cheap, products };

  constexpr bool try_strategy(std::size_t v, const strategy& s, bool together) {
    if (!together) return try_with(v, s, followers::none);
    if (try_with(v, s, followers::cheap)) return true;
    if ((node_at(v).code == op::dot || node_at(v).code == op::gather) && try_with(v, s, followers::products)) return true;
    // A sum of partial sums, reduced once for all who read it.
    return s.pass != 0 && chosen[v].pass == 0 && try_with(v, s, followers::none);
  }

  constexpr bool try_with(std::size_t v, const strategy& s, followers who, bool* tie = nullptr) {
    if (s == chosen[v]) return false;
    ++tries;
    std::vector<change> undo;
    if (who == followers::none) {
      set(v, s, undo);
    } else {
      apply(v, s, who == followers::products, undo);
    }
    double flops_after = flops;
    for (const change& c : undo) {
      flops_after += flops_at(c.node);
      flops_after -= flops_with(c.node, c.before);
    }
    const double after = price_around(undo) + flops_score(flops_after);
    std::vector<change> redo;
    for (const change& c : undo) redo.push_back({c.node, chosen[c.node]});
    for (std::size_t i = undo.size(); i-- > 0;) chosen[undo[i].node] = undo[i].before;
    const double before = price_around(undo) + flops_score(flops);
    if (tie != nullptr) *tie = after <= before + 1e-12 * before;
    if (tie != nullptr || !(after < before - 1e-12 * before)) return false;
    for (const change& c : redo) {
      chosen[c.node] = c.before;
      touch(c.node);
      for (int k = 0; k < node_at(c.node).arity; ++k) touch(node_at(c.node).in[static_cast<std::size_t>(k)]);
    }
    flops = flops_after;
    return true;
  }

  /// Whether something that a node reads must be moved for it.
  constexpr bool must_move(std::size_t v) const {
    const node& n = node_at(v);
    if (exchange_score(v, chosen[v]) > 0) return true;
    for (int k = 0; k < n.arity; ++k) {
      const std::size_t u = n.in[static_cast<std::size_t>(k)];
      const layout need = required(n, factors[v], chosen[v], k);
      if (!anywhere(u) && !(need == home(u)) && way(u, home(u), need) > 0) return true;
    }
    // What a carried value becomes must come back in its layout.
    if (n.code != op::carry || next_of[v] == no_node) return false;
    const std::size_t u = node_at(next_of[v]).in[0];
    return !anywhere(u) && !(home(u) == chosen[v].out);
  }

  /// Whether another way to compute a node whose operands are in place might be cheaper: what moves its result costs
  /// more than taking the divided operands of a partial product elsewhere would.
  constexpr bool promising(std::size_t v, double own) const {
    const node& n = node_at(v);
    if (own == 0) return false;
    const axis_set partial = reduced_axes(chosen[v]);
    if (partial == 0 || chosen[v].pass != 0) return true;
    const double part = 1 - 1 / static_cast<double>(at.axes.product(partial));
    double elsewhere = 0;
    for (int k = 0; k < n.arity; ++k) {
      const std::size_t u = n.in[static_cast<std::size_t>(k)];
      if ((home(u).sharded() & partial) == 0) continue;
      const shape local = largest_shape(shape_of(node_at(u).type, at), home(u), at.axes);
      elsewhere += rule.byte * part * static_cast<double>(local.elements() * size_of(node_at(u).type.element));
    }
    return own > elsewhere;
  }

  constexpr bool improve(std::size_t v) {
    if (settled(v) || fresh[v] == 0 || v == held_node) return false;
    fresh[v] = 0;
    const bool repeats = rule.repeat > 0 && flops > allowed_flops * (1 + 1e-9);
    const bool whole_work = rule.flop == 0 || flops_at(v) <= once_at(v) * (1 + 1e-9);
    // Where operands conflict, or work is repeated, a change may pay only together with what follows it. Elsewhere the
    // node alone is looked at, which keeps long chains of layers cheap to plan.
    const double own = node_score(v);
    const bool together = repeats || !whole_work || must_move(v);
    if (!together && !promising(v, own)) return false;
    if (seen_before(v)) return false;
    bool changed = false;
    double spent = together ? around(v) : own;
    for (const strategy& s : candidates(v)) {
      if (!repeats && (repeats_too_much(v, s) || (whole_work && least(v, s) >= spent))) continue;
      if (!try_strategy(v, s, together)) continue;
      changed = true;
      spent = together ? around(v) : node_score(v);
    }
    if (chosen[v].pass != 0 && own > 0 && reduce_earlier(v)) changed = true;
    if (!changed && looks_so[v] != 0) settled_looks[look[v] >> 58].push_back(look[v]);
    return changed;
  }

  /// A partial sum that many read, each after other linear ops, is reduced once before them: tries so at the node and at
  /// each op through which its sum came, with all that follows.
  constexpr bool reduce_earlier(std::size_t v) {
    std::vector<std::size_t> through{v};
    for (std::size_t i = 0; i < through.size() && i < 8; ++i) {
      const std::size_t at_node = through[i];
      strategy whole = chosen[at_node];
      for (int k = 0; k < node_at(at_node).arity; ++k) {
        const std::size_t u = node_at(at_node).in[static_cast<std::size_t>(k)];
        if ((whole.bringers >> k & 1) != 0 && chosen[u].pass != 0 && !settled(u)) through.push_back(u);
      }
      whole.pass = 0;
      whole.bringers = 0;
      seal(node_at(at_node), whole);
      if (valid(at_node, whole) && try_with(at_node, whole, followers::cheap)) return true;
    }
    return false;
  }

  /// What the copies of a node's result, of what follows it, and of its operands cost now.
  constexpr double around(std::size_t v) const {
    double total = downstream(v, 4);
    for (int k = 0; k < node_at(v).arity; ++k) total += node_score(node_at(v).in[static_cast<std::size_t>(k)]);
    return total;
  }
  constexpr double downstream(std::size_t v, int depth) const {
    double total = node_score(v);
    for (std::size_t e = first_edge[v]; depth > 0 && e < first_edge[v + 1]; ++e) {
      const std::size_t w = edges[e].to;
      if (class_of(node_at(w).code) != op_class::contraction) total += downstream(w, depth - 1);
      for (int k = 0; k < node_at(w).arity; ++k)
        if (node_at(w).in[static_cast<std::size_t>(k)] != v) total += node_score(node_at(w).in[static_cast<std::size_t>(k)]);
    }
    return total;
  }

  constexpr void sweep(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      bool changed = false;
      take_looks();
      for (std::size_t v = 0; v < g.nodes.size(); ++v) changed = improve(v) || changed;
      if (changed) take_looks();
      for (std::size_t v = g.nodes.size(); v-- > 0;) changed = improve(v) || changed;
      if (!changed) break;
    }
  }

  constexpr double total_score() const {
    double total = flops_score(flops);
    for (std::size_t u = 0; u < g.nodes.size(); ++u) total += node_score(u);
    return total;
  }
};

} // namespace cleave::detail
