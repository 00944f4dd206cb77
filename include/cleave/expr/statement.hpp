// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/function.hpp>

namespace cleave {

template <class E>
inline constexpr bool is_expression = false;
template <class F, class... Args>
inline constexpr bool is_expression<expression<F, Args...>> = true;

/// A tensor or a statement. Values are not statements, since they are recorded at once.
template <class A>
concept Statement = (TensorType<A> && !std::derived_from<std::remove_cvref_t<A>, value>) ||
                    is_expression<std::remove_cvref_t<A>>;
/// Two operands of a statement. One of them may be a number, which becomes a rank-0 argument of the plan.
template <class A, class B>
concept StatementPair = (Statement<A> && (Statement<B> || Number<B>)) || (Number<A> && Statement<B>);

namespace detail {

/// Dims, axes and specifications: objects without state, which the type carries.
template <class A>
inline constexpr bool is_constant_argument = std::is_empty_v<A> && !is_expression<A>;

template <class A>
inline constexpr std::size_t leaf_count = is_constant_argument<A> ? 0 : 1;
template <class F, class... Args>
inline constexpr std::size_t leaf_count<expression<F, Args...>> = (leaf_count<Args> + ... + 0);

/// References to the operands that are no constants, in order.
template <class A>
constexpr auto leaves_of(const A& a) {
  if constexpr (is_constant_argument<A>) return std::tuple<>();
  else return std::tuple<const A&>(a);
}
template <class F, class... Args>
constexpr auto leaves_of(const expression<F, Args...>& e) {
  return std::apply([](const auto&... a) { return std::tuple_cat(leaves_of(a.it)...); }, e.args);
}

template <class A, std::size_t First>
struct rebuild {
  template <class Leaves>
  static constexpr decltype(auto) from(Leaves& leaves) {
    if constexpr (is_constant_argument<A>) return A{};
    else return (std::get<First>(leaves));
  }
};
template <class F, class... Args, std::size_t First>
struct rebuild<expression<F, Args...>, First> {
  static constexpr auto offsets = [] {
    std::array<std::size_t, sizeof...(Args) + 1> at{First};
    std::size_t i = 0;
    ((at[i + 1] = at[i] + leaf_count<Args>, ++i), ...);
    return at;
  }();
  template <class Leaves>
  static constexpr auto from(Leaves& leaves) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return F{}(rebuild<Args, offsets[I]>::from(leaves)...);
    }(std::index_sequence_for<Args...>{});
  }
};
/// An operation of the library: its operands have no line, since that of a statement cannot be noted and those of this header are nobody's.
template <class F>
struct lifted : F {};
template <class F>
inline constexpr bool is_lifted = false;
template <class F>
inline constexpr bool is_lifted<lifted<F>> = true;
template <class A>
constexpr decltype(auto) without_line(const A& a) {
  if constexpr (std::derived_from<A, value>) return operand(a, "", 0);
  else return (a);
}
template <class F, class... Args, std::size_t First>
struct rebuild<expression<lifted<F>, Args...>, First> {
  template <class Leaves>
  static constexpr auto from(Leaves& leaves) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return F{}(without_line(rebuild<Args, rebuild<expression<F, Args...>, First>::offsets[I]>::from(leaves))...);
    }(std::index_sequence_for<Args...>{});
  }
};

/// The body of the function that a statement is: takes the leaves, records the tree.
template <class E>
struct statement_body {
  template <class... Leaves>
  constexpr auto operator()(Leaves&... leaves) const {
    auto all = std::tie(leaves...);
    return rebuild<E, 0>::from(all);
  }
};

template <class F, class... Args>
constexpr expression<lifted<F>, kept<Args>...> make_expression(F, const Args&... args) {
  return {std::tuple<statement_operand<kept<Args>>...>(args...)};
}

} // namespace detail

