// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts allocations and their bytes, in a file of its own so that no compiler sees into them.
#include <malloc.h>

#include <cstdlib>
#include <new>

namespace {
std::size_t allocations = 0, bytes_now = 0, most_bytes = 0;

void release(void* p) {
  bytes_now -= malloc_usable_size(p);
  std::free(p);
}
} // namespace

std::size_t allocations_so_far();
std::size_t allocations_so_far() { return allocations; }
/// The most bytes that were allocated at a time since they were forgotten.
std::size_t most_bytes_allocated();
std::size_t most_bytes_allocated() { return most_bytes; }
void forget_most_bytes_allocated();
void forget_most_bytes_allocated() { most_bytes = bytes_now; }

// All forms, since the sanitizers would take the others and complain of memory that comes from here.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  void* const p = std::malloc(bytes == 0 ? 1 : bytes);
  bytes_now += malloc_usable_size(p);
  if (bytes_now > most_bytes) most_bytes = bytes_now;
  return p;
}
void* operator new(std::size_t bytes) {
  if (void* p = operator new(bytes, std::nothrow)) return p;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return operator new(bytes, std::nothrow); }
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void operator delete(void* p) noexcept { release(p); }
void operator delete(void* p, std::size_t) noexcept { release(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { release(p); }
void operator delete[](void* p) noexcept { release(p); }
void operator delete[](void* p, std::size_t) noexcept { release(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { release(p); }
