// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/graph/graph.hpp>

#include <array>

namespace cleave { inline namespace v0 {

struct user_entry;
namespace detail {
/// The entry of a functor that formulas apply. A function, and declared before the functor is: so derivatives may name
/// each other, and themselves.
template <class Op>
constexpr const user_entry& entry_in_formulas();
} // namespace detail

/// An elementwise expression as data: the derivative of an operation. Write it with `symbols` and the usual operators.
/// The derivative of a graph records it.
struct formula {
  struct term {
    op code = op::input;
    /// op::input: which symbol. Else the terms that are operands.
    std::array<std::int8_t, 3> in{-1, -1, -1};
    /// op::constant: the value.
    double number = 0;
    /// op::user: the entry of its functor.
    const user_entry& (*function)() = nullptr;

    static constexpr term of(op code, int a, int b = -1) {
      return {code, {static_cast<std::int8_t>(a), static_cast<std::int8_t>(b), -1}};
    }
  };
  /// Operands before their readers; the last is the value.
  static_vector<term, 24> terms{};

  constexpr formula() = default;
  /// A number as a formula.
  constexpr formula(double number) { terms.push_back({op::constant, {-1, -1, -1}, number}); }
  /// The symbol of this number: see `symbols`.
  static constexpr formula symbol(int which) {
    formula f;
    f.terms.push_back(term::of(op::input, which));
    return f;
  }

  /// Whether there is no formula: no gradient flows.
  constexpr bool empty() const { return terms.empty(); }
};

/// The letters of derivatives: the operands x, y, z of the op, its result r, and the cotangent g of its result.
namespace symbols {
/// The first operand.
inline constexpr formula x = formula::symbol(0);
/// The second operand.
inline constexpr formula y = formula::symbol(1);
/// The third operand.
inline constexpr formula z = formula::symbol(2);
/// The result.
inline constexpr formula r = formula::symbol(3);
/// The cotangent of the result.
inline constexpr formula g = formula::symbol(4);
} // namespace symbols

namespace detail {

constexpr std::int8_t take_in(formula& into, const formula& part) {
  const auto shift = static_cast<std::int8_t>(into.terms.size());
  for (formula::term t : part.terms) {
    if (t.code != op::input)
      for (std::int8_t& i : t.in)
        if (i >= 0) i = static_cast<std::int8_t>(i + shift);
    into.terms.push_back(t);
  }
  return static_cast<std::int8_t>(into.terms.size() - 1);
}
template <class... Parts>
constexpr formula written(op code, const Parts&... parts) {
  formula f;
  formula::term t{code};
  std::size_t k = 0;
  ((t.in[k++] = take_in(f, parts)), ...);
  f.terms.push_back(t);
  return f;
}

/// The elementwise operation of a functor, which has a CLEAVE_IN_FORMULAS and a CLEAVE_ENTRY_IN_FORMULAS.
template <class Op, class... Parts>
constexpr formula applied(const Parts&... parts) {
  formula f = written(op::user, formula(parts)...);
  f.terms.back().function = &entry_in_formulas<Op>;
  return f;
}

} // namespace detail

constexpr formula operator-(const formula& a) { return detail::written(op::neg, a); }
constexpr formula operator+(const formula& a, const formula& b) { return detail::written(op::add, a, b); }
constexpr formula operator-(const formula& a, const formula& b) { return detail::written(op::sub, a, b); }
constexpr formula operator*(const formula& a, const formula& b) { return detail::written(op::mul, a, b); }
constexpr formula operator/(const formula& a, const formula& b) { return detail::written(op::div, a, b); }
constexpr formula operator>(const formula& a, const formula& b) { return detail::written(op::greater, a, b); }
constexpr formula operator==(const formula& a, const formula& b) { return detail::written(op::equal, a, b); }
constexpr formula sign(const formula& a) { return detail::written(op::sign, a); }
constexpr formula sqrt(const formula& a) { return detail::written(op::sqrt, a); }
constexpr formula exp(const formula& a) { return detail::written(op::exp, a); }
constexpr formula log(const formula& a) { return detail::written(op::log, a); }
constexpr formula tanh(const formula& a) { return detail::written(op::tanh, a); }
constexpr formula sin(const formula& a) { return detail::written(op::sin, a); }
constexpr formula cos(const formula& a) { return detail::written(op::cos, a); }
constexpr formula pow(const formula& a, const formula& b) { return detail::written(op::pow, a, b); }
constexpr formula select(const formula& p, const formula& a, const formula& b) {
  return detail::written(op::select, p, a, b);
}

/// The derivative of gelu in its tanh form. A function of its own, since its parts are used several times.
constexpr formula gelu_slope() {
  using symbols::x;
  constexpr double scale = 0.7978845608028654, cubic = 0.044715;
  formula f;
  int last = -1;
  const auto add = [&](op code, int a, int b = -1) {
    f.terms.push_back(formula::term::of(code, a, b));
    return ++last;
  };
  const auto take = [&](const formula& part) { return last = detail::take_in(f, part); };
  // s = 1/(1 + exp(-2u)) with u = scale (x + cubic x^3); gelu = x s, and its slope s + x s (1 - s) 2 u'.
  // Far from 0 s is 0 or 1, and the slope is s: the powers of x must not become infinite there.
  const int given = take(x), one = take(1);
  const int at = add(op::maximum, add(op::minimum, given, take(100)), take(-100));
  const int square = add(op::mul, at, at);
  const int inner = add(op::mul, at, add(op::add, take(2 * scale), add(op::mul, take(2 * scale * cubic), square)));
  const int s = add(op::sigmoid, inner);
  const int slope = add(op::add, take(2 * scale), add(op::mul, take(6 * scale * cubic), square));
  const int bend = add(op::mul, add(op::mul, at, slope), add(op::sub, one, s));
  add(op::mul, s, add(op::add, one, bend));
  return f;
}

}} // namespace cleave::v0
