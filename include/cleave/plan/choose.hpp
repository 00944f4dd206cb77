// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/priced_graph.hpp>
#include <cleave/propagate/complete.hpp>

namespace cleave {

/// A strategy for every node, by node, and the fault if the choice must be left to the user.
struct choice {
  std::vector<strategy> by_node{};
  verdict found{};
};

namespace detail {

/// Improves a completed graph until no change of one node, with the ops that follow it, makes the plan cheaper.
struct chooser : priced_graph {
  /// Whether something near a node changed since it was last looked at.
  std::vector<std::uint8_t> fresh{};
  /// A node that is held while the others are improved around it.
  std::size_t held_node = no_node;
  int tries = 0;

  constexpr chooser(const graph& from, const sizes& s, const policy& p) : priced_graph(from, s, p) {
    fresh.assign(from.nodes.size(), 1);
  }

  /// Maps the layout of operand `k` to the result and the reduced factors; other positions stay as they are.
  constexpr void project(std::size_t v, int k, const layout& operand, strategy& s) const {
    unsigned fresh = 0;
    int r = 0;
    for (const factor& f : factors[v]) {
      const int position = f.at[static_cast<std::size_t>(k)];
      axis_list& list = f.reduced ? s.over[static_cast<std::size_t>(r++)] : s.out[f.at[in_result]];
      if (position < 0) continue;
      list = operand[position];
      fresh |= list.mask();
    }
    // Positions that this operand does not have give up axes that it uses.
    r = 0;
    for (const factor& f : factors[v]) {
      axis_list& list = f.reduced ? s.over[static_cast<std::size_t>(r++)] : s.out[f.at[in_result]];
      if (f.at[static_cast<std::size_t>(k)] >= 0) continue;
      while ((list.mask() & fresh) != 0) list.pop_back();
    }
  }

  /// A layout that the user wrote is that of the whole value, not of partial sums; that of its cotangent only says how dims are
  /// divided.
  static constexpr bool keeps_whole(const node& n) { return n.code == op::constrain && !n.gradient; }

  constexpr bool respects_pins(std::size_t v, const strategy& s) const {
    for (int i = 0; i < node_at(v).type.rank; ++i)
      if ((node_at(v).pinned >> i & 1) != 0 && s.out[i] != node_at(v).pin[i]) return false;
    return true;
  }

  constexpr bool valid(std::size_t v, const strategy& s) const {
    unsigned seen = s.pass;
    for (int i = 0; i < max_rank; ++i) {
      if ((seen & s.out[i].mask()) != 0) return false;
      seen |= s.out[i].mask();
    }
    for (const axis_list& list : s.over) {
      if ((seen & list.mask()) != 0) return false;
      seen |= list.mask();
    }
    const node& n = node_at(v);
    const int kept = kept_position(n);
    if (kept >= 0 && !view_keeps(g, kept_dim(n), s.out[kept])) return false;
    if (n.code == op::split && !s.out[kept + 1].empty()) return false;
    return respects_pins(v, s);
  }

  /// The strategy that completion suggests.
  constexpr strategy suggested(std::size_t v, const completion& layouts) const {
    const node& n = node_at(v);
    strategy s;
    s.out = layouts[v];
    s.out.unreduced = 0;
    if (n.code == op::input || n.code == op::reshard) {
      s.out = n.pin;
      s.out.combine = n.pin.combine;
      if (n.code == op::reshard) {
        s.pass = n.pin.unreduced;
        s.bringers = s.pass != 0 ? 1 : 0;
      }
      return s;
    }
    if (const int kept = kept_position(n); kept >= 0) {
      while (!view_keeps(g, kept_dim(n), s.out[kept])) s.out[kept].pop_back();
      // The minor part is never divided by the view itself.
      if (n.code == op::split) s.out[kept + 1] = {};
    }
    unsigned used = s.out.sharded();
    int r = 0;
    for (const factor& f : factors[v]) {
      if (!f.reduced) continue;
      axis_list list = layouts[n.in[0]][f.at[0]];
      if (f.at[1] >= 0) {
        const axis_list other = layouts[n.in[1]][f.at[1]];
        if (other.starts_with(list)) list = other;
      }
      axis_list kept;
      for (int j = 0; j < list.size() && (used >> list[j] & 1) == 0; ++j) kept.push_back(list[j]);
      used |= kept.mask();
      s.over[static_cast<std::size_t>(r++)] = kept;
    }
    seal(n, s);
    return s;
  }