// Every operator and function of expr/functions.hpp again, for tensors: same meaning, recorded when assigned.
template <Statement X>
constexpr auto operator-(const X& x) {
  return detail::make_expression([](const auto& a) { return -a; }, x);
}
template <Statement X>
constexpr auto operator!(const X& x) {
  return detail::make_expression([](const auto& a) { return !a; }, x);
}
template <Statement X>
constexpr auto abs(const X& x) {
  return detail::make_expression([](const auto& a) { return abs(a); }, x);
}
template <Statement X>
constexpr auto sign(const X& x) {
  return detail::make_expression([](const auto& a) { return sign(a); }, x);
}
template <Statement X>
constexpr auto exp(const X& x) {
  return detail::make_expression([](const auto& a) { return exp(a); }, x);
}
template <Statement X>
constexpr auto log(const X& x) {
  return detail::make_expression([](const auto& a) { return log(a); }, x);
}
template <Statement X>
constexpr auto tanh(const X& x) {
  return detail::make_expression([](const auto& a) { return tanh(a); }, x);
}
template <Statement X>
constexpr auto sqrt(const X& x) {
  return detail::make_expression([](const auto& a) { return sqrt(a); }, x);
}
template <Statement X>
constexpr auto rsqrt(const X& x) {
  return detail::make_expression([](const auto& a) { return rsqrt(a); }, x);
}
template <Statement X>
constexpr auto erf(const X& x) {
  return detail::make_expression([](const auto& a) { return erf(a); }, x);
}
template <Statement X>
constexpr auto gelu(const X& x) {
  return detail::make_expression([](const auto& a) { return gelu(a); }, x);
}
template <Statement X>
constexpr auto relu(const X& x) {
  return detail::make_expression([](const auto& a) { return relu(a); }, x);
}
template <Statement X>
constexpr auto sigmoid(const X& x) {
  return detail::make_expression([](const auto& a) { return sigmoid(a); }, x);
}
template <Statement X>
constexpr auto sin(const X& x) {
  return detail::make_expression([](const auto& a) { return sin(a); }, x);
}
template <Statement X>
constexpr auto cos(const X& x) {
  return detail::make_expression([](const auto& a) { return cos(a); }, x);
}
template <Statement X>
constexpr auto floor(const X& x) {
  return detail::make_expression([](const auto& a) { return floor(a); }, x);
}
template <Statement X>
constexpr auto conj(const X& x) {
  return detail::make_expression([](const auto& a) { return conj(a); }, x);
}
template <Statement X>
constexpr auto real(const X& x) {
  return detail::make_expression([](const auto& a) { return real(a); }, x);
}
template <Statement X>
constexpr auto imag(const X& x) {
  return detail::make_expression([](const auto& a) { return imag(a); }, x);
}
template <class A, class B>
  requires StatementPair<A, B>
constexpr auto complex(const A& a, const B& b) {
  return detail::make_expression([](const auto& x, const auto& y) { return complex(x, y); }, a, b);
}
template <class A, class B>
  requires StatementPair<A, B>
constexpr auto operator+(const A& a, const B& b) {
  return detail::make_expression([](const auto& x, const auto& y) { return x + y; }, a, b);
}
template <class A, class B>
  requires StatementPair<A, B>
constexpr auto operator-(const A& a, const B& b) {
  return detail::make_expression([](const auto& x, const auto& y) { return x - y; }, a, b);
}
template <class A, class B>
  requires StatementPair<A, B>
constexpr auto operator*(const A& a, const B& b) {
  return detail::make_expression([](const auto& x, const auto& y) { return x * y; }, a, b);
}
template <class A, class B>
  requires StatementPair<A, B>
constexpr auto operator/(const A& a, const B& b) {
  return detail::make_expression([](const auto& x, const auto& y) { return x / y; }, a, b);
}
template <class A, class B>
  requires StatementPair<A, B>
constexpr auto operator==(const A& a, const B& b) {
  return detail::make_expression([](const auto& x, const auto& y) { return x == y; }, a, b);
}
template <class A, class B>
  requires StatementPair<A, B>
constexpr auto operator!=(const A& a, const B& b) {
  return detail::make_expression([](const auto& x, const auto& y) { return x != y; }, a, b);
}
template <class A, class B>
  requires StatementPair<A, B>
constexpr auto operator<(const A& a, const B& b) {
  return detail::make_expression([](const auto& x, const auto& y) { return x < y; }, a, b);
}
template <class A, class B>
  requires StatementPair<A, B>
constexpr auto operator<=(const A& a, const B& b) {
  return detail::make_expression([](const auto& x, const auto& y) { return x <= y; }, a, b);
}
template <class A, class B>
  requires StatementPair<A, B>
constexpr auto operator>(const A& a, const B& b) {
  return detail::make_expression([](const auto& x, const auto& y) { return x > y; }, a, b);
}
template <class A, class B>
  requires StatementPair<A, B>
constexpr auto operator>=(const A& a, const B& b) {
  return detail::make_expression([](const auto& x, const auto& y) { return x >= y; }, a, b);
}
template <class A, class B>
  requires StatementPair<A, B>
constexpr auto operator&(const A& a, const B& b) {
  return detail::make_expression([](const auto& x, const auto& y) { return x & y; }, a, b);
}
template <class A, class B>
  requires StatementPair<A, B>
constexpr auto operator|(const A& a, const B& b) {
  return detail::make_expression([](const auto& x, const auto& y) { return x | y; }, a, b);
}
template <class A, class B>
  requires StatementPair<A, B>
