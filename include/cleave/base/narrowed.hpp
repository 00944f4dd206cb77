// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <stdexcept>

namespace cleave::inline v0 {

/// An integer on its way into a narrower one, which is what it is assigned to. If it does not fit, that is not a
/// constant expression, and std::length_error at run time.
template <std::integral From>
struct narrowed {
  From value;

  constexpr explicit narrowed(From from) : value(from) {}
  template <std::integral To>
  constexpr operator To() const {
    const To to = static_cast<To>(value);
    if (static_cast<From>(to) != value) throw std::length_error("cleave: a number does not fit");
    return to;
  }
};

} // namespace cleave::inline v0
