// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/graph/compose_maps.hpp>

#include <algorithm>

// Sums of elements in another order: reversed or rolled dims are put in order after a reduction, if any remain. A
// reduction over such a dim needs no order at all, and elements that another permutation puts back were never moved.

namespace cleave { inline namespace v0 { namespace detail {

inline constexpr bool computes_elements[] = {
#define CLEAVE_OP(...) false,
#define CLEAVE_ELEMENTWISE(...) true,
#include <cleave/graph/op_list.hpp>
};

/// Whether a remap takes each element of its operand once, along the same dims.
constexpr bool permutes(const graph& g, const node& n) {
  if (n.maps == 0 || n.arity != 1 || !(n.type == g.nodes[n.in[0]].type)) return false;
  for (const dim_map& m : maps_of(g, n)) {
    const bool rolls = m.from == m.to && m.window == no_dim && m.stride == 1 && m.divisor == 1 && m.at_run_time == 0 &&
                       m.outside == border::periodic;
    if (!rolls && !is_mirror(m) && !is_identity(m)) return false;
  }
  return true;
}

/// Whether a remap puts back the elements that a permutation has moved.
constexpr bool restores(const graph& g, const node& n, const node& permutation) {
  const auto maps = permutes(g, n) ? composed_maps(g, permutation, n) : std::nullopt;
  return maps && std::all_of(maps->begin(), maps->end(), is_identity);
}

/// The permutation behind which each node is computed, of those that only reductions and permutations that restore the
/// order need, by themselves or through elementwise operations.
struct later_permutations {
  indexed_vector<node_id> behind{};
  /// Nodes whose readers are behind the permutation too.
  indexed_vector<std::uint8_t> passes{};

  constexpr later_permutations(const graph& g, const indexed_vector<std::uint8_t>& live, bool wanted) {
    if (!wanted) return;
    const node* nodes = g.nodes.data();
    const std::size_t count = g.nodes.size();
    const std::uint8_t* lives = live.data();
    for (std::size_t v = 0; v < count; ++v) {
      if (nodes[v].maps == 0 || lives[v] == 0 || !permutes(g, nodes[v])) continue;
      if (behind.empty()) behind.assign(count, no_node), passes.assign(count, 0);
      if (behind[v] != no_node) continue;
      for (bool pass : {true, false}) {
        passed_ = false;
        last_ = v;
        if (only_reduced(g, live, v, pass)) break;
        for (std::size_t w = v; w <= last_; ++w)
          if (behind[w] == v) behind[w] = no_node, passes[w] = 0;
        if (!passed_) break;
      }
    }
  }

 private:
  /// Marks all readers of a permutation. Returns whether the permutation can be dropped.
  constexpr bool only_reduced(const graph& g, const indexed_vector<std::uint8_t>& live, std::size_t v, bool pass) {
    const node* nodes = g.nodes.data();
    std::uint64_t permuted = 0;
    for (const dim_map& m : maps_of(g, nodes[v])) permuted |= std::uint64_t{1} << m.to;
    bool reduced = false;
    for (node_id r : g.outputs)
      if (r == v) return false;
    for (std::size_t w = v + 1; w < g.nodes.size(); ++w) {
      const node& n = nodes[w];
      if (live[w] == 0) continue;
      bool reads = false, others = false;
      for (int k = 0; k < n.arity; ++k) {
        const node_id u = n.in.items[k];
        if (u == v || (behind[u] == v && passes[u] != 0)) reads = true;
        else others = others || (nodes[u].type.set() & permuted) != 0;
      }
      if (!reads) continue;
      const bool reduces = n.code == op::reduce;
      const bool ends = reduces ? !pass || (n.type.set() & permuted) == 0 : restores(g, n, nodes[v]);
      if (others || n.loop != nodes[v].loop || n.pinned != 0 || behind[w] != no_node) return false;
      if (!ends && !reduces && !is_alias(n.code) && !computes_elements[underlying(n.code)]) return false;
      behind[w] = narrowed(v);
      last_ = w;
      passed_ = passed_ || (reduces && !ends);
      passes[w] = !ends;
      reduced = reduced || ends;
      for (node_id r : g.outputs)
        if (r == w && !ends) return false;
    }
    return reduced;
  }

