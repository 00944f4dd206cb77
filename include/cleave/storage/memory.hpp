// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/error.hpp>
#include <cleave/base/functions.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/storage/errors.hpp>

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#if defined(KOKKOS_ENABLE_CUDA) && defined(__NVCC__) && defined(__CUDACC_VER_MAJOR__) &&                \
    !defined(KOKKOS_ENABLE_IMPL_VIEW_LEGACY) && defined(MDSPAN_IMPL_USE_ATTRIBUTE_NO_UNIQUE_ADDRESS) && \
    !defined(MDSPAN_IMPL_USE_FAKE_ATTRIBUTE_NO_UNIQUE_ADDRESS)
#if __CUDACC_VER_MAJOR__ * 100 + __CUDACC_VER_MINOR__ >= 1209
#error \
    "cleave: kernels would read the Views of this Kokkos where they are not, because nvcc of CUDA 12.9 and newer lays \
them out differently on the host and on the device; take a Kokkos newer than 4.7.1, or see docs/gpu.md"
#endif
#endif

namespace cleave { inline namespace v0 {

/// Memory as an array of T.
template <class T>
CLEAVE_FUNCTION inline T* as(void* at) {
  return static_cast<T*>(at);
}
template <class T>
CLEAVE_FUNCTION inline const T* as(const void* at) {
  return static_cast<const T*>(at);
}

/// The bytes of so many elements of type T.
template <class T>
constexpr std::int64_t bytes_of(std::int64_t elements) {
  return elements * std::int64_t{sizeof(T)};
}

/// The execution space in which kernels run: Kokkos' default. The library's own tests define another one, in all files
/// of a program.
#ifdef CLEAVE_EXECUTION_SPACE
using execution_space = CLEAVE_EXECUTION_SPACE;
#else
using execution_space = Kokkos::DefaultExecutionSpace;
#endif
/// The memory space in which shards are: the memory of the execution space.
using memory_space = execution_space::memory_space;

/// Whether kernels run on the host, so that plain loops may touch the memory and nothing has to be waited for.
inline constexpr bool on_host = std::is_same_v<execution_space, Kokkos::DefaultHostExecutionSpace>;

/// Throws environment_error where Kokkos cannot be used, since using it then would abort.
inline void require_kokkos() {
  if (Kokkos::is_finalized()) raise<environment_error>(wording::finalised("Kokkos"));
  if (!Kokkos::is_initialized()) raise<environment_error>(wording::not_initialised("Kokkos"));
}

namespace detail {

/// The instance of the execution space that everything runs on. Making one allocates, so it is made at first use; a
/// hook gives it back, since instances must not outlive Kokkos.
struct kept_instance {
  static execution_space*& get() {
    static execution_space* kept = nullptr;
    return kept;
  }
  static void release() {
    delete get();
    get() = nullptr;
  }
  static const execution_space& made() {
    [[maybe_unused]] static const bool once = [] {
      require_kokkos();
      get() = new execution_space;
      Kokkos::push_finalize_hook(&kept_instance::release);
      return true;
    }();
    if (get() == nullptr) raise<environment_error>(wording::finalised("Kokkos"));
    return *get();
  }
};

/// Units `begin` to `end` of some work on the host. Behind a pointer, so that the parallel region is compiled once for
/// all kernels.
using unit_range = void (*)(const void* work, std::int64_t begin, std::int64_t end);

/// An equal share of the units for each thread.
struct shared_units {
  unit_range run;
  const void* work;
  std::int64_t units, threads;
  void operator()(std::int64_t thread) const { run(work, units * thread / threads, units * (thread + 1) / threads); }
};

/// The instance of this thread's `on_instance`, on which kernels run in place of the library's own.
struct given_instance {
  /// The instance, if it is one of `execution_space`.
  const execution_space* same = nullptr;
  /// On the host: any instance of a host space, its number of threads, and how it runs shares.
  const void* space = nullptr;
  std::int64_t threads = 1;
  void (*run)(const void* space, const char* label, const shared_units& all) = nullptr;

