// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/storage/memory.hpp>

#include <cstdint>

namespace cleave { inline namespace v0 {

/// The workspace of the calls on a grid. Calls run one after another, so all plans share one block of memory, as large
/// as the maximum over the plans. A kernel of the user may call plans while its plan runs: each depth of nested calls
/// has a separate block. No data in a block outlives a call.
class workspace_pool {
 public:
  struct block {
    void *memory = nullptr, *host = nullptr;
    friend bool operator==(const block& a, const block& b) { return a.memory == b.memory && a.host == b.host; }
  };

  /// The block of a depth; its address changes when it grows.
  block at(std::size_t depth) const {
    if (depth >= depths_.size()) return {};
    return {depths_[depth].memory.get(), depths_[depth].host.get()};
  }
  /// Enlarges the block of a depth to at least these bytes, on the device and on the host. False if there is not enough
  /// memory; the depth then has none.
  [[gnu::cold]] bool grow(std::size_t depth, std::int64_t bytes, std::int64_t host_bytes) {
    if (depth >= depths_.size()) depths_.resize(depth + 1);
    kept_depth& d = depths_[depth];
    if (d.memory.elements() < bytes || d.host.elements() < host_bytes) wait_for_all();
    // The old memory is freed first: its contents are not needed.
    if (d.memory.elements() < bytes) d.memory = {};
    if (d.host.elements() < host_bytes) d.host = {};
    const bool fits = finds_memory([&] {
      d.memory.at_least(bytes);
      d.host.at_least(host_bytes);
    });
    if (!fits) d = {};
    return fits;
  }
  /// Frees all blocks. Bound plans request memory again.
  [[gnu::cold]] void release() {
    wait_for_all();
    depths_.clear();
    forget();
  }
  /// Bound plans request memory again.
  [[gnu::cold]] void forget() { ++releases_; }
  /// How often all plans lost their memory: a plan that has requested it since then has it.
  std::int64_t releases() const { return releases_; }
  /// The bytes of all blocks of both kinds.
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const kept_depth& d : depths_) sum += d.memory.elements() + d.host.elements();
    return sum;
  }

 private:
  struct kept_depth {
    kept_memory<char> memory{};
    kept_memory<char, Kokkos::HostSpace> host{};
  };

  /// Kernels of any instance may still use the memory.
  static void wait_for_all() {
    if (!on_host && Kokkos::is_initialized()) Kokkos::fence("cleave: workspace");
  }

  indexed_vector<kept_depth> depths_{};
  std::int64_t releases_ = 0;
};

}} // namespace cleave::v0
