// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/expr/operation.hpp>
#include <cleave/expr/tree.hpp>
#include <cleave/type/tensor_type.hpp>

#include <initializer_list>

// For libraries of functions on values, as cleave/nn: the properties of their operands, and dims of their own.

namespace cleave { inline namespace v0 {

/// Inside a function: the values of an aggregate, in declaration order.
template <class A>
constexpr indexed_vector<value> values_of(const A& all) {
  return detail::leaf_values(all);
}

/// The element type of a value; `element::none` after a fault.
constexpr element element_in(const value& x) { return x.ok() ? x.in->at(x).type.element : element::none; }

namespace detail {
template <text Word>
inline constexpr auto names_by_dim = names_from<max_dims>(Word.view());
template <text Word>
inline constexpr auto names_by_pair = names_from<std::size_t{max_dims} * max_dims>(Word.view());
} // namespace detail

/// A dim that a function makes for itself, one for each dim that it is made for: two calls for other dims must not
/// share it. Its name begins with a word of up to five letters, which belongs to the function alone. `op` is the
/// function, for faults. The name is empty after a fault.
template <text Word>
constexpr dim_ref derived_dim(operand x, std::string_view op, dim_ref from) {
  static_assert(Word.view().size() <= 5);
  const int id = x.from.in->dim(from, op, x.where);
  return id < 0 ? dim_ref{} : dim_ref{detail::names_by_dim<Word>[as_size(id)].text()};
}
/// The same for each pair of dims. The word has up to four letters.
template <text Word>
constexpr dim_ref derived_dim(operand x, std::string_view op, dim_ref first, dim_ref second) {
  static_assert(Word.view().size() <= 4);
  const int one = x.from.in->dim(first, op, x.where);
  const int other = one < 0 ? -1 : x.from.in->dim(second, op, x.where);
  return other < 0 ? dim_ref{} : dim_ref{detail::names_by_pair<Word>[as_size(one) * max_dims + as_size(other)].text()};
}

/// A multiple of the extent of a dim: a term of `define_extent`.
struct extent_term {
  dim_ref dim;
  std::int64_t times = 1;
};
/// States that the extent of a dim is a constant plus multiples of other extents. False after a fault.
constexpr bool define_extent(operand x, std::string_view op, dim_ref d, std::int64_t constant,
                             std::initializer_list<extent_term> terms) {
  recorder& in = *x.from.in;
  derived_extent rule{known_dim(in.dim(d, op, x.where)), {}, 1};
  rule.sum.constant = constant;
  for (const extent_term& t : terms) {
    const int id = in.dim(t.dim, op, x.where);
    if (id < 0) return false;
    rule.sum.terms.push_back({known_dim(id), t.times});
  }
  return rule.dim != no_dim && in.extent_follows(rule, op, x.where);
}

/// An operation on shards as `call`, whose result type the caller has computed: `Op` is the kernel, `whole` are the
/// dims that it needs unsharded. The operands have been recorded in one function.
template <class Op>
constexpr value call_with_type(indexed_span<const value> operands, indexed_span<const dim_ref> whole,
                               const tensor_type& result, source where) {
  return detail::recorded_call(*operands[0].in, detail::shard_operation<Op>, operands, whole, result, where);
}

/// The same in manual mode, as `local`: the operands have been resharded, and the result has the dims, in that order,
/// and the layout of the specification.
template <class Op>
constexpr value local_with_spec(indexed_span<const value> operands, element type, const spec& result, source where) {
  return detail::recorded_local_call(*operands[0].in, detail::shard_operation<Op>, operands, type, result, where);
}

}} // namespace cleave::v0
