// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/prefix_scan.hpp>
#include <cleave/ops/scalar.hpp>
#include <cleave/storage/memory.hpp>

namespace cleave { inline namespace v0 {

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

/// Linear recurrences w_k = x_k + f_k w_(k-1) along the middle dim of arrays [outer][length][inner]: each slice goes on
/// from the elements before it, if there are any.
template <class T>
struct recurrence_block {
  const T *from, *factors;
  T* to;
  const comm::affine<T>* before;
  std::int64_t length, inner;
  bool backwards, exclusive;

  CLEAVE_FUNCTION void operator()(std::int64_t slice) const {
    const std::int64_t start = slice / inner * length * inner + slice % inner;
    computed<T> total = before != nullptr ? static_cast<computed<T>>(before[slice].total) : computed<T>(0);
    for (std::int64_t k = 0; k < length; ++k) {
      const std::int64_t at = start + (backwards ? length - 1 - k : k) * inner;
      const computed<T> so_far = total;
      total = static_cast<computed<T>>(from[at]) + static_cast<computed<T>>(factors[at]) * total;
      to[at] = T(exclusive ? so_far : total);
    }
  }
};
/// The function of each slice of the elements before it.
template <class T>
struct recurrence_stretch {
  const T *from, *factors;
  comm::affine<T>* made;
  std::int64_t length, inner;
  bool backwards;

  CLEAVE_FUNCTION void operator()(std::int64_t slice) const {
    const std::int64_t start = slice / inner * length * inner + slice % inner;
    computed<T> factor(1), total(0);
    for (std::int64_t k = 0; k < length; ++k) {
      const std::int64_t at = start + (backwards ? length - 1 - k : k) * inner;
      const computed<T> f = static_cast<computed<T>>(factors[at]);
      total = static_cast<computed<T>>(from[at]) + f * total;
      factor = f * factor;
    }
    made[slice] = {T(factor), T(total)};
  }
};

/// Running totals bound to sizes.
struct bound_scan {
  std::int64_t outer = 0, length = 0, inner = 0;
  bool backwards = false, exclusive = false;
  /// The numbers that are kept of each slice.
  element kept = element::none;
  owned<comm::prefix_scan> over{};

  std::int64_t slices() const { return outer * inner; }
  std::int64_t kept_bytes() const { return comm::aligned(slices() * size_of(kept)); }
  /// The totals of this device, and those of the devices before it.
  comm::scratch_bytes needs() const { return {(over->communicates() ? 2 : 1) * kept_bytes(), over->host_bytes()}; }
};

template <class T, reduction How>
void run_scan(const bound_scan& b, const void* in, const void*, void* out, const comm::scratch& s) {
  T* const totals = reinterpret_cast<T*>(s.memory);
  T* const before = reinterpret_cast<T*>(s.memory + b.kept_bytes());
  launch("cleave scan", b.slices(),
         scan_block<How, T>{as<T>(in), as<T>(out), totals, b.length, b.inner, b.backwards, b.exclusive});
  if (!b.over->communicates()) return;
  b.over->run(totals, before, s.host);
  launch("cleave scan", b.slices() * b.length, scan_continue<How, T>{as<T>(out), before, b.length, b.inner});
}
template <class T>
void run_recurrence(const bound_scan& b, const void* in, const void* factors, void* out, const comm::scratch& s) {
  auto* const made = reinterpret_cast<comm::affine<T>*>(s.memory);
  auto* before = reinterpret_cast<comm::affine<T>*>(s.memory + b.kept_bytes());
  if (b.over->communicates()) {
    launch("cleave recurrence", b.slices(),
           recurrence_stretch<T>{as<T>(in), as<T>(factors), made, b.length, b.inner, b.backwards});
    b.over->run(made, before, s.host);
  } else {
    before = nullptr;
  }
  launch("cleave recurrence", b.slices(),
         recurrence_block<T>{as<T>(in), as<T>(factors), as<T>(out), before, b.length, b.inner, b.backwards,
                             b.exclusive});
}

}} // namespace cleave::v0
