// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/files/ranges.hpp>
#include <cleave/type/element.hpp>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// The arrays of files, in any format.

namespace cleave { inline namespace v0 { namespace io { namespace detail {

/// A box of an array, row-major in a file.
struct stored_piece {
  std::int64_t file = 0, begin = 0;
  /// By the axes of the array.
  std::vector<range> along{};
  /// The checks of its blocks, if there are some.
  std::vector<std::uint32_t> sums{};
};
/// An array of files. It is stored as a whole unless it has pieces.
struct stored_array {
  std::string name{};
  /// `none`: Cleave does not have the type, whose name in the file is `type`.
  cleave::element element = cleave::element::none;
  std::string_view type{};
  std::vector<std::int64_t> extents{};
  /// Where it begins, and its bytes.
  std::int64_t file = 0, begin = 0, bytes = 0;
  /// Whether the first axis is the one along which elements lie side by side.
  bool first_axis_fastest = false;
  /// The dims along its axes, if the file says so.
  std::vector<std::string> dims{};
  std::vector<stored_piece> pieces{};
};

/// The product of extents and of the bytes of an element, or -1 if an extent is negative or 64 bits cannot count it.
inline std::int64_t bytes_of_extents(const std::vector<std::int64_t>& extents, std::int64_t each) {
  std::int64_t bytes = each;
  for (const std::int64_t n : extents)
    if (n < 0 || __builtin_mul_overflow(bytes, n, &bytes)) return -1;
  return bytes;
}

/// The arrays of one or several files.
struct catalogue {
  /// How the format is called in sentences, and the file that names all others.
  std::string_view format{};
  std::string path{};
  std::vector<std::string> files{};
  /// By name, after `sort`. No array is moved while others are added.
  std::deque<stored_array> arrays{};
  block_checks checks{};

  [[noreturn, gnu::cold]] void refuse(const std::string& why) const {
    raise<file_error>(wording::file_malformed(path, format, why));
  }
  /// Throws if two arrays have one name.
  void sort() {
    std::sort(arrays.begin(), arrays.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    for (std::size_t i = 1; i < arrays.size(); ++i)
      if (arrays[i].name == arrays[i - 1].name) refuse("two arrays have the name '" + arrays[i].name + "'");
  }
  const stored_array* find(std::string_view name) const {
    const auto at = std::lower_bound(arrays.begin(), arrays.end(), name,
                                     [](const stored_array& a, std::string_view n) { return a.name < n; });
    return at == arrays.end() || at->name != name ? nullptr : &*at;
  }
  /// Throws unless the arrays of a file lie between two bytes of it and do not overlap; nor are there bytes between
  /// them, if the format has none.
  void check_places(std::int64_t file, std::int64_t begin, std::int64_t end, bool side_by_side) const {
    std::vector<const stored_array*> order;
    for (const stored_array& a : arrays)
      if (a.file == file) order.push_back(&a);
    std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
      return a->begin != b->begin ? a->begin < b->begin : a->bytes < b->bytes;
    });
    std::int64_t free = begin;
    for (const stored_array* a : order) {
      if (a->begin < begin || a->begin > end || a->bytes > end - a->begin)
        refuse("array '" + a->name + "' does not lie within the file");
      if (a->begin < free) refuse("array '" + a->name + "' overlaps another one");
      if (side_by_side && a->begin > free) refuse("there are bytes of no array before '" + a->name + "'");
      free = a->begin + a->bytes;
    }
    if (side_by_side && free != end) refuse("there are bytes of no array at the end");
  }
};

}}}} // namespace cleave::v0::io::detail
