// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cleave/cleave.hpp>
#if defined(CLEAVE_FFTW)
#include <cleave/linalg/fft.hpp>
#endif

#include <mpi.h>
#include <Kokkos_Core.hpp>
#include <cstdio>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    Kokkos::ScopeGuard kokkos(argc, argv);
    std::printf("Cleave %d.%d.%d on %s\n", CLEAVE_VERSION / 10000, CLEAVE_VERSION / 100 % 100, CLEAVE_VERSION % 100,
                Kokkos::DefaultExecutionSpace::name());
  }
  MPI_Finalize();
}
