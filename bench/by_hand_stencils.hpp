// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Jacobi sweeps over a plate and a step of a KV cache as an expert writes them with MPI and Kokkos.
#pragma once

#include <mpi.h>
#include <Kokkos_Core.hpp>

namespace by_hand {

/// A plate whose rows are sharded, with room for a row of each neighbour. Its border is fixed.
class plate {
 public:
  plate(MPI_Comm comm, long rows, long columns);
  /// Sweeps until the largest change of an element is below the tolerance, at most so often.
  void solve(double tolerance, int most);
  /// One sweep, without the largest change.
  void sweep();
  double* data() { return &now_(1, 0); }
  double change() const { return change_; }

 private:
  void exchange();
  void take_border();

  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  long rows_, columns_;
  double change_ = 0;
  Kokkos::View<double**, Kokkos::LayoutRight> now_, next_;
};

/// Writes a row of every head into a cache [head, position, feature], at a position.
void write_row(float* cache, const float* row, long position, long heads, long positions, long features);

} // namespace by_hand
