// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes fields in the course of time to an HDF5 file, with an XDMF file for ParaView, if HDF5 is there.
#pragma once

#include <cleave/cleave.hpp>
#if defined(CLEAVE_HDF5)
#include <cleave/io/field_file.hpp>
#endif

#include <memory>
#include <stdexcept>
#include <string>

namespace examples {

/// A field with the name that it has in the file.
template <class Field>
struct named {
  const char* name;
  const Field& field;
};
template <class Field>
named(const char*, const Field&) -> named<Field>;

/// Fields of cells in two dims. No path: no file.
class recording {
 public:
#if defined(CLEAVE_HDF5)
  recording(const cleave::grid& grid, const std::string& path, double spacing) {
    if (path.empty()) return;
    const cleave::io::field_options options{.spacing = {spacing, spacing}, .cells = true};
    file_ = std::make_unique<cleave::io::field_file>(grid, path, options);
  }
  template <class... Field>
  void write(double time, const named<Field>&... fields) {
    if (file_) file_->write(time, cleave::io::field{fields.name, fields.field}...);
  }

 private:
  std::unique_ptr<cleave::io::field_file> file_{};
#else
  recording(const cleave::grid&, const std::string& path, double) {
    if (!path.empty()) throw std::runtime_error("--fields needs HDF5, which was not found");
  }
  template <class... Field>
  void write(double, const named<Field>&...) {}
#endif
};

} // namespace examples
