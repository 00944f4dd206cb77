// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/mpi.hpp>

#include <atomic>
#include <cstdint>

#if defined(__linux__)
#include <sched.h>
#include <time.h>
#include <unistd.h>
#endif

namespace cleave { inline namespace v0 { namespace comm {

/// A number in shared memory that one rank increments and others wait for, on a cache line of its own.
struct alignas(64) shared_count {
  std::int64_t value;

  std::int64_t get() { return std::atomic_ref(value).load(std::memory_order_acquire); }
  /// Release: a rank that reads this number sees all earlier writes.
  void set(std::int64_t to) { std::atomic_ref(value).store(to, std::memory_order_release); }
};
/// Waits for other ranks: first by polling, then by yielding the core. MPI is called from time to time, since other
/// ranks may need this rank's progress in pending messages.
class patience {
 public:
  /// `crowded`: there are more ranks on the node than cores.
  patience(MPI_Comm comm, bool crowded) : comm_(comm), looks_(crowded ? 16 : 4000) {}
  void wait() {
    if (++waited_ > looks_) return yield();
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }
  /// Whether it waits so long that it yields the core.
  bool yields() const { return waited_ > looks_; }
  /// The awaited event has come, and another wait begins.
  void reset() { waited_ = 0; }
  /// Whether more ranks of a communicator are on this node than it has cores. Collective over them.
  [[gnu::cold]] static bool is_crowded(MPI_Comm among) {
    MPI_Comm here = MPI_COMM_NULL;
    int ranks = 1;
    check(MPI_Comm_split_type(among, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here), "MPI_Comm_split_type");
    check(MPI_Comm_size(here, &ranks), "MPI_Comm_size");
    MPI_Comm_free(&here);
#if defined(__linux__)
    return ranks > ::sysconf(_SC_NPROCESSORS_ONLN);
#else
    return ranks > 1;
#endif
  }

 private:
  [[gnu::cold]] void yield() {
#if defined(__linux__)
    // A yield to a rank that waits as well does not let ranks run that have work to do.
    const ::timespec nap{0, 10000};
    if (waited_ - looks_ < 256) ::sched_yield();
    else ::nanosleep(&nap, nullptr);
#endif
    if (waited_ % 64 != 0) return;
    int any = 0;
    check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &any, MPI_STATUS_IGNORE), "MPI_Iprobe");
  }

  MPI_Comm comm_;
  int looks_, waited_ = 0;
};

}}} // namespace cleave::v0::comm
