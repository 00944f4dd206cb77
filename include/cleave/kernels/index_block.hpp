// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/functions.hpp>
#include <cleave/storage/rows.hpp>

#include <cstdint>

// The memory of the rows of a look-up in the block of a table and in the array of their indices.

namespace cleave { inline namespace v0 {

/// The indices along one dim of a table that a shard of it has, and how far apart their rows are in the shard.
struct index_block {
  std::int64_t begin = 0, extent = 0, stride = 0;

  /// The row of the block for an index; at least `extent` for an index outside of it. Indices below 0, and unsigned
  /// ones beyond the size of any table, become large numbers.
  template <class I>
  CLEAVE_FUNCTION std::uint64_t row_of(I index) const {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(index)) - static_cast<std::uint64_t>(begin);
  }
  CLEAVE_FUNCTION bool has(std::uint64_t row) const { return row < static_cast<std::uint64_t>(extent); }
  CLEAVE_FUNCTION std::int64_t offset(std::uint64_t row) const { return static_cast<std::int64_t>(row) * stride; }
};

/// Where indices and rows are on one device.
struct indexed_rows {
  /// Over the indices, which follow one another: strides among themselves, in the rows, and in the table, if it has the
  /// dim too.
  strided_dims over{};
  /// Over the elements of a row: strides in the rows and in the table.
  strided_dims row{};
  index_block block{};
  std::int64_t count = 0, length = 0;
  /// The element is the outer loop: a row is one element, or neighbouring indices have neighbouring elements and those
  /// of a row are apart.
  bool by_element = false;

  indexed_rows() = default;
  indexed_rows(const strided_dims& indices, const strided_dims& elements, const index_block& b)
      : over(indices.merged()), row(elements.merged()), block(b), count(indices.size()), length(elements.size()),
        by_element(length == 1 || (row.inner(0) != 1 && over.inner(1) == 1)) {}
};

}} // namespace cleave::v0
