// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/files/errors.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

// Files as the system has them, at offsets and without a position. Every failure is a file_error.

namespace cleave { inline namespace v0 { namespace io { namespace detail {

/// A call of the system that changes files, and one that reads them.
enum class file_call : std::uint8_t { create, write, sync, close, rename, remove, folder, read };
/// Tests set it: it is asked before each of these calls, and the call fails with the code that it returns, unless
/// that is 0. Other programs do not set it.
inline std::atomic<int (*)(file_call, const std::string& path)> file_fault = nullptr;

[[gnu::cold]] inline std::string system_words(int code) { return std::generic_category().message(code); }
/// Makes a call that returns a negative number where it fails, again if a signal has interrupted it.
template <class F>
auto called(file_call which, const std::string& path, F&& f) {
  while (true) {
    decltype(f()) got = -1;
    const auto fault = file_fault.load();
    errno = fault == nullptr ? 0 : fault(which, path);
    if (errno == 0) got = f();
    if (got >= 0) return got;
    const int code = errno;
    if (code == EINTR) continue;
    raise<file_error>(which == file_call::read ? wording::file_not_read(path, system_words(code))
                                               : wording::file_not_written(path, system_words(code)));
  }
}

/// An open file.
class file {
 public:
  /// To be read. Throws if it is a folder, or a pipe, for whose writer nobody waits.
  explicit file(std::string path) : file(std::move(path), O_RDONLY | O_NONBLOCK, file_call::read) {
    struct stat about{};
    called(file_call::read, path_, [&] { return ::fstat(handle_, &about); });
    if (!S_ISREG(about.st_mode)) raise<file_error>(wording::file_not_read(path_, "it is no file"));
    size_ = about.st_size;
  }
  /// To be written: a new file, which replaces an old one, or an existing file.
  static file fresh(std::string path) { return {std::move(path), O_RDWR | O_CREAT | O_TRUNC, file_call::create}; }
  static file existing(std::string path) { return {std::move(path), O_WRONLY, file_call::create}; }
  file(const file&) = delete;
  file& operator=(const file&) = delete;
  file(file&& other) noexcept
      : path_(std::move(other.path_)), handle_(std::exchange(other.handle_, -1)), size_(other.size_) {}
  file& operator=(file&&) = delete;
  ~file() {
    if (handle_ >= 0) ::close(handle_);
  }

  const std::string& path() const { return path_; }
  /// The bytes that a file to be read had when it was opened.
  std::int64_t size() const { return size_; }

  void read(std::int64_t at, void* to, std::int64_t bytes) const {
    for (auto* next = static_cast<char*>(to); bytes > 0;) {
      const auto got = called(file_call::read, path_, [&] { return ::pread(handle_, next, portion(bytes), at); });
      if (got == 0) raise<file_error>(wording::file_not_read(path_, "it ends too early"));
      next += got, at += got, bytes -= got;
    }
  }
  std::string text(std::int64_t at, std::int64_t bytes) const {
    std::string all(as_size(bytes), '\0');
    read(at, all.data(), bytes);
    return all;
  }
  void write(std::int64_t at, const void* from, std::int64_t bytes) {
    for (auto* next = static_cast<const char*>(from); bytes > 0;) {
      const auto done = called(file_call::write, path_, [&] { return ::pwrite(handle_, next, portion(bytes), at); });
      if (done == 0) raise<file_error>(wording::file_not_written(path_, "no byte was written"));
#if defined(SYNC_FILE_RANGE_WRITE)
      // The disk begins with long runs at once, so that `sync` waits for less. If this hint fails, `sync` reports it.
      if (done >= 1 << 20) static_cast<void>(::sync_file_range(handle_, at, done, SYNC_FILE_RANGE_WRITE));
#endif
      next += done, at += done, bytes -= done;
    }
  }
  /// Gives the file its length, with bytes 0.
  void resize(std::int64_t bytes) {
    called(file_call::write, path_, [&] { return ::ftruncate(handle_, bytes); });
  }
  /// Puts the written bytes on the disk.
  void sync() {
    called(file_call::sync, path_, [&] { return ::fsync(handle_); });
  }
  /// Interrupted, it is closed all the same.
  void close() {
    called(file_call::close, path_, [&] {
      const int done = ::close(std::exchange(handle_, -1));
      return done != 0 && errno == EINTR ? 0 : done;
    });
  }

 private:
  file(std::string path, int flags, file_call which)
      : path_(std::move(path)),
        handle_(called(which, path_, [&] { return ::open(path_.c_str(), flags | O_CLOEXEC, 0666); })) {}
  static std::size_t portion(std::int64_t bytes) { return as_size(std::min(bytes, std::int64_t{1} << 30)); }

  std::string path_;
  int handle_;
  std::int64_t size_ = 0;
};

/// The folder of a path.
inline std::string folder_of(const std::string& path) {
  const auto slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}
/// Names in a folder are on the disk afterwards.
inline void sync_folder(const std::string& path) {
  const int handle = called(file_call::sync, path,
                            [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  const int done = ::fsync(handle), code = errno;
  ::close(handle);
  if (done != 0 && code != EINVAL) raise<file_error>(wording::file_not_written(path, system_words(code)));
}
/// Renames without putting the name on the disk.
inline void show_file(const std::string& from, const std::string& to) {
  called(file_call::rename, from, [&] { return std::rename(from.c_str(), to.c_str()); });
}
inline void rename_file(const std::string& from, const std::string& to) {
  show_file(from, to);
  sync_folder(folder_of(to));
}
/// Writes a small file under another name, which is the result, so that nobody sees a part of it.
inline std::string written_aside(const std::string& path, std::string_view text) {
  std::string begun = path + ".new";
  file made = file::fresh(begun);
  made.write(0, text.data(), std::ssize(text));
  made.sync();
  made.close();
  return begun;
}
inline void write_file(const std::string& path, std::string_view text) { rename_file(written_aside(path, text), path); }

}}}} // namespace cleave::v0::io::detail
