// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <iosfwd>
#include <string>

// A device for tests on machines without one. Its memory lies in pages that nobody may touch but kernels and copies:
// wherever the host does, the program dies and says where. Its kernels do not run when they are launched, but when they
// are waited for, so what does not wait sees old values. Kernels run on the host's thread, one after another.
//
// It stands on Kokkos' own interfaces for backends, which change between releases; written for 4.7.

namespace fenced {

/// The pages that are the device's memory.
class arena {
 public:
  /// While one lives, the host may touch the memory too: what a device does itself, and MPI that is aware of it.
  class opened {
   public:
    opened();
    ~opened();
    opened(const opened&) = delete;
    opened& operator=(const opened&) = delete;
  };
  /// nullptr where there is no memory left.
  static void* allocate(std::size_t bytes);
  static void release(void* at);
  static bool holds(const void* at);
  /// Bytes that are allocated now.
  static std::size_t allocated();
};

/// What was launched and has not run.
class queue {
 public:
  static void add(std::function<void()> kernel);
  /// Runs all of it.
  static void wait();
  /// How many kernels have run so far.
  static std::size_t kernels();
};

class device;

/// The memory of the device.
class memory {
 public:
  using memory_space = memory;
  using execution_space = device;
  using device_type = Kokkos::Device<device, memory>;
  using size_type = std::size_t;

  void* allocate(std::size_t bytes) const { return allocate("", bytes); }
  void* allocate(const char* label, std::size_t bytes, std::size_t logical = 0) const;
  template <class Execution>
  void* allocate(const Execution&, std::size_t bytes) const {
    return allocate("", bytes);
  }
  template <class Execution>
  void* allocate(const Execution&, const char* label, std::size_t bytes, std::size_t logical = 0) const {
    return allocate(label, bytes, logical);
  }
  void deallocate(void* at, std::size_t bytes) const { deallocate("", at, bytes); }
  void deallocate(const char* label, void* at, std::size_t bytes, std::size_t logical = 0) const;

  static constexpr const char* name() { return "Fenced"; }
};

/// The device. It has the threads and the teams of Kokkos::Serial.
class device {
 public:
  using execution_space = device;
  using memory_space = memory;
  using device_type = Kokkos::Device<device, memory>;
  using size_type = std::size_t;
  using array_layout = Kokkos::LayoutRight;
  using scratch_memory_space = Kokkos::Serial::scratch_memory_space;

  void fence(const std::string& = "") const { queue::wait(); }
  static void impl_static_fence(const std::string&) { queue::wait(); }
  static void impl_initialize(const Kokkos::InitializationSettings&) {}
  static bool impl_is_initialized() { return Kokkos::is_initialized(); }
  static void impl_finalize() { queue::wait(); }
  void print_configuration(std::ostream&, bool = false) const {}
  int concurrency() const { return 1; }
  std::uint32_t impl_instance_id() const noexcept { return 1; }
  static const char* name() { return "Fenced"; }
  Kokkos::Impl::SerialInternal* impl_internal_space_instance() const { return host_.impl_internal_space_instance(); }

  friend bool operator==(const device& x, const device& y) { return x.host_ == y.host_; }
  friend bool operator!=(const device& x, const device& y) { return !(x == y); }

 private:
  Kokkos::Serial host_{};
};

/// Launches what Kokkos::Serial would run at once.
template <class Kernel>
void launch(const Kernel& kernel) {
  queue::add([kernel] { kernel.execute(); });
}

} // namespace fenced

namespace KokkosBlas {

/// In place of the vendor's BLAS of a device; c = alpha * a * b + beta * c, real numbers.
template <class A, class B, class C>
void gemm(const fenced::device&, const char turned_a[], const char turned_b[], typename A::const_value_type& alpha,
          const A& a, const B& b, typename C::const_value_type& beta, const C& c) {
  const bool of_a = *turned_a != 'N', of_b = *turned_b != 'N';
  fenced::queue::add([=] {
    const std::size_t terms = a.extent(of_a ? 0 : 1);
    for (std::size_t i = 0; i < c.extent(0); ++i)
      for (std::size_t j = 0; j < c.extent(1); ++j) {
        typename C::non_const_value_type sum = 0;
        for (std::size_t k = 0; k < terms; ++k) sum += (of_a ? a(k, i) : a(i, k)) * (of_b ? b(j, k) : b(k, j));
        c(i, j) = beta == 0 ? alpha * sum : alpha * sum + beta * c(i, j);
      }
  });
}

} // namespace KokkosBlas

KOKKOS_IMPL_HOST_INACCESSIBLE_SHARED_ALLOCATION_SPECIALIZATION(fenced::memory);

