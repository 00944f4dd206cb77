// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/prefix_scan.hpp>
#include <cleave/ops/scalar.hpp>
#include <cleave/storage/memory.hpp>

namespace cleave::inline v0 {

/// Running totals along the middle dim of an array [outer][length][inner], and the total of each slice.
template <reduction How, class T>
struct scan_block {
  const T* from;
  T* to;
  T* totals;
  std::int64_t length, inner;
  bool backwards, exclusive;

  CLEAVE_FUNCTION void operator()(std::int64_t slice) const {
    const std::int64_t start = slice / inner * length * inner + slice % inner;
    computed<T> total = identity_of<How, computed<T>>;
    for (std::int64_t k = 0; k < length; ++k) {
      const std::int64_t at = start + (backwards ? length - 1 - k : k) * inner;
      const computed<T> before = total;
      total = combined<How, computed<T>>(total, static_cast<computed<T>>(from[at]));
      to[at] = T(exclusive ? before : total);
    }
    totals[slice] = T(total);
  }
};
/// Combines the total of the devices before with every element of a slice.
template <reduction How, class T>
struct scan_continue {
  T* to;
  const T* before;
  std::int64_t length, inner;

  CLEAVE_FUNCTION void operator()(std::int64_t i) const {
    const std::int64_t slice = i / (length * inner) * inner + i % inner;
    to[i] = combined<How, T>(before[slice], to[i]);
  }
};

/// Running totals bound to sizes.
struct bound_scan {
  std::int64_t outer = 0, length = 0, inner = 0;
  bool backwards = false, exclusive = false;
  element stored = element::none;
  owned<comm::prefix_scan> over{};

  std::int64_t slices() const { return outer * inner; }
  /// The totals of this device, and those of the devices before it.
  comm::scratch_bytes needs() const {
    return {(over->communicates() ? 2 : 1) * comm::aligned(slices() * size_of(stored)), over->host_bytes()};
  }
};

template <class T, reduction How>
void run_scan(const bound_scan& b, const void* in, void* out, const comm::scratch& s) {
  T* const totals = reinterpret_cast<T*>(s.memory);
  T* const before = reinterpret_cast<T*>(s.memory + comm::aligned(b.slices() * size_of(b.stored)));
  launch("cleave scan", b.slices(),
         scan_block<How, T>{as<T>(in), as<T>(out), totals, b.length, b.inner, b.backwards, b.exclusive});
  if (!b.over->communicates()) return;
  b.over->run(totals, before, s.host);
  launch("cleave scan", b.slices() * b.length, scan_continue<How, T>{as<T>(out), before, b.length, b.inner});
}

} // namespace cleave::inline v0
