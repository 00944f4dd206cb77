// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/kernels/expression.hpp>
#include <cleave/storage/flat_loops.hpp>
#include <cleave/storage/memory.hpp>

#include <cstdint>
#include <utility>

// The results of one expression: one or several. They are members with types, since compilers make no vector code of
// stores to an array of pointers.

namespace cleave { inline namespace v0 {

/// A result of an expression: the value of one of its entries, as the type `Out`. That is the type of the entry, or
/// that in which it is computed.
template <int Entry, class Out>
struct expression_result {
  static constexpr int entry = Entry;
  using type = Out;
};

namespace detail {

/// Where a frame has the value of a result.
template <class Result>
using value_cell = cell<Result::entry, computed<typename Result::type>>;

template <int K, class Out>
struct result_pointer {
  Out* at;
};
template <int K, class Out>
CLEAVE_FUNCTION inline Out*& pointer_of(result_pointer<K, Out>& p) {
  return p.at;
}
template <int K, class Out>
CLEAVE_FUNCTION inline Out* pointer_of(const result_pointer<K, Out>& p) {
  return p.at;
}

/// Memory for a block of elements of result K.
template <int K, class Out>
struct result_block {
  alignas(64) Out at[vector_block];
};

template <class Numbers, class... Results>
struct pointers_of_results;
template <int... K, class... Results>
struct pointers_of_results<std::integer_sequence<int, K...>, Results...>
    : result_pointer<K, typename Results::type>... {
  /// A block of each.
  struct blocks : result_block<K, typename Results::type>... {};
  /// A value of each, as it is computed.
  struct values : frame<std::integer_sequence<int, Results::entry...>, Results...> {
    template <class Frame>
    CLEAVE_FUNCTION void take(const Frame& f) {
      const int each[]{
          (static_cast<value_cell<Results>&>(*this).value = static_cast<const value_cell<Results>&>(f).value, 0)...};
      static_cast<void>(each);
    }
  };

  pointers_of_results() = default;
  explicit pointers_of_results(void* const* at)
      : result_pointer<K, typename Results::type>{as<typename Results::type>(at[K])}... {}

  CLEAVE_FUNCTION void move(std::int64_t elements) {
    const int each[]{(pointer_of<K>(*this) += elements, 0)...};
    static_cast<void>(each);
  }
  CLEAVE_FUNCTION void move(const std::int64_t* elements) {
    const int each[]{(pointer_of<K>(*this) += elements[K], 0)...};
    static_cast<void>(each);
  }
  /// Stores element j of each; a frame has the values.
  template <class Frame>
  CLEAVE_FUNCTION void store(std::int64_t j, const Frame& f) const {
    const int each[]{
        (pointer_of<K>(*this)[j] = convert<typename Results::type>(static_cast<const value_cell<Results>&>(f).value),
         0)...};
    static_cast<void>(each);
  }
  /// Points to blocks instead.
  void point_to(blocks& b) {
    const int each[]{(pointer_of<K>(*this) = static_cast<result_block<K, typename Results::type>&>(b).at, 0)...};
    static_cast<void>(each);
  }
  /// Copies the last elements of blocks to elements from j on.
  void copy_end(const blocks& b, std::int64_t j, std::int64_t count) const {
    const int each[]{
        (copy_elements(static_cast<const result_block<K, typename Results::type>&>(b).at + (vector_block - count),
                       pointer_of<K>(*this) + j, count),
         0)...};
    static_cast<void>(each);
  }

 private:
  template <class Out>
  static void copy_elements(const Out* from, Out* to, std::int64_t count) {
    for (std::int64_t j = 0; j < count; ++j) to[j] = from[j];
  }
};
/// Where the results go.
template <class... Results>
using result_pointers = pointers_of_results<std::make_integer_sequence<int, int{sizeof...(Results)}>, Results...>;

} // namespace detail

}} // namespace cleave::v0
