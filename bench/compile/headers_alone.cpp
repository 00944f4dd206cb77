// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What any program with Kokkos and MPI pays for its headers.
#include <mpi.h>
#include <Kokkos_Core.hpp>
