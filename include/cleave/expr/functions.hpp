// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/mistakes.hpp>
#include <cleave/expr/statement.hpp>
#include <cleave/record/recorder.hpp>
#include <cleave/rules/annotation.hpp>
#include <cleave/rules/view.hpp>

#include <array>
#include <concepts>

namespace cleave { inline namespace v0 {

/// For functions made of others: while it lives, new nodes get the line at which the user called the function, and
/// faults its name, if it is given.
class called_at {
 public:
  constexpr explicit called_at(const operand& x, std::string_view name = {})
      : in_(x.from.in), before_(in_->say_at({x.where, true, name})) {
    if (before_.given) in_->say_at(before_);
  }
  called_at(const called_at&) = delete;
  called_at& operator=(const called_at&) = delete;
  constexpr ~called_at() { in_->say_at(before_); }

 private:
  recorder* in_;
  graph_writer::caller before_;
};

namespace detail {

/// The graph in which operands are recorded, of which at least one is a value.
template <std::size_t N>
constexpr recorder* recorder_of(const std::array<operand, N>& args) {
  for (const operand& x : args)
    if (!x.is_literal && x.from.in != nullptr) return x.from.in;
  return nullptr;
}
constexpr recorder& recorder_of(const operand& a, const operand& b) { return *recorder_of(std::array{a, b}); }
/// The operand after a literal has become a value, with the line of the user.
constexpr operand placed(value v, const operand& x) { return {v, x.where.file, x.where.line}; }
constexpr element element_beside(const operand& x) {
  return x.is_literal || !x.from.ok() ? element::none : x.from.in->at(x.from).type.element;
}

/// Comparisons of the results of comparisons, and logic of numbers: C++ gives both a meaning that is not meant here.
template <std::size_t N>
constexpr fault misuse_of_bools(op code, const std::array<operand, N>& args, element type) {
  const bool logic = code == op::logical_and || code == op::logical_or || code == op::logical_not;
  if (logic) return type == element::boolean ? fault::none : fault::logic_of_numbers;
  if (type != element::boolean || !has_trait(code, op_traits::to_bool)) return fault::none;
  for (const operand& x : args)
    if (x.is_literal && x.written != element::boolean) return fault::comparison_of_bools;
  return fault::none;
}

/// The operands as values: literals and numbers take the element type of the tensor operand.
template <std::size_t N>
constexpr value record_elementwise(op code, const std::array<operand, N>& args, element result = element::none,
                                   const user_entry* user = nullptr) {
  recorder* in = recorder_of(args);
  // A value that was never given has no graph; whoever reads the result says so.
  if (in == nullptr) return {};
  source where{};
  element type = element::none;
  bool from_number = false;
  const std::string_view name = is_of_user(code) ? user->name : name_of(code);
  const std::size_t first = typed_operand(code); // those before are predicates
  for (std::size_t i = N; i-- > 0;)
    if (!args[i].is_literal) {
      where = args[i].where;
      if (!args[i].from.ok()) return in->missing(name, where);
      if (i < first || (args[i].from.number && type != element::none && !from_number)) continue;
      type = in->at(args[i].from).type.element;
      from_number = args[i].from.number;
    }
  if (const fault what = misuse_of_bools(code, args, type); what != fault::none) return in->fail(what, name, where);
  std::array<value, N> values{};
  for (std::size_t i = 0; i < N; ++i) {
    values[i] = in->value_of(args[i], name, i < first ? element::boolean : type);
    if (N > 1 && !from_number && i >= first && args[i].from.number)
      values[i] = in->number_as(values[i], type, name, args[i].where);
  }
  return in->elementwise(code, values, where, result, false, user);
}

/// The line of the operation that made a value. `!x` has no other, because a value converts to bool, if only to say an
/// error.
constexpr source made_at(const value& x) { return x.ok() ? x.in->at(x).where : source{}; }

constexpr value record(op code, operand a) { return record_elementwise(code, std::array{a}); }
constexpr value record(op code, operand a, operand b) { return record_elementwise(code, std::array{a, b}); }

template <class... D>
constexpr std::array<dim_ref, sizeof...(D)> dims_of(const D&... d) {
  return {dim_ref(d)...};
}

} // namespace detail

// Elementwise. Operands broadcast by name: one of them has all the dims, in whose memory order the result is.
/// Arithmetic `-x`, `a + b`, `a - b`, `a * b`, `a / b`; comparisons `==`, `!=`, `<`, `<=`, `>`, `>=`; logic `!x`, `a &
/// b`, `a | b`. They are elementwise. Operands broadcast by name: one of them has all the dims, and the result has its
/// memory order. Element types match; literals and numbers take the type of the tensor operand. Comparisons and logic
/// give bool. No communication.
constexpr value operator-(operand x) { return detail::record(op::neg, x); }
CLEAVE_LIFT_UNARY(-)
template <Recorded X>
constexpr value operator!(const X& x) {
  return detail::record(op::logical_not, operand(x, detail::made_at(x).file, detail::made_at(x).line));
}
// Statements record their values as operands.
constexpr value operator!(const operand& x) { return detail::record(op::logical_not, x); }
CLEAVE_LIFT_UNARY(!)
/// The absolute value. Of complex numbers: the modulus, a real number.
constexpr value abs(operand x) { return detail::record(op::abs, x); }
CLEAVE_LIFT(abs)
/// -1, 0 or 1. Its gradient is 0.
constexpr value sign(operand x) { return detail::record(op::sign, x); }
CLEAVE_LIFT(sign)
/// The exponential function.
constexpr value exp(operand x) { return detail::record(op::exp, x); }
CLEAVE_LIFT(exp)
/// exp(x) - 1. Accurate near 0: there exp(x) is so close to 1 that the difference loses all digits.
constexpr value expm1(operand x) { return detail::record(op::expm1, x); }
CLEAVE_LIFT(expm1)
/// The natural logarithm.
constexpr value log(operand x) { return detail::record(op::log, x); }
CLEAVE_LIFT(log)
/// The hyperbolic tangent.
constexpr value tanh(operand x) { return detail::record(op::tanh, x); }
CLEAVE_LIFT(tanh)
/// The square root.
constexpr value sqrt(operand x) { return detail::record(op::sqrt, x); }
CLEAVE_LIFT(sqrt)
/// 1 / sqrt(x).
constexpr value rsqrt(operand x) { return detail::record(op::rsqrt, x); }
CLEAVE_LIFT(rsqrt)
/// The error function.
constexpr value erf(operand x) { return detail::record(op::erf, x); }
CLEAVE_LIFT(erf)
/// The Gaussian error linear unit in its tanh form (Hendrycks and Gimpel 2016).
constexpr value gelu(operand x) { return detail::record(op::gelu, x); }
CLEAVE_LIFT(gelu)
/// max(x, 0). Its slope at 0 is 0.
constexpr value relu(operand x) { return detail::record(op::relu, x); }
CLEAVE_LIFT(relu)
/// 1 / (1 + exp(-x)).
constexpr value sigmoid(operand x) { return detail::record(op::sigmoid, x); }
CLEAVE_LIFT(sigmoid)
/// The sine.
constexpr value sin(operand x) { return detail::record(op::sin, x); }
CLEAVE_LIFT(sin)
/// The cosine.
constexpr value cos(operand x) { return detail::record(op::cos, x); }
CLEAVE_LIFT(cos)
/// The largest integer that is not greater. Its gradient is 0.
constexpr value floor(operand x) { return detail::record(op::floor, x); }
CLEAVE_LIFT(floor)
/// The complex conjugate; a real number itself.
constexpr value conj(operand x) { return detail::record(op::conj, x); }
CLEAVE_LIFT(conj)
/// The real part; a real number itself.
constexpr value real(operand x) { return detail::record(op::real, x); }
CLEAVE_LIFT(real)
/// The imaginary part; 0 for real numbers.
constexpr value imag(operand x) { return detail::record(op::imag, x); }
CLEAVE_LIFT(imag)
/// The complex number re + i im, from two floats or two doubles.
constexpr value complex(operand re, operand im) { return detail::record(op::complex, re, im); }
CLEAVE_LIFT(complex)

constexpr value operator+(operand a, operand b) { return detail::record(op::add, a, b); }
CLEAVE_LIFT_BINARY(+)
constexpr value operator-(operand a, operand b) { return detail::record(op::sub, a, b); }
CLEAVE_LIFT_BINARY(-)
constexpr value operator*(operand a, operand b) { return detail::record(op::mul, a, b); }
CLEAVE_LIFT_BINARY(*)
constexpr value operator/(operand a, operand b) { return detail::record(op::div, a, b); }
CLEAVE_LIFT_BINARY(/)
/// a to the power of b, elementwise.
constexpr value pow(operand a, operand b) { return detail::record(op::pow, a, b); }
CLEAVE_LIFT(pow)
/// The larger of a and b, elementwise. NaN if one of them is NaN. Equal operands share the gradient equally.
constexpr value maximum(operand a, operand b) { return detail::record(op::maximum, a, b); }
CLEAVE_LIFT(maximum)
/// The smaller of a and b, elementwise. NaN if one of them is NaN. Equal operands share the gradient equally.
constexpr value minimum(operand a, operand b) { return detail::record(op::minimum, a, b); }
CLEAVE_LIFT(minimum)
constexpr value operator==(operand a, operand b) { return detail::record(op::equal, a, b); }
CLEAVE_LIFT_BINARY(==)
constexpr value operator!=(operand a, operand b) { return detail::record(op::not_equal, a, b); }
CLEAVE_LIFT_BINARY(!=)
constexpr value operator<(operand a, operand b) { return detail::record(op::less, a, b); }
CLEAVE_LIFT_BINARY(<)
constexpr value operator<=(operand a, operand b) { return detail::record(op::less_equal, a, b); }
CLEAVE_LIFT_BINARY(<=)
constexpr value operator>(operand a, operand b) { return detail::record(op::greater, a, b); }
CLEAVE_LIFT_BINARY(>)
constexpr value operator>=(operand a, operand b) { return detail::record(op::greater_equal, a, b); }
CLEAVE_LIFT_BINARY(>=)
constexpr value operator&(operand a, operand b) { return detail::record(op::logical_and, a, b); }
CLEAVE_LIFT_BINARY(&)
constexpr value operator|(operand a, operand b) { return detail::record(op::logical_or, a, b); }
CLEAVE_LIFT_BINARY(|)

/// `yes` where the predicate is true, `no` elsewhere.
constexpr value select(operand predicate, operand yes, operand no) {
  return detail::record_elementwise(op::select, std::array{predicate, yes, no});
}
CLEAVE_LIFT(select)
/// The square root of a sum of squares, `root_of_squares(sum(x * x, d))`. Its gradient at 0 is 0, as that of a length
/// is; the infinite slope of `sqrt` times the slope of the squares, 0, would be NaN.
constexpr value root_of_squares(operand squares) {
  const value root = sqrt(squares);
  return root.ok() ? root.in->marked(root, is_length) : root;
}
CLEAVE_LIFT(root_of_squares)
/// The values converted to another element type: `cast<float>(x)`.
constexpr value cast(operand x, element to) { return detail::record_elementwise(op::cast, std::array{x}, to); }
template <class T>
constexpr value cast(operand x) {
  if constexpr (element_of<T> == element::none) say(rejection<fault::not_an_element, T>);
  return cast(x, element_of<T>);
}
CLEAVE_LIFT_TEMPLATE(cast, class T, T)

/// The same values in an element type; x itself if it has that type already.
constexpr value in_type(operand x, element type) {
  return !x.from.ok() || detail::element_beside(x) == type ? x.from : cast(x, type);
}
/// x in the type in which many numbers of its type are added up: float for 16 bits. A value that is left unreduced
/// keeps its type, as it may not be rounded. The cotangent is rounded on each device before devices add it up, so that
/// it moves as 16 bits.
constexpr value widened(operand x) {
  const element type = detail::element_beside(x), wide = accumulator_of(type);
  return wide == type || x.from.in->is_unreduced(x.from) ? x.from : x.from.in->marked(cast(x, wide), is_widened);
}

/// The sum of a * b over the given dims. Other dims that both operands have are batch dims. The result has the batch
/// dims, then the remaining dims of a, then those of b. Communication: a contracted dim that is sharded leaves a
/// partial sum, which is reduced once. Faults: contracted_dim_missing, element_types_differ, nothing_contracted,
/// sum_of_bools.
template <std::convertible_to<dim_ref>... D>
constexpr value dot(operand a, operand b, const D&... over) {
  recorder& in = detail::recorder_of(a, b);
  const value left = in.value_of(a, "dot", detail::element_beside(b)),
              right = in.value_of(b, "dot", detail::element_beside(a));
  if (left.ok() && right.ok()) {
    const tensor_type &l = in.at(left).type, &r = in.at(right).type;
    if (sizeof...(D) == 0 && l.rank != 0 && l.set() == r.set())
      return in.fail(fault::nothing_contracted, "dot", a.where);
    if (l.element == element::boolean && sizeof...(D) != 0) return in.fail(fault::sum_of_bools, "dot", a.where);
  }
  return in.dot(left, right, detail::dims_of(over...), a.where);
}
CLEAVE_LIFT(dot)

/// The sum over the given dims, or over all dims if none is given. 0 over an empty range. Communication: a reduced dim
/// that is sharded leaves a partial value, which is reduced once. Faults: dim_missing, sum_of_bools.
template <std::convertible_to<dim_ref>... D>
constexpr value sum(operand x, const D&... over) {
  if (detail::element_beside(x) == element::boolean) return x.from.in->fail(fault::sum_of_bools, "sum", x.where);
  return x.from.in->reduce(reduction::sum, x.from, detail::dims_of(over...), x.where);
}
CLEAVE_LIFT(sum)
/// The maximum over the given dims, or over all dims if none is given. The lowest value over an empty range; NaN
/// propagates. Communication as for `sum`. Faults: dim_missing, not_for_complex.
template <std::convertible_to<dim_ref>... D>
constexpr value max(operand x, const D&... over) {
  return x.from.in->reduce(reduction::max, x.from, detail::dims_of(over...), x.where);
}
CLEAVE_LIFT(max)
/// The minimum over the given dims, or over all dims if none is given. Otherwise as `max`.
template <std::convertible_to<dim_ref>... D>
constexpr value min(operand x, const D&... over) {
  return x.from.in->reduce(reduction::min, x.from, detail::dims_of(over...), x.where);
}
CLEAVE_LIFT(min)
/// The mean over the given dims, or over all dims if none is given; of 16 bits in float. Communication as for `sum`.
/// Faults: dim_missing, not_floating.
template <std::convertible_to<dim_ref>... D>
constexpr value mean(operand x, const D&... over) {
  const value total = x.from.in->reduce(reduction::sum, widened(x), detail::dims_of(over...), x.where);
  if (!total.ok()) return total;
  const node& n = total.in->at(total);
  if (is_integer(n.type.element) || n.type.element == element::boolean)
    return total.in->fail(fault::not_floating, "mean", x.where);
  const value count = total.in->count(n.over, n.type.element, x.where);
  const value middle = total.in->elementwise(op::div, std::array{total, count}, x.where);
  return in_type(detail::placed(middle, x), detail::element_beside(x));
}
CLEAVE_LIFT(mean)

/// The product of the global extents of some dims, or of all dims of x if none is given, as a number of type T that is
/// known at run time. `x` may be any value of the function. Fault: dim_missing.
template <class T = float, std::convertible_to<dim_ref>... D>
constexpr value count(operand x, const D&... over) {
  recorder& in = *x.from.in;
  if (!x.from.ok()) return x.from;
  dim_set dims = sizeof...(D) == 0 ? in.at(x.from).type.set() : dim_set{};
  for (const dim_ref& d : detail::dims_of(over...)) {
    const int id = in.made().find_dim(d.name);
    if (id < 0) return in.fail(fault::dim_missing, "count", x.where, d.name);
    dims |= dim_bit(id);
  }
  return in.count(dims, element_of<T>, x.where);
}
CLEAVE_LIFT_TEMPLATE(count, class T = float, T)

/// The same values along more dims. The result has the given dims, in that order. No communication.
template <std::convertible_to<dim_ref>... D>
constexpr value broadcast(operand x, const D&... along) {
  return x.from.in->broadcast(x.from, detail::dims_of(along...), x.where);
}
CLEAVE_LIFT(broadcast)

/// Zeros with the dims and the element type of x, in any layout and without communication.
constexpr value zeros_like(operand x) {
  if (!x.from.ok()) return x.from;
  const tensor_type type = x.from.in->at(x.from).type;
  return x.from.in->zeros(type, x.where);
}
CLEAVE_LIFT(zeros_like)

/// The same value, through which no gradient flows.
constexpr value stop_gradient(operand x) { return x.from.in->alias(op::stop_gradient, x.from, x.where); }
CLEAVE_LIFT(stop_gradient)

namespace detail {
/// x less its maximum, so that exponentials do not overflow; of 16 bits a float. The maximum cancels in the end, so it
/// has no gradient.
constexpr value below_largest(operand x, dim_ref over) {
  return widened(x) - widened(stop_gradient(max(x.from, over)));
}
} // namespace detail

/// exp(x - max) normalised to sum 1 over a dim. The maximum prevents overflow. Of 16 bits it is computed in float and
/// rounded once, as all functions that are composed of others. Communication: if the dim is sharded, two numbers for
/// each slice are reduced; of 16 bits the total is a float.
constexpr value softmax(operand x, dim_ref over) {
  const called_at user(x, "softmax");
  const value e = exp(detail::below_largest(x, over));
  return in_type(e / sum(e, over), detail::element_beside(x));
}
CLEAVE_LIFT(softmax)
/// log(sum(exp(x))) over the given dims, or over all dims if none is given, without overflow and in one pass. Minus
/// infinity over an empty range. Of 16 bits in float. Communication as for `sum`. Faults: dim_missing, not_floating,
/// not_for_complex.
template <std::convertible_to<dim_ref>... D>
constexpr value logsumexp(operand x, const D&... over) {
  const called_at user(x, "logsumexp");
  if (x.from.ok() && !is_floating(x.from.in->at(x.from).type.element)) {
    const value m = stop_gradient(max(x, over...));
    return log(sum(exp(x - m), over...)) + m;
  }
  return in_type(x.from.in->reduce(reduction::logsumexp, widened(x), detail::dims_of(over...), x.where),
                 detail::element_beside(x));
}
CLEAVE_LIFT(logsumexp)
/// log(softmax(x)) over a dim. The maximum is subtracted first, so that large numbers keep their digits. Communication:
/// as for `softmax`.
constexpr value log_softmax(operand x, dim_ref over) {
  const called_at user(x, "log_softmax");
  const value below = detail::below_largest(x, over);
  return in_type(below - log(sum(exp(below), over)), detail::element_beside(x));
}
CLEAVE_LIFT(log_softmax)
/// (x - mean) / sqrt(variance + epsilon) * scale + bias over a dim. The variance is the mean of squared differences. Of
/// 16 bits it is computed in float and rounded once. Communication: if the dim is sharded, two numbers for each slice
/// are reduced.
constexpr value layer_norm(operand x, dim_ref over, operand scale, operand bias, operand epsilon = 1e-5) {
  const called_at user(x, "layer_norm");
  const value centred = widened(x) - mean(widened(x), over);
  const value normal = centred * rsqrt(mean(centred * centred, over) + epsilon);
  const auto wide = [](const operand& y) { return y.is_literal ? y : operand(widened(y)); };
  return in_type(normal * wide(scale) + wide(bias), detail::element_beside(x));
}
CLEAVE_LIFT(layer_norm)
/// 0, 1, 2, ... along a dim, in element type T. `beside` may be any value of the function; it only says where to
/// record. Computed in the step that reads it.
template <class T = std::int32_t>
constexpr value iota(operand beside, dim_ref along) {
  return beside.from.in->iota(along, element_of<T>, beside.where);
}
CLEAVE_LIFT_TEMPLATE(iota, class T = std::int32_t, T)
/// A label that counts for nothing, as that of padding (PyTorch's ignore_index). Functions of labels and indices take
/// it as an option: `one_hot(labels, word, ignore{-100})`. It may be an index of the dim or not. In checked mode they
/// then name any other label that is none.
struct ignore {
  std::int64_t label = -100;
};
/// The same in a statement: `gather(table, word, ids, ignore_c<0>)`.
template <std::int64_t Label>
inline constexpr constant<ignore{Label}> ignore_c{};

namespace detail {
/// Labels of at least 32 bits, with a label that no index has in place of the ignored one.
constexpr value labels_but(recorder& in, operand labels, ignore ignored, std::string_view name) {
  const value all = in.index_of(labels, name);
  if (!all.ok()) return in.missing(name, labels.where);
  if (!is_integer(in.at(all).type.element)) return in.fail(fault::not_an_index, name, labels.where);
  const bool is_short = size_of(in.at(all).type.element) < size_of(element::i32);
  const value wide = is_short ? in.elementwise(op::cast, std::array{all}, labels.where, element::i32) : all;
  const operand label(ignored.label, labels.where.file, labels.where.line);
  return select(placed(all, labels) == label,
                in.constant(label_of_none(in.at(wide).type.element), in.at(wide).type.element, labels.where), wide);
}
} // namespace detail

/// 1 where the label equals the index along the new dim `classes`, 0 elsewhere. The comparison is computed inside the
/// step that reads it, so the result need not exist in memory. Labels have an integer element type. A label that is no
/// index of the dim, and an ignored one, gives 0 everywhere. Faults: not_an_index, dim_used_twice.
constexpr value one_hot(operand labels, dim_ref classes, element type) {
  recorder& in = *labels.from.in;
  if (!labels.from.ok()) return in.missing("one_hot", labels.where);
  if (!is_integer(in.at(labels.from).type.element)) return in.fail(fault::not_an_index, "one_hot", labels.where);
  if (const int d = in.made().find_dim(classes.name); d >= 0 && in.at(labels.from).type.has(d))
    return in.fail(fault::dim_used_twice, "one_hot", labels.where, classes.name);
  // Classes need not fit into the type of short labels.
  const element made_as = in.at(labels.from).type.element;
  const bool is_short = size_of(made_as) < size_of(element::i32);
  const value label = is_short ? cast(labels, element::i32) : labels.from;
  const value index = in.iota(classes, is_short ? element::i32 : made_as, labels.where);
  const value hit = in.elementwise(op::equal, std::array{label, index}, labels.where, element::boolean, true);
  return in_type(operand(hit, labels.where.file, labels.where.line), type);
}
template <class T = float>
constexpr value one_hot(operand labels, dim_ref classes) {
  return one_hot(labels, classes, element_of<T>);
}
template <class T = float>
constexpr value one_hot(operand labels, dim_ref classes, ignore ignored) {
  const value others = detail::labels_but(*labels.from.in, labels, ignored, "one_hot");
  if (!others.ok()) return others;
  const value hit = one_hot(detail::placed(others, labels), classes, element::boolean);
  return in_type(detail::placed(others.in->marked(hit, labels_are_indices), labels), element_of<T>);
}
CLEAVE_LIFT_TEMPLATE(one_hot, class T = float, T)
/// The same values with another name for one dim.
constexpr value rename(operand x, dim_ref from, dim_ref to) {
  return detail::recorded_rename(*x.from.in, x.from, from, to, x.where);
}
/// Several dims at once, an old and a new name for each: `rename(t, a, c, b, d)` is t_cd if t is t_ab, and `rename(t,
/// a, b, b, a)` exchanges the names of two dims. A dim whose two names are the same keeps its name. As with one dim,
/// both have one extent, and no element moves. So contractions are written by the names of their indices: `dot(v,
/// rename(t, a, c, b, d), c, d)`.
template <std::convertible_to<dim_ref>... Names>
  requires(sizeof...(Names) % 2 == 0)
constexpr value rename(operand x, dim_ref from, dim_ref to, dim_ref next_from, dim_ref next_to, const Names&... more) {
  return detail::recorded_renames(*x.from.in, x.from,
                                  std::array<dim_ref, 4 + sizeof...(Names)>{from, to, next_from, next_to,
                                                                            static_cast<dim_ref>(more)...},
                                  x.where);
}
CLEAVE_LIFT(rename)

/// One dim as two, the first being the major one: the same elements in the same order.
constexpr value split(operand x, dim_ref whole, dim_ref major, dim_ref minor) {
  return detail::recorded_split(*x.from.in, x.from, whole, major, minor, x.where);
}
CLEAVE_LIFT(split)
/// Two dims as one, the first being the major one: the reverse of `split`.
constexpr value merge(operand x, dim_ref major, dim_ref minor, dim_ref whole) {
  return detail::recorded_merge(*x.from.in, x.from, major, minor, whole, x.where);
}
CLEAVE_LIFT(merge)

/// Pins the layout of the dims that the specification names (GSPMD's annotation). The other dims stay open.
constexpr value constrain(operand x, const spec& s) {
  return detail::recorded_annotation(*x.from.in, op::constrain, x.from, s, x.where);
}
CLEAVE_LIFT(constrain)
/// Asks for a complete layout. Dims that the specification does not name are replicated.
constexpr value reshard(operand x, const spec& s) {
  return detail::recorded_annotation(*x.from.in, op::reshard, x.from, s, x.where);
}
CLEAVE_LIFT(reshard)

}} // namespace cleave::v0
