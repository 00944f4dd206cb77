// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Look-ups, sums by index and a sparse product as an expert writes them with MPI and Kokkos: plain loops over indices
// that are prepared once.
#pragma once

#include "by_hand_memory.hpp"

#include <mpi.h>
#include <Kokkos_Core.hpp>

namespace by_hand {

/// rows[i] = table[indices[i]], `length` elements each.
void gather(const float* table, const int* indices, float* rows, long count, long length);
/// The same from a table in the windows of all ranks, which have `words` rows each.
void gather(const window& table, const int* indices, float* rows, long count, long length, long words);
/// table[indices[i]] += rows[i] for a table of zeros of `words` rows.
void scatter_add(const float* rows, const int* indices, float* table, long count, long length, long words);
/// The same of rows and indices in the windows of all ranks, of which this rank adds those of its `words` rows of the
/// table. A window holds the bits of the indices.
void scatter_add(const window& rows, const window& indices, float* table, long count, long length, long words);

/// y = A x for a square sparse matrix with the same number of entries in every row (ELL), rows sharded over the ranks,
/// columns within a band. x has room for the parts of the neighbours.
class banded_product {
 public:
  banded_product(MPI_Comm comm, long rows, long slots, long band);
  void run();
  /// The same where each entry has its row too (COO): `rows_of` has the row of each entry of `values`.
  void run_by_entries(const int* rows_of);

  Kokkos::View<double**, Kokkos::LayoutRight> values;
  /// Positions in `x`.
  Kokkos::View<int**, Kokkos::LayoutRight> columns;
  /// The neighbour's end, the own part, the other neighbour's beginning.
  Kokkos::View<double*> x, y;

 private:
  /// Fetches the parts of x that the neighbours have.
  void exchange();

  MPI_Comm comm_;
  int rank_ = 0, size_ = 1;
  long rows_, slots_, band_;
};

} // namespace by_hand