  /// Variants of a strategy that let partial sums of the operands through.
  constexpr void with_pass(std::size_t v, strategy s, std::vector<strategy>& into) const {
    const node& n = node_at(v);
    s.pass = 0;
    s.bringers = 0;
    seal(n, s);
    if (!valid(v, s)) return;
    into.push_back(s);
    for (unsigned tried = 1; tried < 1u << n.arity; ++tried) {
      axis_set common = 0x7f;
      bool combines = true;
      for (int k = 0; k < n.arity; ++k) {
        if ((tried >> k & 1) == 0) continue;
        const layout& l = chosen[n.in[static_cast<std::size_t>(k)]].out;
        common = static_cast<axis_set>(common & l.unreduced);
        const reduction through = n.code == op::reduce ? n.combine : reduction::sum;
        combines = combines && l.combine == through;
      }
      common = static_cast<axis_set>(common & ~(s.out.sharded() | reduced_axes(s)));
      const std::uint8_t who = bringers_of(n.code, static_cast<std::uint8_t>(tried));
      if (who == 0 || common == 0 || !combines) continue;
      if (keeps_whole(n)) continue;
      strategy t = s;
      t.pass = common;
      t.bringers = who;
      seal(n, t);
      if (valid(v, t)) into.push_back(t);
    }
  }

  /// Strategies worth trying for a node: as its operands come, as its consumers or the caller want it, and for a
  /// product every way to divide its factors over the mesh.
  constexpr std::vector<strategy> candidates(std::size_t v) const {
    const node& n = node_at(v);
    std::vector<strategy> list;
    for (int k = 0; k < n.arity; ++k) {
      if (anywhere(n.in[static_cast<std::size_t>(k)])) continue;
      strategy s = chosen[v];
      project(v, k, chosen[n.in[static_cast<std::size_t>(k)]].out, s);
      with_pass(v, s, list);
      strategy bare;
      project(v, k, chosen[n.in[static_cast<std::size_t>(k)]].out, bare);
      if (!bare.divides_like(s)) with_pass(v, bare, list);
    }
    const auto wanted = [&](const layout& l) {
      strategy s = chosen[v];
      for (int i = 0; i < n.type.rank; ++i) s.out[i] = l[i];
      for (axis_list& over : s.over)
        while ((over.mask() & s.out.sharded()) != 0) over.pop_back();
      with_pass(v, s, list);
    };
    for (const layout& l : copies_of(v)) wanted(l);
    if (n.code == op::dot) {
      strategy s;
      enumerate(v, 0, s, list);
    }
    return list;
  }

  /// Every assignment of the mesh axes to the factors, in every order within a factor.
  constexpr void enumerate(std::size_t v, int axis, const strategy& so_far, std::vector<strategy>& into) const {
    if (axis == g.mesh.size()) {
      with_pass(v, so_far, into);
      return;
    }
    enumerate(v, axis + 1, so_far, into);
    if (at.axes[axis] == 1) return;
    int r = 0;
    for (const factor& f : factors[v]) {
      const bool reduced = f.reduced;
      const int slot = reduced ? r++ : f.at[in_result];
      const axis_list have = reduced ? so_far.over[static_cast<std::size_t>(slot)] : so_far.out[slot];
      const tensor_type& t = reduced ? node_at(node_at(v).in[0]).type : node_at(v).type;
      const std::int64_t extent = at[t[reduced ? f.at[0] : slot]];
      if (extent < at.axes.product(have) * at.axes[axis]) continue;
      for (int p = 0; p <= have.size(); ++p) {
        axis_list list;
        for (int j = 0; j < have.size(); ++j) {
          if (j == p) list.push_back(axis);
          list.push_back(have[j]);
        }
        if (p == have.size()) list.push_back(axis);
        strategy s = so_far;
        (reduced ? s.over[static_cast<std::size_t>(slot)] : s.out[slot]) = list;
        enumerate(v, axis + 1, s, into);
      }
    }
  }

