// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/files/npz.hpp>
#include <cleave/files/safetensors.hpp>

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

// Reads all arrays of a file without MPI, as a rank does that has them as a whole; for files that may be damaged.

namespace read_arrays {

namespace io = cleave::io::detail;

enum class format { safetensors, index, npz, npy };
constexpr format all_formats[] = {format::safetensors, format::index, format::npz, format::npy};

/// The type, the extents and the bytes of an array, row-major.
struct array {
  cleave::element element = cleave::element::none;
  std::vector<std::int64_t> extents{};
  std::string bytes{};
  friend bool operator==(const array&, const array&) = default;
};
using arrays = std::map<std::string, array>;

inline io::catalogue catalogue_of(format f, const std::string& path) {
  switch (f) {
    case format::safetensors: return io::safetensors::read(path, false);
    case format::index: return io::safetensors::read(path, true);
    case format::npz: return io::npz::zip_reader(path).take();
    case format::npy: break;
  }
  return io::npz::read_npy(path);
}
inline void must(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}
/// Throws file_error if the file says so, and std::logic_error if the library took what it should not.
inline arrays read(format f, const std::string& path) {
  const io::catalogue all = catalogue_of(f, path);
  std::vector<io::file> files;
  for (const std::string& name : all.files) files.emplace_back(name);
  arrays made;
  for (const io::stored_array& a : all.arrays) {
    must(a.begin >= 0 && a.bytes >= 0 && a.begin + a.bytes <= files[cleave::as_size(a.file)].size(),
         "outside the file");
    if (a.extents.size() > cleave::as_size(cleave::max_rank) || a.element == cleave::element::none) continue;
    cleave::box whole;
    for (const std::int64_t n : a.extents) whole[whole.rank++] = {0, n};
    must(io::bytes_of_extents(a.extents, size_of(a.element)) == a.bytes, "other bytes than the extents say");
    cleave::strides stride = strides_of(whole.extents());
    if (a.first_axis_fastest) {
      std::int64_t step = 1;
      for (int d = 0; d < whole.rank; ++d) stride[d] = step, step *= whole[d].size();
    }
    array& to = made[a.name];
    to = {a.element, a.extents, std::string(cleave::as_size(a.bytes), '\0')};
    std::uint32_t sum = 0;
    io::file_part part = io::part_of(whole, whole, whole, stride, 0);
    part.file = a.file, part.begin = a.begin, part.element_bytes = size_of(a.element), part.memory = to.bytes.data();
    part.piece_bytes = a.bytes, part.checks = {all.checks.kind, a.bytes == 0 ? 1 : a.bytes};
    if (!a.pieces.empty()) part.sums = &sum;
    const cleave::io::traffic moved = io::file_mover(files, true).run({part});
    must(moved.moved == a.bytes, "bytes are read twice or not at all");
    if (!a.pieces.empty() && io::crc<io::crc32_of_zip>::finished(sum, a.bytes) != a.pieces[0].sums[0])
      throw cleave::file_error("another checksum");
  }
  return made;
}

} // namespace read_arrays
