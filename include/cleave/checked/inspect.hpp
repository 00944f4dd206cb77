// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/type/narrow.hpp>

#include <algorithm>

// Reductions by which checked mode inspects the memory of a shard. Element types are told apart inside of one kernel,
// not by one kernel each: programs that are not checked compile these too.

namespace cleave { inline namespace v0 {

namespace detail {

/// The numbers that a shard consists of: complex elements are two each.
struct number_array {
  const char* at = nullptr;
  std::int64_t count = 0;
  element type = element::none;

  number_array(const void* data, std::int64_t elements, element e)
      : at(as<char>(data)), count(is_complex(e) ? 2 * elements : elements), type(real_of(e)) {}

  CLEAVE_FUNCTION std::uint64_t bits(std::int64_t i) const {
    switch (type) {
      case element::f64:
      case element::i64:
      case element::u64: return reinterpret_cast<const std::uint64_t*>(at)[i];
      case element::f32:
      case element::i32:
      case element::u32: return reinterpret_cast<const std::uint32_t*>(at)[i];
      case element::f16:
      case element::bf16: return reinterpret_cast<const std::uint16_t*>(at)[i];
      default: return reinterpret_cast<const std::uint8_t*>(at)[i];
    }
  }
  /// Whether a number is NaN: all bits of the exponent are set, and one of the mantissa.
  CLEAVE_FUNCTION bool is_nan(std::int64_t i) const {
    switch (type) {
      case element::f64: return (bits(i) & 0x7FFFFFFFFFFFFFFFu) > 0x7FF0000000000000u;
      case element::f32: return (bits(i) & 0x7FFFFFFFu) > 0x7F800000u;
      case element::f16: return (bits(i) & 0x7FFFu) > 0x7C00u;
      case element::bf16: return (bits(i) & 0x7FFFu) > 0x7F80u;
      default: return false;
    }
  }
};

/// A number for each of some stretches of an array.
struct hash_functor {
  number_array all;
  std::int64_t units;
  std::uint64_t* sums;

  /// Sums a mixture of each number and its index (the finaliser of SplitMix64), so that the order of additions does not
  /// matter. All NaN count as one, since the payload of a NaN is not defined.
  CLEAVE_FUNCTION void operator()(std::int64_t unit) const {
    std::uint64_t sum = 0;
    for (std::int64_t i = unit; i < all.count; i += units) {
      std::uint64_t h = (all.is_nan(i) ? ~std::uint64_t{0} : all.bits(i)) +
                        0x9E3779B97F4A7C15u * (static_cast<std::uint64_t>(i) + 1u);
      h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9u;
      h = (h ^ h >> 27) * 0x94D049BB133111EBu;
      sum += h ^ h >> 31;
    }
    sums[unit] = sum;
  }
};
struct first_nan_functor {
  number_array all;
  std::int64_t units;
  std::int64_t* firsts;

  CLEAVE_FUNCTION void operator()(std::int64_t unit) const {
    std::int64_t i = unit;
    while (i < all.count && !all.is_nan(i)) i += units;
    firsts[unit] = i < all.count ? i : all.count;
  }
};

/// The findings of a functor in each stretch, on the host.
template <class Functor, class Found>
indexed_vector<Found> inspected(const number_array& all) {
  const std::int64_t units = std::min<std::int64_t>(all.count, 4096);
  auto found = indexed_vector<Found>::filled(units);
  const auto kept = allocate(bytes_of<Found>(units));
  launch("cleave inspect", units, Functor{all, units, as<Found>(kept.get())});
  wait_for_kernels();
  copy_bytes<Kokkos::HostSpace, memory_space>(found.data(), kept.get(), bytes_of<Found>(units));
  return found;
}

} // namespace detail

/// A number that is the same for the same elements in the same order, and hardly ever for others.
inline std::uint64_t hash_elements(const void* at, std::int64_t elements, element e) {
  std::uint64_t sum = 0;
  const detail::number_array all(at, elements, e);
  if (on_host && all.count <= 1024) {
    // Faster than to launch a kernel.
    detail::hash_functor{all, 1, &sum}(0);
    return sum;
  }
  for (std::uint64_t s : detail::inspected<detail::hash_functor, std::uint64_t>(all)) sum += s;
  return sum;
}

/// The index of the first element that is, or has a part that is, NaN; -1 if there is none.
inline std::int64_t first_nan(const void* at, std::int64_t elements, element e) {
  const detail::number_array all(at, elements, e);
  if (!is_floating(all.type)) return -1;
  std::int64_t first = all.count;
  for (std::int64_t f : detail::inspected<detail::first_nan_functor, std::int64_t>(all)) first = std::min(first, f);
  return first == all.count ? -1 : first / (is_complex(e) ? 2 : 1);
}

}} // namespace cleave::v0