  static const given_instance*& current() {
    static thread_local const given_instance* now = nullptr;
    return now;
  }
};

} // namespace detail

/// The instance of the execution space on which the kernels of this thread's calls run, one after another: that of the
/// innermost `on_instance`, else the library's own. Inside of an `on_instance` of another host space it is the
/// library's own; there, nothing but `launch` runs on the given one.
inline const execution_space& execution_instance() {
  const detail::given_instance* given = detail::given_instance::current();
  return given != nullptr && given->same != nullptr ? *given->same : detail::kept_instance::made();
}

namespace detail {

/// How many threads of an instance run at the same time. With deprecated code, Kokkos has a static function here, which
/// makes another instance unless it is given one.
template <class Space>
std::int64_t concurrency_of(const Space& on) {
  if constexpr (requires { Space::concurrency(on); }) return Space::concurrency(on);
  else return on.concurrency();
}

/// How many threads of the host run the units of `launch`.
inline std::int64_t launch_threads() {
  const given_instance* given = given_instance::current();
  return given != nullptr && on_host ? given->threads : concurrency_of(execution_instance());
}

/// The host's threads alone run units; a template, lest nvcc compile them for a device.
template <class Space>
void launch_shares(const Space& on, const char* label, const shared_units& all) {
  if constexpr (Kokkos::SpaceAccessibility<Kokkos::DefaultHostExecutionSpace,
                                           typename Space::memory_space>::accessible) {
    using policy = Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>;
    Kokkos::parallel_for(label, policy(on, 0, all.threads), all);
  }
}

/// One thread, or one unit, needs no parallel region, for which OpenMP would allocate; tools see all.
inline void launch_units(const char* label, std::int64_t units, unit_range run, const void* work) {
  const std::int64_t threads = launch_threads();
  if ((units <= 1 || threads == 1) && !Kokkos::Tools::profileLibraryLoaded()) return run(work, 0, units);
  const shared_units all{run, work, units, units < threads ? units : threads};
  const given_instance* given = given_instance::current();
  if (given != nullptr && given->run != nullptr) given->run(given->space, label, all);
  else if constexpr (on_host) launch_shares(execution_instance(), label, all);
}

/// Functors of less than 4096 bytes travel with their launch: else, of those of more than 512 bytes, each would wait
/// until the one before it is on the device.
using functor_travels = Kokkos::Experimental::WorkItemProperty::HintLightWeight_t;

template <class Functor>
void run_units(const void* work, std::int64_t begin, std::int64_t end) {
  const Functor& f = *as<Functor>(work);
  for (std::int64_t i = begin; i < end; ++i) f(i);
}

} // namespace detail

/// Runs f(i) for 0 <= i < n on Kokkos' default execution space, or on the instance of an `on_instance`. The label has
/// at most 15 characters, so that passing it on allocates nothing.
template <class Functor>
void launch(const char* label, std::int64_t n, const Functor& f) {
  if constexpr (on_host) {
    detail::launch_units(label, n, &detail::run_units<Functor>, &f);
  } else {
    using policy = Kokkos::RangePolicy<execution_space, Kokkos::IndexType<std::int64_t>, detail::functor_travels>;
    Kokkos::parallel_for(label, policy(execution_instance(), 0, n), f);
  }
}

/// Waits until all kernels have finished. Call it before MPI or the host touches their memory.
inline void wait_for_kernels() {
  if constexpr (!on_host) execution_instance().fence("cleave");
}

/// Copies bytes between any two memories that Kokkos' default space or the host can reach.
template <class To = memory_space, class From = memory_space>
inline void copy_bytes(void* to, const void* from, std::int64_t bytes) {
  if (bytes == 0 || to == from) return;
  if constexpr (on_host) {
    std::memmove(to, from, as_size(bytes));
  } else {
    using unmanaged = Kokkos::MemoryTraits<Kokkos::Unmanaged>;
    const Kokkos::View<char*, To, unmanaged> target(as<char>(to), as_size(bytes));
    const Kokkos::View<const char*, From, unmanaged> source(as<char>(from), as_size(bytes));
    Kokkos::deep_copy(target, source);
  }
}

/// Memory of the host of at least so many bytes begins at a huge page, and Linux is asked to use huge pages for it:
/// loops that walk through many planes at a time would wait for the tables of small ones.
inline constexpr std::int64_t huge_page_bytes = std::int64_t{1} << 21, least_huge = 2 * huge_page_bytes;

namespace detail {

/// Asks for huge pages before memory is first touched. Where there are none, small ones serve.
inline void ask_for_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] std::int64_t bytes) {
#ifdef MADV_HUGEPAGE
  madvise(memory, as_size(bytes / huge_page_bytes * huge_page_bytes), MADV_HUGEPAGE);
#endif
}

/// How memory is taken from a space.
template <class Space>
struct memory_of_space {
  static void* take(std::int64_t bytes) { return Kokkos::kokkos_malloc<Space>("cleave", as_size(bytes)); }
  static void give_back(void* taken, std::int64_t) { Kokkos::kokkos_free<Space>(taken); }
  static void* begin(void* taken, std::int64_t) { return taken; }
};

template <>
struct memory_of_space<Kokkos::HostSpace> {
  static void* take(std::int64_t bytes) {
    void* const taken = Kokkos::HostSpace().allocate("cleave", as_size(padded(bytes)), as_size(bytes));
    if (bytes >= least_huge) ask_for_huge_pages(begin(taken, bytes), bytes);
    return taken;
  }
  static void give_back(void* taken, std::int64_t bytes) {
    Kokkos::HostSpace().deallocate("cleave", taken, as_size(padded(bytes)), as_size(bytes));
  }
  static void* begin(void* taken, std::int64_t bytes) {
    const auto at = reinterpret_cast<std::uintptr_t>(taken);
    return as<char>(taken) + (bytes < least_huge ? 0 : (std::uintptr_t{0} - at) % huge_page_bytes);
  }

