// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/expression.hpp>

#include <cstdint>
#include <tuple>
#include <type_traits>

// Comparisons of the index along a line with a label, as in one_hot(label): true at one element of a line at most. A
// line is computed as if it were false everywhere, and that element on its own.

namespace cleave { inline namespace v0 { namespace detail {

/// An entry of an expression, for the search of labels.
struct entry_fact {
  op code = op::input;
  int a = 0, b = 0, c = 0;
  /// Whether it is an integer that counts further than lines are long.
  bool counts = false;
};
template <class Node>
constexpr entry_fact fact_of() {
  using T = typename Node::type;
  if constexpr (Node::role == fused_role::user) return {op::user};
  else return {Node::code, Node::a, Node::b, Node::c, std::is_integral_v<T> && sizeof(T) >= 4};
}

/// The entries of a comparison of the index along a line with a load that a line does not move.
struct compared_entries {
  int index = -1, label = -1;
};
constexpr compared_entries compared_in(const entry_fact* entries, int factor) {
  if (entries[factor].code == op::cast) factor = entries[factor].a;
  const entry_fact& e = entries[factor];
  if (e.code != op::equal) return {};
  for (int k = 0; k < 2; ++k) {
    const compared_entries f{k == 0 ? e.a : e.b, k == 0 ? e.b : e.a};
    const entry_fact &i = entries[f.index], &l = entries[f.label];
    if (i.code == op::iota && i.b == 1 && i.counts && l.code == op::input && l.b == 0 && l.counts) return f;
  }
  return {};
}
/// Which element of a line has the label; it may be none of the line.
template <class LabelNode, class IndexNode, class Row>
std::int64_t labelled_element(const Row& r) {
  return static_cast<std::int64_t>(*as<typename LabelNode::type>(r.at[LabelNode::a])) - r.index[IndexNode::a];
}
template <int I, class... Nodes>
using node_at = std::tuple_element_t<static_cast<std::size_t>(I), std::tuple<Nodes...>>;

/// Replaces such a comparison if it is false. Compilers leave out the code that depends on it.
struct no_label_here {
  using type = bool;
  static constexpr fused_role role = fused_role::user;
  static constexpr int a = 0, b = 0, c = 0;
  template <class T>
  CLEAVE_FUNCTION static bool call(T, T, T) {
    return false;
  }
};

template <class Expression, class Entries>
struct label_search;
template <int Loads, class... Nodes, int... I>
struct label_search<fused_expression<Loads, Nodes...>, std::integer_sequence<int, I...>> {
  static constexpr entry_fact entries[sizeof...(Nodes)]{fact_of<Nodes>()...};
  /// The first such comparison.
  static constexpr int equal = [] {
    int first = -1;
    for (int i = static_cast<int>(sizeof...(Nodes)); i-- > 0;)
      if (entries[i].code == op::equal && compared_in(entries, i).index >= 0) first = i;
    return first;
  }();
  static constexpr bool found = equal >= 0;
  /// The expression for indices with a false comparison.
  using elsewhere = fused_expression<Loads, std::conditional_t<I == equal, no_label_here, Nodes>...>;

  template <class Row>
  static std::int64_t position(const Row& r) {
    constexpr compared_entries where = compared_in(entries, equal);
    return labelled_element<node_at<where.label, Nodes...>, node_at<where.index, Nodes...>>(r);
  }
};
template <class Expression>
using label_of = label_search<Expression, std::make_integer_sequence<int, Expression::entries>>;

}}} // namespace cleave::v0::detail
