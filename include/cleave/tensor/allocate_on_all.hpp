// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/comm/grid_state.hpp>
#include <cleave/tensor/errors.hpp>

#include <new>

namespace cleave::inline v0::detail {

/// Runs what allocates on some ranks, and does not communicate after that. Collective over the communicator of the
/// grid: one small MPI_Allreduce. Throws memory_error on all ranks where one of them has not enough memory.
template <class F>
void allocate_on_all(grid_state& g, F&& allocate) {
  std::int64_t without = -1;
  try {
    allocate();
  } catch (const memory_error&) {
    without = g.everyone().rank;
  } catch (const std::bad_alloc&) {
    without = g.everyone().rank;
  }
  std::int64_t rank = without;
  g.guarded([&] {
    comm::check(MPI_Allreduce(&without, &rank, 1, MPI_INT64_T, MPI_MAX, g.everyone().handle), "MPI_Allreduce");
  });
  if (rank >= 0) raise<memory_error>(wording::copy_out_of_memory(rank));
}

} // namespace cleave::inline v0::detail
