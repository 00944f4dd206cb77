// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/as_size.hpp>

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace cleave::inline v0 {

/// A vector that any integer may index, and the vector of the run time. It does what the run time needs of std::vector
/// in few words: every element type costs g++ 12 about 1 ms and 0.4 MB here, 8 ms and 2 MB as a std::vector, in each
/// program, and the run time has some forty.
template <class T>
class indexed_vector {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  indexed_vector() = default;
  // The first constructor has made an object, so its destructor runs if the rest throws.
  explicit indexed_vector(std::size_t count) : indexed_vector() { resize(count); }
  indexed_vector(std::size_t count, const T& value) : indexed_vector() { assign(count, value); }
  indexed_vector(const T* first, const T* last) : indexed_vector() { assign(first, last); }
  indexed_vector(std::initializer_list<T> all) : indexed_vector() { assign(all.begin(), all.end()); }
  indexed_vector(const std::vector<T>& all) : indexed_vector() { assign(all.data(), all.data() + all.size()); }
  indexed_vector(const indexed_vector& other) : indexed_vector() { assign(other.begin(), other.end()); }
  indexed_vector(indexed_vector&& other) noexcept { swap(other); }
  indexed_vector& operator=(indexed_vector other) noexcept {
    swap(other);
    return *this;
  }
  ~indexed_vector() {
    clear();
    ::operator delete(at_);
  }
  /// So many elements of one value.
  static indexed_vector filled(std::integral auto count, const T& value = {}) {
    return indexed_vector(as_size(count), value);
  }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  std::size_t capacity() const { return capacity_; }
  T* data() { return at_; }
  const T* data() const { return at_; }
  T* begin() { return at_; }
  const T* begin() const { return at_; }
  T* end() { return at_ + size_; }
  const T* end() const { return at_ + size_; }
  T& front() { return at_[0]; }
  const T& front() const { return at_[0]; }
  T& back() { return at_[size_ - 1]; }
  const T& back() const { return at_[size_ - 1]; }
  T& operator[](std::size_t i) { return at_[i]; }
  const T& operator[](std::size_t i) const { return at_[i]; }
  T& operator[](std::integral auto i) { return at_[as_size(i)]; }
  const T& operator[](std::integral auto i) const { return at_[as_size(i)]; }

  template <class... From>
  T& emplace_back(From&&... from) {
    // Made first: what it is made from may lie in this vector.
    T made(std::forward<From>(from)...);
    if (size_ == capacity_) move_to(2 * capacity_ + 4);
    return *::new (static_cast<void*>(at_ + size_++)) T(std::move(made));
  }
  void push_back(T value) {
    if (size_ == capacity_) move_to(2 * capacity_ + 4);
    ::new (static_cast<void*>(at_ + size_++)) T(std::move(value));
  }
  void pop_back() { at_[--size_].~T(); }
  /// Removes all elements that are equal to a value; returns how many these were.
  std::size_t remove(const T& value) {
    const std::size_t before = size_;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < size_; ++i)
      if (!(at_[i] == value)) at_[kept++] = at_[i];
    drop_to(kept);
    return before - kept;
  }
  void reserve(std::size_t count) {
    if (count > capacity_) move_to(count);
  }
  /// New elements are T{}.
  void resize(std::size_t count) {
    make_room(count);
    for (; size_ < count; ++size_) ::new (static_cast<void*>(at_ + size_)) T();
  }
  void resize(std::size_t count, T value) {
    make_room(count);
    for (; size_ < count; ++size_) ::new (static_cast<void*>(at_ + size_)) T(value);
  }
  void assign(std::size_t count, T value) {
    clear();
    resize(count, std::move(value));
  }
  /// From elements outside of this vector.
  void assign(const T* first, const T* last) {
    clear();
    append(first, last);
  }
  void append(const T* first, const T* last) {
    reserve(size_ + static_cast<std::size_t>(last - first));
    for (; first != last; ++first) ::new (static_cast<void*>(at_ + size_++)) T(*first);
  }
  void clear() { drop_to(0); }
  void swap(indexed_vector& other) noexcept {
    std::swap(at_, other.at_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  /// A copy for the standard library.
  operator std::vector<T>() const { return std::vector<T>(begin(), end()); }

  friend bool operator==(const indexed_vector& a, const indexed_vector& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i)
      if (!(a.at_[i] == b.at_[i])) return false;
    return true;
  }

 private:
  void drop_to(std::size_t count) {
    if constexpr (std::is_trivially_destructible_v<T>) size_ = count < size_ ? count : size_;
    else
      while (size_ > count) pop_back();
  }
  void make_room(std::size_t count) {
    drop_to(count);
    // Vectors that grow by one resize after the other grow as by push_back.
    if (count > capacity_) move_to(count > 2 * capacity_ ? count : 2 * capacity_);
  }
  [[gnu::noinline]] void move_to(std::size_t capacity) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__ && std::is_nothrow_move_constructible_v<T>);
    T* const to = static_cast<T*>(::operator new(capacity * sizeof(T)));
    for (std::size_t i = 0; i < size_; ++i) {
      ::new (static_cast<void*>(to + i)) T(std::move(at_[i]));
      at_[i].~T();
    }
    ::operator delete(at_);
    at_ = to;
    capacity_ = capacity;
  }

  T* at_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

} // namespace cleave::inline v0
