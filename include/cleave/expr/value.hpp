// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/graph/graph.hpp>
#include <cleave/type/element.hpp>

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
