// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/program/program_view.hpp>

#include <atomic>
#include <cstdint>

// The last calls of a process, for the question which rank hangs and where. Writing them takes a few stores; they are
// read by the handler of a signal or by another thread, while the call runs or hangs (watch/calls.hpp).

namespace cleave { inline namespace v0 { namespace comm {

/// A call of the library. Numbers begin with 1.
struct recorded_call {
  std::atomic<std::uint64_t> number{0};
  /// Its name, if it has no plan.
  std::atomic<const char*> name{nullptr};
  /// The steps of its plan, the one that runs now, and the bytes of the result of a collective here.
  std::atomic<const step*> steps{nullptr}, at{nullptr};
  std::atomic<std::int64_t> count{0}, bytes{0};
  /// Where it is in the program.
  std::atomic<std::uintptr_t> from{0};
  std::atomic<bool> inside{false};
  /// Seconds that the process may wait in it for others; 0: without end.
  std::atomic<double> limit{0};
};

/// The calls of one thread.
struct call_ring {
  static constexpr std::size_t kept = 16, shown = 6;
  recorded_call calls[kept]{};
  /// How many calls there were, how many steps ran in them, and the innermost call that has not returned; 0 if none.
  std::atomic<std::uint64_t> number{0}, steps{0}, current{0};
  std::atomic<bool> taken{false};

  recorded_call& of(std::uint64_t call) { return calls[call % kept]; }
};

/// The rings of all threads; more threads than rings share the last one. None of this is ever destroyed.
inline constexpr std::size_t call_rings = 8;
inline constinit call_ring rings_of_calls[call_rings]{};
inline constinit thread_local call_ring* ring_of_thread = nullptr;

[[gnu::cold]] inline call_ring& take_ring() {
  struct giver {
    ~giver() { ring_of_thread->taken.store(false); }
  };
  std::size_t i = 0;
  while (i + 1 < call_rings && rings_of_calls[i].taken.exchange(true)) ++i;
  ring_of_thread = &rings_of_calls[i];
  if (i + 1 < call_rings) static thread_local const giver at_end;
  return *ring_of_thread;
}
inline call_ring& own_ring() { return ring_of_thread != nullptr ? *ring_of_thread : take_ring(); }

/// The beginning of the program in memory: addresses in its file count from there.
#if defined(__linux__)
extern "C" [[gnu::weak, gnu::visibility("hidden")]] const char __ehdr_start[]; // NOLINT(bugprone-reserved-identifier)
inline std::uintptr_t program_begin() { return reinterpret_cast<std::uintptr_t>(__ehdr_start); }
#else
inline std::uintptr_t program_begin() { return 0; }
#endif

/// The address of this code, where it is inlined. Volatile, since it is another one at each place.
[[gnu::always_inline]] inline const void* address_of_call() {
  const void* here = nullptr;
#if defined(__x86_64__)
  asm volatile("lea 0(%%rip), %0" : "=r"(here));
#elif defined(__aarch64__)
  asm volatile("adr %0, ." : "=r"(here));
#endif
  return here;
}

/// The writer of a trace, with the time of each call and step (watch/trace.hpp).
class call_tracer {
 public:
  call_tracer() = default;
  call_tracer(const call_tracer&) = delete;
  call_tracer& operator=(const call_tracer&) = delete;
  virtual ~call_tracer() = default;

  /// Microseconds.
  virtual double now() const = 0;
  /// A step that has run since `begin`, with the bytes of its result here, or of the messages that it waits for.
  virtual void add(const step& s, std::int64_t bytes, double begin) = 0;
  /// A call, and the first step of its plan that has a line, or null.
  virtual void add(const char* call, const step* first, double begin) = 0;
};
/// That of this process; null: none.
inline constinit std::atomic<call_tracer*> tracer{nullptr};

/// A part of a run that ends with this object, or where the next one begins.
class traced {
 public:
  traced() = default;
  traced(const traced&) = delete;
  traced& operator=(const traced&) = delete;
  ~traced() { end(); }
  void begin(const step& s, std::int64_t bytes) {
    const call_tracer* const to = tracer.load(std::memory_order_acquire);
    if (to == nullptr) return;
    end();
    step_ = &s;
    bytes_ = bytes;
    since_ = to->now();
  }
  /// A call by its name, or of a plan, which has the first line of its steps.
  void begin(const char* call, indexed_span<const step> plan) {
    const call_tracer* const to = tracer.load(std::memory_order_acquire);
    if (to == nullptr) return;
    call_ = call != nullptr ? call : "call of a plan";
    for (std::size_t i = plan.size(); i-- > 0;)
      if (plan[i].where.line != 0) first_ = &plan[i];
    since_ = to->now();
  }

