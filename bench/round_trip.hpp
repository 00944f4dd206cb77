// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How far two ranks of a node are from each other. A virtual machine moves its cores: those that share a cache tell
// each other something four to five times as fast as others, and so do programs that exchange little.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>

namespace measure {

/// Nanoseconds that a cache line takes from rank 0 to rank 1 and back: the least mean of 32 trips. 0 on other ranks,
/// where these two have no memory in common, and where they share a core. Collective over the communicator.
inline double round_trip_ns(MPI_Comm comm) {
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int rank = 0, size = 1;
  MPI_Comm_rank(node, &rank);
  MPI_Comm_size(node, &size);
  // Apart by more than the lines that are fetched together.
  constexpr int apart = 256 / sizeof(int);
  int* own = nullptr;
  MPI_Win window = MPI_WIN_NULL;
  MPI_Win_allocate_shared(rank == 0 ? (2 * apart + 1) * MPI_Aint{sizeof(int)} : 0, sizeof(int), MPI_INFO_NULL, node,
                          &own, &window);
  MPI_Aint bytes = 0;
  int unit = 0, *first = nullptr;
  MPI_Win_shared_query(window, 0, &bytes, &unit, &first);
  MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
  std::atomic_ref<int> there(first[apart]), back(first[2 * apart]);
  if (rank == 0) there = back = 0;
  MPI_Win_sync(window);
  MPI_Barrier(node);
  double result = 0;
  if (rank == 0 && size > 1) {
    using clock = std::chrono::steady_clock;
    // Ranks that begin on one core soon have one each.
    const auto end = clock::now() + std::chrono::milliseconds(50);
    constexpr int together = 32, most = 100 * together;
    int trips = 0;
    for (auto begun = clock::now(); trips < most && clock::now() < end;) {
      there.store(++trips, std::memory_order_release);
      while (back.load(std::memory_order_acquire) != trips) {
      }
      if (trips % together != 0) continue;
      const auto now = clock::now();
      const double mean = std::chrono::duration<double, std::nano>(now - begun).count() / together;
      if (result == 0 || mean < result) result = mean;
      begun = now;
    }
    there.store(-1, std::memory_order_release);
  } else if (rank == 1) {
    for (int seen = 0; seen >= 0;) {
      const int next = there.load(std::memory_order_acquire);
      if (next != seen && next > 0) back.store(next, std::memory_order_release);
      seen = next;
    }
  }
  MPI_Win_unlock_all(window);
  MPI_Win_free(&window);
  MPI_Comm_free(&node);
  return result;
}

} // namespace measure
