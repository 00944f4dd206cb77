// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/mpi.hpp>
#include <cleave/storage/memory.hpp>

namespace cleave::inline v0::comm {

/// Runs what allocates on some ranks and does not communicate once it allocates. Collective over a communicator: one
/// small MPI_Allreduce. Throws memory_error on all its ranks where one of them has not enough memory.
template <class F>
void allocate_on_all(MPI_Comm among, F&& allocate) {
  const bool allocated = finds_memory(allocate);
  int rank = -1, size = 1;
  if (!allocated) check(MPI_Comm_rank(among, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(among, &size), "MPI_Comm_size");
  int without = rank;
  if (size > 1) check(MPI_Allreduce(&rank, &without, 1, MPI_INT, MPI_MAX, among), "MPI_Allreduce");
  if (without >= 0) raise<memory_error>(wording::rank_without_memory(without));
}

} // namespace cleave::inline v0::comm
