// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace cleave::inline v0 {

namespace detail {
/// The address of the first element of a range that lies in one piece.
template <class Range>
constexpr auto first_element(Range& all) {
  if constexpr (requires { all.data(); }) return all.data();
  else return all.begin();
}
} // namespace detail

/// A view of elements in a row that any integer may index, and the span of the library: `indexed_span<const value>`. It
/// is made from arrays and vectors of any kind and from std::span, and converts to std::span. An element type costs the
/// compiler a fraction of what std::span costs, whose ranges and iterators are instantiated. Iterators are pointers.
template <class T>
class indexed_span {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;

  constexpr indexed_span() = default;
  constexpr indexed_span(T* first, std::integral auto count) : at_(first), size_(static_cast<std::size_t>(count)) {}
  constexpr indexed_span(T* first, T* last) : at_(first), size_(static_cast<std::size_t>(last - first)) {}
  /// All elements of a range; it must outlive the span.
  template <class Range>
    requires requires(Range& all) {
      all.size();
      requires std::same_as<const std::remove_pointer_t<decltype(detail::first_element(all))>, const T>;
      requires std::is_convertible_v<decltype(detail::first_element(all)), T*>;
    }
  constexpr indexed_span(Range&& all) : at_(detail::first_element(all)), size_(all.size()) {}
  template <std::size_t Count>
  constexpr indexed_span(T (&all)[Count]) : at_(all), size_(Count) {}

  constexpr T* data() const { return at_; }
  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr T* begin() const { return at_; }
  constexpr T* end() const { return at_ + size_; }
  constexpr T& front() const { return at_[0]; }
  constexpr T& back() const { return at_[size_ - 1]; }
  constexpr T& operator[](std::integral auto i) const { return at_[i]; }

  constexpr indexed_span first(std::integral auto count) const { return {at_, count}; }
  /// The elements from one on, all or so many.
  constexpr indexed_span subspan(std::integral auto from) const { return {at_ + from, at_ + size_}; }
  constexpr indexed_span subspan(std::integral auto from, std::integral auto count) const {
    return {at_ + from, count};
  }

 private:
  T* at_ = nullptr;
  std::size_t size_ = 0;
};
template <class Range>
indexed_span(const Range&) -> indexed_span<const typename Range::value_type>;

} // namespace cleave::inline v0
