// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// Marks what kernels call. Compilers for CUDA and HIP must be told; to every other it is nothing.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define CLEAVE_FUNCTION __host__ __device__
#else
#define CLEAVE_FUNCTION
#endif
