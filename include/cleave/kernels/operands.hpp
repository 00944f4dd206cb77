// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/expression.hpp>
#include <cleave/kernels/loops.hpp>
#include <cleave/storage/memory.hpp>

#include <cstdint>

// From the loops of a step to the operands of one line of its expression.

namespace cleave { inline namespace v0 {

namespace detail {

template <class T>
CLEAVE_FUNCTION inline const void* advanced(const void* at, std::int64_t elements) {
  return as<T>(at) + elements;
}

template <class Row, class Node>
CLEAVE_FUNCTION inline int advance_load(Row& r, const std::int64_t* offset) {
  if constexpr (Node::role == fused_role::load)
    r.at[Node::a] = advanced<typename Node::type>(r.at[Node::a], offset[Node::a]);
  return 0;
}

} // namespace detail

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
  static constexpr bool strides = [] {
    bool any = false;
    for (const bool one : {(Nodes::role == fused_role::load && Nodes::b == 2)...}) any = any || one;
    return any;
  }();

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
    const int each[]{detail::advance_load<row_type, Nodes>(r, offset)...};
    static_cast<void>(each);
    for (int k = 0; k < expression_type::indices; ++k) r.index[k] += offset[expression_type::loads + k];
    return r;
  }
};

}} // namespace cleave::v0
