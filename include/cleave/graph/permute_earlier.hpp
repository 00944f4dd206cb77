// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/graph/permute_later.hpp>

// A permutation of the result of elementwise operations is a permutation of their operands. If one operand alone has
// the permuted dims, such as the labels of a one-hot form, that may be much less to move.

namespace cleave { inline namespace v0 { namespace detail {

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
/// Whether a value is smaller than another with the same permuted dims: it has fewer dims, or as many and smaller
/// elements.
constexpr bool is_smaller(const tensor_type& a, const tensor_type& b) {
  return a.rank != b.rank ? a.rank < b.rank : size_of(a.element) < size_of(b.element);
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
    if (is_smaller(n.type, smallest)) best = passed, smallest = n.type;
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
