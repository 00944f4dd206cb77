// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/function.hpp>
#include <cleave/storage/rows.hpp>

#include <cstdint>

// Where the rows of a look-up are, in the block of a table and beside their indices.

namespace cleave::inline v0 {

/// The indices along one dim of a table that a shard of it has, and how far apart their rows are in the shard.
struct index_block {
  std::int64_t begin = 0, extent = 0, stride = 0;

  /// Which row of the block has an index; not below `extent` for an index outside of it. Indices below 0, and unsigned
  /// ones beyond what a table can have, become large numbers.
  template <class I>
  CLEAVE_FUNCTION std::uint64_t row_of(I index) const {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(index)) - static_cast<std::uint64_t>(begin);
  }
  CLEAVE_FUNCTION bool has(std::uint64_t row) const { return row < static_cast<std::uint64_t>(extent); }
  CLEAVE_FUNCTION std::int64_t offset(std::uint64_t row) const { return static_cast<std::int64_t>(row) * stride; }
};

/// The same of a dim of which several devices have a block of equal length, the last ones less or nothing: `at` has
/// where row 0 of the dim would be if it lay before a block as the rows of the block lie, for each block, in elements
/// from where the first block is.
struct index_blocks {
  std::int64_t extent = 0, stride = 0;
  /// Blocks in an index: the block of a row is found by a multiplication.
  double blocks = 0;
  const std::int64_t* at = nullptr;

  template <class I>
  CLEAVE_FUNCTION std::uint64_t row_of(I index) const {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(index));
  }
  CLEAVE_FUNCTION bool has(std::uint64_t row) const { return row < static_cast<std::uint64_t>(extent); }
  CLEAVE_FUNCTION std::int64_t offset(std::uint64_t row) const {
    const auto i = static_cast<std::int64_t>(row);
    return at[number(i)] + i * stride;
  }
  /// Which block has a row. Exact below 2^51: the middle of a row is never so near to the end of a block that rounding
  /// counts.
  CLEAVE_FUNCTION std::int64_t number(std::int64_t row) const {
    return static_cast<std::int64_t>((static_cast<double>(row) + 0.5) * blocks);
  }
};

/// Where indices and rows are on one device.
struct indexed_rows {
  /// Over the indices, which follow one another: strides among themselves, in the rows, and in the table, where it has
  /// the dim too.
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

} // namespace cleave::inline v0
