// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/indexed_vector.hpp>
#include <cleave/storage/memory.hpp>

#include <algorithm>
#include <atomic>
#include <utility>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#endif

// Memory of this library that other processes of the node read where it is. The pages of an array are exchanged for
// those of a file in memory, at the same addresses and with the same contents, when the array is exposed for the first
// time. So pointers into it stay valid, and arrays that nobody asks for stay as they are.

namespace cleave::inline v0 {

/// Where other processes find an array: a file that a process has open, and a place in it.
struct exposed_array {
  std::int64_t process = 0, file = -1;
  /// What the system knows the file by, so that no other one is taken for it.
  std::uint64_t device = 0, number = 0;
  /// Of the whole file, and of the array in it.
  std::int64_t file_bytes = 0, offset = 0;

  bool given() const { return file >= 0; }
  bool same_file(const exposed_array& other) const {
    return process == other.process && device == other.device && number == other.number;
  }
};

/// How many messages this process is about to receive from other nodes. A network that writes to memory by itself would
/// write to the pages that were there before: arrays are not exposed for the first time meanwhile.
inline std::atomic<std::int64_t>& receives_under_way() {
  static std::atomic<std::int64_t> count{0};
  return count;
}

namespace detail {

#if defined(__linux__)

/// A block of host memory of which some parts are pages of a file.
class exposed_block {
 public:
  using block = live_memory<Kokkos::HostSpace>::block;

  exposed_block(const exposed_block&) = delete;
  exposed_block& operator=(const exposed_block&) = delete;

  /// What was made of a block already; null: nothing.
  static exposed_block* made_of(const block& b) { return static_cast<exposed_block*>(b.exposed); }
  /// Null if the system does not allow it.
  static exposed_block* of(block& b) {
    if (b.exposed == nullptr && b.bytes >= least_paged && files() < most_files() &&
        page_bytes % ::sysconf(_SC_PAGESIZE) == 0) {
      auto* made = new exposed_block(b);
      if (made->where_.given()) b.exposed = made, b.hide = &hide;
      else delete made;
    }
    return static_cast<exposed_block*>(b.exposed);
  }
  /// Bytes `begin` to `end` of the block; whether all of them are pages of the file now.
  bool expose(std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin / part; p * part < end; ++p) {
      char& done = exposed_[as_size(p)];
      if (done == 0) done = exchange(p * part, std::min(part, where_.file_bytes - p * part)) ? 1 : 0;
      if (done == 0) return false;
    }
    return true;
  }
  bool is_exposed(std::int64_t begin, std::int64_t end) const {
    for (std::int64_t p = begin / part; p * part < end; ++p)
      if (exposed_[as_size(p)] == 0) return false;
    return true;
  }
  const exposed_array& where() const { return where_; }

 private:
  /// Memory is exchanged in parts of so many bytes, so that little of it is there twice.
  static constexpr std::int64_t part = 16 * least_paged;

  explicit exposed_block(block& b) : memory_(as<char>(b.memory())) {
    const int file = ::memfd_create("cleave", MFD_CLOEXEC);
    struct stat found = {};
    const std::int64_t bytes = (b.bytes + page_bytes - 1) / page_bytes * page_bytes;
    if (file >= 0 && ::ftruncate(file, bytes) == 0 && ::fstat(file, &found) == 0) {
      ++files();
      where_ = {std::int64_t{::getpid()}, file, found.st_dev, found.st_ino, bytes, 0};
      exposed_ = indexed_vector<char>::filled((bytes + part - 1) / part);
    } else if (file >= 0) {
      ::close(file);
    }
  }
  ~exposed_block() {
    if (where_.given()) ::close(file()), --files();
  }
  /// The files of this process, of which each block has one. The user needs others.
  static std::atomic<std::int64_t>& files() {
    static std::atomic<std::int64_t> count{0};
    return count;
  }
  static std::int64_t most_files() {
    static const std::int64_t most = [] {
      rlimit limit = {};
      return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<std::int64_t>(limit.rlim_cur / 4) : 256;
    }();
    return most;
  }
  int file() const { return static_cast<int>(where_.file); }

