// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

/// Says that the iterations of the loop that follows do not depend on each other, so that no check of overlap is
/// needed. Loops of a constant number of iterations so marked become vector code at -O2 too.
#if defined(__CUDACC__) || defined(__HIPCC__)
#define CLEAVE_INDEPENDENT
#elif defined(__clang__)
#define CLEAVE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define CLEAVE_INDEPENDENT _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#else
#define CLEAVE_INDEPENDENT
#endif

/// Of a loop of a kernel, that nvcc need not unroll it.
#if defined(__CUDACC__)
#define CLEAVE_NOT_UNROLLED _Pragma("unroll 1")
#else
#define CLEAVE_NOT_UNROLLED
#endif

/// Of a loop of eight iterations, that it becomes straight code before vector code is made of it.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define CLEAVE_STRAIGHT _Pragma("GCC unroll 8")
#else
#define CLEAVE_STRAIGHT
#endif

namespace cleave::inline v0 {

/// Elements in a block of a vectorised loop.
inline constexpr int vector_block = 16;

} // namespace cleave::inline v0
