// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>

// Counts what a thread takes from the heap. With glibc this program's own malloc stands before the C library's, for
// every library of the process, so that operator new is seen as well; elsewhere only operator new is counted, in
// main.cpp.

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CLEAVE_OWN_MALLOC 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define CLEAVE_OWN_MALLOC 0
#endif
#endif
#ifndef CLEAVE_OWN_MALLOC
#ifdef __GLIBC__
#define CLEAVE_OWN_MALLOC 1
#else
#define CLEAVE_OWN_MALLOC 0
#endif
#endif

namespace {

// Plain thread-local numbers of the program itself: they are there before the first malloc and take no memory of the
// heap.
thread_local int counting = 0;
thread_local int paused = 0;
thread_local std::int64_t taken = 0;
thread_local std::int64_t at_start = 0;

} // namespace

support::heap_count::heap_count() {
  taken = 0;
  at_start = allocations();
  ++counting;
}
support::heap_count::~heap_count() { --counting; }
std::int64_t support::heap_count::operator()() const { return counts_malloc() ? taken : allocations() - at_start; }

support::uncounted::uncounted() {
  ++paused;
#ifdef CLEAVE_EXECUTION_SPACE
  if (!cleave::comm::staged()) device_.emplace();
#endif
}
support::uncounted::~uncounted() { --paused; }

bool support::counts_malloc() { return CLEAVE_OWN_MALLOC != 0; }

#if CLEAVE_OWN_MALLOC

#include <dlfcn.h>

extern "C" {

void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* memory, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);

/// What a vendor's BLAS takes for itself (OpenBLAS does, for some small products) is its own affair, as with MPI.
static bool in_blas(const void* caller) {
  Dl_info from;
  return dladdr(caller, &from) != 0 && from.dli_fname != nullptr && std::strstr(from.dli_fname, "blas") != nullptr;
}
static void count(const void* caller) {
  if (counting > 0 && paused == 0 && !in_blas(caller)) ++taken;
}

void* malloc(std::size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* calloc(std::size_t number, std::size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_calloc(number, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  count(__builtin_return_address(0));
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

} // extern "C"

#endif