  bool exchange(std::int64_t at, std::int64_t bytes) const {
    for (std::int64_t done = 0, n = 0; done < bytes; done += n) {
      n = ::pwrite(file(), memory_ + at + done, as_size(bytes - done), at + done);
      if (n <= 0) return false;
    }
    return ::mmap(memory_ + at, as_size(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE, file(),
                  at) != MAP_FAILED;
  }
  /// Gives the pages back, also where other processes have them mapped, before the memory goes back to the heap.
  static void hide(block& b) {
    const auto* const e = static_cast<exposed_block*>(b.exposed);
    for (std::size_t p = 0; p < e->exposed_.size(); ++p) {
      const auto at = static_cast<std::int64_t>(p) * part;
      if (e->exposed_[p] == 0) continue;
      // Where this fails the pages of the file stay, which are memory as well.
      const void* const own = ::mmap(e->memory_ + at, as_size(std::min(part, e->where_.file_bytes - at)),
                                     PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      static_cast<void>(own);
    }
    ::fallocate(e->file(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, e->where_.file_bytes);
    delete e;
    b.exposed = nullptr;
  }

  char* memory_;
  exposed_array where_{};
  indexed_vector<char> exposed_{};
};

#endif

} // namespace detail

/// Whether an array is exposed now, or only found if that has been done.
enum class exposing : std::uint8_t { now, done_before };

/// Lets other processes of the node read an array, until its memory is given back. Not given if the memory is not of
/// this library, or is less than `least_paged`, or if the system does not allow it.
[[gnu::cold]] inline exposed_array expose([[maybe_unused]] const void* at, [[maybe_unused]] std::int64_t bytes,
                                          [[maybe_unused]] exposing when = exposing::now) {
#if defined(__linux__)
  auto& all = detail::live_memory<Kokkos::HostSpace>::get();
  const std::lock_guard<std::mutex> guard(all.lock);
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  for (auto* b = all.ring.next; b != &all.ring; b = b->next) {
    const auto first = reinterpret_cast<std::uintptr_t>(b->memory());
    if (first == 0 || begin < first || begin + as_size(bytes) > first + as_size(b->bytes)) continue;
    const bool now = when == exposing::now;
    detail::exposed_block* const e = now ? detail::exposed_block::of(*b) : detail::exposed_block::made_of(*b);
    const auto offset = static_cast<std::int64_t>(begin - first);
    if (e == nullptr || !(now ? e->expose(offset, offset + bytes) : e->is_exposed(offset, offset + bytes))) return {};
    exposed_array found = e->where();
    found.offset = offset;
    return found;
  }
#endif
  return {};
}

/// An array of another process, to read.
class mapped_array {
 public:
  mapped_array() = default;
  mapped_array(mapped_array&& other) noexcept : at_(std::exchange(other.at_, nullptr)), bytes_(other.bytes_) {}
  mapped_array& operator=(mapped_array&& other) noexcept {
    std::swap(at_, other.at_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  /// Empty if the file cannot be opened here.
  [[gnu::cold]] explicit mapped_array([[maybe_unused]] const exposed_array& a) {
#if defined(__linux__)
    char path[64];
    std::snprintf(path, sizeof path, "/proc/%lld/fd/%lld", static_cast<long long>(a.process),
                  static_cast<long long>(a.file));
    const int file = ::open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    struct stat found = {};
    if (::fstat(file, &found) == 0 && found.st_dev == a.device && found.st_ino == a.number &&
        found.st_size == a.file_bytes) {
      void* const at = ::mmap(nullptr, as_size(a.file_bytes), PROT_READ, MAP_SHARED, file, 0);
      if (at != MAP_FAILED) at_ = at, bytes_ = a.file_bytes;
    }
    ::close(file);
#endif
  }
  ~mapped_array() {
#if defined(__linux__)
    if (at_ != nullptr) ::munmap(at_, as_size(bytes_));
#endif
  }

  const char* get() const { return as<char>(at_); }

 private:
  void* at_ = nullptr;
  std::int64_t bytes_ = 0;
};

} // namespace cleave::inline v0
