// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/labels.hpp>
#include <cleave/kernels/lines.hpp>

#include <cstdint>

// Sums along the classes of x * one_hot(label), or of a value that a label selects, else 0: each line has one term that
// is not 0, and only that is computed.

namespace cleave { inline namespace v0 { namespace detail {

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
  static constexpr entry_fact entries[sizeof...(Nodes)]{fact_of<Nodes>()...};
  static constexpr entry_fact last = entries[sizeof...(Nodes) - 1];
  static constexpr compared_entries where = label_in(entries, int{sizeof...(Nodes)});
  static constexpr bool found = where.index >= 0;
  /// The literal of a choice, which has to be 0; none for a product.
  static constexpr int zero = found && last.code == op::select ? entries[last.c].a : -1;

  template <class Row>
  static std::int64_t position(const Row& r) {
    return labelled_element<node_at<where.label, Nodes...>, node_at<where.index, Nodes...>>(r);
  }
};

/// Of each line the sum along it.
template <class Expression, class Out>
void compute_single_terms(const line_block& b) {
  using rows = row_maker<Expression>;
  using term = single_term<Expression>;
  typename Expression::row_type r = rows::moved(rows::start(*b.loops, b.from, b.step), b.offset);
  for (std::int64_t row = 0; row < b.rows; ++row) {
    const std::int64_t i = term::position(r);
    as<Out>(b.out[0])[row] = i >= b.begin && i < b.end ? convert<Out>(Expression::at(r, i)) : Out(0);
    r = rows::moved(r, b.apart);
  }
}

}}} // namespace cleave::v0::detail
