// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

namespace cleave::inline v0 {

/// A set of the numbers 0 ... Size - 1, one bit each. `Of` only tells sets of different things apart. Sets convert from
/// and to their bits. Inner loops of the planner work on `bits()`: constant evaluation pays for every call.
template <class Of, class Word, int Size>
struct small_set {
  using bits_type = std::conditional_t<(Size > 32), std::uint64_t, unsigned>;

  /// Walks through the members, in ascending order.
  struct iterator {
    bits_type rest;
    constexpr int operator*() const { return std::countr_zero(rest); }
    constexpr iterator& operator++() {
      rest &= rest - 1;
      return *this;
    }
    friend constexpr bool operator==(iterator, iterator) = default;
  };

  static constexpr bits_type all_bits = ~bits_type{0} >> (8 * static_cast<int>(sizeof(bits_type)) - Size);

  // Public, so that what has sets in it can be a template argument.
  Word word = 0;

  constexpr small_set() = default;
  template <std::integral Bits>
  constexpr small_set(Bits bits) : word(static_cast<Word>(bits)) {}
  constexpr operator bits_type() const { return word; }
  constexpr bits_type bits() const { return word; }
  /// The set with one member.
  static constexpr small_set of(std::integral auto member) { return bits_type{1} << member; }
  /// The set of all numbers below `count`.
  static constexpr small_set first(int count) { return count == 0 ? 0 : all_bits >> (Size - count); }

  constexpr bool empty() const { return word == 0; }
  constexpr int size() const { return std::popcount(word); }
  constexpr bool contains(std::integral auto member) const { return (word >> member & 1u) != 0; }
  constexpr bool includes(small_set other) const { return (other.word & ~word) == 0; }
  constexpr bool meets(small_set other) const { return (word & other.word) != 0; }
  constexpr small_set with(std::integral auto member) const { return word | bits_type{1} << member; }
  constexpr small_set without(std::integral auto member) const { return word & ~(bits_type{1} << member); }

  constexpr iterator begin() const { return {bits()}; }
  constexpr iterator end() const { return {0}; }

  // Templates, so that a set beside a number is taken for its bits.
  template <std::same_as<small_set> Other>
  constexpr small_set operator|(Other other) const {
    return word | other.word;
  }
  template <std::same_as<small_set> Other>
  constexpr small_set operator&(Other other) const {
    return word & other.word;
  }
  template <std::same_as<small_set> Other>
  constexpr small_set operator^(Other other) const {
    return word ^ other.word;
  }
  /// The members of one set that are not in another.
  template <std::same_as<small_set> Other>
  constexpr small_set operator-(Other other) const {
    return word & ~other.word;
  }
  constexpr small_set operator~() const { return static_cast<bits_type>(~word) & all_bits; }
  constexpr small_set& operator|=(small_set other) {
    word = static_cast<Word>(word | other.word);
    return *this;
  }
  constexpr small_set& operator&=(small_set other) {
    word = static_cast<Word>(word & other.word);
    return *this;
  }
  template <std::same_as<small_set> Other>
  constexpr bool operator==(Other other) const {
    return word == other.word;
  }
};

} // namespace cleave::inline v0
