// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/lines.hpp>

#include <tuple>
#include <type_traits>

// Sums along the classes of x * one_hot(label), or of what is chosen by a label, else 0: each line has one term that is
// not 0, and only that is computed.

namespace cleave::inline v0::detail {

/// What an entry of an expression is, for the search below.
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
/// Of an expression that is a product with such a comparison, or a choice by it between a value and a literal.
constexpr compared_entries label_in(const entry_fact* entries, int count) {
  const entry_fact& last = entries[count - 1];
  if (last.code == op::select && entries[last.c].code == op::constant) return compared_in(entries, last.a);
  if (last.code != op::mul) return {};
  const compared_entries f = compared_in(entries, last.a);
  return f.index < 0 ? compared_in(entries, last.b) : f;
}

template <class Expression>
struct single_term;
template <int Loads, class... Nodes>
struct single_term<fused_expression<Loads, Nodes...>> {
  static constexpr entry_fact entries[]{fact_of<Nodes>()...};
  static constexpr entry_fact last = entries[sizeof...(Nodes) - 1];
  static constexpr compared_entries where = label_in(entries, int{sizeof...(Nodes)});
  static constexpr bool found = where.index >= 0;
  /// The literal of a choice, which has to be 0; none for a product.
  static constexpr int zero = found && last.code == op::select ? entries[last.c].a : -1;

  /// The label of a line.
  static std::int64_t label_of(const void* at) {
    using T = typename std::tuple_element_t<static_cast<std::size_t>(where.label), std::tuple<Nodes...>>::type;
    return static_cast<std::int64_t>(*as<T>(at));
  }
};

/// Of each line the sum along it.
template <class Expression, class Out>
void compute_single_terms(const line_block& b) {
  using rows = row_maker<Expression>;
  using term = single_term<Expression>;
  constexpr int label = term::entries[term::where.label].a, index = term::entries[term::where.index].a;
  typename Expression::row_type r = rows::moved(rows::start(*b.loops, b.from, b.step), b.offset);
  for (std::int64_t row = 0; row < b.rows; ++row) {
    const std::int64_t i = term::label_of(r.at[label]) - r.index[index];
    as<Out>(b.out)[row] = i >= b.begin && i < b.end ? convert<Out>(Expression::at(r, i)) : Out(0);
    r = rows::moved(r, b.apart);
  }
}

} // namespace cleave::inline v0::detail
