// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/cost/op_rules.hpp>
#include <cleave/cost/reshard_cache.hpp>
#include <cleave/cost/search_limits.hpp>

namespace cleave { inline namespace v0 { namespace planner {

/// Positions of one tensor as positions of another, counted from 1: bits 4 i to 4 i + 3 say which position i is, and
/// are 0 if the other tensor does not have it. The factors of a node in a form that a strategy reads quickly.
using position_map = std::uint64_t;
inline constexpr position_map same_positions = 0x8'7654'3210u;

/// The packed axes of a layout, each moved to its own position; axes whose position maps to none are left out.
constexpr std::uint64_t mapped(std::uint64_t dims, position_map to) {
  if (to == same_positions) return dims;
  std::uint64_t made = 0;
  int shift = 0;
  for (std::uint64_t rest = dims; rest != 0; rest >>= layout::bits_per_axis, shift += layout::bits_per_axis)
    if (const std::uint64_t there = to >> (4 * (rest & 15u)) & 15u; there != 0)
      made |= (there | (rest & 112u)) << shift;
  return made;
}

/// One map of positions after another.
constexpr position_map then_positions(position_map first, position_map second) {
  if (first == same_positions) return second;
  if (second == same_positions) return first;
  position_map both = 0;
  for (int i = 0; i < 16; ++i) both |= (second >> (4 * (first >> 4 * i & 15u)) & 15u) << 4 * i;
  return both;
}

inline constexpr std::uint64_t hash_factor = 0x9e3779b97f4a7c15u;
constexpr std::uint64_t mixed(std::uint64_t a, std::uint64_t b) { return (a ^ b) * hash_factor + (a >> 29); }

/// The part of a node's fingerprint that does not change.
constexpr std::uint64_t fixed_fingerprint(const node& n) {
  std::uint64_t h = mixed(static_cast<std::uint64_t>(n.code) + (std::uint64_t{n.pinned} << 8) +
                              (static_cast<std::uint64_t>(n.combine) << 16) + (std::uint64_t{n.loop} << 24) +
                              (static_cast<std::uint64_t>(n.type.element) << 32) + (std::uint64_t{n.type.rank} << 40),
                          n.over);
  std::uint64_t dims = 0;
  for (int i = 0; i < n.type.rank; ++i) dims = dims << 8 | n.type[i];
  h = mixed(h, dims);
  return mixed(h, n.which[0] + (std::uint64_t{n.which[1]} << 8) + (std::uint64_t{n.which[2]} << 16));
}

/// A graph with all that its price depends on except the strategies: immutable during the search, but for
/// exchange_views, which makes another operation of a node. Flat arrays by node, by operand ("slot": those of node v
/// begin at first_slot[v]) and by reader ("edge": those of value v begin at first_edge[v]). A rename has no readers: an
/// operand that is one is the value that it renames.
struct cost_model {
  const graph& g;
  /// The nodes of the graph, without a call.
  const node* nodes;
  const sizes& at;
  const policy& rule;
  reshard_cache& cache;
  const op_rules_table& by_class;
  factor_table& table;
  search_limits limits{};

  std::size_t count = 0;
  indexed_vector<std::uint32_t> traits{};
  indexed_vector<std::uint32_t> kind{}, exchange_kind{};
  indexed_vector<std::uint8_t> rank{};
  /// How often each node runs, and its floating-point operations on all devices, as often as it runs.
  indexed_vector<double> weight{}, flops{};
  /// Of a carried value: the node that sets it for the next iteration.
  indexed_vector<node_id> next_of{};
  /// The parts of a node's fingerprint that do not change.
  indexed_vector<std::uint64_t> own_fingerprint{};

  indexed_vector<std::uint32_t> first_slot{};
  indexed_vector<node_id> operand{};
  /// By slot: the operand's positions as the result's and as numbers of reduced factors, and the reverse.
  indexed_vector<position_map> to_result{}, to_reduced{}, from_result{}, from_reduced{};
  /// By slot: the positions of the result, and above bit 16 the reduced factors, that the operand does not have (bit i
  /// + 1: i).
  indexed_vector<std::uint32_t> missing{};

  struct edge {
    node_id to;
    std::uint8_t number;
    std::uint32_t slot;
  };
  indexed_vector<std::uint32_t> first_edge{};
  indexed_vector<edge> edges{};
  /// By slot: its edge.
  indexed_vector<std::uint32_t> edge_of{};

