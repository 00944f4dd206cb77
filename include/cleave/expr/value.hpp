// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/graph/graph.hpp>
#include <cleave/type/element.hpp>

namespace cleave {

class recorder;

/// A value being recorded: what the body of a function computes with. All values have one type, so that a loop over
/// layers is an ordinary loop.
struct value {
  recorder* in = nullptr;
  node_id id = no_node;
  /// A number given by the caller. It takes the element type of the tensor beside it, as literals do.
  bool number = false;

  /// False if a fault occurred on the way to this value. Operations on such a value report nothing more.
  constexpr bool ok() const { return id != no_node; }
};

/// The argument of an operation: a value or a literal. Its converting constructors record the user's line, because
/// operators cannot have default arguments.
struct operand {
  value from{};
  double literal = 0;
  /// The imaginary part of a complex literal.
  double imaginary = 0;
  bool is_literal = false;
  source where{};

  constexpr operand(const value& v, const char* file = __builtin_FILE(), unsigned line = __builtin_LINE())
      : from(v), where{file, line} {}
  template <class T>
    requires is_number<T>
  constexpr operand(T number, const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) : is_literal(true), where{file, line} {
    if constexpr (requires { number.imag(); }) {
      literal = static_cast<double>(number.real());
      imaginary = static_cast<double>(number.imag());
    } else {
      literal = static_cast<double>(number);
    }
  }
};

} // namespace cleave
