// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/graph/graph.hpp>

#include <optional>

// Maps of maps: two remaps in a row become one if one index map can describe both, so that elements move once.

namespace cleave { inline namespace v0 { namespace detail {

/// times * a + b; none if that has too many terms.
constexpr optional_value<extent_sum> scaled_sum(const extent_sum& a, std::int64_t times, const extent_sum& b) {
  extent_sum s = b;
  s.constant += times * a.constant;
  for (const extent_sum::term& t : a.terms) {
    std::int64_t all = times * t.times;
    std::size_t k = 0;
    while (k < s.terms.size() && s.terms[k].dim != t.dim) ++k;
    if (k < s.terms.size()) all += s.terms[k].times;
    else if (s.terms.full()) return {};
    else s.terms.push_back({t.dim, 0});
    s.terms[k].times = all;
  }
  extent_sum shorter;
  shorter.constant = s.constant;
  for (const extent_sum::term& t : s.terms)
    if (t.times != 0) shorter.terms.push_back(t);
  return shorter;
}
/// An extent or an offset, if all extents that it depends on are fixed.
constexpr optional_value<std::int64_t> fixed_extent(const graph& g, dim_id d) {
  if (g.dims[d].extent == dynamic) return {};
  return g.dims[d].extent;
}
constexpr optional_value<std::int64_t> fixed_sum(const graph& g, const extent_sum& s) {
  std::int64_t total = s.constant;
  for (const extent_sum::term& t : s.terms) {
    const auto n = fixed_extent(g, t.dim);
    if (!n) return {};
    total += t.times * *n;
  }
  return total;
}

/// The identity map.
constexpr bool is_identity(const dim_map& m) {
  return m.from == m.to && m.window == no_dim && m.stride == 1 && m.divisor == 1 && m.at_run_time == 0 &&
         m.offset == extent_sum{};
}
/// A map that reverses a dim.
constexpr bool is_mirror(const dim_map& m) {
  extent_sum last;
  last.constant = -1;
  last.terms.push_back({m.from, 1});
  return m.from == m.to && m.window == no_dim && m.stride == -1 && m.divisor == 1 && m.at_run_time == 0 &&
         m.offset == last;
}
/// Whether every index of the result comes from an index of the operand, so that no element comes from outside.
constexpr bool stays_inside(const graph& g, const dim_map& m) {
  if (is_mirror(m) || is_identity(m)) return true;
  const auto from = fixed_extent(g, m.from), to = fixed_extent(g, m.to), offset = fixed_sum(g, m.offset);
  if (!from || !to || !offset || m.window != no_dim || (m.divisor != 1 && !m.floors)) return false;
  if (*to == 0) return true;
  const std::int64_t first = *offset, last = m.stride * (*to - 1) + *offset;
  const std::int64_t most = m.divisor * *from;
  return first >= 0 && first < most && last >= 0 && last < most;
}
/// Whether every index of the operand is taken, each by one index of the result: then indices outside of the result map
/// to indices outside of the operand.
constexpr bool covers(const graph& g, const dim_map& m) {
  if (is_mirror(m) || is_identity(m)) return true;
  const auto from = fixed_extent(g, m.from), to = fixed_extent(g, m.to), offset = fixed_sum(g, m.offset);
  if (!from || !to || !offset || m.window != no_dim || m.floors || m.stride != 1 || m.outside != border::zero)
    return false;
  return *from == 0 || (-*offset >= 0 && m.divisor * (*from - 1) - *offset < *to);
}
/// Whether an index beyond an end of the result has the same source as the index that stands for it.
constexpr bool repeats_with(const dim_map& m, border outside) {
  if (is_mirror(m)) return true;
  return outside == border::periodic && m.outside == border::periodic && m.from == m.to && m.divisor == 1 &&
         m.stride == 1 && m.window == no_dim;
}

/// The map of the remap outer(inner(x)); none if no map expresses it.
constexpr std::optional<dim_map> composed_map(const graph& g, const dim_map& inner, const dim_map& outer) {
  if (inner.at_run_time != 0 || outer.at_run_time != 0) return std::nullopt;
  if (inner.window != no_dim && outer.window != no_dim) return std::nullopt;
  dim_map m = inner;
  m.to = outer.to;
  m.operand = outer.operand;
  // The elements outside.
  if (!stays_inside(g, outer)) {
    const bool same = outer.outside == border::zero ? covers(g, inner) : repeats_with(inner, outer.outside);
    if (!same) return std::nullopt;
    m.outside = outer.outside;
  }
  // index of the operand = (inner.stride * ((outer.stride * i + outer.offset) / outer.divisor) + inner.offset) / ...
  const bool both_divide = inner.divisor != 1 && outer.divisor != 1;
  if (both_divide && (inner.stride != 1 || outer.stride != 1 || inner.floors != outer.floors)) return std::nullopt;
  if (outer.divisor != 1 && inner.stride != 1 && (outer.floors || inner.stride != -1)) return std::nullopt;
  m.stride = inner.stride * outer.stride;
  m.divisor = inner.divisor * outer.divisor;
  if (m.divisor != 1 && m.stride != 1 && m.stride != -1) return std::nullopt;
  if (m.divisor != 1 && (inner.window != no_dim || outer.window != no_dim)) return std::nullopt;
  // The rounding of a map with divisor 1 means nothing.
  m.floors = (inner.divisor != 1 && inner.floors) || (outer.divisor != 1 && outer.floors);
  if (outer.window != no_dim) {
    m.window = outer.window;
    m.dilation = inner.stride * outer.dilation;
  }
  extent_sum own;
  if (const auto moved = scaled_sum(inner.offset, outer.divisor, own)) own = *moved;
  else return std::nullopt;
  const auto offset = scaled_sum(outer.offset, inner.stride, own);
  if (!offset) return std::nullopt;
  m.offset = *offset;
  return m;
}

/// By operation: whether it can be one remap with a remap before or after it, as graph/op_list.hpp says.
enum class in_a_row : bool { stays, composes };
inline constexpr in_a_row rows_of_remaps[] = {
#define CLEAVE_OP(...) in_a_row::stays,
#define CLEAVE_REMAP(code, operands, linearity, row) in_a_row::row,
#define CLEAVE_ELEMENTWISE(...) in_a_row::stays,
#include <cleave/graph/op_list.hpp>
};
constexpr bool composes(op code) { return rows_of_remaps[underlying(code)] == in_a_row::composes; }

/// The maps of two remaps in a row as those of one, in order; none if they do not compose.
using few_maps = static_vector<dim_map, 6>;
constexpr std::optional<few_maps> composed_maps(const graph& g, const node& inner, const node& outer) {
  few_maps maps;
  for (const dim_map& first : maps_of(g, inner)) {
    dim_map m = first;
    if (m.at_run_time != 0 || maps.full()) return std::nullopt;
    for (const dim_map& second : maps_of(g, outer)) {
      // Windows are whole.
      if (m.window != no_dim && second.from == m.window) return std::nullopt;
      if (second.from != first.to) continue;
      const auto both = composed_map(g, first, second);
      if (!both) return std::nullopt;
      m = *both;
      m.operand = first.operand;
    }
    maps.push_back(m);
  }
  for (const dim_map& second : maps_of(g, outer)) {
    bool met = false;
    for (const dim_map& first : maps_of(g, inner)) met = met || first.to == second.from;
    if (met) continue;
    // Along another dim than the pieces of a concatenation: each piece has it.
    for (std::uint8_t k = 0; k < inner.arity; ++k) {
      if (maps.full() || second.at_run_time != 0) return std::nullopt;
      maps.push_back(second);
      maps.back().operand = k;
    }
  }
  // An exchange has three maps of an operand at most, and a name for each of its dims.
  if (maps.size() > 3 && inner.arity == 1) return std::nullopt;
  for (const dim_map& m : maps) {
    const tensor_type& from = g.nodes[inner.in[m.operand]].type;
    if ((m.to != m.from && from.has(m.to)) || (m.window != no_dim && from.has(m.window))) return std::nullopt;
  }
  return maps;
}

/// Writes a remap of a remap as one, if it can be; its maps are appended to the graph. `n` has operands in `g`.
constexpr bool compose_remaps(graph& g, node& n) {
  const node& inner = g.nodes[n.in[0]];
  if (n.arity != 1 || inner.maps == 0 || inner.loop != n.loop) return false;
  if (!composes(n.code) || !composes(inner.code)) return false;
  const auto maps = composed_maps(g, inner, n);
  if (!maps) return false;
  const std::size_t first = g.maps.size();
  if (first + maps->size() > 65535) return false;
  if (inner.arity > 1) n.code = inner.code;
  n.arity = inner.arity;
  n.in = inner.in;
  n.first_map = narrowed(first);
  n.maps = narrowed(maps->size());
  for (const dim_map& m : *maps) g.maps.push_back(m);
  return true;
}

/// How many live nodes and results read each node.
constexpr indexed_vector<std::uint8_t> readers_in(const graph& g, const indexed_vector<std::uint8_t>& live) {
  indexed_vector<std::uint8_t> readers(g.nodes.size(), 0);
  const auto count = [&readers](node_id v) { readers[v] = narrowed(readers[v] < 2 ? readers[v] + 1 : 2); };
  for (std::size_t v = 0; v < g.nodes.size(); ++v)
    for (int k = 0; k < g.nodes[v].arity && live[v] != 0; ++k) count(g.nodes[v].in[k]);
  for (node_id r : g.outputs) count(r);
  return readers;
}
/// Whether a node is the only reader of its first operand, and no other name of that operand is read.
constexpr bool reads_alone(const graph& g, const indexed_vector<std::uint8_t>& readers, std::size_t v) {
  for (std::size_t u = g.nodes[v].in[0]; readers[u] == 1; u = g.nodes[u].in[0])
    if (!is_alias(g.nodes[u].code)) return true;
  return false;
}

/// A shift of choices between neighbours, which becomes choices between shifts. A condition at a face is a choice of
/// neighbours in one array, by the index along a dim. Its neighbours along another dim are the same choice between
/// neighbours that are farther away: it is chosen again where it is read, and is not stored, nor has it a halo.
struct shifted_choice {
  graph& to;
  const node shift;
  dim_set dims = 0;
  /// The array of the neighbours, the nodes that are made again, and whether some are neighbours.
  node_id array = no_node;
  std::size_t made = 0;
  bool around = false;

