// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// What kernels on shards use: `shard` and `local_context`, memory and execution space of the shards, `launch`, stores
// past the caches, complex elements, the BLAS of Kokkos Kernels, and agreement on memory. For libraries of
// operations, as cleave/linalg.

#include <cleave/comm/mpi.hpp>
#include <cleave/execute/local.hpp>
#include <cleave/storage/blas.hpp>
#include <cleave/storage/complex.hpp>
#include <cleave/storage/memory.hpp>
#include <cleave/storage/wide.hpp>