  struct change {
    std::size_t node;
    strategy before;
  };

  /// Sets a strategy and lets the ops that agreed with the old layout follow: elementwise ones, and products too if
  /// asked. What changed goes to `undo`.
  constexpr void apply(std::size_t v, const strategy& s, bool products, std::vector<change>& undo) {
    const layout old = chosen[v].out;
    undo.push_back({v, chosen[v]});
    chosen[v] = s;
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
      if (s.out.unreduced != 0 && what != op_class::contraction && bringers_of(node_at(w).code, static_cast<std::uint8_t>(1u << edges[e].operand)) != 0 &&
          !keeps_whole(node_at(w)) && s.out.combine == (node_at(w).code == op::reduce ? node_at(w).combine : reduction::sum)) {
        next.pass = static_cast<axis_set>(s.out.unreduced & ~(next.out.sharded() | reduced_axes(next)));
        next.bringers = next.pass != 0 ? static_cast<std::uint8_t>(1u << edges[e].operand) : std::uint8_t{0};
      }
      seal(node_at(w), next);
      if (next == was || !valid(w, next)) continue;
      bool seen = false;
      for (const change& c : undo) seen = seen || c.node == w;
      if (!seen) apply(w, next, products && what != op_class::contraction, undo);
    }
  }

  /// The part of the plan's price that a set of changed nodes takes part in.
  constexpr double price_around(const std::vector<change>& changed) const {
    std::vector<std::size_t> values;
    const auto add = [&](std::size_t u) {
      for (std::size_t have : values)
        if (have == u) return;
      values.push_back(u);
    };
    for (const change& c : changed) {
      add(c.node);
      for (int k = 0; k < node_at(c.node).arity; ++k) add(node_at(c.node).in[static_cast<std::size_t>(k)]);
    }
    double total = 0;
    for (std::size_t u : values) total += copies_score(u);
    return total;
  }

  /// Marks a node and its readers as worth another look.
  constexpr void touch(std::size_t u) {
    fresh[u] = 1;
    for (std::size_t e = first_edge[u]; e < first_edge[u + 1]; ++e) fresh[edges[e].to] = 1;
  }

  /// The least that a strategy can cost: what its operands must be moved for it and are not moved already.
  constexpr double least(std::size_t v, const strategy& s) const {
    double total = 0;
    for (int k = 0; k < node_at(v).arity; ++k) {
      const std::size_t u = node_at(v).in[static_cast<std::size_t>(k)];
      if (anywhere(u)) continue;
      const layout need = required(node_at(v), factors[v], s, k);
      if (need == chosen[u].out || read_elsewhere(u, v, need)) continue;
      total += way(u, chosen[u].out, need).score;
    }
    return total;
  }
  constexpr bool read_elsewhere(std::size_t u, std::size_t v, const layout& l) const {
    for (std::size_t e = first_edge[u]; e < first_edge[u + 1]; ++e)
      if (edges[e].to != v && required(node_at(edges[e].to), factors[edges[e].to], chosen[edges[e].to], edges[e].operand) == l)
        return true;
    return false;
  }

  /// What follows a node when its strategy changes.
  enum class followers : std::uint8_t { none, cheap, products };

  constexpr bool try_strategy(std::size_t v, const strategy& s, bool together) {
    if (!together) return try_with(v, s, followers::none);
    return try_with(v, s, followers::cheap) || (node_at(v).code == op::dot && try_with(v, s, followers::products));
  }

