// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/improve.hpp>

#include <algorithm>

namespace cleave {

/// A strategy for every node, by node, and the fault if the choice must be left to the user.
struct choice {
  std::vector<strategy> by_node{};
  verdict found{};
  double score = 0;
  /// Merges for which something is gathered.
  std::vector<node_id> gathered{};
};

namespace detail {

/// Completes a graph and improves it: node by node, then by changes that no single node makes cheaper.
struct chooser : improver {
  using improver::improver;

  /// Whether the layout of a value was written by the user, up to cheap ops in between; those of products are ours.
  constexpr bool by_user(std::size_t v, int depth = 12) const {
    if (depth == 0) return false;
    const op_class what = class_of(node_at(v).code);
    if (what == op_class::annotation || node_at(v).code == op::input) return true;
    if (what != op_class::elementwise && what != op_class::view) return false;
    for (int k = 0; k < node_at(v).arity; ++k) {
      const std::size_t u = node_at(v).in[static_cast<std::size_t>(k)];
      // What is broadcast, as a bias, has no say.
      if (node_at(u).type.rank >= node_at(v).type.rank && by_user(u, depth - 1)) return true;
    }
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

  constexpr void run() {
    const completion layouts = complete(g);
    for (std::size_t v = 0; v < g.nodes.size(); ++v) {
      chosen[v] = follows(v) ? following(v) : suggested(v, layouts);
      defer_reduction(v);
    }
    for (std::size_t v = 0; v < g.nodes.size(); ++v)
      if (next_of[v] != no_node) accumulate_partially(v);
    double once = 0;
    for (std::size_t v = 0; v < g.nodes.size(); ++v) {
      flops += flops_at(v);
      once += once_at(v);
    }
    allowed_flops = once * (rule.repeat > 0 ? rule.repeat : 1);
    sweep(6);
    gather_early();
    if (rule.effort > 0) search_wider();
  }

  /// Forces each product and look-up into each of its strategies, improves the rest around it, and keeps what is cheaper in all.
  constexpr void search_wider() {
    tries = 0;
    double best = total_score();
    for (std::size_t v = 0; v < g.nodes.size(); ++v) {
      if ((node_at(v).code != op::dot && node_at(v).code != op::gather && node_at(v).code != op::scatter) || best == 0) continue;
      std::vector<strategy> ways;
      enumerate(v, 0, strategy{}, ways);
      for (const strategy& s : ways) {
        if (tries > rule.effort) return;
        // Its operands alone must not cost more than all there is to gain around it, nor may work be repeated too often.
        if (s == chosen[v] || repeats_too_much(v, s) || least(v, s) >= around(v)) continue;
        keep_if_cheaper(best, [&] {
          std::vector<change> forced;
          apply(v, s, true, forced);
          count_flops(forced);
          held_node = v;
          fresh.assign(g.nodes.size(), 1);
          sweep(1);
          held_node = no_node;
          fresh.assign(g.nodes.size(), 1);
          sweep(1);
        });
      }
    }
  }

  /// Makes a change, and keeps it where the whole becomes cheaper.
  template <class Change>
  constexpr bool keep_if_cheaper(double& best, const Change& change_all) {
    const std::vector<strategy> before = chosen;
    const double flops_before = flops;
    change_all();
    const double found = total_score();
    if (found < best - 1e-12 * best) {
      best = found;
      return true;
    }
    chosen = before;
    flops = flops_before;
    return false;
  }
  constexpr void count_flops(const std::vector<change>& changed) {
    for (const change& c : changed) flops += flops_at(c.node) - flops_with(c.node, c.before);
  }

  /// Brings values together before what several ops make of them, improves the rest around that, and keeps what is cheaper in all.
  constexpr void gather_early() {
    std::vector<double> later = moved_later();
    double best = 0;
    for (std::size_t v = 0; v < g.nodes.size(); ++v) {
      if (later[v] == 0 || !gather_pays(v, later[v])) continue;
      if (best == 0) best = total_score();
      const bool kept = keep_if_cheaper(best, [&] {
        std::vector<change> forced;
        gather_for_readers(v, forced);
        count_flops(forced);
        // Only what is near can gain by it: sweeps of all nodes take most of the time that planning takes.
        std::vector<std::size_t> near;
        for (const change& c : forced) {
          near.push_back(c.node);
          for (int k = 0; k < node_at(c.node).arity; ++k) near.push_back(node_at(c.node).in[static_cast<std::size_t>(k)]);
        }
        for (std::size_t u : near) fresh[u] = 1;
        for (int pass = 0; pass < 2; ++pass)
          for (std::size_t u : near) improve(u);
      });
      if (kept) later = moved_later();
    }
  }

  /// At most what it costs to move what elementwise ops make of each value. What is reached in two ways counts twice, so long chains double
  /// it often: there is no use in more than some bound.
  constexpr std::vector<double> moved_later() const {
    std::vector<double> later(g.nodes.size(), 0);
    for (std::size_t v = g.nodes.size(); v-- > 0;) {
      if (class_of(node_at(v).code) != op_class::elementwise) continue;
      const double moved = std::min(later[v] + moved_whole(v), 1e100);
      for (int k = 0; k < node_at(v).arity && moved > 0; ++k) later[node_at(v).in[static_cast<std::size_t>(k)]] += moved;
    }
    return later;
  }
  constexpr double moved_whole(std::size_t v) const { return home(v).unreduced == 0 && home(v).sharded() != 0 ? node_score(v) : 0; }

  /// Whether a divided value that elementwise ops read might be brought together for less than what comes of it is: as a gradient for the
  /// weights, the momentum and the squares of an optimizer that are replicated.
  constexpr bool gather_pays(std::size_t v, double at_most) {
    if (first_edge[v + 1] == first_edge[v] || anywhere(v) || home(v).sharded() == 0) return false;
    for (std::size_t e = first_edge[v]; e < first_edge[v + 1]; ++e)
      if (class_of(node_at(edges[e].to).code) != op_class::elementwise || settled(edges[e].to)) return false;
    const double once = way(v, home(v), whole(v));
    if (at_most <= once * (1 + 1e-9)) return false;
    ++round;
    double later = 0;
    std::vector<std::size_t> made{v};
    for (std::size_t i = 0; i < made.size() && later <= once * (1 + 1e-9); ++i)
      for (std::size_t e = first_edge[made[i]]; e < first_edge[made[i] + 1]; ++e) {
        const std::size_t w = edges[e].to;
        if (class_of(node_at(w).code) != op_class::elementwise || counted_in[w] == round) continue;
        counted_in[w] = round;
        later += moved_whole(w);
        made.push_back(w);
      }
    return later > once * (1 + 1e-9);
  }
  /// A value in one piece on every device.
  constexpr layout whole(std::size_t v) const {
    layout l = home(v);
    for (int i = 0; i < node_at(v).type.rank; ++i) l[i] = {};
    return l;
  }
  constexpr void gather_for_readers(std::size_t v, std::vector<change>& forced) {
    const layout all = whole(v);
    for (std::size_t e = first_edge[v]; e < first_edge[v + 1]; ++e) {
      const std::size_t w = edges[e].to;
      bool seen = false;
      for (const change& c : forced) seen = seen || c.node == w;
      strategy next = chosen[w];
      project(w, edges[e].operand, all, next);
      seal(node_at(w), next);
      if (!seen && valid(w, next)) apply(w, next, false, forced);
    }
  }
};

} // namespace detail

/// Completes a graph and chooses how each node is computed: starts from completion, then improves.
constexpr choice choose(const graph& g, const sizes& at, const policy& rule) {
  detail::known_ways ways;
  detail::chooser c(g, at, rule, ways);
  c.run();
  choice made;
  made.found = c.find_tie();
  made.score = c.total_score();
  for (std::size_t v = 0; v < g.nodes.size(); ++v)
    if (g.nodes[v].code == op::merge && (c.must_move(v) || c.copies_score(v) > 0)) made.gathered.push_back(static_cast<node_id>(v));
  for (std::size_t v = 0; v < g.nodes.size(); ++v)
    if (c.passes_on(v)) c.chosen[v] = strategy{c.home(v)};
  made.by_node = static_cast<std::vector<strategy>&&>(c.chosen);
  return made;
}

} // namespace cleave
