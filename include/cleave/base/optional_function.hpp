// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cstddef>

namespace cleave::inline v0 {

template <class Signature>
struct optional_function;

/// A pointer to a function in a constant table, or none. It notes beside the pointer whether there is one: under
/// -fsanitize=undefined g++ up to 13 compares no address of a function with null in a constant expression.
template <class R, class... Arguments>
struct optional_function<R(Arguments...)> {
  R (*call)(Arguments...) = nullptr;
  bool given = false;

  constexpr optional_function() = default;
  constexpr optional_function(std::nullptr_t) {}
  constexpr optional_function(R (*f)(Arguments...)) : call(f), given(true) {}
};

} // namespace cleave::inline v0
