// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/language.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

/// Marks functions that kernels call. Compilers for CUDA and HIP need the mark; for others it is empty.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define CLEAVE_FUNCTION __host__ __device__
#else
#define CLEAVE_FUNCTION
#endif

namespace cleave { inline namespace v0 {

template <class Signature>
struct optional_function;

/// A pointer to a function in a constant table, or none. A flag says whether there is one: under -fsanitize=undefined
/// g++ up to 13 compares no address of a function with null in a constant expression.
template <class R, class... Arguments>
struct optional_function<R(Arguments...)> {
  R (*call)(Arguments...) = nullptr;
  bool given = false;

  constexpr optional_function() = default;
  constexpr optional_function(std::nullptr_t) {}
  constexpr optional_function(R (*f)(Arguments...)) : call(f), given(true) {}
};

namespace detail {

/// A parameter that takes any argument, a list in braces too, by a conversion. A function with such parameters is
/// chosen if no other fits, and proposes the right call.
struct anything {
  template <class T>
  constexpr anything(const T&) {}
  constexpr anything(std::initializer_list<std::int64_t>) {}
};
/// In place of an iterator, from functions that are mistakes: it has all that a loop needs, and is no iterator.
template <class T>
struct no_iterator {
  T& operator*() const { return *static_cast<T*>(nullptr); }
  void operator++() {}
  bool operator!=(const no_iterator&) const { return false; }
};

} // namespace detail

}} // namespace cleave::v0
