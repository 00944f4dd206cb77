// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/storage/flat_loops.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/storage/rows.hpp>

#include <Kokkos_Sort.hpp>

#include <cstdint>
#include <new>

// Look-ups and sums by index on devices, with coalesced loads and stores: adjacent threads have adjacent elements.

namespace cleave { inline namespace v0 { namespace detail {

/// The loops over all elements of all rows. Arrays: the rows, the table, the indices.
inline flat_nest<3> nest_of(const indexed_rows& at) {
  flat_nest<3> nest;
  const auto append = [&](const flat_nest<3>::dim& d) {
    if (d.extent != 1) nest.append(d);
  };
  const auto append_elements = [&] {
    for (int d = 0; d < at.row.rank; ++d) append({at.row.extent[d], {at.row.stride[0][d], at.row.stride[1][d], 0}});
  };
  if (at.by_element) append_elements();
  std::int64_t index_step = at.count;
  for (int d = 0; d < at.over.rank; ++d) {
    index_step /= at.over.extent[d];
    append({at.over.extent[d], {at.over.stride[1][d], at.over.stride[2][d], index_step}});
  }
  if (!at.by_element) append_elements();
  if (nest.rank == 0) nest.append({});
  return nest;
}

/// Several elements of the rows for each unit.
template <class T, class I>
struct gather_on_device_functor {
  static constexpr int repeat = 4;
  using tiles_type = flat_tiles<3, repeat>;

  const T* table;
  const I* indices;
  T* rows;
  index_block block;
  tiles_type tiles;

  KOKKOS_FUNCTION void operator()(std::int64_t unit) const {
    const typename tiles_type::position at = tiles.at(unit);
    T* const to = rows + at.offset[0];
    const T* const from = table + at.offset[1];
    const I* const index = indices + at.offset[2];
    if (at.count < repeat) {
      CLEAVE_NOT_UNROLLED
      for (int r = 0; r < at.count; ++r) {
        const std::uint64_t row = block.row_of(index[r * tiles.step(2)]);
        to[r * tiles.step(0)] = block.has(row) ? from[block.offset(row) + r * tiles.step(1)] : T{};
      }
      return;
    }
    std::uint64_t row[repeat];
    for (int r = 0; r < repeat; ++r) row[r] = block.row_of(index[r * tiles.step(2)]);
    T value[repeat];
    for (int r = 0; r < repeat; ++r)
      value[r] = block.has(row[r]) ? from[block.offset(row[r]) + r * tiles.step(1)] : T{};
    for (int r = 0; r < repeat; ++r) to[r * tiles.step(0)] = value[r];
  }
};

/// rows[n] = table[indices[n]]; there are some.
template <class T, class I>
void gather_on_device(const indexed_rows& at, const T* table, const I* indices, T* rows) {
  using functor = gather_on_device_functor<T, I>;
  const typename functor::tiles_type tiles(nest_of(at));
  launch("cleave gather", tiles.units(), functor{table, indices, rows, at.block, tiles});
}

/// Of a row that is added: its place in the table above, and its number below. Sorted keys have the rows of one place
/// together, in the order of their numbers. A place is a row of the block, or one element if the table has dims of the
/// indices too.
inline constexpr int row_number_bits = 32;
inline constexpr std::uint64_t no_row = ~std::uint64_t{0};

template <class I>
struct row_key_functor {
  const I* indices;
  std::uint64_t* keys;
  strided_dims over;
  index_block block;
  flat_divisor place_size;

  KOKKOS_FUNCTION void operator()(std::int64_t n) const {
    const std::uint64_t row = block.row_of(indices[n]);
    keys[n] = no_row;
    if (!block.has(row)) return;
    const auto place = static_cast<std::uint64_t>(place_size.quotient(over.at(2, n) + block.offset(row)));
    keys[n] = place << row_number_bits | static_cast<std::uint64_t>(n);
  }
};

/// One element of the rows of one place, one after the other, by the unit that has the first of them.
template <class From, class To>
struct add_sorted_functor {
  const std::uint64_t* keys;
  const From* rows;
  To* table;
  strided_dims over, row;
  flat_divisor length;
  std::int64_t count, place_size;

  KOKKOS_FUNCTION void operator()(std::int64_t unit) const {
    const std::int64_t first = length.quotient(unit), k = unit - first * length.divisor();
    const std::uint64_t key = keys[first], place = key >> row_number_bits;
    if (key == no_row || (first > 0 && keys[first - 1] >> row_number_bits == place)) return;
    To* const to = table + static_cast<std::int64_t>(place) * place_size + row.at(1, k);
    const From* const from = rows + row.at(0, k);
    To sum = *to;
    for (std::int64_t i = first; i < count && keys[i] >> row_number_bits == place; ++i) {
      const auto number = static_cast<std::int64_t>(static_cast<std::uint32_t>(keys[i]));
      sum = combined<reduction::sum>(sum, static_cast<To>(from[over.at(1, number)]));
    }
    *to = sum;
  }
};

/// table[indices[n]] += rows[n], in the order of n. False, and nothing is done, if keys have no room for the places.
template <class From, class To, class I>
bool scatter_on_device(const indexed_rows& at, const From* rows, const I* indices, To* table, std::uint64_t* keys) {
  constexpr std::int64_t most = std::int64_t{1} << 31;
  std::int64_t beside = 0;
  for (int d = 0; d < at.over.rank; ++d) beside += (at.over.extent[d] - 1) * at.over.stride[2][d];
  const std::int64_t place_size = beside == 0 && at.block.stride > 0 ? at.block.stride : 1;
  if (((at.block.extent - 1) * at.block.stride + beside) / place_size >= most || at.count >= most) return false;
  launch("cleave row keys", at.count, row_key_functor<I>{indices, keys, at.over, at.block, flat_divisor(place_size)});
  using view = Kokkos::View<std::uint64_t*, memory_space, Kokkos::MemoryUnmanaged>;
  try {
    Kokkos::sort(execution_instance(), view(keys, as_size(at.count)));
  } catch (const std::bad_alloc&) {
    // Sorting takes memory of its own.
    raise<memory_error>(wording::out_of_memory(bytes_of<std::uint64_t>(at.count)));
  }
  launch("cleave add rows", at.count * at.length,
         add_sorted_functor<From, To>{keys, rows, table, at.over, at.row, flat_divisor(at.length), at.count,
                                      place_size});
  return true;
}

}}} // namespace cleave::v0::detail
