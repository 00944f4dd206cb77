// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/statement.hpp>
#include <cleave/graph/graph.hpp>

#include <concepts>

namespace cleave { inline namespace v0 {

// Operators that values and tensors do not have, and operands that they do not take. Each is one error at its line,
// instead of a list of the operators of all libraries.

namespace detail {

template <class A>
inline constexpr bool is_operand = std::convertible_to<A, operand>;
/// Operands of which one is a value, and the other no possible operand with it.
template <class A, class B>
concept Mismatched = (Recorded<A> && !is_operand<B>) || (Recorded<B> && !is_operand<A>) ||
                     (Statement<A> && !Statement<B> && !Number<B> && !Recorded<B>) ||
                     (Statement<B> && !Statement<A> && !Number<A> && !Recorded<A>);

template <text Name, class... A>
inline constexpr auto not_standard = rejection<fault::standard_function, op_named<Name>, A...>;
/// An operand given to a function of namespace std by mistake. It is converted, so that the library's own function,
/// which is no template, is called if both are visible (`using std::sin; sin(x)`).
struct standard_operand {
  value from{};
  constexpr standard_operand(const value& x) : from(x) {}
};
struct standard_tensor {
  template <Statement A>
  constexpr standard_tensor(const A&) {}
};
/// Its second operand.
struct standard_second : standard_operand {
  constexpr standard_second(const value& x) : standard_operand(x) {}
  template <class T>
    requires std::is_arithmetic_v<T>
  constexpr standard_second(T) : standard_operand(value{}) {}
};

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
// A stream is taken as it is: it has operators for the type to which clang converts a value.
template <class A, class B>
  requires(detail::SymbolicOperand<std::remove_cvref_t<A>> || detail::SymbolicOperand<B>)
constexpr auto operator<<(A&& a, const B& b) {
  // Nobody reads the result of printing.
  using printed = detail::reported_element<decltype(detail::mistaken(a, b))>;
  return say(rejection<fault::no_operator, std::remove_cvref_t<A>, B>), printed(detail::mistaken(a, b));
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
#undef CLEAVE_NO_NUMBER
template <detail::Name A>
constexpr int operator-(const A&) {
  return say(rejection<fault::dim_as_number, A>), 0;
}
template <detail::Name A, class B>
  requires(std::is_arithmetic_v<B> || detail::Name<B>)
constexpr detail::compared_name operator==(const A&, const B&) {
  return say(rejection<fault::dim_as_number, A, B>), detail::compared_name{};
}

#define CLEAVE_MISMATCHED(sign)                                                 \
  template <class A, class B>                                                   \
    requires detail::Mismatched<A, B>                                           \
  constexpr auto operator sign(const A& a, const B& b) {                        \
    return say(rejection<fault::not_an_operand, A, B>), detail::mistaken(a, b); \
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
#define CLEAVE_NOT_WHOLE(name, ...)                                                                     \
  template <detail::NotWhole N, std::same_as<border>... Outside>                                        \
  constexpr detail::reported_element<value> name(operand x, __VA_ARGS__, N, Outside...) {               \
    return say(rejection<fault::not_a_whole_number, op_named<#name>, N>), detail::reported(*x.from.in); \
  }
CLEAVE_NOT_WHOLE(shift, dim_ref)
CLEAVE_NOT_WHOLE(roll, dim_ref)
CLEAVE_NOT_WHOLE(repeat, dim_ref, dim_ref)
CLEAVE_NOT_WHOLE(tile, dim_ref, dim_ref)
#undef CLEAVE_NOT_WHOLE
template <class B, class E = int, class S = int>
  requires(detail::NotWhole<B> || detail::NotWhole<E> || detail::NotWhole<S>)
constexpr detail::reported_element<value> slice(operand x, dim_ref, dim_ref, B, E = {}, S = {}) {
  return say(rejection<fault::not_a_whole_number, op_named<"slice">, B, E, S>), detail::reported(*x.from.in);
}
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
#define CLEAVE_NOT_STANDARD(name)                                                                \
  template <class Once = void>                                                                   \
  constexpr cleave::value name(cleave::detail::standard_operand x) {                             \
    return say(cleave::detail::not_standard<#name, Once>), cleave::detail::reported(x.from);     \
  }                                                                                              \
  template <class Once = void>                                                                   \
  constexpr cleave::detail::absorbed_statement name(cleave::detail::standard_tensor) {           \
    return say(cleave::detail::not_standard<#name, Once>), cleave::detail::absorbed_statement{}; \
  }
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
#define CLEAVE_NOT_STANDARD(name)                                                                     \
  template <class Once = void>                                                                        \
  constexpr cleave::value name(cleave::detail::standard_operand x, cleave::detail::standard_second) { \
    return say(cleave::detail::not_standard<#name, Once>), cleave::detail::reported(x.from);          \
  }                                                                                                   \
  template <class Once = void, class T>                                                               \
    requires is_arithmetic_v<T>                                                                       \
  constexpr cleave::value name(T, cleave::detail::standard_operand x) {                               \
    return say(cleave::detail::not_standard<#name, Once>), cleave::detail::reported(x.from);          \
  }                                                                                                   \
  template <class Once = void, class T>                                                               \
  constexpr cleave::detail::absorbed_statement name(cleave::detail::standard_tensor, const T&) {      \
    return say(cleave::detail::not_standard<#name, Once>), cleave::detail::absorbed_statement{};      \
  }                                                                                                   \
  template <class Once = void, class T>                                                               \
    requires is_arithmetic_v<T>                                                                       \
  constexpr cleave::detail::absorbed_statement name(T, cleave::detail::standard_tensor) {             \
    return say(cleave::detail::not_standard<#name, Once>), cleave::detail::absorbed_statement{};      \
  }
CLEAVE_NOT_STANDARD(pow)
CLEAVE_NOT_STANDARD(fmod)
CLEAVE_NOT_STANDARD(fmax)
CLEAVE_NOT_STANDARD(fmin)
#define CLEAVE_OF_TWO(name, ...) CLEAVE_NOT_STANDARD(name)
#include <cleave/expr/mathematics_list.hpp>
#undef CLEAVE_NOT_STANDARD
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
    return say(cleave::detail::not_standard<#name, A, B>), cleave::detail::reported_beside(x, y);                    \
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
constexpr cleave::value fma(cleave::detail::standard_operand x, cleave::detail::standard_second,
                            cleave::detail::standard_second) {
  return say(cleave::detail::not_standard<"fma", Once>), cleave::detail::reported(x.from);
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
