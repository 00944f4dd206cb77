// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/plan/exchange.hpp>
#include <cleave/plan/sorting.hpp>
#include <cleave/plan/strategy.hpp>

#include <vector>

namespace cleave {

namespace detail {

/// What it costs to take values from one layout to another. The same ways come up in every layer, so they are looked for once.
class known_ways {
 public:
  constexpr double score(const tensor_type& type, const layout& from, const layout& to, const sizes& at, const policy& rule) {
    std::uint64_t h = static_cast<std::uint64_t>(type.element) + 17u * from.unreduced + 4099u * to.unreduced;
    for (int i = 0; i < type.rank; ++i) h = (h ^ (from[i].packed + (std::uint64_t{to[i].packed} << 28) + type[i])) * 0x9e3779b97f4a7c15u;
    std::size_t& head = heads_[static_cast<std::size_t>(h >> 56)];
    for (std::size_t k = head; k != 0; k = ways_[k - 1].next) {
      const way& w = ways_[k - 1];
      if (w.hash == h && w.type == type && w.from == from && w.to == to) return w.score;
    }
    const double found = find_path(shape_of(type, at), size_of(type.element), from, to, at.axes, rule).score;
    ways_.push_back({h, type, from, to, found, head});
    head = ways_.size();
    return found;
  }

  /// The same for exchanges, by the first map of the node and the axes on both sides.
  constexpr double* exchange(std::uint16_t map, const strategy& s) {
    for (exchange_score& e : exchanges_)
      if (e.map == map && e.how.divides_like(s)) return &e.score;
    exchanges_.push_back({map, s, -1});
    return &exchanges_.back().score;
  }

 private:
  struct exchange_score {
    std::uint16_t map;
    strategy how;
    double score;
  };
  std::vector<exchange_score> exchanges_{};
  struct way {
    std::uint64_t hash;
    tensor_type type;
    layout from, to;
    double score;
    std::size_t next;
  };
  std::vector<way> ways_{};
  std::vector<std::size_t> heads_ = std::vector<std::size_t>(256, 0);
};

/// A graph, a strategy for each of its nodes, and what that costs: the sum over values of the copies that consumers need
/// in other layouts, each distinct copy made once; repeated products are forbidden or priced by the policy.
struct priced_graph {
  const graph& g;
  const sizes& at;
  const policy& rule;
  known_ways& memory;
  std::vector<strategy> chosen{};
  std::vector<factor_list> factors{};
  /// Edges to consumers, grouped by producer.
  struct edge {
    node_id to;
    std::uint8_t operand;
  };
  std::vector<std::size_t> first_edge{};
  std::vector<edge> edges{};
  /// Results by value, counted from 1: the last one that is the value, and for each result the one before.
  std::vector<std::size_t> last_output{}, other_output{};
  double flops = 0;
  double allowed_flops = 0;
  /// How often each node runs, and which value each carried one becomes.
  std::vector<double> weight{};
  std::vector<node_id> next_of{};

  constexpr priced_graph(const graph& from, const sizes& s, const policy& p, known_ways& known) : g(from), at(s), rule(p), memory(known) {
    const std::size_t n = g.nodes.size();
    chosen.assign(n, strategy{});
    factors.assign(n, factor_list{});
    first_edge.assign(n + 1, 0);
    for (std::size_t v = 0; v < n; ++v) {
      factors[v] = factors_of(g, g.nodes[v]);
      for (int k = 0; k < g.nodes[v].arity; ++k) ++first_edge[g.nodes[v].in[static_cast<std::size_t>(k)] + 1u];
    }
    for (std::size_t v = 0; v < n; ++v) first_edge[v + 1] += first_edge[v];
    edges.assign(first_edge[n], edge{0, 0});
    last_output.assign(n, 0);
    other_output.assign(g.outputs.size(), 0);
    for (std::size_t r = 0; r < g.outputs.size(); ++r) {
      other_output[r] = last_output[g.outputs[r]];
      last_output[g.outputs[r]] = r + 1;
    }
    weight.assign(n, 1);
    next_of.assign(n, no_node);
    for (std::size_t v = 0; v < n && !g.loops.empty(); ++v) {
      weight[v] = static_cast<double>(trips_of(g.loops, g.nodes[v].loop, at));
      if (g.nodes[v].code == op::next) next_of[g.nodes[v].in[1]] = static_cast<node_id>(v);
    }
    std::vector<std::size_t> next(first_edge.begin(), first_edge.end());
    for (std::size_t v = 0; v < n; ++v)
      for (int k = 0; k < g.nodes[v].arity; ++k)
        edges[next[g.nodes[v].in[static_cast<std::size_t>(k)]]++] = {static_cast<node_id>(v), static_cast<std::uint8_t>(k)};
  }

