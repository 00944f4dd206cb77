// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <concepts>
#include <cstddef>

namespace cleave::inline v0 {

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

} // namespace cleave::inline v0