constexpr auto pow(const A& a, const B& b) {
  return detail::make_expression([](const auto& x, const auto& y) { return pow(x, y); }, a, b);
}
template <class A, class B>
  requires StatementPair<A, B>
constexpr auto maximum(const A& a, const B& b) {
  return detail::make_expression([](const auto& x, const auto& y) { return maximum(x, y); }, a, b);
}
template <class A, class B>
  requires StatementPair<A, B>
constexpr auto minimum(const A& a, const B& b) {
  return detail::make_expression([](const auto& x, const auto& y) { return minimum(x, y); }, a, b);
}
template <Statement P, class A, class B>
  requires StatementPair<P, A> && StatementPair<P, B>
constexpr auto select(const P& predicate, const A& yes, const B& no) {
  return detail::make_expression([](const auto& p, const auto& a, const auto& b) { return select(p, a, b); }, predicate, yes, no);
}
template <class T, Statement X>
constexpr auto cast(const X& x) {
  return detail::make_expression([](const auto& a) { return cast<T>(a); }, x);
}
template <Statement A, Statement B, Dim... D>
constexpr auto dot(const A& a, const B& b, const D&... over) {
  return detail::make_expression([](const auto& x, const auto& y, const auto&... d) { return dot(x, y, d...); }, a, b, over...);
}
template <Statement X, Dim... D>
constexpr auto sum(const X& x, const D&... over) {
  return detail::make_expression([](const auto& a, const auto&... d) { return sum(a, d...); }, x, over...);
}
template <Statement X, Dim... D>
constexpr auto max(const X& x, const D&... over) {
  return detail::make_expression([](const auto& a, const auto&... d) { return max(a, d...); }, x, over...);
}
template <Statement X, Dim... D>
constexpr auto min(const X& x, const D&... over) {
  return detail::make_expression([](const auto& a, const auto&... d) { return min(a, d...); }, x, over...);
}
template <Statement X, Dim... D>
constexpr auto mean(const X& x, const D&... over) {
  return detail::make_expression([](const auto& a, const auto&... d) { return mean(a, d...); }, x, over...);
}
template <Statement X, Dim D>
constexpr auto softmax(const X& x, const D& over) {
  return detail::make_expression([](const auto& a, const auto& d) { return softmax(a, d); }, x, over);
}
template <Statement X, Dim D>
constexpr auto logsumexp(const X& x, const D& over) {
  return detail::make_expression([](const auto& a, const auto& d) { return logsumexp(a, d); }, x, over);
}
template <Statement X, Dim D>
constexpr auto log_softmax(const X& x, const D& over) {
  return detail::make_expression([](const auto& a, const auto& d) { return log_softmax(a, d); }, x, over);
}
template <class T = float, Statement X, Dim D>
constexpr auto one_hot(const X& x, const D& over) {
  return detail::make_expression([](const auto& a, const auto& d) { return one_hot<T>(a, d); }, x, over);
}
template <Statement X, Dim D, Statement S, Statement B>
constexpr auto layer_norm(const X& x, const D& over, const S& scale, const B& bias) {
  return detail::make_expression([](const auto& a, const auto& d, const auto& s, const auto& b) { return layer_norm(a, d, s, b); },
                                 x, over, scale, bias);
}
template <Statement X, Dim From, Dim To>
constexpr auto rename(const X& x, const From& from, const To& to) {
  return detail::make_expression([](const auto& a, const auto& f, const auto& t) { return rename(a, f, t); }, x, from, to);
}
template <Statement X, Dim A, Dim B, Dim C>
constexpr auto split(const X& x, const A& whole, const B& major, const C& minor) {
  return detail::make_expression([](const auto& a, const auto& w, const auto& m, const auto& n) { return split(a, w, m, n); }, x,
                                 whole, major, minor);
}
template <Statement X, Dim A, Dim B, Dim C>
constexpr auto merge(const X& x, const A& major, const B& minor, const C& whole) {
  return detail::make_expression([](const auto& a, const auto& m, const auto& n, const auto& w) { return merge(a, m, n, w); }, x,
                                 major, minor, whole);
}
template <Statement X, class Mesh, class Unreduced, class... Placements>
constexpr auto constrain(const X& x, const sharding<Mesh, Unreduced, Placements...>& s) {
  return detail::make_expression([](const auto& a, const auto& l) { return constrain(a, l); }, x, s);
}
template <Statement X, class Mesh, class Unreduced, class... Placements>
constexpr auto reshard(const X& x, const sharding<Mesh, Unreduced, Placements...>& s) {
  return detail::make_expression([](const auto& a, const auto& l) { return reshard(a, l); }, x, s);
}

} // namespace cleave
