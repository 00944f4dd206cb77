// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/numbers.hpp>
#include <cleave/comm/mpi.hpp>
#include <cleave/comm/patience.hpp>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <utility>

#if defined(__linux__)
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

// Memory that ranks of one node share. It is mapped directly and not by
// MPI_Win_allocate_shared: a window of MPI is freed by all its ranks together, so that a rank that leaves a grid by an
// exception would wait for the others. Each rank can free this memory alone, at any time, even after MPI_Finalize.

namespace cleave { inline namespace v0 { namespace comm {

/// A segment of zeroed memory that all ranks of a communicator have mapped. The last rank to unmap it frees it.
class node_segment {
 public:
  node_segment() = default;
  node_segment(const node_segment&) = delete;
  node_segment& operator=(const node_segment&) = delete;
  ~node_segment() { unmap(memory_, bytes_); }

  /// Replaces the current segment, if all ranks can map the new memory. Else returns false on all ranks and changes
  /// nothing: on systems without shared memory, in containers that do not share it, and if it does not suffice.
  /// Collective over the group, whose ranks are on one node. Its calls of MPI are part of the set-up, and are not
  /// counted as communication.
  [[gnu::cold]] bool make(const group& g, std::int64_t bytes) {
    unshared mine{g.rank == 0, bytes};
    MPI_Request request = MPI_REQUEST_NULL;
    if (g.rank == 0) mine.memory = created(mine.name, bytes);
    check(MPI_Ibcast(&mine.name, sizeof mine.name, MPI_BYTE, 0, g.handle, &request), "MPI_Ibcast");
    check(MPI_Wait(&request, MPI_STATUS_IGNORE), "MPI_Wait");
    if (g.rank != 0) mine.memory = opened(mine.name, bytes);
    int here = mine.memory != nullptr ? 1 : 0, everywhere = 0;
    agree(&here, &everywhere, 1, MPI_INT, MPI_MIN, g.handle);
    if (everywhere == 0) return false;
    unmap(memory_, bytes_);
    memory_ = std::exchange(mine.memory, nullptr);
    bytes_ = bytes;
    return true;
  }

  bool made() const { return memory_ != nullptr; }
  char* data() const { return as<char>(memory_); }

 private:
  /// The file of a segment, which has no name in any folder: the system frees it with the last process that has it,
  /// whenever that is killed. Others reach it as an open file of the process that made it. `proof` is written into it:
  /// a process of another container may have the same number.
  struct name_of_file {
    long process = 0, number = -1;
    std::uint64_t proof = 0;
  };
  /// The state of a rank until all have mapped a new segment. At the end the open file is not needed any more, also
  /// after an exception of MPI.
  struct unshared {
    bool created;
    std::int64_t bytes;
    name_of_file name{};
    void* memory = nullptr;

    ~unshared() {
      if (created) close(name);
      unmap(memory, bytes);
    }
  };

#if defined(__linux__)
  [[gnu::cold]] static void* created(name_of_file& name, std::int64_t bytes) {
    const int file = ::memfd_create("cleave", MFD_CLOEXEC);
    if (file < 0) return nullptr;
    name.process = static_cast<long>(::getpid());
    name.number = file;
    // Allocated now: missing memory would end the process at a later access.
    void* at = ::posix_fallocate(file, 0, bytes) == 0 ? mapped(file, bytes) : nullptr;
    if (at == nullptr) return nullptr;
    name.proof = reinterpret_cast<std::uintptr_t>(at) ^ static_cast<std::uint64_t>(MPI_Wtime() * 1e6) << 20 ^ 1u;
    std::memcpy(at, &name.proof, sizeof name.proof);
    return at;
  }
  [[gnu::cold]] static void* opened(const name_of_file& name, std::int64_t bytes) {
    if (name.proof == 0) return nullptr;
    char path[64] = "", target[16] = "";
    std::snprintf(path, sizeof path, "/proc/%ld/fd/%ld", name.process, name.number);
    // In another container it may be anything, such as a device.
    if (::readlink(path, target, sizeof target - 1) < 0 || std::strncmp(target, "/memfd:cleave", 13) != 0)
      return nullptr;
    const int file = ::open(path, O_RDWR | O_CLOEXEC);
    if (file < 0) return nullptr;
    struct stat found = {};
    void* at = ::fstat(file, &found) == 0 && found.st_size == bytes ? mapped(file, bytes) : nullptr;
    ::close(file);
    if (at != nullptr && std::memcmp(at, &name.proof, sizeof name.proof) != 0) unmap(at, bytes), at = nullptr;
    return at;
  }
  static void* mapped(int file, std::int64_t bytes) {
    void* at = ::mmap(nullptr, as_size(bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
    return at == MAP_FAILED ? nullptr : at;
  }
  static void unmap(void* at, std::int64_t bytes) {
    if (at != nullptr) ::munmap(at, as_size(bytes));
  }
  static void close(const name_of_file& name) {
    if (name.number >= 0) ::close(static_cast<int>(name.number));
  }
#else
  static void* created(name_of_file&, std::int64_t) { return nullptr; }
  static void* opened(const name_of_file&, std::int64_t) { return nullptr; }
  static void unmap(void*, std::int64_t) {}
  static void close(const name_of_file&) {}
#endif

  void* memory_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// A segment begins with one cache line for the proof.
inline constexpr std::int64_t segment_header = 64;

/// The core on which this thread runs now.
inline int core_here() {
#if defined(__linux__)
  return ::sched_getcpu();
#else
  return 0;
#endif
}

}}} // namespace cleave::v0::comm
