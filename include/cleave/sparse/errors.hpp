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

/// What can be wrong with a line of a Matrix Market file.
enum class market_fault : std::uint8_t { banner, kind, sizes, entry, outside, upper, missing, surplus, zero };

namespace wording {

/// mend: Count rows and columns from 0, and give the matrix as many as its triplets need.
[[gnu::cold]] inline std::string triplet_outside(std::int64_t row, std::int64_t column, std::int64_t rows,
                                                 std::int64_t columns) {
  return sentence({"a triplet at row ", number(row), ", column ", number(column), " lies outside of a matrix of ",
                   number(rows), " x ", number(columns)});
}
/// mend: Multiply the matrix with a vector that has as many elements along its dim as the matrix has columns.
[[gnu::cold]] inline std::string columns_differ(std::int64_t columns, std::int64_t extent, std::string_view dim) {
  return sentence({"a sparse matrix of ", number(columns), " columns was multiplied with a vector whose dim ",
                   quoted(dim), " has extent ", number(extent)});
}
/// mend: Shard the rows over more devices: a device can hold 2^31 - 1 rows, columns that it reads, and others.
[[gnu::cold]] inline std::string too_many_columns(std::int64_t got) {
  return sentence({"a device would read ", number(got), " elements of a vector for its rows of a sparse matrix"});
}
/// thrown: file_error
/// mend: Look at that line of the file. Matrix Market files have a banner, comments, a line with the numbers of rows,
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
/// mend: Give the path of a file, not of a directory, on a disk that works. Rank 0 holds all entries of a file while it
/// reads them: give it more memory, or assemble the matrix of parts.
[[gnu::cold]] inline std::string market_unread(std::string_view path, std::string_view why) {
  return sentence({"cannot read ", quoted(path), ": ", why});
}
/// thrown: file_error
/// mend: Give the path of a file that rank 0 of the grid can read.
[[gnu::cold]] inline std::string file_not_open(std::string_view path, std::string_view why) {
  return sentence({"cannot open ", quoted(path), ": ", why});
}

} // namespace wording

}} // namespace cleave::v0
