// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/graph/graph.hpp>
#include <cleave/layout/spec.hpp>
#include <cleave/type/element.hpp>

#include <concepts>

namespace cleave {

class recorder;

/// A value being recorded: what a traced function computes with. One type for all, so loops over layers stay loops.
struct value {
  recorder* in = nullptr;
  node_id id = no_node;
  /// A number that the caller gives: it takes the element type of the tensor beside it, as literals do.
  bool number = false;

  /// False once something was wrong on the way here; operators absorb such values.
  constexpr bool ok() const { return id != no_node; }
};

/// What operators take: a value or a literal. Its converting constructors note the user's line, which an operator
/// itself cannot, since operators take no default arguments.
struct operand {
  value from{};
  double literal = 0;
  /// The imaginary part of a complex literal.
  double imaginary = 0;
  bool is_literal = false;
  /// The element type in which the literal is written; none where no tensor can have it.
  element written = element::none;
  source where{};

  constexpr operand(const value& v, const char* file = __builtin_FILE(), unsigned line = __builtin_LINE())
      : from(v), where{file, line} {}
  template <class T>
    requires is_number<T>
  constexpr operand(T number, const char* file = __builtin_FILE(), unsigned line = __builtin_LINE())
      : is_literal(true), written(literal_element<T>), where{file, line} {
    if constexpr (requires { number.imag(); }) {
      literal = static_cast<double>(number.real());
      imaginary = static_cast<double>(number.imag());
    } else {
      literal = static_cast<double>(number);
    }
  }
};

/// A dim that a function takes beside operands whose number is open, with the user's line, which those cannot note.
struct dim_operand {
  dim_ref dim{};
  source where{};

  template <class D>
    requires std::convertible_to<const D&, dim_ref>
  constexpr dim_operand(const D& d, const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) : dim(d), where{file, line} {}
};

} // namespace cleave
