// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <utility>

namespace cleave::inline v0 {

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

} // namespace cleave::inline v0
