// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/execute/bound_program.hpp>
#include <cleave/execute/call_checks.hpp>
#include <cleave/storage/memory.hpp>

#include <memory>

namespace cleave { inline namespace v0 {

/// Runs one plan for one set of sizes on one grid. Binding computes all that depends on sizes and allocates the
/// workspace; running walks the steps, allocates nothing and decides nothing.
class executor {
 public:
  /// Collective over the grid. The plan outlives the executor, and so do strides that are not those of contiguous
  /// shards.
  executor(grid_state& grid, const sizes& at, const runnable& code, const given_strides* given = nullptr)
      : grid_(grid), program_(grid, at, code, given), numbers_(code.program) {}

  /// Allocates the memory that a run needs beside these addresses; returns the bytes that could not be allocated.
  [[gnu::cold]] std::int64_t prepare(const void* const* inputs, void* const* outputs) {
    return program_.prepare(inputs, outputs);
  }
  /// Collective over the grid. Shards of the arguments and of the results, in order; a result may be the memory of an
  /// argument.
  void run(const void* const* inputs, void* const* outputs) {
    const bindings::running running(grid_.bound());
    program_.start(inputs, outputs);
    try {
      program_.run();
    } catch (const mpi_error&) {
      program_.abandon();
      throw;
    } catch (const agreement_error&) {
      // The other ranks make other calls, so moves in flight cannot be finished.
      program_.abandon();
      throw;
    } catch (...) {
      try {
        program_.finish_exchanges();
      } catch (...) {
        // Messages stay in flight, so the ranks are out of step from now on.
        program_.abandon();
        throw;
      }
      throw;
    }
    program_.finish(outputs);
  }
  std::int64_t workspace_bytes() const { return program_.workspace_bytes(); }
  const number_checks& numbers() const { return numbers_; }

 private:
  grid_state& grid_;
  bound_program program_;
  number_checks numbers_;
};

/// What there must be for a plan to be bound, apart from its workspace: usually much more than it takes.
inline constexpr std::int64_t bytes_to_bind = 1 << 20;
/// Lists of the standard library, not arrays for kernels. Volatile, lest the compiler leaves the memory out.
[[gnu::cold]] inline void probe_memory_to_bind() {
  void* volatile memory = ::operator new(bytes_to_bind);
  ::operator delete(memory);
}

/// The executor of a plan on a grid, made at the first call with these extents and kept with the grid. `extents` has
/// one number for each dim of the plan; `complete` turns them into the sizes to bind and is called only if there is no
/// executor yet.
template <class Complete>
executor& executor_for(grid_state& grid, const runnable& code, indexed_span<const std::int64_t> extents,
                       const Complete& complete) {
  void* found = grid.bound().find(&code, extents);
  if (found == nullptr) {
    // Completing may throw; nothing is kept then.
    const sizes at = complete();
    // Ranks communicate while they bind, so that one without memory would leave the others waiting.
    grid.agree_on_memory(finds_memory(&probe_memory_to_bind), bytes_to_bind, "the binding of a plan");
    grid.bound().make_room(&code);
    grid.guarded(
        [&] { found = grid.bound().keep(&code, extents, std::shared_ptr<void>(new executor(grid, at, code))); });
  }
  return *as<executor>(found);
}
/// The same for sizes that are complete.
template <class Plan>
executor& executor_for(grid_state& grid, const sizes& at) {
  const indexed_span<const std::int64_t> dims(at.dims);
  return executor_for(grid, runnable_of<Plan>, dims.first(Plan::frozen.dims.size()), [&] { return at; });
}

}} // namespace cleave::v0
