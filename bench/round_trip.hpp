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

/// Nanoseconds that a cache line takes from rank 0 to rank 1 and back, as a mean over 5 ms. 0 on other ranks, and where
/// these two have no memory in common. Collective over the communicator.
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
    const auto start = clock::now(), end = start + std::chrono::milliseconds(5);
    int trips = 0;
    while (clock::now() < end) {
      there.store(++trips, std::memory_order_release);
      while (back.load(std::memory_order_acquire) != trips) {
      }
    }
    result = std::chrono::duration<double, std::nano>(clock::now() - start).count() / trips;
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
