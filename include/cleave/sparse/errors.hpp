// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>
#include <cleave/base/numbers.hpp>

#include <cstdint>
#include <string>
#include <string_view>

// The sentences of exceptions about sparse matrices and their files.

namespace cleave { inline namespace v0 {

/// The faults of a line of a Matrix Market file.
enum class market_fault : std::uint8_t { banner, kind, sizes, entry, outside, upper, missing, surplus, zero };

namespace wording {

/// fix: Count rows and columns from 0, and give the matrix as many as its triplets need.
inline constexpr text<4> triplet_outside{
    "a triplet at row {row}, column {column} lies outside of a matrix of {rows} x {columns}"};
/// fix: Multiply the matrix with a vector that has as many elements along its dim as the matrix has columns.
inline constexpr text<3> columns_differ{
    "a sparse matrix of {columns} columns was multiplied with a vector whose dim '{dim}' has extent {extent}",
    {"columns", "extent", "dim"}};
/// fix: Shard the rows over more devices: a device can hold 2^31 - 1 rows, columns that it reads, and others.
inline constexpr text<1> too_many_columns{
    "a device would read {got} elements of a vector for its rows of a sparse matrix"};
/// thrown: file_error
/// fix: Look at that line of the file. Matrix Market files have a banner, comments, a line with the numbers of rows,
/// columns and entries, and an entry a line, which count from 1.
[[gnu::cold]] inline std::string market_line(std::string_view path, std::int64_t line, market_fault what) {
  constexpr std::string_view words[] = {
      "the first line is not '%%MatrixMarket matrix coordinate FIELD SYMMETRY'",
      "only coordinate matrices are read, of real, integer or pattern entries, general or symmetric",
      "there are not three numbers, of rows, columns and entries, equal ones of rows and columns if it is symmetric",
      "an entry is not a row, a column and, unless it is a pattern, a number of the element type",
      "an entry lies outside of the matrix",
      "an entry of a symmetric matrix lies above the diagonal",
      "the file ends before all entries that it announces",
      "there are more entries than the file announces",
      "the line has a byte 0, which no text has",
  };
  return sentence({path, ":", number(line), ": ", words[underlying(what)]});
}
/// thrown: file_error
/// fix: Give the path of a file, not of a directory, on a disk that works. Rank 0 holds all entries of a file while it
/// reads them: give it more memory, or assemble the matrix of parts.
inline constexpr text<2> market_unread{"cannot read '{path}': {why}"};
/// thrown: file_error
/// fix: Give the path of a file that rank 0 of the grid can read.
inline constexpr text<2> file_not_open{"cannot open '{path}': {why}"};

} // namespace wording

}} // namespace cleave::v0
