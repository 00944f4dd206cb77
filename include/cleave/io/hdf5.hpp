// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>
#include <cleave/files/errors.hpp>
#include <cleave/layout/blocks.hpp>
#include <cleave/type/element.hpp>

#include <hdf5.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

// The part of HDF5 that one rank needs to write fields. Every failure is a file_error.

namespace cleave { inline namespace v0 { namespace io { namespace detail {

/// While one lives, HDF5 does not print its errors.
class quiet {
 public:
  quiet() {
    H5open();
    H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  quiet(const quiet&) = delete;
  quiet& operator=(const quiet&) = delete;
  ~quiet() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }

 private:
  H5E_auto2_t print_ = nullptr;
  void* data_ = nullptr;
};

/// The reason of the last failure of HDF5: the words of the system, if they are there, else those of the innermost
/// call.
[[gnu::cold]] inline std::string reason() {
  std::string words;
  const auto first = [](unsigned, const H5E_error2_t* e, void* to) -> herr_t {
    auto& text = *static_cast<std::string*>(to);
    if (text.empty() && e->desc != nullptr) text = e->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first, &words);
  constexpr std::string_view mark = "error message = '";
  if (const auto at = words.find(mark); at != std::string::npos) {
    words.erase(0, at + mark.size());
    words.erase(std::min(words.find('\''), words.size()));
  }
  return words.empty() ? "HDF5 does not say why" : words;
}

/// An open object of HDF5.
class handle {
 public:
  handle() = default;
  handle(hid_t id, herr_t (*close)(hid_t), std::string_view path) : id_(id), close_(close) {
    if (id < 0) raise<file_error>(wording::file_not_written(path, reason()));
  }
  handle(const handle&) = delete;
  handle& operator=(const handle&) = delete;
  ~handle() {
    if (id_ >= 0) close_(id_);
  }
  operator hid_t() const { return id_; }
  /// Writes that HDF5 has deferred may fail here.
  void close(std::string_view path) {
    const hid_t id = id_;
    id_ = -1;
    if (close_(id) < 0) raise<file_error>(wording::file_not_written(path, reason()));
  }

 private:
  hid_t id_ = -1;
  herr_t (*close_)(hid_t) = nullptr;
};

[[gnu::cold]] inline hid_t type_of(element e) {
  switch (e) {
    case element::f32: return H5T_NATIVE_FLOAT;
    case element::f64: return H5T_NATIVE_DOUBLE;
    case element::i32: return H5T_NATIVE_INT32;
    default: return H5T_NATIVE_INT64;
  }
}

/// Access without a lock: a program that reads the steps so far does not stop the one that writes the next.
inline void unlock(hid_t access) {
#if H5_VERSION_GE(1, 10, 7) && !(H5_VERS_MAJOR == 1 && H5_VERS_MINOR == 12 && H5_VERS_RELEASE == 0)
  H5Pset_file_locking(access, false, true);
#else
  static_cast<void>(access);
#endif
}

/// Makes sure that a file may grow: HDF5 does not recover where a write fails. It cuts off space that it does not use.
/// A fresh file is made empty; another one stays as it is if it cannot grow.
[[gnu::cold]] inline void reserve(const std::string& path, std::int64_t bytes, bool fresh) {
  const auto refuse = [&](int code) { raise<file_error>(wording::file_not_written(path, std::strerror(code))); };
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC | (fresh ? O_CREAT | O_TRUNC : 0), 0666);
  if (file < 0) refuse(errno);
  const off_t size = ::lseek(file, 0, SEEK_END);
  int code = ::posix_fallocate(file, size, static_cast<off_t>(bytes));
  if (code != 0 && ::ftruncate(file, size) != 0) code = errno;
  ::close(file);
  if (code != 0) refuse(code);
}

/// A group of an HDF5 file, open for writing data sets, closed and flushed by `close`.
class hdf5_group {
 public:
  /// Without a name: an empty file in place of an old one. `bytes` is at least the size of its arrays.
  hdf5_group(const std::string& path, const std::string& name, double time, std::int64_t bytes)
      : path_((reserve(path, bytes, name.empty()), path)), access_(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, path),
        file_(open(name.empty()), H5Fclose, path) {
    if (name.empty()) return;
    const handle group(H5Gcreate2(file_, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), H5Gclose, path_);
    const handle space(H5Screate(H5S_SCALAR), H5Sclose, path_);
    const handle attribute(H5Acreate2(group, "time", H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                           path_);
    check(H5Awrite(attribute, H5T_NATIVE_DOUBLE, &time));
  }

  /// A data set of the file.
  class array {
   public:
    array(const hdf5_group& in, const std::string& name, element e, const shape& extents)
        : path_(in.path_), type_(type_of(e)), extents_(of(extents)), rank_(extents.rank),
          space_(H5Screate_simple(rank_, extents_.data(), nullptr), H5Sclose, path_),
          creation_(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, path_),
          set_((H5Pset_fill_time(creation_, H5D_FILL_TIME_NEVER),
                H5Dcreate2(in.file_, name.c_str(), type_, space_, H5P_DEFAULT, creation_, H5P_DEFAULT)),
               H5Dclose, path_) {}
    /// Writes rows: indices of the first dim.
    void write(std::int64_t first, std::int64_t rows, const void* elements) const {
      extents count = extents_;
      count[0] = static_cast<hsize_t>(rows);
      const extents start{static_cast<hsize_t>(first)};
      const handle memory(H5Screate_simple(rank_, count.data(), nullptr), H5Sclose, path_);
      if (H5Sselect_hyperslab(space_, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr) < 0 ||
          H5Dwrite(set_, type_, memory, space_, H5P_DEFAULT, elements) < 0)
        raise<file_error>(wording::file_not_written(path_, reason()));
    }
    void close() { set_.close(path_); }

   private:
    using extents = std::array<hsize_t, 3>;
    static extents of(const shape& s) {
      extents e{};
      for (std::size_t d = 0; d < e.size() && int(d) < s.rank; ++d) e[d] = static_cast<hsize_t>(s[d]);
      return e;
    }
    std::string path_;
    hid_t type_;
    extents extents_;
    int rank_;
    handle space_, creation_, set_;
  };

  void close() {
    check(H5Fflush(file_, H5F_SCOPE_LOCAL));
    file_.close(path_);
  }

 private:
  hid_t open(bool fresh) const {
    unlock(access_);
    return fresh ? H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access_)
                 : H5Fopen(path_.c_str(), H5F_ACC_RDWR, access_);
  }
  void check(herr_t status) const {
    if (status < 0) raise<file_error>(wording::file_not_written(path_, reason()));
  }

  std::string path_;
  handle access_, file_;
};

}}}} // namespace cleave::v0::io::detail