  /// Results by value, counted from 1: the last one that is the value, and for each result the one before. And the
  /// layouts asked for, in the order of the value's positions.
  indexed_vector<std::uint32_t> last_output{}, other_output{};
  indexed_vector<layout> asked{};
  std::size_t most_copies = 0;

  constexpr cost_model(const graph& from, const sizes& s, const policy& p, reshard_cache& known,
                       const op_rules_table& rules_by_class, factor_table& factors_by_node)
      : g(from), nodes(from.nodes.data()), at(s), rule(p), cache(known), by_class(rules_by_class),
        table(factors_by_node), count(from.nodes.size()) {
    make_edges();
    for (std::size_t v = 0; v < count; ++v) describe(v);
    for (std::size_t v = 0; v < count; ++v)
      if ((traits.at[v] & (may_be_transparent | follows_others)) != 0 && !renames(nodes[v].code))
        for (std::uint32_t slot = first_slot.at[v]; slot < first_slot.at[v + 1]; ++slot)
          traits.at[operand.at[slot]] |= leads | ((traits.at[v] & may_be_transparent) != 0 ? read_through : 0u);
    make_outputs();
  }

  constexpr const node& node_at(std::size_t v) const { return nodes[v]; }
  constexpr const op_rules& rules(std::size_t v) const {
    return by_class.items[static_cast<std::size_t>(entry_of(nodes[v].code).what)];
  }
  constexpr node_factors factors(std::size_t v) const { return table[v]; }

  /// The same if a node became another operation.
  constexpr void describe_anew(std::size_t v) {
    factor_list list;
    rules(v).factors.call(g, node_at(v), list);
    table.set(v, list);
    describe(v);
  }
  /// Fills in the arrays of a node.
  constexpr void describe(std::size_t v) {
    const node& n = node_at(v);
    std::uint32_t t = traits_of(n) | (traits.at[v] & (read_through | leads));
    if ((t & elementwise_op) != 0 && n.pinned == 0) {
      std::uint32_t made = n.arity == 0 ? 0u : std::uint32_t{uniform};
      for (int k = 0; k < n.arity; ++k) made &= traits.at[n.in.items[k]];
      if (made != 0) t |= uniform | rematerialised | fixed_strategy;
    }
    if (renames(n.code)) t |= traits.at[operand.at[first_slot.at[v]]] & rematerialised;
    kind.at[v] = cache.kind_of(n.type);
    if (rules(v).remembered) exchange_kind.at[v] = cache.kind_of_exchange(g, n);
    own_fingerprint.at[v] = fixed_fingerprint(n);
    rank.at[v] = n.type.rank;
    for (std::uint32_t slot = first_slot.at[v]; slot < first_slot.at[v + 1]; ++slot)
      to_result.at[slot] = to_reduced.at[slot] = from_result.at[slot] = from_reduced.at[slot] = missing.at[slot] = 0;
    flops.at[v] = (t & has_flops) != 0 ? weight.at[v] * rules(v).flops.call(g, n, at) : 0;
    if (n.arity != 0) {
      const node_factors list = factors(v);
      int r = 0;
      for (std::size_t i = 0; i < list.count; ++i) {
        note_factor(v, n, list.items[i], r);
        if (list.items[i].is_reduced()) ++r;
      }
      if (r != 0) t |= reduces;
      for (std::uint32_t k = 0; k < n.arity; ++k)
        finish_slot(first_slot.at[v] + k, node_at(n.in[k]).type.rank, n.type.rank);
    }
    traits.at[v] = t;
  }

