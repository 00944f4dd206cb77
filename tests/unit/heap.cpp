// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts allocations, in a file of its own so that no compiler sees into them.
#include <cstdlib>
#include <new>

namespace {
std::size_t allocations = 0;
} // namespace

std::size_t allocations_so_far();
std::size_t allocations_so_far() { return allocations; }

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
