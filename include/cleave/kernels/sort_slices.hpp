// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/ops/scalar.hpp>
#include <cleave/storage/element_type.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/storage/rows.hpp>

#include <Kokkos_Sort.hpp>

#include <algorithm>
#include <memory>
#include <numeric>

namespace cleave { inline namespace v0 {

/// Whether a comes before b: NaN after all numbers, and before them in descending order.
template <class T>
struct in_order {
  bool descending = false;

  CLEAVE_FUNCTION static bool less(T a, T b) {
    const computed<T> x = a, y = b;
    if constexpr (std::is_integral_v<computed<T>>) return x < y;
    else return y != y ? x == x : x < y;
  }
  CLEAVE_FUNCTION bool operator()(T a, T b) const { return descending ? less(b, a) : less(a, b); }
};

/// How many elements of a sorted slice come before a value, or do not come after it.
template <class T>
struct count_in_slices {
  const T* sorted;
  const T* values;
  std::int32_t* counts;
  /// Over the counts: strides among the values, and among the slices.
  strided_dims over;
  std::int64_t length, stride;
  bool right;

  CLEAVE_FUNCTION void operator()(std::int64_t i) const {
    const T value = values[over.at(0, i)];
    const T* const slice = sorted + over.at(1, i);
    std::int64_t low = 0, high = length;
    while (low < high) {
      const std::int64_t middle = (low + high) / 2;
      const T element = slice[middle * stride];
      if (right ? !in_order<T>::less(value, element) : in_order<T>::less(element, value)) low = middle + 1;
      else high = middle;
    }
    counts[i] = static_cast<std::int32_t>(low);
  }
};

/// Slices that follow each other in memory; the indices of their elements, or null; and runs that are in order already,
/// or none.
template <class T>
struct slices_to_sort {
  T* keys;
  std::int32_t* indices;
  /// Where each slice starts, and the end of the last one.
  indexed_span<const std::int64_t> start;
  /// Slice by slice `runs` numbers, where each run starts; 0 runs: nothing is known.
  indexed_span<const std::int64_t> run_start;
  std::int64_t runs;
  in_order<T> order;
  /// On the host, as many of each as there are elements: keys, and indices and their places, if there are indices.
  T* spare_keys = nullptr;
  std::int32_t* spare_indices = nullptr;
  std::int32_t* places = nullptr;

  std::int64_t size() const { return start.back(); }
};

namespace detail {

/// One slice on a core of the host: sorted, or its runs merged two by two.
template <class T>
struct sort_slice {
  slices_to_sort<T> all;

  void operator()(std::int64_t s) const {
    const std::int64_t begin = all.start[as_size(s)], end = all.start[as_size(s + 1)];
    if (all.indices == nullptr)
      return put_in_order(s, begin, all.keys + begin, all.keys + end, all.spare_keys + begin, all.order);
    std::int32_t* const place = all.places + begin;
    std::iota(place, place + (end - begin), 0);
    const T* const keys = all.keys + begin;
    std::int32_t* const indices = all.indices + begin;
    put_in_order(s, begin, place, place + (end - begin), all.spare_indices + begin,
                 [&](std::int32_t a, std::int32_t b) {
                   if (all.order(keys[a], keys[b])) return true;
                   return !all.order(keys[b], keys[a]) && indices[a] < indices[b];
                 });
    reorder(all.keys + begin, all.spare_keys + begin, place, end - begin);
    reorder(indices, all.spare_indices + begin, place, end - begin);
  }

