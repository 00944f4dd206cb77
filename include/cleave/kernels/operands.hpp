// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/expression.hpp>
#include <cleave/kernels/loops.hpp>

#include <array>
#include <cstdint>

namespace cleave {

/// The loops of a map or fold bound to sizes. Operands: the loads, then the indices (whose "address" is the index itself), then
/// the result.
struct bound_loops {
  /// map: all dims. fold: the kept dims, without the inner one if that is kept.
  loop_nest outer{};
  /// fold: the folded dims; the inner one is last in it if it is folded.
  loop_nest folded{};
  /// The inner dim; for a map the last of `outer`.
  loop_nest::dim inner{};
  /// map: the dim before the inner one is contiguous for a load that the inner one strides through.
  bool tiled = false;
  std::vector<std::int64_t> index_base{};
  std::vector<double> literals{};
  std::int64_t results = 1;
  /// fold: the folded range is cut in this many pieces of so many elements, for few results.
  std::int64_t chunks = 1;
  std::int64_t chunk = 0;
};

/// What the loads, indices and literals of an expression are at the start of the loops.
template <class Expression>
struct operand_table {
  static constexpr int loads = Expression::loads, indices = Expression::indices;
  static constexpr int count = loads + indices + 1;
  static constexpr int result = loads + indices;

  const void* at[loads > 0 ? loads : 1];
  std::int64_t index[indices > 0 ? indices : 1];
  double literal[Expression::literals > 0 ? Expression::literals : 1];
  std::int64_t step[count];

  operand_table() = default;
  operand_table(const bound_loops& b, const void* const* from) {
    for (int k = 0; k < loads; ++k) at[k] = from[k];
    for (int k = 0; k < indices; ++k) index[k] = b.index_base[static_cast<std::size_t>(k)];
    for (int k = 0; k < Expression::literals; ++k) literal[k] = b.literals[static_cast<std::size_t>(k)];
    for (int k = 0; k < count; ++k) step[k] = b.inner.stride[static_cast<std::size_t>(k)];
  }
};

namespace detail {

template <class T>
CLEAVE_FUNCTION inline const void* advanced(const void* at, std::int64_t elements) {
  return static_cast<const T*>(at) + elements;
}

template <class Row, class Node>
CLEAVE_FUNCTION inline void advance_load(Row& r, const std::int64_t* offset) {
  if constexpr (Node::code == op::input) r.at[Node::a] = advanced<typename Node::type>(r.at[Node::a], offset[Node::a]);
}

} // namespace detail

/// Rows of an expression at given offsets of its operands.
template <class Expression>
struct row_maker;
template <int Loads, class... Nodes>
struct row_maker<tape_expression<Loads, Nodes...>> {
  using expression_type = tape_expression<Loads, Nodes...>;
  using row_type = typename expression_type::row_type;

  CLEAVE_FUNCTION static row_type start(const operand_table<expression_type>& t) {
    row_type r;
    for (int k = 0; k < expression_type::loads; ++k) {
      r.at[k] = t.at[k];
      r.step[k] = t.step[k];
    }
    for (int k = 0; k < expression_type::indices; ++k) r.index[k] = t.index[k];
    for (int k = 0; k < expression_type::literals; ++k) r.literal[k] = t.literal[k];
    return r;
  }
  /// The row that begins `offset` further along each operand, the loads' first.
  CLEAVE_FUNCTION static row_type moved(row_type r, const std::int64_t* offset) {
    (detail::advance_load<row_type, Nodes>(r, offset), ...);
    for (int k = 0; k < expression_type::indices; ++k) r.index[k] += offset[expression_type::loads + k];
    return r;
  }
};

} // namespace cleave
