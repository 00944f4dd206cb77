// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <KokkosKernels_config.h>
#include <Kokkos_Core.hpp>

// The BLAS that Kokkos Kernels was built with, called directly.

/// 1 where all kernels run on the host and Kokkos Kernels has a BLAS whose integers are ints.
#if defined(KOKKOSKERNELS_ENABLE_TPL_BLAS) && !defined(KOKKOSKERNELS_ENABLE_TPL_MKL) && defined(F77_BLAS_MANGLE) && \
    !defined(KOKKOS_ENABLE_CUDA) && !defined(KOKKOS_ENABLE_HIP) && !defined(KOKKOS_ENABLE_SYCL) &&                  \
    !defined(KOKKOS_ENABLE_OPENMPTARGET) && !defined(KOKKOS_ENABLE_OPENACC) && !defined(CLEAVE_EXECUTION_SPACE)
#define CLEAVE_DIRECT_BLAS 1

// A program may declare the functions of BLAS itself, with other parameter types. So ours have their own names, and the
// name of BLAS for the linker only.
#define CLEAVE_TEXT_OF(text) #text
#define CLEAVE_TEXT(text) CLEAVE_TEXT_OF(text)
#define CLEAVE_BLAS_SYMBOL(name, NAME) \
  __asm__(CLEAVE_TEXT(__USER_LABEL_PREFIX__) CLEAVE_TEXT(F77_BLAS_MANGLE(name, NAME)))
#else
#define CLEAVE_DIRECT_BLAS 0
#endif
