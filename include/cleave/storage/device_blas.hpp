// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/storage/memory.hpp>

#include <mutex>

namespace cleave::inline v0 {

/// Held while a product is queued. Kokkos Kernels has one handle of a device's BLAS for all threads, and gives it the
/// stream of each product; two threads at once would use the stream of one of them. On the host nothing is locked.
inline std::unique_lock<std::mutex> lock_device_blas() {
  if constexpr (on_host) return {};
  static std::mutex one_at_a_time;
  return std::unique_lock(one_at_a_time);
}

} // namespace cleave::inline v0
