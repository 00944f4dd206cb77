// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/rejected.hpp>
#include <cleave/graph/graph.hpp>
#include <cleave/layout/layout.hpp>
#include <cleave/type/element.hpp>

#include <bit>
#include <concepts>
#include <cstdint>

namespace cleave { inline namespace v0 {

class recorder;
struct value;

namespace detail {
/// A value in place of an operand that has been reported as wrong already. Defined with the recorder.
constexpr value reported(recorder& in);
constexpr value reported(const value& beside);

/// In place of an element of a value, or of the result of a member that it lacks. Assigning to it, or leaving it
/// unused, is no second error.
template <class Value, class... Indices>
struct reported_element : Value {
  constexpr reported_element(const Value& v) : Value(v) {}
  template <class T>
  constexpr const reported_element& operator=(const T&) const {
    return *this;
  }
  template <class T>
  constexpr const reported_element& operator[](const T&) const {
    return *this;
  }
  template <class... T>
  constexpr const reported_element& operator()(const T&...) const {
    return *this;
  }
};

/// The integer that `switch` finds of a value. No operator of C++ numbers takes wchar_t. It is never viable: compilers
/// look for its type only. Then g++ takes an explicit conversion, and clang does not.
template <class Value>
struct switch_quantity {
  operator wchar_t() const
    requires(sizeof(Value) == 0);
};
} // namespace detail

/// A value being recorded, with which the body of a function computes. All values have one type, so that a loop over
/// layers is an ordinary loop.
struct [[nodiscard]] value : detail::switch_quantity<value> {
  recorder* in = nullptr;
  node_id id = no_node;
  /// A number given by the caller. It takes the element type of the tensor that it is combined with, as literals do.
  bool number = false;

  constexpr value() = default;
  constexpr value(recorder* recorded_in, node_id node) : in(recorded_in), id(node) {}

  /// False if a fault occurred on the way to this value. Operations on such a value report nothing more.
  constexpr bool ok() const { return id != no_node; }