 private:
  constexpr void make_edges() {
    traits.assign(count, 0);
    kind.assign(count, 0);
    exchange_kind.assign(count, 0);
    rank.assign(count, 0);
    weight.assign(count, 1);
    flops.assign(count, 0);
    next_of.assign(count, no_node);
    own_fingerprint.assign(count, 0);
    first_slot.assign(count + 1, 0);
    first_edge.assign(count + 1, 0);
    std::uint32_t slots = 0;
    for (std::size_t v = 0; v < count; ++v) {
      first_slot.at[v] = slots;
      slots += nodes[v].arity;
      for (int k = 0; k < nodes[v].arity && !renames(nodes[v].code); ++k)
        ++first_edge.at[named_by(nodes[v].in[k]) + 1u];
    }
    first_slot.at[count] = slots;
    operand.assign(slots, no_node);
    to_result.assign(slots, 0);
    to_reduced.assign(slots, 0);
    from_result.assign(slots, 0);
    from_reduced.assign(slots, 0);
    missing.assign(slots, 0);
    edges.assign(slots, edge{0, 0, 0});
    edge_of.assign(slots, 0);
    for (std::size_t v = 0; v < count; ++v) {
      if (first_edge.at[v + 1] > most_copies) most_copies = first_edge.at[v + 1];
      first_edge.at[v + 1] += first_edge.at[v];
    }
    indexed_vector<std::uint32_t> next(first_edge);
    for (std::size_t v = 0; v < count; ++v)
      for (std::uint32_t k = 0; k < nodes[v].arity; ++k) {
        const node_id u = named_by(nodes[v].in[k]);
        const std::uint32_t slot = first_slot.at[v] + k;
        operand.at[slot] = u;
        // The edges of renames come after those of all values.
        std::uint32_t& e = next[renames(nodes[v].code) ? count : u];
        edge_of.at[slot] = e;
        edges.at[e++] = {narrowed(v), narrowed(k), slot};
      }
    if (g.loops.empty()) return;
    for (std::size_t v = 0; v < count; ++v) {
      weight.at[v] = static_cast<double>(iterations_of(g.loops, nodes[v].loop, at));
      if (nodes[v].code == op::loop_yield) next_of.at[nodes[v].in[1]] = narrowed(v);
    }
  }

  /// The value that a rename, or several in a row, give other names.
  constexpr node_id named_by(node_id u) const {
    while (renames(nodes[u].code)) u = nodes[u].in.items[0];
    return u;
  }

  constexpr void make_outputs() {
    last_output.assign(count, 0);
    other_output.assign(g.outputs.size(), 0);
    asked.assign(g.outputs.size(), layout{});
    for (std::size_t r = 0; r < g.outputs.size(); ++r) {
      const tensor_type& type = node_at(g.outputs[r]).type;
      const node_id v = named_by(g.outputs[r]);
      other_output.at[r] = std::exchange(last_output.at[v], static_cast<std::uint32_t>(r + 1));
      const layout& wanted = g.output_layouts[r];
      asked.at[r].set_partial(wanted.unreduced(), wanted.combine());
      for (int i = 0; i < type.rank; ++i) asked.at[r].set(i, wanted[g.output_types[r].find(type[i])]);
    }
    most_copies += g.outputs.size();
  }

  constexpr std::uint32_t traits_of(const node& n) const {
    const op_rules& rules = by_class[class_of(n.code)];
    std::uint32_t t = rules.traits;
    if (rules.traits_of.given) t |= rules.traits_of.call(n);
    if (rules.moves.given && rules.weighed) t |= moves_data;
    if (n.local) t |= special | fixed_strategy;
    if (n.pinned != 0) t |= has_pins;
    if (passes_sums(n)) t |= is_linear;
    return t;
  }

  /// Notes for each operand which of its positions a factor connects with the result, or with reduced factor `r`, in
  /// both directions: four bits for each position, 0 if there is none. `missing` has the factors that an operand lacks.
  constexpr void note_factor(std::size_t v, const node& n, const factor& f, int r) {
    const int there = f.at[in_result];
    const bool reduced = f.is_reduced();
    if (there < 0 && !reduced) return;
    for (std::uint32_t k = 0; k < n.arity; ++k) {
      const std::uint32_t slot = first_slot.at[v] + k;
      const int here = f.at[k];
      const int number = reduced ? r + 1 : there + 1;
      if (here < 0) {
        missing.at[slot] |= 1u << (reduced ? 16 + number : number);
        continue;
      }
      (reduced ? to_reduced : to_result).at[slot] |= static_cast<position_map>(number) << (4 * (here + 1));
      (reduced ? from_reduced : from_result).at[slot] |= static_cast<position_map>(here + 1) << (4 * number);
    }
  }
  /// Numbers beyond a rank never come up: maps that keep all others keep them too.
  constexpr void finish_slot(std::uint32_t slot, int operand_rank, int rank) {
    const position_map all = same_positions & ((position_map{1} << (4 * (operand_rank + 1))) - 1);
    if (to_result.at[slot] == all) to_result.at[slot] = same_positions;
    const position_map back = same_positions & ((position_map{1} << (4 * (rank + 1))) - 1);
    if (from_result.at[slot] == back) from_result.at[slot] = same_positions;
  }
};

}}} // namespace cleave::v0::planner
