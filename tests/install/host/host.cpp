// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program with communicators of its own, which calls two libraries that use Cleave.
#include "libraries.hpp"

#include <mpi.h>
#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstdio>

namespace {

double value(int i, int j) { return 10.0 * i + j; }

bool is_right(MPI_Comm comm) {
  double squares = 0, steepest = 0;
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 3; ++j) {
      const double before = j == 0 ? 0 : value(i, j - 1), here = value(i, j);
      squares += here * here;
      steepest = std::max(steepest, here * here - before * before);
    }
  // In turns: what one library keeps must not disturb the other one.
  bool right = true;
  for (int turn = 0; turn < 2; ++turn)
    right = right && first::squares(comm) == squares && second::steepest(comm) == steepest;
  return right;
}

} // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0, right = 1, everywhere = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm turned = MPI_COMM_NULL, alone = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &turned);
  MPI_Comm_split(MPI_COMM_WORLD, rank, 0, &alone);
  {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    right = is_right(turned) && is_right(alone) ? 1 : 0;
  }
  MPI_Comm_free(&turned);
  MPI_Comm_free(&alone);
  MPI_Reduce(&right, &everywhere, 1, MPI_INT, MPI_MIN, 0, MPI_COMM_WORLD);
  if (rank == 0) std::printf("two libraries on %d ranks: %s\n", ranks, everywhere != 0 ? "right" : "WRONG");
  MPI_Finalize();
  return right != 0 ? 0 : 1;
}
