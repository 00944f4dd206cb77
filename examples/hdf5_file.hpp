// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Data sets and attributes of an HDF5 file, as vectors and numbers; what is missing or has another shape is an
// exception that names it.
#pragma once

#include <hdf5.h>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace examples {

/// An open object of the file, closed at the end of its life.
class handle {
 public:
  handle(hid_t id, herr_t (*close)(hid_t), const std::string& what) : id_(id), close_(close) {
    if (id < 0) throw std::runtime_error("cannot open " + what);
  }
  handle(const handle&) = delete;
  handle& operator=(const handle&) = delete;
  ~handle() { close_(id_); }
  operator hid_t() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

template <class T>
hid_t stored_as() {
  if constexpr (std::same_as<T, float>) return H5T_NATIVE_FLOAT;
  else if constexpr (std::same_as<T, double>) return H5T_NATIVE_DOUBLE;
  else if constexpr (std::same_as<T, std::int32_t>) return H5T_NATIVE_INT32;
  else return H5T_NATIVE_INT64;
}

class hdf5_file {
 public:
  explicit hdf5_file(const std::string& path)
      : path_((H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr), path)),
        file_(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose, path) {}

  template <class T>
  T attribute(const std::string& name) const {
    const handle a(H5Aopen(file_, name.c_str(), H5P_DEFAULT), H5Aclose, "attribute " + name + " of " + path_);
    const handle space(H5Aget_space(a), H5Sclose, name);
    if (H5Sget_simple_extent_npoints(space) != 1)
      throw std::runtime_error("attribute " + name + " of " + path_ + " is not one number");
    T value{};
    if (H5Aread(a, stored_as<T>(), &value) < 0)
      throw std::runtime_error("attribute " + name + " of " + path_ + " is not a number");
    return value;
  }
  /// The extents of a data set.
  std::vector<std::int64_t> extents(const std::string& name) const {
    const handle set = opened(name), space(H5Dget_space(set), H5Sclose, name);
    std::vector<hsize_t> extents(static_cast<std::size_t>(std::max(H5Sget_simple_extent_ndims(space), 0)));
    H5Sget_simple_extent_dims(space, extents.data(), nullptr);
    return {extents.begin(), extents.end()};
  }
  /// All elements in C order; the shape must be the one expected.
  template <class T>
  std::vector<T> read(const std::string& name, const std::vector<std::int64_t>& expected) const {
    const std::vector<std::int64_t> found = extents(name);
    if (found != expected)
      throw std::runtime_error(name + " of " + path_ + " has shape " + text_of(found) + ", expected " +
                               text_of(expected));
    std::size_t count = 1;
    for (const std::int64_t n : found) count *= static_cast<std::size_t>(n);
    const handle set = opened(name);
    std::vector<T> values(count);
    if (H5Dread(set, stored_as<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0)
      throw std::runtime_error("cannot read " + name + " of " + path_);
    return values;
  }

 private:
  handle opened(const std::string& name) const {
    return {H5Dopen2(file_, name.c_str(), H5P_DEFAULT), H5Dclose, name + " of " + path_};
  }
  static std::string text_of(const std::vector<std::int64_t>& all) {
    std::string text = "(";
    for (const auto n : all) text += (text.size() > 1 ? ", " : "") + std::to_string(n);
    return text + ")";
  }
  std::string path_;
  handle file_;
};

} // namespace examples
