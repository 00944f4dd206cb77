// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/storage/element_type.hpp>
#include <cleave/storage/memory.hpp>

#include <cstdio>
#include <cstring>
#include <string>

namespace cleave { inline namespace v0 {

/// One real number of a tensor, as the host sees it.
class host_number {
 public:
  /// Waits for the kernels that may write it.
  host_number(const void* data, element e) : element_(e) {
    wait_for_kernels();
    copy_bytes<Kokkos::HostSpace, memory_space>(bytes_, data, size_of(e));
  }
  /// From bytes that are on the host.
  host_number(std::uint64_t bytes, element e) : element_(e) { std::memcpy(bytes_, &bytes, sizeof bytes); }

  bool is_floating() const { return cleave::is_floating(element_); }
  double floating() const {
    switch (element_) {
      case element::f64: return as<double>();
      case element::f32: return as<float>();
      case element::f16: return float{as<half>()};
      case element::bf16: return float{as<bfloat16>()};
      case element::u64: return as_double(as<std::uint64_t>());
      default: return as_double(integer());
    }
  }
  std::int64_t integer() const {
    switch (element_) {
      case element::i8: return as<std::int8_t>();
      case element::i32: return as<std::int32_t>();
      case element::u32: return as<std::uint32_t>();
      case element::i64:
      case element::u64: return as<std::int64_t>();
      default: return as<std::uint8_t>();
    }
  }
  /// With all its digits.
  [[gnu::cold]] std::string text() const {
    if (element_ == element::u64) return std::to_string(as<std::uint64_t>());
    if (!is_floating()) return std::to_string(integer());
    char digits[40];
    std::snprintf(digits, sizeof digits, "%.17g", floating());
    return digits;
  }

 private:
  template <class T>
  T as() const {
    T number;
    std::memcpy(static_cast<void*>(&number), bytes_, sizeof number);
    return number;
  }

  char bytes_[8] = {};
  element element_;
};

}} // namespace cleave::v0
