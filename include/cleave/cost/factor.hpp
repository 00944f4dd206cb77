// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/graph/graph.hpp>

namespace cleave { inline namespace v0 {

/// The effect of sharding a factor, in the words of Shardy's sharding rules.
enum class factor_type : std::uint8_t {
  /// The axes that shard it in the operands shard it in the result: nothing moves.
  pass_through,
  /// Contracted or reduced: sharding it leaves a partial result.
  reduction,
  /// Operand and result may be sharded independently: the step fetches the missing elements.
  permutation,
  /// Sharded over axes that the user wrote, and no others.
  need_replication,
};

/// The factors of a node: each dim that may be sharded, and its position in every operand and in the result
/// (`in_result`); -1 if it does not appear. By-name dims make one rule serve almost every op.
struct factor {
  std::int8_t at[max_arity + 1] = {-1, -1, -1, -1, -1, -1, -1};
  factor_type type = factor_type::pass_through;
  /// Of a split or merged dim: the position of its minor part, in the result or in the operand; else -1.
  std::int8_t minor = -1;
  bool minor_in_result = false;
  /// A permutation: the index of the operand's own axes in strategy::taken.
  std::int8_t taken = -1;
  /// need_replication: the axes over which it is sharded all the same.
  axis_list pin{};

  constexpr bool is_reduced() const { return type == factor_type::reduction; }
  constexpr bool is_fetched() const { return type == factor_type::permutation; }
};

using factor_list = static_vector<factor, 16>;
inline constexpr int in_result = max_arity;

/// The factors of one node, wherever they are kept.
struct node_factors {
  const factor* items = nullptr;
  std::size_t count = 0;

  constexpr node_factors() = default;
  constexpr node_factors(const factor* first, std::size_t n) : items(first), count(n) {}
  constexpr node_factors(const factor_list& list) : items(list.items), count(list.count) {}
  constexpr const factor* begin() const { return items; }
  constexpr const factor* end() const { return items + count; }
};

/// The factors of all nodes of a graph: computed once, read by propagation, by the search and by lowering.
struct factor_table {
  indexed_vector<factor> kept{};
  /// By node: the index of its first factor, and how many it has.
  struct stretch {
    std::size_t first = 0, count = 0;
  };
  indexed_vector<stretch> of_node{};

  constexpr node_factors operator[](std::size_t v) const {
    const stretch& s = of_node.at[v];
    return {kept.at + s.first, s.count};
  }
  /// Sets those of a node; again if it became another operation.
  constexpr void set(std::size_t v, const factor_list& list) {
    of_node[v] = {kept.size(), list.count};
    for (std::size_t i = 0; i < list.count; ++i) kept.push_back(list.items[i]);
  }
};

/// The axes that shard a dim which is split or merged, as they shard its two parts.
struct view_parts {
  axis_list major{}, minor{};
  /// False if the blocks of the whole dim are no blocks of the parts: then only a prefix of its axes is kept.
  bool exact = true;
};

}} // namespace cleave::v0