  constexpr const node& node_at(std::size_t v) const { return g.nodes[v]; }
  /// Sources that cost nothing in any layout.
  constexpr bool anywhere(std::size_t v) const { return class_of(node_at(v).code) == op_class::source && node_at(v).code != op::input; }
  /// A barrier keeps its operand as that was made, so that what is beyond moves it anew. Partial sums are no such form.
  /// So does what a loop carried, after it.
  constexpr bool passes_on(std::size_t v) const {
    return node_at(v).code == op::last || (node_at(v).code == op::barrier && home(node_at(v).in[0]).unreduced == 0);
  }
  constexpr bool may_pass_on(std::size_t v) const { return node_at(v).code == op::barrier || node_at(v).code == op::last; }
  /// What is read at an index of a stack is divided as the stack is; what goes to the next trip as it came. Both follow others.
  constexpr bool follows(std::size_t v) const { return node_at(v).code == op::each || node_at(v).code == op::next; }
  constexpr strategy following(std::size_t v) const {
    const node& n = node_at(v);
    strategy s;
    if (n.code == op::next) {
      s.out = chosen[n.in[1]].out;
      s.pass = s.out.unreduced;
      s.bringers = s.pass != 0 ? 3 : 0;
      return s;
    }
    const layout& stack = home(n.in[0]);
    const tensor_type& whole = node_at(n.in[0]).type;
    for (int i = 0; i < n.type.rank; ++i) s.out[i] = stack[whole.find(n.type[i])];
    return s;
  }
  /// The layout in which a value is made.
  constexpr const layout& home(std::size_t v) const {
    return passes_on(v) ? home(node_at(v).in[0]) : chosen[v].out;
  }
  /// Nothing may change a node whose layout the user wrote or that has none to choose.
  constexpr bool settled(std::size_t v) const {
    const node& n = node_at(v);
    return class_of(n.code) == op_class::source || n.code == op::reshard || n.local || passes_on(v) || follows(v);
  }
  /// The layout that a reader needs of a value.
  constexpr layout needed_by(std::size_t reader, int operand) const {
    const node& n = node_at(reader);
    if (passes_on(reader)) return home(n.in[0]);
    return required(n, factors[reader], chosen[reader], operand);
  }

  constexpr layout output_of(std::size_t r) const {
    const std::size_t v = g.outputs[r];
    layout asked = home(v);
    if (!g.outputs_pinned) {
      asked.unreduced = 0;
      return asked;
    }
    asked = g.output_layouts[r];
    for (int i = 0; i < node_at(v).type.rank; ++i)
      asked[i] = g.output_layouts[r][g.output_types[r].find(node_at(v).type[i])];
    return asked;
  }

  constexpr double way(std::size_t u, const layout& from, const layout& to) const { return weight[u] * memory.score(node_at(u).type, from, to, at, rule); }