  /// The last node that is behind the permutation, and whether that passed a reduction.
  std::size_t last_ = 0;
  bool passed_ = false;
};

/// Appends a reduction of the operand that is not permuted yet, and makes of `n` the permutation of its result; `n`
/// stays a reduction if nothing remains to permute. Returns whether one was appended.
constexpr bool permute_reduced(graph& to, const graph& from, const node& permutation, node& n) {
  const std::size_t first = to.maps.size();
  for (const dim_map& m : maps_of(from, permutation))
    if (n.type.has(m.to) && !is_identity(m)) to.maps.push_back(m);
  if (to.maps.size() == first) return false;
  node after = permutation;
  after.type = n.type;
  after.in[0] = narrowed(to.nodes.size());
  after.first_map = narrowed(first);
  after.maps = narrowed(to.maps.size() - first);
  to.nodes.push_back(n);
  n = after;
  return true;
}

// A permutation of the result of elementwise operations is a permutation of their operands. If one operand alone has
// the permuted dims, such as the labels of a one-hot form, that may be much less to move.

/// The only operand of an elementwise operation that has one of some dims; none, or several: -1.
constexpr int operand_with(const graph& g, const node& n, dim_set dims) {
  int found = -1;
  for (int k = 0; k < n.arity; ++k) {
    if ((g.nodes[n.in[k]].type.set() & dims) == 0) continue;
    if (found >= 0) return -1;
    found = k;
  }
  return found;
}

/// Operations that a permutation may pass. Not measured.
inline constexpr int passed_at_most = 16;

/// How many elementwise operations above a permutation, which read each other alone, it should come before: those after
/// the smallest value that it may permute instead.
constexpr int operations_to_pass(const graph& g, const indexed_vector<std::uint8_t>& readers, std::size_t v) {
  const node& permutation = g.nodes[v];
  if (permutation.pinned != 0 || !permutes(g, permutation)) return 0;
  dim_set dims = 0;
  for (const dim_map& m : maps_of(g, permutation)) dims |= dim_bit(m.to);
  int passed = 0, best = 0;
  tensor_type smallest = permutation.type;
  for (node_id u = permutation.in[0]; passed <= passed_at_most; ++passed) {
    const node& n = g.nodes[u];
    const int dims_less = smallest.rank - n.type.rank;
    if (dims_less > 0 || (dims_less == 0 && size_of(n.type.element) < size_of(smallest.element)))
      best = passed, smallest = n.type;
    if (!computes_elements[underlying(n.code)] || readers[u] != 1 || n.pinned != 0 || n.loop != permutation.loop) break;
    const int k = operand_with(g, n, dims);
    // A broadcast may have dims of the permutation that its operand lacks.
    if (k < 0 || (g.nodes[n.in[k]].type.set() & dims) != dims) break;
    u = n.in[k];
  }
  return best;
}

/// Appends a permutation, and the operations that it passes but for the last one, which becomes `n`. `now` has the
/// nodes of `from` in `to`.
constexpr void permute_earlier(graph& to, const graph& from, const node_id* now, std::size_t v, int passed, node& n) {
  const node& permutation = from.nodes[v];
  dim_set dims = 0;
  for (const dim_map& m : maps_of(from, permutation)) dims |= dim_bit(m.to);
  node_id chain[passed_at_most]{};
  int count = 0;
  node_id u = permutation.in[0];
  for (; count < passed; ++count) {
    chain[count] = u;
    u = from.nodes[u].in[operand_with(from, from.nodes[u], dims)];
  }
  node moved = permutation;
  moved.type = from.nodes[u].type;
  moved.in[0] = now[u];
  node_id made = narrowed(to.nodes.size());
  to.nodes.push_back(moved);
  while (count-- > 0) {
    const node& passed_one = from.nodes[chain[count]];
    const int k = operand_with(from, passed_one, dims);
    n = passed_one;
    for (int j = 0; j < n.arity; ++j) n.in[j] = j == k ? made : now[passed_one.in[j]];
    if (count == 0) return;
    made = narrowed(to.nodes.size());
    to.nodes.push_back(n);
  }
}

}}} // namespace cleave::v0::detail