  constexpr bool try_with(std::size_t v, const strategy& s, followers who, bool* tie = nullptr) {
    if (s == chosen[v]) return false;
    ++tries;
    std::vector<change> undo;
    if (who == followers::none) {
      undo.push_back({v, chosen[v]});
      chosen[v] = s;
    } else {
      apply(v, s, who == followers::products, undo);
    }
    double flops_after = flops;
    for (const change& c : undo) {
      flops_after += flops_at(c.node);
      flops_after -= flops_of(g, node_at(c.node), factors[c.node], c.before, at);
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
    for (int k = 0; k < n.arity; ++k) {
      const std::size_t u = n.in[static_cast<std::size_t>(k)];
      const layout need = required(n, factors[v], chosen[v], k);
      if (!anywhere(u) && !(need == chosen[u].out) && way(u, chosen[u].out, need).score > 0) return true;
    }
    return false;
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
      if ((chosen[u].out.sharded() & partial) == 0) continue;
      const shape local = largest_shape(shape_of(node_at(u).type, at), chosen[u].out, at.axes);
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
    const double own = copies_score(v);
    const bool together = repeats || !whole_work || must_move(v);
    if (!together && !promising(v, own)) return false;
    bool changed = false;
    double spent = together ? around(v) : own;
    for (const strategy& s : candidates(v)) {
      if (!repeats && (repeats_too_much(v, s) || (whole_work && least(v, s) >= spent))) continue;
      if (!try_strategy(v, s, together)) continue;
      changed = true;
      spent = together ? around(v) : copies_score(v);
    }
    return changed;
  }

  /// What the copies of a node's result, of what follows it, and of its operands cost now.
  constexpr double around(std::size_t v) const {
    double total = downstream(v, 4);
    for (int k = 0; k < node_at(v).arity; ++k) total += copies_score(node_at(v).in[static_cast<std::size_t>(k)]);
    return total;
  }
  constexpr double downstream(std::size_t v, int depth) const {
    double total = copies_score(v);
    for (std::size_t e = first_edge[v]; depth > 0 && e < first_edge[v + 1]; ++e) {
      const std::size_t w = edges[e].to;
      if (class_of(node_at(w).code) != op_class::contraction) total += downstream(w, depth - 1);
      for (int k = 0; k < node_at(w).arity; ++k)
        if (node_at(w).in[static_cast<std::size_t>(k)] != v) total += copies_score(node_at(w).in[static_cast<std::size_t>(k)]);
    }
    return total;
  }

  /// Whether the layout of a value was written by the user, up to cheap ops in between; those of products are ours.
  constexpr bool by_user(std::size_t v, int depth = 12) const {
    if (depth == 0) return false;
    const op_class what = class_of(node_at(v).code);
    if (what == op_class::annotation || node_at(v).code == op::input) return true;
    if (what != op_class::elementwise && what != op_class::view) return false;
    for (int k = 0; k < node_at(v).arity; ++k)
      if (by_user(node_at(v).in[static_cast<std::size_t>(k)], depth - 1)) return true;
    return false;
  }

  /// An elementwise op whose operands are divided differently, where following either costs the same: nothing but the
  /// order of the operands would decide.
  constexpr verdict find_tie() {
    for (std::size_t v = 0; v < g.nodes.size(); ++v) {
      const node& n = node_at(v);
      if (class_of(n.code) != op_class::elementwise || n.arity < 2 || !must_move(v)) continue;
      // The operands that have a say, and whether the node follows one of them already.
      static_vector<strategy, 3> ways;
      bool follows = false;
      for (int k = 0; k < n.arity; ++k) {
        const std::size_t u = n.in[static_cast<std::size_t>(k)];
        if (!by_user(u) || chosen[u].out.used() == 0 || chosen[u].out.unreduced != 0 || node_at(u).type.rank != n.type.rank) continue;
        strategy s;
        project(v, k, chosen[u].out, s);
        seal(n, s);
        if (!valid(v, s)) continue;
        if (s.divides_like(chosen[v])) follows = true;
        else ways.push_back(s);
      }
      for (const strategy& s : ways) {
        bool tie = false;
        if (follows) try_with(v, s, followers::cheap, &tie);
        if (!tie) continue;
        int i = 0;
        while (s.out[i] == chosen[v].out[i]) ++i;
        return {fault::layouts_tie, n.where, name_of(n.code), g.dims[n.type[i]].name};
      }
    }
    return {};
  }

  /// Partial sums stay partial through linear ops to begin with, where that makes them no larger: sums of several then
  /// meet before one reduction, which no change of a single op would find.
  constexpr void defer_reduction(std::size_t v) {
    const node& n = node_at(v);
    if (settled(v) || n.arity == 0 || class_of(n.code) == op_class::contraction) return;
    std::vector<strategy> variants;
    with_pass(v, chosen[v], variants);
    for (const strategy& s : variants)
      if (s.pass != 0)
        for (int k = 0; k < n.arity; ++k)
          if ((s.bringers >> k & 1) != 0 && node_at(n.in[static_cast<std::size_t>(k)]).type.rank >= n.type.rank) chosen[v] = s;
  }

  constexpr void run() {
    const completion layouts = complete(g);
    for (std::size_t v = 0; v < g.nodes.size(); ++v) {
      chosen[v] = suggested(v, layouts);
      defer_reduction(v);
    }
    double once = 0;
    for (std::size_t v = 0; v < g.nodes.size(); ++v) {
      flops += flops_at(v);
      once += once_at(v);
    }
    allowed_flops = once * (rule.repeat > 0 ? rule.repeat : 1);
    sweep(6);
    if (rule.effort > 0) search_wider();
  }

  constexpr void sweep(int rounds) {
    for (int round = 0; round < rounds; ++round) {
      bool changed = false;
      for (std::size_t v = 0; v < g.nodes.size(); ++v) changed = improve(v) || changed;
      for (std::size_t v = g.nodes.size(); v-- > 0;) changed = improve(v) || changed;
      if (!changed) break;
    }
  }

  constexpr double total_score() const {
    double total = flops_score(flops);
    for (std::size_t u = 0; u < g.nodes.size(); ++u) total += copies_score(u);
    return total;
  }

  /// Forces each product into each of its strategies, improves the rest around it, and keeps what is cheaper in all.
  constexpr void search_wider() {
    tries = 0;
    double best = total_score();
    for (std::size_t v = 0; v < g.nodes.size(); ++v) {
      if (node_at(v).code != op::dot || best == 0) continue;
      std::vector<strategy> ways;
      enumerate(v, 0, strategy{}, ways);
      for (const strategy& s : ways) {
        if (tries > rule.effort) return;
        // Its operands alone must not cost more than all there is to gain around it, nor may work be repeated too often.
        if (s == chosen[v] || repeats_too_much(v, s) || least(v, s) >= around(v)) continue;
        const std::vector<strategy> before = chosen;
        const double flops_before = flops;
        std::vector<change> forced;
        apply(v, s, true, forced);
        for (const change& c : forced)
          flops += flops_at(c.node) - flops_of(g, node_at(c.node), factors[c.node], c.before, at);
        held_node = v;
        fresh.assign(g.nodes.size(), 1);
        sweep(1);
        held_node = no_node;
        fresh.assign(g.nodes.size(), 1);
        sweep(1);
        const double found = total_score();
        if (found < best - 1e-12 * best) {
          best = found;
          continue;
        }
        chosen = before;
        flops = flops_before;
      }
    }
  }
};

} // namespace detail

/// Completes a graph and chooses how each node is computed: starts from completion, then improves.
constexpr choice choose(const graph& g, const sizes& at, const policy& rule) {
  detail::chooser c(g, at, rule);
  c.run();
  choice made;
  made.found = c.find_tie();
  made.by_node = static_cast<std::vector<strategy>&&>(c.chosen);
  return made;
}

} // namespace cleave
