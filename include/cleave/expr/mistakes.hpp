// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/statement.hpp>
#include <cleave/graph/graph.hpp>

#include <concepts>
#include <iosfwd>

namespace cleave { inline namespace v0 {

// Operators that values and tensors do not have, and operands that they do not take. Each is one error at its line,
// instead of a list of the operators of all libraries.

namespace detail {

template <class A>
inline constexpr bool is_operand = std::convertible_to<A, operand>;
/// Operands of which one is a value, and the other no possible operand with it.
template <class A, class B>
concept Mismatched = Absorbed<A> || Absorbed<B> || (Recorded<A> && !is_operand<B>) || (Recorded<B> && !is_operand<A>) ||
                     (Statement<A> && !Statement<B> && !Number<B> && !Recorded<B>) ||
                     (Statement<B> && !Statement<A> && !Number<A> && !Recorded<A>);

template <text Name, class... A>
inline constexpr auto not_standard = rejection<fault::standard_function, op_named<Name>, A...>;

/// The result of a comparison with a dim, in a condition and in place of a size by name.
struct compared_name {
  constexpr operator bool() const { return false; }
  constexpr operator named_size() const { return {}; }
};
/// The result of arithmetic with names: the first of two, which may stand where a dim does, or a number.
template <class A, class B>
constexpr auto first_name(const A& a, const B&) {
  if constexpr (Name<A> && Name<B>) return a;
  else return 0;
}
/// A number of C++ that cannot be a distance or a number of elements: those are whole, and have a sign. `-h` of an
/// unsigned h is large.
template <class N>
concept NotWhole = std::floating_point<N> || (std::unsigned_integral<N> && sizeof(N) < 8);

} // namespace detail

#define CLEAVE_NO_BINARY(sign, why)                                    \
  template <class A, class B>                                          \
    requires(detail::SymbolicOperand<A> || detail::SymbolicOperand<B>) \
  constexpr auto operator sign(const A& a, const B& b) {               \
    return say(rejection<fault::why, A, B>), detail::mistaken(a, b);   \
  }
CLEAVE_NO_BINARY(&&, short_circuit)
CLEAVE_NO_BINARY(||, short_circuit)
CLEAVE_NO_BINARY(%, no_operator)
CLEAVE_NO_BINARY(^, no_operator)
CLEAVE_NO_BINARY(>>, no_operator)
#undef CLEAVE_NO_BINARY
// A stream is taken as it is, since it has operators for what clang makes of a value. Recording a function has none.
template <class A, class B>
  requires(detail::SymbolicOperand<std::remove_cvref_t<A>> || detail::SymbolicOperand<B>)
constexpr decltype(auto) operator<<(A&& a, const B& b) {
  using printed = std::remove_cvref_t<A>;
  say(rejection<fault::no_operator, printed, B>);
  if constexpr (detail::SymbolicOperand<printed> || Recorded<B>)
    return detail::reported_element<decltype(detail::mistaken(a, b))>(detail::mistaken(a, b));
  else return static_cast<printed&>(a);
}

#define CLEAVE_NO_UNARY(sign)                                          \
  template <detail::SymbolicOperand A>                                 \
  constexpr auto operator sign(const A& a) {                           \
    return say(rejection<fault::no_operator, A>), detail::mistaken(a); \
  }
CLEAVE_NO_UNARY(~)
CLEAVE_NO_UNARY(+)
CLEAVE_NO_UNARY(*)
#undef CLEAVE_NO_UNARY

#define CLEAVE_NOT_IN_PLACE(sign)                                                                       \
  template <class A, class B>                                                                           \
    requires(detail::SymbolicOperand<A> || detail::SymbolicOperand<B>)                                  \
  constexpr A& operator sign(A& a, const B& b) {                                                        \
    return say(rejection<fault::changed_in_place, A, B>), static_cast<void>(detail::mistaken(a, b)), a; \
  }
CLEAVE_NOT_IN_PLACE(+=)
CLEAVE_NOT_IN_PLACE(-=)
CLEAVE_NOT_IN_PLACE(*=)
CLEAVE_NOT_IN_PLACE(/=)
CLEAVE_NOT_IN_PLACE(%=)
CLEAVE_NOT_IN_PLACE(&=)
CLEAVE_NOT_IN_PLACE(|=)
#undef CLEAVE_NOT_IN_PLACE
#define CLEAVE_NOT_COUNTED(sign)                                                                  \
  template <detail::SymbolicOperand A>                                                            \
  constexpr A& operator sign(A& a) {                                                              \
    return say(rejection<fault::changed_in_place, A>), static_cast<void>(detail::mistaken(a)), a; \
  }                                                                                               \
  template <detail::SymbolicOperand A>                                                            \
  constexpr A operator sign(A& a, int) {                                                          \
    return say(rejection<fault::changed_in_place, A>), static_cast<void>(detail::mistaken(a)), a; \
  }
CLEAVE_NOT_COUNTED(++)
CLEAVE_NOT_COUNTED(--)
#undef CLEAVE_NOT_COUNTED

#define CLEAVE_NO_NUMBER(sign, result)                                                     \
  template <class A, class B>                                                              \
    requires(detail::Name<A> && (std::is_arithmetic_v<B> || detail::Name<B>)) ||           \
            (detail::Name<B> && std::is_arithmetic_v<A>)                                   \
  constexpr auto operator sign([[maybe_unused]] const A& a, [[maybe_unused]] const B& b) { \
    return say(rejection<fault::dim_as_number, A, B>), result;                             \
  }
CLEAVE_NO_NUMBER(+, detail::first_name(a, b))
CLEAVE_NO_NUMBER(-, detail::first_name(a, b))
CLEAVE_NO_NUMBER(*, detail::first_name(a, b))
CLEAVE_NO_NUMBER(%, detail::first_name(a, b))
CLEAVE_NO_NUMBER(<, 0)
CLEAVE_NO_NUMBER(<=, 0)
CLEAVE_NO_NUMBER(>, 0)
CLEAVE_NO_NUMBER(>=, 0)
CLEAVE_NO_NUMBER(==, detail::compared_name{})
#undef CLEAVE_NO_NUMBER
template <detail::Name A>
constexpr int operator-(const A&) {
  return say(rejection<fault::dim_as_number, A>), 0;
}

#define CLEAVE_MISMATCHED(sign)                                                                               \
  template <class A, class B>                                                                                 \
    requires detail::Mismatched<A, B>                                                                         \
  constexpr auto operator sign(const A& a, const B& b) {                                                      \
    constexpr fault found = detail::Absorbed<A> || detail::Absorbed<B> ? fault::none : fault::not_an_operand; \
    return say(rejection<found, A, B>), detail::mistaken(a, b);                                               \
  }
CLEAVE_MISMATCHED(+)
CLEAVE_MISMATCHED(-)
CLEAVE_MISMATCHED(*)
CLEAVE_MISMATCHED(/)
CLEAVE_MISMATCHED(<)
CLEAVE_MISMATCHED(<=)
CLEAVE_MISMATCHED(>)
CLEAVE_MISMATCHED(>=)
CLEAVE_MISMATCHED(&)
CLEAVE_MISMATCHED(|)
#undef CLEAVE_MISMATCHED

// The results have a type, so that a test whether a call is possible does not compile the mistake.
#define CLEAVE_NOT_WHOLE(name)                                                                          \
  template <class... A>                                                                                 \
    requires((Recorded<A> || ...) && (detail::NotWhole<A> || ...))                                      \
  constexpr detail::reported_element<value> name(const A&... args) {                                    \
    return say(rejection<fault::not_a_whole_number, op_named<#name>, A...>), detail::mistaken(args...); \
  }
CLEAVE_NOT_WHOLE(shift)
CLEAVE_NOT_WHOLE(roll)
CLEAVE_NOT_WHOLE(repeat)
CLEAVE_NOT_WHOLE(tile)
CLEAVE_NOT_WHOLE(slice)
#undef CLEAVE_NOT_WHOLE
template <class L, class H, class I = int>
  requires(detail::NotWhole<L> || detail::NotWhole<H> || detail::NotWhole<I>)
constexpr detail::reported_element<value> pad(operand x, dim_ref, dim_ref, L, H, I = {}, double = 0) {
  return say(rejection<fault::not_a_whole_number, op_named<"pad">, L, H, I>), detail::reported(*x.from.in);
}
template <detail::NotWhole N, std::convertible_to<dim_ref>... D>
constexpr detail::reported_element<value> interior(operand inside, operand outside, N, const D&...) {
  return say(rejection<fault::not_a_whole_number, op_named<"interior">, N>),
         detail::reported(*(inside.is_literal ? outside : inside).from.in);
}

/// `y = max(x, y)`
#define CLEAVE_NO_LARGER(name)                                                                  \
  template <class A, class B>                                                                   \
    requires StatementPair<A, B>                                                                \
  constexpr auto name(const A& a, const B& b) {                                                 \
    return say(rejection<fault::larger_of_two, op_named<#name>, A, B>), detail::mistaken(a, b); \
  }
CLEAVE_NO_LARGER(max)
CLEAVE_NO_LARGER(min)
#undef CLEAVE_NO_LARGER

// Functions that libraries of arrays call otherwise, or have and this one needs not.
#define CLEAVE_WRITTEN(name, instead)                                                            \
  template <class... A>                                                                          \
    requires(detail::SymbolicOperand<A> || ...)                                                  \
  constexpr auto name(const A&... a) {                                                           \
    return say(rejection<fault::written_otherwise, op_named<#name>, written_as<instead>, A...>), \
           detail::mistaken(a...);                                                               \
  }
CLEAVE_WRITTEN(matmul, "dot(x, w, embed)")
CLEAVE_WRITTEN(einsum, "dot(x, w, embed)")
CLEAVE_WRITTEN(tensordot, "dot(x, w, embed)")
CLEAVE_WRITTEN(where, "select(p, x, y)")
CLEAVE_WRITTEN(clip, "minimum(maximum(x, low), high)")
CLEAVE_WRITTEN(clamp, "minimum(maximum(x, low), high)")
CLEAVE_WRITTEN(transpose, "y = x, where y has its dims in another order")
CLEAVE_WRITTEN(reshape, "split(x, ...), merge(x, ...) or rename(x, ...)")
CLEAVE_WRITTEN(concatenate, "concat(to, piece(x, row), piece(y, row))")
CLEAVE_WRITTEN(astype, "cast<int>(x)")
#undef CLEAVE_WRITTEN

/// `cast(x, 1.0)`, `cast(x)`: of tensors too.
template <detail::SymbolicOperand A, class... B>
  requires(!(std::same_as<B, element> || ...))
constexpr auto cast(const A& a, const B&... b) {
  return say(rejection<fault::type_of_cast, A, B...>), detail::mistaken(a, b...);
}

}} // namespace cleave::v0

// `std::sin(x)` of a value would be an error that lists all functions of that name. One more function of it names the
// function to write. Adding to namespace std is not portable by the letter of the standard; libraries of automatic
// differentiation do the same, and a program without a mistake calls none of these.
namespace std {
// The library's own function, whose constraint is narrower, is called if both are visible.
#define CLEAVE_NOT_OF_STATEMENTS(name)                                                   \
  template <class... A>                                                                  \
    requires cleave::detail::StatementAmong<A...>                                        \
  constexpr cleave::absorbed_statement name(const A&...) {                               \
    return say(cleave::detail::not_standard<#name, A...>), cleave::absorbed_statement{}; \
  }
// A value is converted, so that the library's own function, which is no template, is called if both are visible.
#define CLEAVE_NOT_STANDARD(name)                                                            \
  template <class Once = void>                                                               \
  constexpr cleave::value name(cleave::operand x) {                                          \
    return say(cleave::detail::not_standard<#name, Once>), cleave::detail::mistaken(x.from); \
  }                                                                                          \
  CLEAVE_NOT_OF_STATEMENTS(name)
CLEAVE_NOT_STANDARD(abs)
CLEAVE_NOT_STANDARD(fabs)
CLEAVE_NOT_STANDARD(exp)
CLEAVE_NOT_STANDARD(expm1)
CLEAVE_NOT_STANDARD(log)
CLEAVE_NOT_STANDARD(sqrt)
CLEAVE_NOT_STANDARD(sin)
CLEAVE_NOT_STANDARD(cos)
CLEAVE_NOT_STANDARD(tanh)
CLEAVE_NOT_STANDARD(erf)
CLEAVE_NOT_STANDARD(floor)
CLEAVE_NOT_STANDARD(isnan)
CLEAVE_NOT_STANDARD(isinf)
CLEAVE_NOT_STANDARD(isfinite)
CLEAVE_NOT_STANDARD(conj)
CLEAVE_NOT_STANDARD(real)
CLEAVE_NOT_STANDARD(imag)
#define CLEAVE_OF_ONE(name, ...) CLEAVE_NOT_STANDARD(name)
#include <cleave/expr/mathematics_list.hpp>
#undef CLEAVE_NOT_STANDARD
template <cleave::detail::SymbolicOperand A>
constexpr auto to_string(const A& x) {
  say(cleave::detail::not_standard<"to_string", A>);
  if constexpr (cleave::Recorded<A>) return cleave::detail::reported(x);
  else return basic_string<char>{};
}
#define CLEAVE_NOT_STANDARD(name)                                                                    \
  template <class Once = void>                                                                       \
  constexpr cleave::value name(cleave::operand x, cleave::operand y) {                               \
    return say(cleave::detail::not_standard<#name, Once>), cleave::detail::mistaken(x.from, y.from); \
  }                                                                                                  \
  CLEAVE_NOT_OF_STATEMENTS(name)
CLEAVE_NOT_STANDARD(pow)
CLEAVE_NOT_STANDARD(fmod)
CLEAVE_NOT_STANDARD(fmax)
CLEAVE_NOT_STANDARD(fmin)
#define CLEAVE_OF_TWO(name, ...) CLEAVE_NOT_STANDARD(name)
#include <cleave/expr/mathematics_list.hpp>
#undef CLEAVE_NOT_STANDARD
#undef CLEAVE_NOT_OF_STATEMENTS
// Of two values the function of the standard library would be called, with a comparison as a condition.
#define CLEAVE_NOT_STANDARD(name)                                                                                    \
  template <same_as<cleave::value> V>                                                                                \
  constexpr const V& name(const V& x, const V&) {                                                                    \
    return say(cleave::detail::not_standard<#name, V>), static_cast<void>(cleave::detail::reported(x)), x;           \
  }                                                                                                                  \
  template <same_as<cleave::value> V>                                                                                \
  constexpr V name(initializer_list<V> all) {                                                                        \
    return say(cleave::detail::not_standard<#name, V, int>), cleave::detail::reported(*all.begin());                 \
  }                                                                                                                  \
  template <class A, class B>                                                                                        \
    requires((same_as<A, cleave::value> && is_arithmetic_v<B>) || (same_as<B, cleave::value> && is_arithmetic_v<A>)) \
  constexpr cleave::value name(const A& x, const B& y) {                                                             \
    return say(cleave::detail::not_standard<#name, A, B>), cleave::detail::mistaken(x, y);                           \
  }                                                                                                                  \
  template <cleave::Statement V>                                                                                     \
  constexpr cleave::detail::absorbed_statement name(const V&, const V&) {                                            \
    return say(cleave::detail::not_standard<#name, V>), cleave::detail::absorbed_statement{};                        \
  }                                                                                                                  \
  template <class A, class B>                                                                                        \
    requires(!same_as<A, B> && ((cleave::Statement<A> && (cleave::Statement<B> || is_arithmetic_v<B>)) ||            \
                                (cleave::Statement<B> && is_arithmetic_v<A>)))                                       \
  constexpr cleave::detail::absorbed_statement name(const A&, const B&) {                                            \
    return say(cleave::detail::not_standard<#name, A, B>), cleave::detail::absorbed_statement{};                     \
  }
CLEAVE_NOT_STANDARD(max)
CLEAVE_NOT_STANDARD(min)
#undef CLEAVE_NOT_STANDARD
template <same_as<cleave::value> V>
constexpr const V& clamp(const V& x, const V&, const V&) {
  return say(cleave::detail::not_standard<"clamp", V>), static_cast<void>(cleave::detail::reported(x)), x;
}
template <same_as<cleave::value> V, class L, class H>
  requires(!same_as<L, V> || !same_as<H, V>)
constexpr cleave::value clamp(const V& x, const L&, const H&) {
  return say(cleave::detail::not_standard<"clamp", V, L, H>), cleave::detail::reported(x);
}
template <class Once = void>
constexpr cleave::value fma(cleave::operand x, cleave::operand y, cleave::operand z) {
  return say(cleave::detail::not_standard<"fma", Once>), cleave::detail::mistaken(x.from, y.from, z.from);
}
template <cleave::Statement A, cleave::Statement B>
  requires(!same_as<A, B>)
void swap(A&, B&) {
  say(cleave::rejection<cleave::fault::types_swapped, A, B>);
}
template <size_t I, same_as<cleave::value> V>
constexpr cleave::value get(const V& x) {
  return say(cleave::rejection<cleave::fault::value_unpacked, cleave::got<I>, V>), cleave::detail::reported(x);
}
} // namespace std
