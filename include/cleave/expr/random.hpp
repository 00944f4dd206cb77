// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/expr/functions.hpp>
#include <cleave/expr/tree.hpp>
#include <cleave/ops/philox.hpp>

// Random numbers without a state: the words of an element follow from a key and from the element's place in the dims,
// both global. So every device makes the numbers that it needs, in the step that reads them, and they are the same for
// every mesh and every layout. A key is a whole number from 0 to 2^52: an argument of a function (std::uint32_t, or any
// other integer type), a literal, or a result of fold_in. One key is for one use: numbers drawn twice with it are not
// independent.

namespace cleave { inline namespace v0 {

namespace detail {

/// Elements have rows below this, numbers that are folded into keys have them from here on. 2^52: evaluators compute in
/// double.
inline constexpr double first_folded = 4503599627370496.0;

constexpr value op_of(op code, source where, element result, std::convertible_to<value> auto... args) {
  recorder* in = nullptr;
  ((in = in == nullptr ? args.in : in), ...);
  return in->elementwise(code, std::array<value, sizeof...(args)>{args...}, where, result);
}

/// A key, or a number to be folded into one, as u64. Shorter integers wrap to 32 bits.
constexpr value key_of(recorder& in, operand key, std::string_view name) {
  if (key.is_literal) {
    const bool fits = key.literal >= 0 && key.literal <= first_folded && key.imaginary == 0;
    if (!fits || !is_whole(key.literal)) return in.fail(fault::not_a_key, name, key.where);
    return in.constant(key.literal, element::u64, key.where);
  }
  if (!key.from.ok()) return key.from;
  const element type = in.at(key.from).type.element;
  if (!is_integer(type)) return in.fail(fault::not_a_key, name, key.where);
  if (type == element::u64) return key.from;
  const value word = type == element::u32 || type == element::i64 ? key.from
                                                                  : op_of(op::cast, key.where, element::u32, key.from);
  return op_of(op::cast, key.where, element::u64, word);
}

/// The same operation, but never shared with an equal one: numbers drawn for two readers are made for each, in its step
/// and in its layout, instead of being made once and moved.
constexpr value unshared(value v) {
  if (!v.ok()) return v;
  node n = v.in->at(v);
  n.scalar = as_double(v.in->made().nodes.size());
  return v.in->again(n, indexed_span<const node_id>(n.in.data(), n.arity));
}

/// Random numbers along the given dims, in that order. Rows and columns are indices, which every step makes for itself;
/// of three dims or more the row is a smaller value of its own.
constexpr value drawn(recorder& in, op code, element type, operand from, indexed_span<const dim_ref> dims,
                      std::string_view name) {
  const source where = from.where;
  const value key = key_of(in, from, name);
  if (!key.ok()) return key;
  if (const tensor_type& t = in.at(key).type; t.rank != 0)
    return in.fail(fault::dims_do_not_broadcast, name, where, in.made().dims[t[0]].name);
  for (std::size_t d = 0; d < dims.size(); ++d)
    for (std::size_t e = 0; e < d; ++e)
      if (dims[d].name == dims[e].name) return in.fail(fault::dim_used_twice, name, where, dims[d].name);
  if (dims.size() > max_rank) return in.fail(fault::rank_too_high, name, where);
  value row = in.constant(0, element::u64, where), column = row;
  if (!dims.empty()) column = in.iota(dims.back(), element::u64, where);
  const indexed_span<const dim_ref> leading = dims.first(dims.empty() ? 0 : dims.size() - 1);
  dim_set later = 0;
  for (std::size_t d = leading.size(); d-- > 0;) {
    value index = in.iota(leading[d], element::u64, where);
    if (leading.size() > 1) index = unshared(in.broadcast(index, leading, where));
    if (!index.ok()) return index;
    if (later != 0) index = unshared(op_of(op::mul, where, element::none, index, in.count(later, element::u64, where)));
    row = later == 0 ? index : unshared(op_of(op::add, where, element::none, row, index));
    later |= dim_bit(in.made().find_dim(leading[d].name));
  }
  if (!column.ok()) return column;
  return unshared(in.elementwise(code, std::array{key, row, column}, where, type, true));
}

/// The same along the dims of a value.
constexpr value drawn_like(value x, op code, element type, operand key, std::string_view name) {
  recorder& in = *x.in;
  const tensor_type like = in.at(x).type;
  static_vector<dim_ref, max_rank> dims;
  for (int i = 0; i < like.rank; ++i) {
    const dim_info& d = in.made().dims[like[i]];
    dims.push_back(d.ref());
  }
  return drawn(in, code, type, key, {dims.begin(), dims.size()}, name);
}

/// Whether 32 random bits are below a probability's share of 2^32, compared in f64: exact for every probability.
constexpr value below_share(value bits, operand p, std::string_view name) {
  if (!bits.ok()) return bits;
  recorder& in = *bits.in;
  constexpr double all = 4294967296.0;
  const value word = op_of(op::cast, p.where, element::f64, bits);
  if (p.is_literal) {
    if (!(p.literal >= 0 && p.literal <= 1) || p.imaginary != 0)
      return in.fail(fault::not_a_probability, name, p.where);
    return op_of(op::less, p.where, element::none, word, in.constant(p.literal * all, element::f64, p.where));
  }
  if (!p.from.ok()) return p.from;
  if (!is_floating(in.at(p.from).type.element)) return in.fail(fault::not_floating, name, p.where);
  const value words = in.constant(all, element::f64, p.where);
  const value share = op_of(op::mul, p.where, element::none, op_of(op::cast, p.where, element::f64, p.from), words);
  return op_of(op::less, p.where, element::none, word, share);
}

template <class T>
constexpr element floating_of() {
  if constexpr (element_of<T> == element::none) say(rejection<fault::not_an_element, T>);
  else if constexpr (!is_floating(element_of<T>)) say(rejection<fault::not_floating, T>);
  return element_of<T>;
}

} // namespace detail

/// A new key for each integer n: one for each step, one for each layer. It is independent of the given key and of the
/// keys for other n. u64, below 2^52. Key and n are integers from 0 to 2^52. No communication. Fault: not_a_key.
constexpr value fold_in(operand key, operand n) {
  recorder& in = detail::recorder_of(key, n);
  const source where = key.where;
  const value from = detail::key_of(in, key, "fold_in"), folded = detail::key_of(in, n, "fold_in");
  if (!from.ok() || !folded.ok()) return {&in, no_node};
  const auto number = [&](double x) { return in.constant(x, element::u64, where); };
  const value row = detail::op_of(op::add, where, element::none, folded, number(detail::first_folded));
  const auto word = [&](int column) {
    return detail::op_of(op::cast, where, element::u64,
                         detail::op_of(op::random, where, element::u32, from, row, number(column)));
  };
  // 32 bits and 20 more.
  const value high = detail::op_of(op::div, where, element::none, word(0), number(4096));
  return detail::op_of(op::add, where, element::none,
                       detail::op_of(op::mul, where, element::none, high, number(4294967296.0)), word(1));
}
CLEAVE_LIFT_OF_KEY(fold_in)

/// 32 random bits for each element, as std::uint32_t, with the given dims in that order: the first word of
/// Philox4x32-10 of the key and the global index. The same for every layout; no communication. Faults: not_a_key, and
/// faults of the dims.
template <std::convertible_to<dim_ref>... D>
constexpr value random_bits(operand key, const D&... dims) {
  return detail::drawn(*key.from.in, op::random, element::u32, key, detail::dims_of(dims...), "random_bits");
}
CLEAVE_LIFT_OF_KEY(random_bits)

/// Uniform in [0, 1), in the floating-point type T: exact, with 53 random bits for double, 24 for float, 11 for half
/// and 8 for bfloat16. The same for every layout; no communication. Faults: not_a_key, not_floating, and faults of the
/// dims.
template <class T = float, std::convertible_to<dim_ref>... D>
constexpr value uniform(operand key, const D&... dims) {
  return detail::drawn(*key.from.in, op::random, detail::floating_of<T>(), key, detail::dims_of(dims...), "uniform");
}
CLEAVE_LIFT_TEMPLATE_OF_KEY(uniform, class T = float, T)

/// Normal with mean 0 and variance 1, in the floating-point type T (Box and Muller 1958). The same for every layout; no
/// communication. Faults: not_a_key, not_floating, and faults of the dims.
template <class T = float, std::convertible_to<dim_ref>... D>
constexpr value normal(operand key, const D&... dims) {
  constexpr element type = detail::floating_of<T>(), made_in = accumulator_of(type);
  const value made = detail::drawn(*key.from.in, op::normal, made_in, key, detail::dims_of(dims...), "normal");
  return !made.ok() || type == made_in ? made : detail::op_of(op::cast, key.where, type, made);
}
CLEAVE_LIFT_TEMPLATE_OF_KEY(normal, class T = float, T)

/// `uniform` with the element type and the dims of x, whose elements are not read. In a function, the key may be a
/// literal here. Faults: not_a_key, not_floating.
constexpr value uniform_like(operand x, operand key) {
  if (!x.from.ok()) return x.from;
  const element type = x.from.in->at(x.from).type.element;
  if (!is_floating(type)) return x.from.in->fail(fault::not_floating, "uniform_like", x.where);
  return detail::drawn_like(x.from, op::random, type, key, "uniform_like");
}
CLEAVE_LIFT(uniform_like)
/// `normal` with the element type and the dims of x. Otherwise as `uniform_like`.
constexpr value normal_like(operand x, operand key) {
  if (!x.from.ok()) return x.from;
  const element type = x.from.in->at(x.from).type.element, made_in = accumulator_of(type);
  if (!is_floating(type)) return x.from.in->fail(fault::not_floating, "normal_like", x.where);
  const value made = detail::drawn_like(x.from, op::normal, made_in, key, "normal_like");
  return !made.ok() || type == made_in ? made : detail::op_of(op::cast, key.where, type, made);
}
CLEAVE_LIFT(normal_like)

/// bool, true with probability p, which is a literal or a floating-point value of rank 0. The same for every layout; no
/// communication. Faults: not_a_key, not_a_probability for a literal outside [0, 1], not_floating, and faults of the
/// dims.
template <std::convertible_to<dim_ref>... D>
constexpr value bernoulli(operand key, operand p, const D&... dims) {
  recorder& in = detail::recorder_of(key, p);
  return detail::below_share(detail::drawn(in, op::random, element::u32, key, detail::dims_of(dims...), "bernoulli"), p,
                             "bernoulli");
}
CLEAVE_LIFT_OF_KEY(bernoulli)

/// x, with each element replaced by 0 with probability `rate` and the others divided by 1 - rate (Srivastava et al.
/// 2014). Floating-point elements, any layout, no communication. The dropped elements depend on the key and the index
/// in x only. The gradient flows through the others. `rate` is a literal or a value in [0, 1). Faults: not_a_key,
/// not_a_probability, not_floating.
constexpr value dropout(operand x, operand rate, operand key) {
  recorder& in = *x.from.in;
  if (!x.from.ok()) return x.from;
  const tensor_type type = in.at(x.from).type;
  if (!is_floating(type.element)) return in.fail(fault::not_floating, "dropout", x.where);
  if (rate.is_literal && rate.literal == 1) return in.fail(fault::not_a_probability, "dropout", rate.where);
  const value bits = detail::drawn_like(x.from, op::random, element::u32, key, "dropout");
  const value dropped = detail::below_share(bits, rate, "dropout");
  if (!dropped.ok()) return dropped;
  const auto number = [&](double n) { return in.constant(n, type.element, x.where); };
  const value kept = detail::op_of(op::select, x.where, element::none, dropped, number(0), x.from);
  const value wide = widened(operand(kept, x.where.file, x.where.line));
  const element made_in = accumulator_of(type.element);
  const auto whole = [&](double n) { return in.constant(n, made_in, x.where); };
  const auto made = [&](op code, value by) {
    return in_type(detail::placed(detail::op_of(code, x.where, element::none, wide, by), x), type.element);
  };
  if (rate.is_literal) return made(op::mul, whole(1 / (1 - rate.literal)));
  return made(op::div, detail::op_of(op::sub, x.where, element::none, whole(1),
                                     detail::op_of(op::cast, x.where, made_in, rate.from)));
}
CLEAVE_LIFT(dropout)

}} // namespace cleave::v0