 private:
  /// Kokkos aligns to lines of the cache.
  static std::int64_t padded(std::int64_t bytes) { return bytes < least_huge ? bytes : bytes + huge_page_bytes; }
};

/// Live allocations of one memory space. Kokkos aborts when memory is freed after finalize, and users' objects often
/// live that long; so what is alive at finalize is freed by a hook, and its owner finds nothing left to do.
template <class Space>
struct live_memory {
  /// An allocation, in a ring with all others; without memory when that has been freed at finalize.
  struct block {
    void* taken = nullptr;
    std::int64_t bytes = 0;
    block *previous = this, *next = this;

    void* memory() const { return taken == nullptr ? nullptr : memory_of_space<Space>::begin(taken, bytes); }
    void free() {
      if (taken != nullptr) memory_of_space<Space>::give_back(taken, bytes);
      taken = nullptr;
    }
  };
  /// The end of an owner.
  struct release {
    block* owned;

    void operator()(void*) const {
      live_memory& all = get();
      const std::lock_guard<std::mutex> guard(all.lock);
      owned->free();
      owned->previous->next = owned->next;
      owned->next->previous = owned->previous;
      delete owned;
    }
  };

  std::mutex lock{};
  block ring{};
  bool hooked = false;

  static live_memory& get() {
    // Never destroyed: owners with static lifetime may come later.
    static live_memory* all = new live_memory;
    return *all;
  }
  [[gnu::cold]] static void release_all() {
    live_memory& all = get();
    const std::lock_guard<std::mutex> guard(all.lock);
    for (block* b = all.ring.next; b != &all.ring; b = b->next) b->free();
    all.hooked = false;
  }
  [[gnu::cold]] static std::shared_ptr<void> allocate(std::int64_t bytes) {
    require_kokkos();
    live_memory& all = get();
    block* const made = new block;
    made->bytes = bytes;
    {
      const std::lock_guard<std::mutex> guard(all.lock);
      if (!all.hooked) {
        Kokkos::push_finalize_hook(&live_memory::release_all);
        all.hooked = true;
      }
      made->previous = &all.ring;
      made->next = all.ring.next;
      made->next->previous = all.ring.next = made;
      try {
        made->taken = memory_of_space<Space>::take(bytes);
      } catch (const std::exception&) {
        // The type that Kokkos throws without memory differs between releases.
      }
    }
    std::shared_ptr<void> owner(made->memory(), release{made});
    if (!owner) raise<memory_error>(wording::out_of_memory(bytes));
    return owner;
  }
};

} // namespace detail

/// Memory with shared owners; empty for 0 bytes. May be dropped after Kokkos::finalize. Throws memory_error.
template <class Space = memory_space>
std::shared_ptr<void> allocate(std::int64_t bytes) {
  if (bytes == 0) return {};
  return detail::live_memory<Space>::allocate(bytes);
}
/// Runs a function that allocates, in this library or in containers, for a caller who tells all ranks whether it
/// worked: false where there is no memory.
template <class F>
bool finds_memory(F&& allocate) {
  try {
    allocate();
    return true;
  } catch (const memory_error&) {
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  return false;
}
template <class Space = memory_space>
bool try_allocate(std::int64_t bytes, std::shared_ptr<void>& memory) {
  return finds_memory([&] { memory = allocate<Space>(bytes); });
}

/// Memory that grows and is kept, where kernels run or on the host.
template <class T, class Space = memory_space>
class kept_memory {
 public:
  T* get() const { return as<T>(memory_.get()); }
  std::int64_t elements() const { return elements_; }
  /// Memory for at least so many elements; its content is lost if it grows.
  T* at_least(std::int64_t elements) {
    if (elements > elements_) memory_ = allocate<Space>(bytes_of<T>(elements)), elements_ = elements;
    return get();
  }

 private:
  std::shared_ptr<void> memory_{};
  std::int64_t elements_ = 0;
};

/// Whether two stretches of memory have a byte in common.
inline bool share_bytes(const void* a, std::int64_t a_bytes, const void* b, std::int64_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a), second = reinterpret_cast<std::uintptr_t>(b);
  return first < second + as_size(b_bytes) && second < first + as_size(a_bytes);
}

/// Sets bytes to a value.
inline void fill_bytes(void* at, int value, std::int64_t bytes) {
  if (bytes == 0) return;
  if constexpr (on_host) {
    std::memset(at, value, as_size(bytes));
  } else {
    const Kokkos::View<char*, memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>> target(as<char>(at),
                                                                                            as_size(bytes));
    Kokkos::deep_copy(target, static_cast<char>(value));
  }
}
/// Sets bytes to zero.
inline void zero_bytes(void* at, std::int64_t bytes) { fill_bytes(at, 0, bytes); }

}} // namespace cleave::v0