namespace Kokkos {

template <>
struct Tools::Experimental::DeviceTypeTraits<fenced::device> {
  static constexpr DeviceType id = DeviceType::Unknown;
  static int device_id(const fenced::device&) { return 0; }
};

namespace Impl {

template <>
struct MemorySpaceAccess<HostSpace, fenced::memory> {
  enum : bool { assignable = false, accessible = false, deepcopy = true };
};
template <>
struct MemorySpaceAccess<fenced::memory, HostSpace> {
  enum : bool { assignable = false, accessible = false, deepcopy = true };
};
template <>
struct MemorySpaceAccess<fenced::memory, fenced::device::scratch_memory_space> {
  enum : bool { assignable = false, accessible = true, deepcopy = false };
};

/// Kokkos' own checks refuse the host's thread, on which the kernels run; the pages tell kernels from others.
template <class Execution>
struct RuntimeCheckMemoryAccessViolation<fenced::memory, Execution, false> {
  RuntimeCheckMemoryAccessViolation(const char*) {}
};
template <class Execution>
struct RuntimeCheckBasicViewMemoryAccessViolation<fenced::memory, Execution, false> {
  RuntimeCheckBasicViewMemoryAccessViolation(const SharedAllocationTracker&) {}
};

/// Sorts where the keys are: without this, Kokkos would sort on the host, where comparing touches them.
template <class Comparator, class Data, class... Properties>
void sort_device_view_with_comparator(const fenced::device&, const View<Data, Properties...>& view,
                                      const Comparator& comparator) {
  fenced::queue::add([view, comparator] { std::sort(view.data(), view.data() + view.size(), comparator); });
}

template <class Data, class... Properties>
void sort_device_view_without_comparator(const fenced::device&, const View<Data, Properties...>& view) {
  fenced::queue::add([view] { std::sort(view.data(), view.data() + view.size()); });
}

struct fenced_copy {
  fenced_copy(void* to, const void* from, std::size_t bytes) {
    fenced::queue::wait();
    const fenced::arena::opened open;
    std::memmove(to, from, bytes);
  }
  template <class Execution>
  fenced_copy(const Execution& on, void* to, const void* from, std::size_t bytes) : fenced_copy(to, from, bytes) {
    on.fence("copy");
  }
};
template <class Execution>
struct DeepCopy<fenced::memory, fenced::memory, Execution> : fenced_copy {
  using fenced_copy::fenced_copy;
};
template <class Execution>
struct DeepCopy<fenced::memory, HostSpace, Execution> : fenced_copy {
  using fenced_copy::fenced_copy;
};
template <class Execution>
struct DeepCopy<HostSpace, fenced::memory, Execution> : fenced_copy {
  using fenced_copy::fenced_copy;
};

template <class Functor, class... Traits>
class ParallelFor<Functor, RangePolicy<Traits...>, fenced::device>
    : public ParallelFor<Functor, RangePolicy<Traits...>, Serial> {
  using on_host = ParallelFor<Functor, RangePolicy<Traits...>, Serial>;

 public:
  using on_host::on_host;
  void execute() const { fenced::launch<on_host>(*this); }
};

/// Kokkos' own copies between Views of other memory layouts.
template <class Functor, class... Traits>
class ParallelFor<Functor, MDRangePolicy<Traits...>, fenced::device>
    : public ParallelFor<Functor, MDRangePolicy<Traits...>, Serial> {
  using on_host = ParallelFor<Functor, MDRangePolicy<Traits...>, Serial>;

 public:
  using on_host::on_host;
  void execute() const { fenced::launch<on_host>(*this); }
};

/// Into a number of the host, for which Kokkos waits.
template <class Reducer, class... Traits>
class ParallelReduce<Reducer, RangePolicy<Traits...>, fenced::device>
    : public ParallelReduce<Reducer, RangePolicy<Traits...>, Serial> {
  using on_host = ParallelReduce<Reducer, RangePolicy<Traits...>, Serial>;

 public:
  using on_host::on_host;
  void execute() const { fenced::launch<on_host>(*this); }
};

template <class Functor, class... Properties>
class ParallelFor<Functor, TeamPolicy<Properties...>, fenced::device> {
  using policy = TeamPolicy<Properties...>;
  struct kernel {
    Functor functor;
    int league;
    std::size_t scratch;
    void execute() const {
      SerialInternal* const on = Serial().impl_internal_space_instance();
      on->resize_thread_team_data(0, 512, scratch, 0);
      for (int i = 0; i < league; ++i) {
        const typename policy::member_type member(on->m_thread_team_data, i, league);
        if constexpr (std::is_void_v<typename policy::work_tag>) functor(member);
        else functor(typename policy::work_tag{}, member);
      }
    }
  };
  kernel kernel_;

 public:
  ParallelFor(const Functor& f, const policy& p)
      : kernel_{f, p.league_size(),
                p.scratch_size(0) + p.scratch_size(1) + std::size_t(FunctorTeamShmemSize<Functor>::value(f, 1))} {}
  void execute() const { fenced::launch(kernel_); }
};

template <class... Properties>
class TeamPolicyInternal<fenced::device, Properties...> : public TeamPolicyInternal<Serial, Properties...> {
  using on_host = TeamPolicyInternal<Serial, Properties...>;
  fenced::device space_{};

 public:
  using execution_policy = TeamPolicyInternal;
  using execution_space = fenced::device;
  template <class... Sizes>
  TeamPolicyInternal(const fenced::device& on, Sizes... sizes) : on_host(Serial(), sizes...), space_(on) {}
  template <class... Sizes>
  TeamPolicyInternal(int league, Sizes... sizes) : on_host(Serial(), league, sizes...) {}
  const fenced::device& space() const { return space_; }
};

} // namespace Impl
} // namespace Kokkos
