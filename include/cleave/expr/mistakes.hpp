// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/statement.hpp>

namespace cleave::inline v0 {

// Operators that values and tensors do not have, and operands that they do not take. Each is one error at the line
// where it stands, instead of a list of the operators of all libraries.

namespace detail {

template <class A>
concept SymbolicOperand = Recorded<A> || Statement<A>;
template <class A>
inline constexpr bool is_operand = std::convertible_to<A, operand>;
/// Operands of which one is a value, and the other nothing that can stand beside it.
template <class A, class B>
concept Mismatched = (Recorded<A> && !is_operand<B>) || (Recorded<B> && !is_operand<A>) ||
                     (Statement<A> && !Statement<B> && !Number<B> && !Recorded<B>) ||
                     (Statement<B> && !Statement<A> && !Number<A> && !Recorded<A>);

/// Something of the right kind to go on with after an error.
template <class A, class... B>
constexpr auto mistaken(const A& a, const B&... b) {
  if constexpr (Recorded<A> || (Recorded<B> || ...)) return reported_beside(a, b...);
  else return absorbed_statement{};
}

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
template <class A, class B>
  requires(detail::SymbolicOperand<A> || detail::SymbolicOperand<B>)
constexpr auto operator<<(const A& a, const B& b) {
  return say(rejection<fault::no_operator, A, B>), detail::mistaken(a, b);
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

} // namespace cleave::inline v0
