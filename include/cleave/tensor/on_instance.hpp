// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/storage/memory.hpp>

#include <type_traits>
#include <utility>

// Calls on an execution space instance of the caller: a stream, a part of the threads, or Serial beside OpenMP.

namespace cleave { inline namespace v0 {

namespace detail {

/// Whether kernels can run on an instance of this space: one of the library's own, or of any space of the host where
/// the library runs on the host.
template <class Space>
inline constexpr bool is_usable_space =
    std::is_same_v<Space, execution_space> ||
    (on_host && Kokkos::SpaceAccessibility<Space, memory_space>::accessible &&
     Kokkos::SpaceAccessibility<Kokkos::DefaultHostExecutionSpace, typename Space::memory_space>::accessible);

} // namespace detail

/// While one lives, the calls of this thread run their kernels on this instance: statements, functions, copies, and
/// `launch` in kernels of yours. `execution_instance()` is the instance, if its type is `execution_space`. Instances
/// may be nested; the innermost counts. They end in the reverse order, on the thread that made them, before
/// Kokkos::finalize.
///
/// Calls are asynchronous with respect to the instance: kernels of yours on the same instance run after those of the
/// calls before them without a fence. The instance is fenced where MPI or the host is about to read or write what
/// kernels compute. Where the instance is another one than that of the calls before, these are fenced at the beginning,
/// and the calls on this one at the end, since all calls on a grid share its workspace. On the host calls return when
/// their kernels have run. BLAS and FFTW use their own threads. No communication: ranks may use different instances.
template <class Space>
  requires(Kokkos::is_execution_space_v<Space> && detail::is_usable_space<Space>)
class on_instance {
 public:
  explicit on_instance(const Space& space) : space_(space), before_(detail::given_instance::current()) {
    require_kokkos();
    given_.space = &space_;
    given_.threads = detail::concurrency_of(space_);
    if constexpr (on_host) given_.run = &run_shares;
    if constexpr (std::is_same_v<Space, execution_space>) {
      given_.same = &space_;
      fence_if_other();
    }
    detail::given_instance::current() = &given_;
  }
  on_instance(const on_instance&) = delete;
  on_instance& operator=(const on_instance&) = delete;
  ~on_instance() {
    detail::given_instance::current() = before_;
    if constexpr (!on_host)
      if (execution_instance() != space_) space_.fence("cleave: end of an on_instance");
  }

 private:
  void fence_if_other() const {
    if constexpr (!on_host)
      if (execution_instance() != space_) wait_for_kernels();
  }
  static void run_shares(const void* space, const char* label, const detail::shared_units& all) {
    detail::launch_shares(*static_cast<const Space*>(space), label, all);
  }

  Space space_;
  detail::given_instance given_{};
  const detail::given_instance* before_;
};

/// Calls f() on an instance: `on(space, [&] { u = sweep(u); })`, and returns what it returns. Calls inside run as
/// while an `on_instance` lives.
template <class Space, class F>
decltype(auto) on(const Space& space, F&& f) {
  const on_instance here(space);
  return std::forward<F>(f)();
}

}} // namespace cleave::v0
