// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/sparse/assemble.hpp>
#include <cleave/sparse/errors.hpp>

#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <system_error>

namespace cleave { inline namespace v0 { namespace sparse {

namespace detail {

/// A file in the Matrix Market exchange format (Boisvert, Pozo and Remington 1996), read on one rank.
template <class T>
class market_file {
 public:
  std::int64_t rows = 0, columns = 0;
  std::vector<triplet<T>> entries{};

  explicit market_file(const std::string& path) : path_(path) {
    errno = 0;
    in_.open(path);
    if (!in_) raise<file_error>(wording::file_not_open(path_, reason()));
    read_banner();
    read_sizes();
    for (std::int64_t e = 0; e < announced_; ++e) read_entry();
    if (next()) refuse(market_fault::surplus);
  }

 private:
  [[noreturn]] void refuse(market_fault what) const { raise<file_error>(wording::market_line(path_, number_, what)); }
  /// Why the system refused.
  static std::string reason() { return std::generic_category().message(errno == 0 ? EIO : errno); }
  /// The next line into `line_`. Throws where the file cannot be read, as a directory cannot.
  bool next_line() {
    errno = 0;
    if (!std::getline(in_, line_)) {
      if (in_.bad()) raise<file_error>(wording::market_unread(path_, reason()));
      return false;
    }
    ++number_;
    return true;
  }
  /// Numbers are read up to a byte 0, so that it would hide the rest of the line.
  void refuse_zeros() const {
    if (line_.find('\0') != std::string::npos) refuse(market_fault::zero);
  }
  void read_banner() {
    if (!next_line()) number_ = 1, refuse(market_fault::banner);
    refuse_zeros();
    std::transform(line_.begin(), line_.end(), line_.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::istringstream words(line_);
    std::string head, object, form, field, symmetry, more;
    words >> head >> object >> form >> field >> symmetry;
    if (head != "%%matrixmarket" || object != "matrix" || symmetry.empty() || words >> more)
      refuse(market_fault::banner);
    const bool known = field == "real" || field == "integer" || field == "pattern";
    if (form != "coordinate" || !known || (symmetry != "general" && symmetry != "symmetric"))
      refuse(market_fault::kind);
    pattern_ = field == "pattern";
    integer_ = field == "integer";
    symmetric_ = symmetry == "symmetric";
  }
  /// The next line that is neither a comment nor empty.
  bool next() {
    while (next_line())
      if (const auto at = line_.find_first_not_of(" \t\r"); at != std::string::npos && line_[at] != '%')
        return refuse_zeros(), true;
    return false;
  }
  void read_sizes() {
    if (!next()) refuse(market_fault::sizes);
    const char* at = line_.c_str();
    if (!whole(at, rows) || !whole(at, columns) || !whole(at, announced_) || !ends(at) || rows < 0 || columns < 0 ||
        announced_ < 0 || (symmetric_ && rows != columns))
      refuse(market_fault::sizes);
  }
  void read_entry() {
    if (!next()) refuse(market_fault::missing);
    const char* at = line_.c_str();
    triplet<T> t{0, 0, T(1)};
    if (!whole(at, t.row) || !whole(at, t.column) ||
        (!pattern_ && !(integer_ ? integer(at, t.value) : real(at, t.value))) || !ends(at))
      refuse(market_fault::entry);
    if (t.row < 1 || t.row > rows || t.column < 1 || t.column > columns) refuse(market_fault::outside);
    if (symmetric_ && t.column > t.row) refuse(market_fault::upper);
    --t.row;
    --t.column;
    entries.push_back(t);
    if (symmetric_ && t.row != t.column) entries.push_back({t.column, t.row, t.value});
  }
  static bool whole(const char*& at, std::int64_t& n) {
    char* end = nullptr;
    errno = 0;
    n = std::strtoll(at, &end, 10);
    const bool any = errno == 0 && end != at && (*end == 0 || std::isspace(static_cast<unsigned char>(*end)) != 0);
    at = end;
    return any;
  }
  /// A whole number that the element type has.
  static bool integer(const char*& at, T& x) {
    std::int64_t n = 0;
    const bool any = whole(at, n);
    x = static_cast<T>(n);
    constexpr std::int64_t most = std::int64_t{1} << std::numeric_limits<T>::digits;
    return any && n >= -most && n <= most;
  }
  static bool real(const char*& at, T& x) {
    char* end = nullptr;
    const double given = std::strtod(at, &end);
    const bool fits = std::abs(given) <= static_cast<double>(std::numeric_limits<T>::max());
    x = fits ? static_cast<T>(given) : T{};
    const bool any = fits && end != at && (*end == 0 || std::isspace(static_cast<unsigned char>(*end)) != 0);
    at = end;
    return any;
  }
  static bool ends(const char* at) {
    while (std::isspace(static_cast<unsigned char>(*at)) != 0) ++at;
    return *at == 0;
  }

  std::string path_;
  std::ifstream in_{};
  std::string line_{};
  std::int64_t number_ = 0, announced_ = 0;
  bool pattern_ = false, integer_ = false, symmetric_ = false;
};

} // namespace detail

/// A sparse matrix from a file in the Matrix Market format: `read_matrix_market<Matrix>(grid, "bcsstk01.mtx")`. The
/// file has coordinates of real, integer or pattern entries (a pattern has ones), general or symmetric. Rank 0 of the
/// grid reads it and sends the entries to their owners. Collective over the communicator of the grid. Throws file_error
/// on all ranks, which names the file and the line, if the file cannot be read.
template <class Matrix>
Matrix read_matrix_market(const grid& g, const std::string& path) {
  using element = typename detail::parts_of<Matrix>::element;
  std::vector<triplet<element>> entries;
  std::int64_t sizes[3]{}; // rows, columns, the length of an error
  std::string wrong;
  if (g.rank() == 0) {
    try {
      detail::market_file<element> file(path);
      entries = std::move(file.entries);
      sizes[0] = file.rows;
      sizes[1] = file.columns;
    } catch (const std::exception& e) {
      wrong = dynamic_cast<const file_error*>(&e) != nullptr ? e.what() : wording::market_unread(path, e.what());
      sizes[2] = std::ssize(wrong);
    }
  }
  comm::check(MPI_Bcast(sizes, 3, MPI_INT64_T, 0, g.comm()), "MPI_Bcast");
  if (sizes[2] != 0) {
    wrong.resize(as_size(sizes[2]));
    comm::check(MPI_Bcast(wrong.data(), detail::count_of(sizes[2]), MPI_CHAR, 0, g.comm()), "MPI_Bcast");
    throw file_error(wrong);
  }
  return assemble<Matrix>(g, sizes[0], sizes[1], entries);
}

}}} // namespace cleave::v0::sparse