  static constexpr bool chooses(op code) { return code == op::select || code == op::neg || code == op::cast; }
  /// Choices that are made again at most. Not measured.
  static constexpr std::size_t most_made = 24;

  /// Whether it can be. Its operand is in the graph.
  constexpr bool applies() {
    bool moves = shift.pinned == 0 && shift.arity == 1 && composes(shift.code);
    for (const dim_map& m : maps_of(to, shift)) {
      dims |= dim_bit(m.to);
      moves = moves && m.from == m.to && m.window == no_dim && m.outside != border::zero && m.stride == 1 &&
              m.divisor == 1;
    }
    return moves && chooses_from_array(shift.in[0]) && around;
  }
  /// The node that it becomes; those before it are appended.
  constexpr node at(node_id v) {
    node n = to.nodes[v];
    if (chooses(n.code)) {
      for (int k = 0; k < n.arity; ++k)
        if (const node_id u = n.in[k]; (to.nodes[u].type.set() & dims) != 0) {
          to.nodes.push_back(at(u));
          n.in[k] = narrowed(to.nodes.size() - 1);
        }
      return n;
    }
    n = shift;
    n.type = to.nodes[v].type;
    n.in[0] = v;
    if (v != array) compose_remaps(to, n);
    return n;
  }

 private:
  constexpr bool chooses_from_array(node_id v) {
    const node& n = to.nodes[v];
    if ((n.type.set() & dims) == 0) return true;
    if (++made > most_made || n.loop != shift.loop) return false;
    if (chooses(n.code)) {
      for (int k = 0; k < n.arity; ++k)
        if (!chooses_from_array(n.in[k])) return false;
      return n.pinned == 0 && !n.computes_halo;
    }
    const bool moved = n.maps != 0 && n.arity == 1 && n.pinned == 0 && composes(n.code) && composed_maps(to, n, shift);
    around = around || moved;
    const node_id from = moved ? n.in[0] : v;
    if (array == no_node) array = from;
    return array == from;
  }
};

}}} // namespace cleave::v0::detail
