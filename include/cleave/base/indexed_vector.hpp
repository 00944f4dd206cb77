// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace cleave { inline namespace v0 {

namespace detail {
/// The address of the first element of a contiguous range.
template <class Range>
constexpr auto first_element(Range& all) {
  if constexpr (requires { all.data(); }) return all.data();
  else return all.begin();
}
} // namespace detail

/// A view of contiguous elements that any integer may index, and the span of the library: `indexed_span<const value>`.
/// It is made from arrays and vectors of any kind and from std::span, and converts to std::span. An element type costs
/// the compiler a fraction of the cost of std::span, whose ranges and iterators are instantiated. Iterators are
/// pointers.
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
  /// The elements from an index on: all of them, or `count`.
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

namespace detail {
inline void* allocate_elements(std::size_t count, std::size_t size) {
  if (count > std::size_t{PTRDIFF_MAX} / size) throw std::bad_array_new_length();
  return ::operator new(count * size);
}
} // namespace detail

/// A vector that any integer may index, and the vector of the library. It has the functions of std::vector that the
/// library needs: every element type costs g++ 12 about 1 ms and 0.4 MB here, 8 ms and 2 MB as a std::vector, in each
/// program, and the library has some eighty. Constant evaluation takes as long with it. Iterators are pointers.
template <class T>
class indexed_vector {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  /// The elements. Inner loops of passes that run in the compiler read it, because a call of operator[] costs them
  /// three times as much. Members set it; nobody else does.
  T* at = nullptr;

  constexpr indexed_vector() = default;
  // The first constructor has made an object, so its destructor runs if the rest throws.
  constexpr explicit indexed_vector(std::size_t count) : indexed_vector() { resize(count); }
  constexpr indexed_vector(std::size_t count, const T& value) : indexed_vector() { resize(count, value); }
  template <class From>
    requires requires(From from) { *from; }
  constexpr indexed_vector(From first, From last) : indexed_vector() {
    append(first, last);
  }
  constexpr indexed_vector(std::initializer_list<T> all) : indexed_vector() { append(all.begin(), all.end()); }
  // From and to a std::vector, for callers that have one. These are templates because overload resolution would
  // instantiate std::vector<T> for every element type.
  template <class Vector>
    requires std::same_as<Vector, std::vector<T>>
  constexpr indexed_vector(const Vector& all) : indexed_vector() {
    append(all.data(), all.data() + all.size());
  }
  template <class Vector>
    requires std::same_as<Vector, std::vector<T>>
  constexpr operator Vector() const {
    return Vector(begin(), end());
  }
  constexpr indexed_vector(const indexed_vector& other) : indexed_vector() { append(other.at, other.at + other.size_); }
  constexpr indexed_vector(indexed_vector&& other) noexcept { swap(other); }
  constexpr indexed_vector& operator=(indexed_vector other) noexcept {
    swap(other);
    return *this;
  }
  constexpr ~indexed_vector() {
    if constexpr (!no_destructor) drop_to(0);
    release();
  }
  /// `count` elements with one value.
  static constexpr indexed_vector filled(std::integral auto count, const T& value = {}) {
    return indexed_vector(as_size(count), value);
  }

  constexpr std::size_t size() const { return size_; }
  constexpr bool empty() const { return size_ == 0; }
  constexpr std::size_t capacity() const { return capacity_; }
  constexpr T* data() { return at; }
  constexpr const T* data() const { return at; }
  constexpr T* begin() { return at; }
  constexpr const T* begin() const { return at; }
  constexpr T* end() { return at + size_; }
  constexpr const T* end() const { return at + size_; }
  constexpr T& front() { return at[0]; }
  constexpr const T& front() const { return at[0]; }
  constexpr T& back() { return at[size_ - 1]; }
  constexpr const T& back() const { return at[size_ - 1]; }
  constexpr T& operator[](std::size_t i) { return at[i]; }
  constexpr const T& operator[](std::size_t i) const { return at[i]; }
  constexpr T& operator[](std::integral auto i) { return at[as_size(i)]; }
  constexpr const T& operator[](std::integral auto i) const { return at[as_size(i)]; }

