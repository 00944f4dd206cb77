// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/language.hpp>

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>

namespace cleave { inline namespace v0 {

/// An array that any integer may index. Constant evaluation indexes it in one call, std::array in two.
template <class T, std::size_t Size>
struct fixed_array {
  T items[Size];

  static constexpr std::size_t size() { return Size; }
  constexpr T& operator[](std::integral auto i) { return items[i]; }
  constexpr const T& operator[](std::integral auto i) const { return items[i]; }
  constexpr T* data() { return items; }
  constexpr const T* data() const { return items; }
  constexpr T* begin() { return items; }
  constexpr T* end() { return items + Size; }
  constexpr const T* begin() const { return items; }
  constexpr const T* end() const { return items + Size; }

  friend constexpr bool operator==(const fixed_array&, const fixed_array&) = default;
};

/// A vector of at most `Capacity` elements that lives in constant expressions and in structural positions.
/// Going past the capacity is a programming error of a pass: not a constant expression, std::length_error at run time.
template <class T, std::size_t Capacity>
struct static_vector {
  // A plain array: constant evaluation indexes it at once, std::array through a call.
  T items[Capacity]{};
  std::size_t count = 0;

  constexpr static_vector() = default;
  constexpr static_vector(std::initializer_list<T> from) {
    for (const T& item : from) push_back(item);
  }

  static constexpr std::size_t capacity() { return Capacity; }
  constexpr std::size_t size() const { return count; }
  constexpr bool empty() const { return count == 0; }
  constexpr bool full() const { return count == Capacity; }
  constexpr T& operator[](std::integral auto i) { return items[i]; }
  constexpr const T& operator[](std::integral auto i) const { return items[i]; }
  constexpr T& back() { return items[count - 1]; }
  constexpr const T& back() const { return items[count - 1]; }
  constexpr T* begin() { return items; }
  constexpr T* end() { return items + count; }
  constexpr const T* begin() const { return items; }
  constexpr const T* end() const { return items + count; }
  constexpr void push_back(const T& item) {
    if (count == Capacity) throw std::length_error("cleave: a static_vector is full");
    items[count++] = item;
  }
  constexpr void pop_back() { --count; }
  constexpr void clear() { count = 0; }
  constexpr bool contains(const T& item) const {
    for (std::size_t i = 0; i < count; ++i)
      if (items[i] == item) return true;
    return false;
  }

  friend constexpr bool operator==(const static_vector& a, const static_vector& b) {
    if (a.count != b.count) return false;
    for (std::size_t i = 0; i < a.count; ++i)
      if (!(a.items[i] == b.items[i])) return false;
    return true;
  }
};

/// One entry for each enumerator of `Enum`, in the order of the enumeration.
template <class Enum, class T, std::size_t Size>
struct enum_table {
  T items[Size];

  static constexpr std::size_t size() { return Size; }
  constexpr const T& operator[](Enum e) const { return items[static_cast<std::size_t>(e)]; }
};

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

  // Public, so that a type with sets as members can be a template argument.
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

  // Templates, so that the number in `set | number` converts to its bits.
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

/// A string that may be a template argument: `axis<"data">`, `dim<"embed", 512>`.
template <std::size_t N>
struct text {
  char chars[N]{};

  constexpr text(const char (&from)[N]) {
    for (std::size_t i = 0; i < N; ++i) chars[i] = from[i];
  }
  /// One letter: `dim<'r'>`.
  template <std::same_as<char> C>
    requires(N == 2)
  constexpr text(C letter) : chars{letter, '\0'} {}
  /// Text that is no literal cannot be a template argument. The name is empty, and the dim or axis reports it.
  constexpr text(std::string_view)
    requires(N == 1)
  {}
  constexpr std::string_view view() const { return {chars, N - 1}; }
};
template <std::same_as<char> C>
text(C) -> text<2>;
text(std::string_view) -> text<1>;

/// In place of a name that is given as something else than a literal of text.
inline constexpr text<1> no_name{""};

namespace detail {

template <std::size_t I, class T>
struct numbered {
  T it;
};
template <class Numbers, class... T>
struct numbered_list;
template <std::size_t... I, class... T>
struct numbered_list<std::index_sequence<I...>, T...> : numbered<I, T>... {};

/// Items of several types: `list_of<int, float>{{1}, {2.0f}}`. A std::tuple costs the compiler some forty functions for
/// each list of types, this none.
template <class... T>
using list_of = numbered_list<std::index_sequence_for<T...>, T...>;

template <std::size_t I, class T>
constexpr const T& item_at(const numbered<I, T>& n) {
  return n.it;
}

} // namespace detail

/// A value that may be missing: std::optional in few words, for types that have a default. Passes that run in the
/// compiler return it.
template <class T>
class optional_value {
 public:
  constexpr optional_value() = default;
  constexpr optional_value(T value) : value_(std::move(value)), there_(true) {}

  constexpr explicit operator bool() const { return there_; }
  constexpr bool has_value() const { return there_; }
  constexpr const T& operator*() const { return value_; }
  constexpr const T* operator->() const { return &value_; }

 private:
  T value_{};
  bool there_ = false;
};

/// An object on the heap that has one owner: std::unique_ptr in few words, of which each type costs the compiler some
/// ten instantiations. A class that others derive from has a virtual destructor.
template <class T>
class owned {
 public:
  constexpr owned() = default;
  constexpr owned(std::nullptr_t) {}
  constexpr explicit owned(T* object) : object_(object) {}
  constexpr owned(owned&& other) noexcept : object_(other.release()) {}
  template <class Derived>
    requires std::convertible_to<Derived*, T*>
  constexpr owned(owned<Derived>&& other) noexcept : object_(other.release()) {}
  constexpr owned& operator=(owned other) noexcept {
    T* const mine = object_;
    object_ = other.object_;
    other.object_ = mine;
    return *this;
  }
  constexpr ~owned() { delete object_; }

  constexpr T* get() const { return object_; }
  constexpr T* operator->() const { return object_; }
  constexpr T& operator*() const { return *object_; }
  constexpr explicit operator bool() const { return object_ != nullptr; }
  constexpr void reset() { *this = owned(); }
  constexpr T* release() {
    T* const object = object_;
    object_ = nullptr;
    return object;
  }

 private:
  T* object_ = nullptr;
};

}} // namespace cleave::v0