  // The following are mistakes: operations of C++ numbers and of tensors. Each is one error at its line.
  /// A mistake, in if, while, for, switch and ?:, and in a cast to a number. Faults: value_as_condition, type_of_cast.
  /// The conversion is explicit, because clang would prefer an implicit one, and its own operators, to those of values.
  template <class T>
    requires std::is_arithmetic_v<T>
#ifdef __clang__
  explicit(!std::is_same_v<T, wchar_t>)
#else
  explicit
#endif
      constexpr operator T() const {
    constexpr fault found = std::is_floating_point_v<T> ? fault::type_of_cast : fault::value_as_condition;
    return say(rejection<found, T>), static_cast<void>(detail::reported(*this)), T{};
  }
  /// A mistake: a value has no elements yet. Fault: value_indexed.
  template <class... X>
  constexpr detail::reported_element<value, X...> operator()(const X&...) const {
    return say(rejection<fault::value_indexed, got<sizeof...(X)>>), detail::reported(*this);
  }
  template <class X>
  constexpr detail::reported_element<value, X> operator[](const X&) const {
    return say(rejection<fault::value_indexed, got<1>, X>), detail::reported(*this);
  }
  template <class X>
    requires std::is_arithmetic_v<X>
  constexpr value& operator=(X) {
    return say(rejection<fault::changed_in_place, X>), *this = detail::reported(*this);
  }
  // A mistake: members of tensors, or operations, which are functions. Faults: member_of_tensor, operation_as_member.
#define CLEAVE_NO_MEMBER(name, why)                                                                 \
  template <class... X>                                                                             \
  constexpr detail::reported_element<value, X...> name(const X&...) const {                         \
    return say(rejection<fault::why, op_named<#name>, got<sizeof...(X)>>), detail::reported(*this); \
  }
  CLEAVE_NO_MEMBER(extents, member_of_tensor)
  CLEAVE_NO_MEMBER(extent, member_of_tensor)
  CLEAVE_NO_MEMBER(shape, member_of_tensor)
  CLEAVE_NO_MEMBER(size, member_of_tensor)
  CLEAVE_NO_MEMBER(view, member_of_tensor)
  CLEAVE_NO_MEMBER(data, member_of_tensor)
  CLEAVE_NO_MEMBER(fill, member_of_tensor)
  CLEAVE_NO_MEMBER(fill_by, member_of_tensor)
  CLEAVE_NO_MEMBER(to_global, member_of_tensor)
  CLEAVE_NO_MEMBER(alias, member_of_tensor)
  CLEAVE_NO_MEMBER(get_grid, member_of_tensor)
  CLEAVE_NO_MEMBER(sum, operation_as_member)
  CLEAVE_NO_MEMBER(mean, operation_as_member)
  CLEAVE_NO_MEMBER(max, operation_as_member)
  CLEAVE_NO_MEMBER(min, operation_as_member)
  CLEAVE_NO_MEMBER(dot, operation_as_member)
  CLEAVE_NO_MEMBER(transpose, operation_as_member)
  CLEAVE_NO_MEMBER(reshape, operation_as_member)
  CLEAVE_NO_MEMBER(astype, operation_as_member)
#undef CLEAVE_NO_MEMBER
  /// A mistake: a value has no elements to iterate over. Fault: value_indexed.
  template <class... X>
  constexpr const value* begin(const X&...) const {
    return say(rejection<fault::value_indexed, got<sizeof...(X)>>), static_cast<void>(detail::reported(*this)), this;
  }
  /// As begin().
  template <class... X>
  constexpr const value* end(const X&...) const {
    return this;
  }
};

namespace detail {
/// In place of the refused result of a call without any value: a number, with which no operand conflicts.
struct refused_value : value {};
} // namespace detail

/// The argument of an operation: a value or a literal. Its converting constructors record the user's line, because
/// operators cannot have default arguments.
struct operand {
  value from{};
  double literal = 0;
  /// The imaginary part of a complex literal.
  double imaginary = 0;
  bool is_literal = false;
  /// An integer that a double does not hold.
  bool rounded = false;
  /// The element type in which the literal is written; none if no tensor can have it.
  element written = element::none;
  source where{};

  constexpr operand(const value& v, const char* file = __builtin_FILE(), unsigned line = __builtin_LINE())
      : from(v), where{file, line} {}
  constexpr operand(const detail::refused_value&, const char* file = __builtin_FILE(), unsigned line = __builtin_LINE())
      : is_literal(true), where{file, line} {}
  template <class T>
    requires is_number<T>
  constexpr operand(T number, const char* file = __builtin_FILE(), unsigned line = __builtin_LINE())
      : literal(part(number, false)), imaginary(part(number, true)), is_literal(true), rounded(!is_exact(number)),
        written(literal_element<T>), where{file, line} {}

 private:
  template <class T>
  static constexpr double part(T number, bool imaginary) {
    if constexpr (requires { number.imag(); }) return static_cast<double>(imaginary ? number.imag() : number.real());
    else return imaginary ? 0 : static_cast<double>(number);
  }
  /// Whether an integer has at most 53 bits between its first and its last one.
  template <class T>
  static constexpr bool is_exact(T number) {
    if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
      const auto bits = number < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(number)
                                   : static_cast<std::uint64_t>(number);
      return bits == 0 || std::bit_width(bits >> std::countr_zero(bits)) <= 53;
    }
    return true;
  }
};

/// A dim that a function takes with a variable number of operands, and the user's line, which those cannot note.
struct dim_operand {
  dim_ref dim{};
  source where{};

  template <class D>
    requires std::convertible_to<const D&, dim_ref>
  constexpr dim_operand(const D& d, const char* file = __builtin_FILE(), unsigned line = __builtin_LINE())
      : dim(d), where{file, line} {}
};

}} // namespace cleave::v0