  template <class... From>
  constexpr T& emplace_back(From&&... from) {
    push_back(T(std::forward<From>(from)...));
    return back();
  }
  constexpr void push_back(const T& value) {
    if (size_ == capacity_) return push_back(T(value));
    if constexpr (scalar) at[size_++] = value;
    else std::construct_at(at + size_++, value);
  }
  constexpr void push_back(T&& value) {
    if (size_ == capacity_) {
      // The value may be an element of this vector.
      T kept(std::move(value));
      move_to(2 * capacity_ + 4);
      std::construct_at(at + size_++, std::move(kept));
    } else {
      std::construct_at(at + size_++, std::move(value));
    }
  }
  /// Ends no lifetime of a scalar: others are assigned in its place.
  constexpr void pop_back() {
    --size_;
    if constexpr (!no_destructor) std::destroy_at(at + size_);
  }
  /// Removes all elements that are equal to a value. Returns how many there were.
  constexpr std::size_t remove(const T& value) {
    return remove_if([&](const T& x) { return x == value; });
  }
  /// Removes all elements for which `is` holds. Returns how many there were.
  template <class Is>
  constexpr std::size_t remove_if(const Is& is) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; ++i)
      if (!is(at[i])) {
        if (kept != i) at[kept] = std::move(at[i]);
        ++kept;
      }
    const std::size_t removed = size_ - kept;
    drop_to(kept);
    return removed;
  }
  constexpr void reserve(std::size_t count) {
    if (count > capacity_) move_to(count);
  }
  /// New elements are T{}.
  constexpr void resize(std::size_t count) {
    drop_to(count);
    make_room(count);
    for (; size_ < count; ++size_) std::construct_at(at + size_);
  }
  /// New elements are copies of a value outside of this vector.
  constexpr void resize(std::size_t count, const T& value) {
    drop_to(count);
    make_room(count);
    for (; size_ < count; ++size_)
      if constexpr (scalar) at[size_] = value;
      else std::construct_at(at + size_, value);
  }
  constexpr void assign(std::size_t count, const T& value) {
    clear();
    resize(count, value);
  }
  /// From elements outside of this vector.
  template <class From>
    requires requires(From from) { *from; }
  constexpr void assign(From first, From last) {
    clear();
    append(first, last);
  }
  template <class From>
  constexpr void append(From first, From last) {
    make_room(size_ + static_cast<std::size_t>(last - first));
    for (; first != last; ++first)
      if constexpr (scalar) at[size_++] = static_cast<T>(*first);
      else std::construct_at(at + size_++, *first);
  }
  /// Removes one element. Returns the position of the next one.
  constexpr T* erase(T* first) {
    for (T* p = first; p + 1 != end(); ++p) *p = std::move(p[1]);
    pop_back();
    return first;
  }
  /// Before `next`.
  constexpr void insert(const T* next, T value) {
    const std::size_t i = static_cast<std::size_t>(next - at);
    emplace_back(std::move(value));
    T inserted = std::move(at[size_ - 1]);
    for (std::size_t k = size_ - 1; k > i; --k) at[k] = std::move(at[k - 1]);
    at[i] = std::move(inserted);
  }
  template <class From>
  constexpr void insert(const T* next, From first, From last) {
    std::size_t i = static_cast<std::size_t>(next - at);
    for (; first != last; ++first) insert(at + i++, *first);
  }
  constexpr void clear() { drop_to(0); }
  constexpr void swap(indexed_vector& other) noexcept {
    // std::swap checks ten traits of each new type of pointer.
    T* const elements = at;
    at = other.at;
    other.at = elements;
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  friend constexpr bool operator==(const indexed_vector& a, const indexed_vector& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i)
      if (!(a.at[i] == b.at[i])) return false;
    return true;
  }

 private:
  // Nothing to run when an element is removed. A type that only its copies make non-trivial counts as if it had a
  // destructor.
  static constexpr bool no_destructor = __is_trivially_copyable(T);
  // Alive as soon as they have memory: they are assigned, for a third of the price of std::construct_at in a constant.
  static constexpr bool scalar = std::is_scalar_v<T>;

  constexpr void release() {
    if (!__builtin_is_constant_evaluated()) ::operator delete(at);
    else if constexpr (scalar) delete[] at;
    else if (at != nullptr) std::allocator<T>().deallocate(at, capacity_);
  }
  constexpr void drop_to(std::size_t count) {
    if constexpr (no_destructor) size_ = count < size_ ? count : size_;
    else
      while (size_ > count) pop_back();
  }
  constexpr void make_room(std::size_t count) {
    // Vectors that grow by one resize after the other grow as by push_back.
    if (count > capacity_) move_to(count > 2 * capacity_ ? count : 2 * capacity_);
  }
  [[gnu::noinline]] constexpr void move_to(std::size_t capacity) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__ && noexcept(T(static_cast<T&&>(*at))));
    // Without std::allocator at run time: each of its functions is one more for the compiler, for every element type.
    T* to = nullptr;
    if (__builtin_is_constant_evaluated()) {
      if constexpr (scalar) to = new T[capacity];
      else to = std::allocator<T>().allocate(capacity);
    } else to = static_cast<T*>(detail::allocate_elements(capacity, sizeof(T)));
    for (std::size_t i = 0; i < size_; ++i) {
      std::construct_at(to + i, static_cast<T&&>(at[i]));
      if constexpr (!no_destructor) std::destroy_at(at + i);
    }
    release();
    at = to;
    capacity_ = capacity;
  }

  std::size_t size_ = 0, capacity_ = 0;
};

}} // namespace cleave::v0
