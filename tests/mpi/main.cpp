// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <gtest/gtest.h>

#include <Kokkos_Core.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

// The tests of one program run on all ranks. They expect, never assert, so that no rank leaves a collective alone.

namespace {

std::atomic<std::int64_t> allocation_count{0}, failing_allocation{0};

/// Prints failures with the rank; the first rank prints the rest too.
class failures : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      std::printf("rank %d: %s:%d\n%s\n", support::rank(), result.file_name() != nullptr ? result.file_name() : "",
                  result.line_number(), result.message());
    std::fflush(stdout);
  }
};

} // namespace

std::int64_t support::allocations() { return allocation_count; }
support::no_memory::no_memory(std::int64_t number) { failing_allocation = number > 0 ? allocation_count + number : 0; }
support::no_memory::~no_memory() { failing_allocation = 0; }
std::vector<std::shared_ptr<void>>& support::after_finalize() {
  static std::vector<std::shared_ptr<void>> kept;
  return kept;
}

// nvcc compiles operator new for the device too, where nothing throws.
static void* counted(std::size_t bytes) {
  if (++allocation_count == failing_allocation) throw std::bad_alloc();
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
// Not inlined: g++ 12 would take the pair of malloc and free for a mismatch.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return counted(bytes); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  int failed = 0;
  {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    testing::InitGoogleTest(&argc, argv);
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    if (support::rank() != 0) delete listeners.Release(listeners.default_result_printer());
    if (support::rank() != 0) listeners.Append(new failures);
    failed = RUN_ALL_TESTS();
    if (testing::UnitTest::GetInstance()->test_to_run_count() == 0) failed = 1; // a filter that fits nothing
  }
  const std::int64_t anywhere = support::over_ranks(failed);
  MPI_Finalize();
  support::after_finalize().clear();
  return anywhere == 0 ? 0 : 1;
}
