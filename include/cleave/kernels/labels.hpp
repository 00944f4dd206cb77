// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/expression.hpp>

#include <cstdint>
#include <tuple>
#include <utility>

// Comparisons of the index along a line with a label, as in one_hot(label), which the plan marks (fused_op::arg): true
// at one element of a line at most. A line is computed as if it were false everywhere, and that element on its own.

namespace cleave { inline namespace v0 { namespace detail {

/// Replaces such a comparison if it is false. Compilers leave out the code that depends on it.
struct no_label_here {
  using type = bool;
  static constexpr fused_role role = fused_role::user;
  static constexpr int a = 0, b = 0, c = 0, label = 0, x = no_entry, y = no_entry, z = no_entry;
  using meaning = no_label_here;
  template <class Row>
  CLEAVE_FUNCTION static bool of(const Row&, std::int64_t, int, no_value, no_value, no_value) {
    return false;
  }
};

template <class Expression, class Entries>
struct label_search;
template <int Loads, class... Nodes, int... I>
struct label_search<fused_expression<Loads, Nodes...>, std::integer_sequence<int, I...>> {
  /// The first such comparison.
  static constexpr int equal = [] {
    int first = -1;
    ((first = first < 0 && Nodes::label != 0 ? I : first), ...);
    return first;
  }();
  static constexpr bool found = equal >= 0;
  /// The expression for indices with a false comparison.
  using elsewhere = fused_expression<Loads, std::conditional_t<I == equal, no_label_here, Nodes>...>;

  template <int Entry>
  using node = std::tuple_element_t<static_cast<std::size_t>(Entry), std::tuple<Nodes...>>;
  /// Which element of a line has the label of a comparison; it may be none of the line.
  template <int Entry = equal, class Row>
  static std::int64_t position(const Row& r) {
    using compared = node<Entry>;
    using label_node = node<compared::label == 1 ? compared::a : compared::b>;
    using index_node = node<compared::label == 1 ? compared::b : compared::a>;
    return static_cast<std::int64_t>(*as<typename label_node::type>(r.at[label_node::a])) - r.index[index_node::a];
  }
};
template <class Expression>
using label_of = label_search<Expression, std::make_integer_sequence<int, Expression::entries>>;

}}} // namespace cleave::v0::detail