 private:
  void end() {
    if (step_ == nullptr && call_ == nullptr) return;
    call_tracer* const to = tracer;
    if (to != nullptr && step_ != nullptr) to->add(*step_, bytes_, since_);
    if (to != nullptr && call_ != nullptr) to->add(call_, first_, since_);
  }

  const step *step_ = nullptr, *first_ = nullptr;
  const char* call_ = nullptr;
  std::int64_t bytes_ = 0;
  double since_ = 0;
};

/// While it lives, the call is one that this process is in.
class recorded {
 public:
  explicit recorded(const char* name) { begin(name, {}, nullptr); }
  recorded(indexed_span<const step> plan, const void* from) { begin(nullptr, plan, from); }
  recorded(const recorded&) = delete;
  recorded& operator=(const recorded&) = delete;
  ~recorded() {
    constexpr auto order = std::memory_order_relaxed;
    // Calls within the call may have taken its place in the ring.
    if (recorded_call& call = ring_.of(number_); call.number.load(order) == number_) call.inside.store(false, order);
    ring_.current.store(outer_, order);
  }

 private:
  void begin(const char* name, indexed_span<const step> plan, const void* from) {
    constexpr auto order = std::memory_order_relaxed;
    recorded_call& call = ring_.of(number_);
    call.name.store(name, order);
    call.steps.store(plan.data(), order);
    call.count.store(std::ssize(plan), order);
    call.at.store(nullptr, order);
    call.from.store(reinterpret_cast<std::uintptr_t>(from), order);
    call.limit.store(0, order);
    call.inside.store(true, order);
    call.number.store(number_, order);
    ring_.current.store(number_, order);
    ring_.number.store(number_, std::memory_order_release);
    trace_.begin(name, plan);
  }

  call_ring& ring_ = own_ring();
  const std::uint64_t outer_ = ring_.current.load(std::memory_order_relaxed);
  const std::uint64_t number_ = ring_.number.load(std::memory_order_relaxed) + 1;
  traced trace_;
};

/// Notes in the call that this thread is in which step of its plan runs.
class step_recorder {
 public:
  void note(const step& s, std::int64_t bytes, std::int64_t result) {
    constexpr auto order = std::memory_order_relaxed;
    ring_.steps.store(ring_.steps.load(order) + 1, order);
    trace_.begin(s, s.kind == step_kind::wait ? bytes : result);
    // Many calls within this one may have taken its place in the ring.
    if (call_.number.load(order) != number_) return;
    call_.at.store(&s, order);
    call_.bytes.store(bytes, order);
  }

 private:
  call_ring& ring_ = own_ring();
  const std::uint64_t number_ = ring_.current.load(std::memory_order_relaxed);
  recorded_call& call_ = ring_.of(number_);
  traced trace_;
};

/// The recorder of the calls of this process, from its first grid on.
struct call_watcher {
  /// Reads its settings from the environment. Throws environment_error.
  void (*read_environment)();
  /// Begins, once in each process. `limit`: seconds, see checks.
  void (*begin)(int rank, int ranks, double limit);
  /// From now on calls have limits, and a process that waits for longer in one ends.
  void (*enforce_limits)();
};
inline constinit std::atomic<const call_watcher*> watcher{nullptr};

/// From now on the call in which this thread is may wait for so many seconds.
[[gnu::cold]] inline void limit_call(double seconds) {
  call_ring& ring = own_ring();
  const std::uint64_t number = ring.current.load();
  if (recorded_call& call = ring.of(number); call.number.load() == number) call.limit.store(seconds);
  if (const call_watcher* const watch = watcher; watch != nullptr) watch->enforce_limits();
}

}}} // namespace cleave::v0::comm