 private:
  template <class X, class Before>
  void put_in_order(std::int64_t s, std::int64_t begin, X* from, X* to, X* merged, const Before& before) const {
    if (all.runs == 0) return std::sort(from, to, before);
    const auto at = [&](std::int64_t run) {
      return run >= all.runs ? to : from + (all.run_start[as_size(s * all.runs + run)] - begin);
    };
    // std::inplace_merge allocates for each pair of runs, and clang 19 warns of it in the library of g++ 12.
    for (std::int64_t width = 1; width < all.runs; width *= 2)
      for (std::int64_t run = 0; run + width < all.runs; run += 2 * width) {
        X *const begin_of_pair = at(run), *const middle = at(run + width), *const end_of_pair = at(run + 2 * width);
        std::merge(begin_of_pair, middle, middle, end_of_pair, merged, before);
        std::copy_n(merged, end_of_pair - begin_of_pair, begin_of_pair);
      }
  }
  template <class X>
  static void reorder(X* x, X* before, const std::int32_t* place, std::int64_t n) {
    std::copy_n(x, n, before);
    for (std::int64_t i = 0; i < n; ++i) x[i] = before[place[i]];
  }
};

/// Elsewhere all slices are sorted at once, by slice, key and index.
template <class T>
struct by_slice_and_key {
  const T* keys;
  const std::int32_t* indices;
  const std::int32_t* slice;
  in_order<T> order;

  CLEAVE_FUNCTION bool operator()(std::int64_t a, std::int64_t b) const {
    if (slice[a] != slice[b]) return slice[a] < slice[b];
    if (order(keys[a], keys[b])) return true;
    if (order(keys[b], keys[a])) return false;
    return indices == nullptr ? a < b : indices[a] < indices[b];
  }
};
/// Numbers all elements, and says in which slices they are.
struct number_elements {
  const std::int64_t* start;
  std::int64_t slices;
  std::int64_t* place;
  std::int32_t* slice;
  CLEAVE_FUNCTION void operator()(std::int64_t i) const {
    std::int64_t low = 0, high = slices;
    while (low + 1 < high) {
      const std::int64_t middle = (low + high) / 2;
      if (start[middle] <= i) low = middle;
      else high = middle;
    }
    place[i] = i;
    slice[i] = static_cast<std::int32_t>(low);
  }
};
template <class X>
struct take_places {
  const X* from;
  X* to;
  const std::int64_t* place;
  CLEAVE_FUNCTION void operator()(std::int64_t i) const { to[i] = from[place[i]]; }
};

template <class X>
void reorder_elements(X* x, const std::int64_t* place, std::int64_t n) {
  const std::shared_ptr<void> sorted = allocate(bytes_of<X>(n));
  launch("cleave sort", n, take_places<X>{x, as<X>(sorted.get()), place});
  wait_for_kernels();
  copy_bytes(x, sorted.get(), bytes_of<X>(n));
}

template <class T>
void sort_on_device(const slices_to_sort<T>& all) {
  const std::int64_t n = all.size(), slices = std::ssize(all.start) - 1;
  if (n == 0) return;
  const std::shared_ptr<void> places = allocate(n * 8), numbers = allocate(n * 4), starts = allocate((slices + 1) * 8);
  copy_bytes<memory_space, Kokkos::HostSpace>(starts.get(), all.start.data(), (slices + 1) * 8);
  auto* const place = as<std::int64_t>(places.get());
  auto* const slice = as<std::int32_t>(numbers.get());
  launch("cleave sort", n, number_elements{as<std::int64_t>(starts.get()), slices, place, slice});
  const Kokkos::View<std::int64_t*, memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>> view(place, as_size(n));
  // The sort takes memory of its own.
  if (!finds_memory([&] {
        Kokkos::sort(execution_instance(), view, by_slice_and_key<T>{all.keys, all.indices, slice, all.order});
      }))
    raise<memory_error>(wording::out_of_memory(n * 8));
  reorder_elements(all.keys, place, n);
  if (all.indices != nullptr) reorder_elements(all.indices, place, n);
}

} // namespace detail

/// Sorts each slice by its keys, equal ones by their indices if there are any.
template <class T>
void sort_slices(const slices_to_sort<T>& all) {
  if constexpr (on_host) launch("cleave sort", std::ssize(all.start) - 1, detail::sort_slice<T>{all});
  else detail::sort_on_device(all);
}

}} // namespace cleave::v0
