// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/storage/memory.hpp>

#include <KokkosKernels_config.h>
#include <Kokkos_Core.hpp>

#include <mutex>

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

namespace cleave { inline namespace v0 {

/// Held while a product is queued. Kokkos Kernels has one handle of a device's BLAS for all threads, and gives it the
/// stream of each product; two threads at once would use the stream of one of them. On the host nothing is locked.
inline std::unique_lock<std::mutex> lock_device_blas() {
  if constexpr (on_host) return {};
  static std::mutex one_at_a_time;
  return std::unique_lock(one_at_a_time);
}

}} // namespace cleave::v0
