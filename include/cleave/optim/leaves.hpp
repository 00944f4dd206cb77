// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/expr/values.hpp>

// Functions of optimizers on the leaves of an aggregate.

namespace cleave { inline namespace v0 { namespace optim { namespace detail {

/// A number that is given, as a literal or as a rank-0 value, in the element type of a value.
template <class T>
constexpr auto in_type_of(const T& x, const value& beside) {
  if constexpr (is_number<T>) return x;
  else return in_type(x, element_in(beside));
}
/// A rank-0 value that takes the element type of the tensor that it is combined with, as numbers do.
constexpr value as_number(value x) {
  x.number = true;
  return x;
}

/// A number that is given, as a literal or as a rank-0 value, in the type in which 16-bit leaves are computed.
template <class T>
constexpr auto widened_number(const T& x) {
  if constexpr (is_number<T>) return x;
  else return as_number(widened(x));
}
/// A number that is given, as a literal or as a rank-0 value.
template <class T>
  requires is_number<T>
constexpr T as_number(T x) {
  return x;
}

/// Leaves that were computed in float, rounded to the types of others.
template <class Tree>
constexpr Tree in_types_of(const Tree& types, const Tree& tree) {
  return tree_map([](const value& t, const value& x) { return in_type(x, element_in(t)); }, types, tree);
}

/// The widest of the types in which the leaves are added up. Faults: not_floating.
constexpr element common_type(const indexed_vector<value>& leaves, std::string_view op, source where) {
  element widest = element::f32;
  for (const value& leaf : leaves) {
    if (!leaf.ok()) return element::none;
    const element type = accumulator_of(element_in(leaf));
    if (!is_floating(type)) {
      leaf.in->refuse(fault::not_floating, op, where);
      return element::none;
    }
    if (type == element::f64) widest = type;
  }
  return widest;
}

/// The sum of f(leaf) over all leaves. Partial sums of leaves with the same sharding are added up before they are
/// reduced once. Other reductions are adjacent, so that they share messages.
template <class Tree, class F>
constexpr value total_of(const Tree& tree, std::string_view op, source where, F&& f) {
  indexed_vector<value> leaves = values_of(tree);
  const element type = common_type(leaves, op, where);
  if (type == element::none) return {leaves.front().in, no_node};
  for (value& leaf : leaves) leaf = sum(f(in_type(leaf, type)));
  value total = leaves.front();
  for (std::size_t i = 1; i < leaves.size(); ++i) total = total + leaves[i];
  return total;
}

}}}} // namespace cleave::v0::optim::detail
