// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/expression.hpp>
#include <cleave/kernels/loops.hpp>
#include <cleave/storage/memory.hpp>

#include <cstdint>

// From the loops of a step to the operands of one line of its expression.

namespace cleave { inline namespace v0 {

/// Lines of an expression: where its operands are at position 0 of the inner loop.
template <class Expression>
struct row_maker;
template <int Loads, class... Nodes>
struct row_maker<fused_expression<Loads, Nodes...>> {
  using expression_type = fused_expression<Loads, Nodes...>;
  using row_type = typename expression_type::row_type;

  /// The array of the result, among those that are walked through.
  static constexpr int result = expression_type::loads + expression_type::indices;
  static constexpr int walked = result + 1;
  /// Whether a load strides along the inner loop.
  static constexpr bool strides = expression_type::facts.strides;
  template <class Node>
  static constexpr int load_of = Node::role == fused_role::load ? Node::a : 0;

  /// The line where all loops begin. `step`: how far each load moves with the inner loop.
  static row_type start(const bound_loops& l, const void* const* from, const std::int64_t* step) {
    row_type r;
    for (int k = 0; k < expression_type::loads; ++k) {
      r.at[k] = from[k];
      r.step[k] = step[k];
    }
    for (int k = 0; k < expression_type::indices; ++k) r.index[k] = l.index_base[k];
    for (int k = 0; k < expression_type::literals; ++k) r.literal[k] = l.literals[k];
    return r;
  }
  /// The line that begins `offset` further along each array, the loads' first.
  CLEAVE_FUNCTION static row_type moved(row_type r, const std::int64_t* offset) {
    const int each[]{(Nodes::role == fused_role::load
                          ? static_cast<void>(r.at[load_of<Nodes>] = as<typename Nodes::type>(r.at[load_of<Nodes>]) +
                                                                     offset[load_of<Nodes>])
                          : static_cast<void>(0),
                      0)...};
    static_cast<void>(each);
    for (int k = 0; k < expression_type::indices; ++k) r.index[k] += offset[expression_type::loads + k];
    return r;
  }
};

}} // namespace cleave::v0
