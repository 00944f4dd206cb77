// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/linalg/fft_recorded.hpp>
#include <cleave/shards.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <tuple>

// Shared by the kernels of Fourier transforms, whichever library they call.

namespace cleave { inline namespace v0 { namespace linalg {

namespace detail {

/// Transforms along one dim of a LayoutRight array: `outer` times `inner` of them, neighbours along the dim `inner`
/// apart.
struct transforms {
  transform what;
  bool in_double;
  /// The length of a transform, and the numbers that are stored of it before and after.
  std::int64_t n, from, to, outer, inner;

  auto key() const { return std::tuple(what, in_double, n, outer, inner); }
  friend bool operator<(const transforms& a, const transforms& b) { return a.key() < b.key(); }
};

/// Plans that are made once for each key. Several threads may run grids of their own at one time.
template <class Key, class Plan, class Make>
Plan& kept(const Key& key, Make make) {
  static std::map<Key, std::unique_ptr<Plan>> all;
  static std::mutex one_at_a_time;
  const std::lock_guard lock(one_at_a_time);
  const auto known = all.find(key);
  return *(known != all.end() ? known : all.emplace(key, make()).first)->second;
}

} // namespace detail

/// Multiplies numbers, real ones or the parts of complex ones; by 0 whatever they are.
template <class R>
struct scale_numbers {
  Kokkos::View<R*, Kokkos::LayoutRight, memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>> numbers;
  R by;
  CLEAVE_FUNCTION void operator()(std::int64_t i) const { numbers(i) = by == R(0) ? R(0) : numbers(i) * by; }
};

namespace detail {

template <class R>
void scale_by(void* at, std::int64_t numbers, double factor) {
  const Kokkos::View<R*, Kokkos::LayoutRight, memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>> all(as<R>(at),
                                                                                                         as_size(
                                                                                                             numbers));
  launch("ifft scale", numbers, scale_numbers<R>{all, static_cast<R>(factor)});
}

} // namespace detail

}}} // namespace cleave::v0::linalg