  /// What the operation of a node itself moves.
  constexpr double exchange_score(std::size_t v, const strategy& s) const { return weight[v] * exchange_once(v, s); }
  constexpr double exchange_once(std::size_t v, const strategy& s) const {
    const node& n = node_at(v);
    if (n.code == op::cumulative) return rule.score(scan_cost(n.type, s.out, n.type.find(n.which[0]), at));
    if (n.code == op::sort || n.code == op::argsort)
      return rule.score(sort_cost(node_at(n.in[0]).type, s.out, n.type.find(n.which[0]), n.code == op::argsort, at));
    if (n.code == op::scatter)
      return rule.score(scatter_cost(node_at(n.in[0]).type, required(n, factors[v], s, 0), node_at(n.in[1]).type, required(n, factors[v], s, 1), s.sent,
                                     s.out[n.type.find(n.which[0])], at));
    if (n.code == op::gather)
      return rule.score(gather_cost(node_at(n.in[1]).type, required(n, factors[v], s, 1), s.taken[0], n.type, s.out, at));
    if (class_of(n.code) != op_class::remap) return 0;
    double* known = memory.exchange(n.first_map, s);
    if (*known >= 0) return *known;
    static_vector<exchange_part, max_arity> parts;
    for (std::uint8_t k = 0; k < n.arity; ++k)
      parts.push_back(part_of(maps_of(g, n), k, node_at(n.in[k]).type, required(n, factors[v], s, k), n.type, s.out));
    return *known = rule.score(exchange_cost(std::span<const exchange_part>(parts.begin(), parts.end()), at));
  }
  /// That, and the copies of its result.
  constexpr double node_score(std::size_t v) const { return copies_score(v) + exchange_score(v, chosen[v]); }

  /// The layouts in which a value is needed beside its own.
  constexpr std::vector<layout> copies_of(std::size_t u) const {
    std::vector<layout> needed;
    const auto need = [&](const layout& l) {
      if (l == home(u)) return;
      for (const layout& have : needed)
        if (have == l) return;
      needed.push_back(l);
    };
    for (std::size_t e = first_edge[u]; e < first_edge[u + 1]; ++e)
      need(needed_by(edges[e].to, edges[e].operand));
    for (std::size_t r = last_output[u]; r != 0; r = other_output[r - 1]) need(output_of(r - 1));
    return needed;
  }

  /// Whether every consumer takes the value as it comes: the usual case, decided without building lists.
  constexpr bool all_at_home(std::size_t u) const {
    const layout& own = home(u);
    for (std::size_t e = first_edge[u]; e < first_edge[u + 1]; ++e)
      if (!(needed_by(edges[e].to, edges[e].operand) == own)) return false;
    for (std::size_t r = last_output[u]; r != 0; r = other_output[r - 1])
      if (!(output_of(r - 1) == own)) return false;
    return true;
  }

  /// Whether a strategy alone would repeat more work than the policy allows.
  constexpr bool repeats_too_much(std::size_t v, const strategy& s) const {
    if (rule.repeat == 0 || node_at(v).code != op::dot) return false;
    return flops - flops_at(v) + flops_with(v, s) > allowed_flops * (1 + 1e-9);
  }

  /// What it costs to make all copies of a value, each from the cheapest layout that is there already.
  constexpr double copies_score(std::size_t u) const {
    if (anywhere(u) || all_at_home(u)) return 0;
    const std::vector<layout> needed = copies_of(u);
    double total = 0;
    for (std::size_t i = 0; i < needed.size(); ++i) {
      double best = way(u, home(u), needed[i]);
      for (std::size_t j = 0; j < i && best > 0; ++j) {
        const double other = way(u, needed[j], needed[i]);
        if (needed[j].unreduced == 0 && other < best) best = other;
      }
      total += best;
    }
    return total;
  }

  constexpr double flops_with(std::size_t v, const strategy& s) const { return weight[v] * flops_of(g, node_at(v), factors[v], s, at); }
  constexpr double flops_at(std::size_t v) const { return flops_with(v, chosen[v]); }
  /// The flops of one device when no work is repeated.
  constexpr double once_at(std::size_t v) const {
    return flops_with(v, strategy{}) / static_cast<double>(at.axes.devices());
  }
  constexpr double flops_score(double total) const {
    double score = rule.flop * total;
    if (rule.repeat > 0 && total > allowed_flops * (1 + 1e-9)) score += 1e15 * (total / allowed_flops);
    return score;
  }

};

} // namespace detail

} // namespace cleave
