// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/environment.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/comm/recorded_calls.hpp>
#include <cleave/ops/table.hpp>
#include <cleave/watch/trace.hpp>

#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <system_error>
#include <thread>

// Reads the record of calls of this process: prints it, and ends a process that waits for too long.

namespace cleave { inline namespace v0 {
namespace comm {

/// The rank and the host with which the lines of this process begin.
struct process_name {
  std::atomic<int> rank{-1}, ranks{0};
  char host[64] = "";
};
inline constinit process_name name_of_process{};

/// The record of this process as text. Uses nothing that a handler of a signal may not use.
class calls_text {
 public:
  /// `waited`: the seconds after which the process ends; 0: it continues.
  [[gnu::cold]] explicit calls_text(double waited = 0) {
    if (waited > 0) {
      begin_line(0);
      add(" has waited for others within a call for ").add(static_cast<std::uint64_t>(waited));
      add(" s, and ends, since no call of MPI can be given up\n");
    }
    for (std::size_t i = 0; i < call_rings; ++i)
      if (rings_of_calls[i].number.load(std::memory_order_acquire) != 0) add_ring(rings_of_calls[i], i);
  }
  /// At once, so that the lines of ranks do not mix.
  void write() const {
    for (std::size_t done = 0; done < length_;) {
      const ::ssize_t n = ::write(STDERR_FILENO, text_ + done, length_ - done);
      if (n <= 0) return;
      done += static_cast<std::size_t>(n);
    }
  }
  std::string_view view() const { return {text_, length_}; }

 private:
  [[gnu::cold, gnu::noinline]] calls_text& add(std::string_view words) {
    const std::size_t n = std::min(words.size(), sizeof text_ - 1 - length_);
    for (std::size_t i = 0; i < n; ++i) text_[length_ + i] = words[i];
    length_ += n;
    return *this;
  }
  [[gnu::cold, gnu::noinline]] calls_text& add(std::uint64_t number, unsigned base = 10) {
    char digits[20];
    std::size_t n = sizeof digits;
    do digits[--n] = "0123456789abcdef"[number % base];
    while ((number /= base) != 0);
    return add({digits + n, sizeof digits - n});
  }
  [[gnu::cold]] void begin_line(std::size_t thread) {
    add("cleave: rank ").add(as_size(std::max(name_of_process.rank.load(), 0)));
    if (thread != 0) add(", thread ").add(thread);
  }
  [[gnu::cold]] void add_ring(call_ring& ring, std::size_t thread) {
    const std::uint64_t last = ring.number.load(std::memory_order_acquire);
    const std::uint64_t inside = ring.current.load();
    begin_line(thread);
    add(" of ").add(as_size(name_of_process.ranks.load())).add(", process ").add(as_size(::getpid())).add(" on ");
    add(name_of_process.host).add(inside != 0 ? " is inside call " : " is outside of the library, after call ");
    add(inside != 0 ? inside : last).add("\n");
    for (std::uint64_t c = last < call_ring::shown ? 1 : last - call_ring::shown + 1; c <= last; ++c) {
      const recorded_call& call = ring.of(c);
      if (call.number.load() != c) continue;
      begin_line(thread);
      add(call.inside.load() ? ": INSIDE call " : ":   made call ").add(c).add(", ");
      add_call(call);
      add("\n");
      if (!call.inside.load() || call.count.load() == 0) continue;
      begin_line(thread);
      add(":   ");
      add_place(call);
      add("\n");
    }
  }
  [[gnu::cold]] void add_call(const recorded_call& call) {
    const step* const steps = call.steps.load();
    const auto count = as_size(call.count.load());
    if (const char* const name = call.name.load(); name != nullptr) {
      add(name);
    } else {
      // As checked mode names it: by the first step that has a line.
      std::size_t named = 0;
      while (named + 1 < count && steps[named].where.line == 0) ++named;
      if (count == 0) add("a copy of arguments");
      else add_operation(steps[steps[named].where.line != 0 ? named : 0]);
    }
    if (const std::uintptr_t from = call.from.load(); from > program_begin())
      add(", called from 0x").add(from - program_begin(), 16);
  }
  /// Where in the call this process is.
  [[gnu::cold]] void add_place(const recorded_call& call) {
    const step *const steps = call.steps.load(), *const at = call.at.load();
    // While the call ends, another one may take its place: then the two are of different plans.
    const std::less<> before;
    if (at == nullptr || before(at, steps) || !before(at, steps + call.count.load()))
      return void(add("before its first step"));
    add("step ").add(as_size(at - steps) + 1).add(" of ").add(as_size(call.count.load())).add(": ");
    if (at->kind != step_kind::wait) add_step(*at);
    if (at->kind != step_kind::wait && (at == steps || at[-1].kind != step_kind::wait)) {
      if (is_collective(*at)) add(", ").add(as_size(call.bytes.load())).add(" bytes");
      return;
    }
    // A map waits itself for the halo that the wait before it is for.
    add(at->kind == step_kind::wait ? "wait for " : " after ");
    add_step(steps[(at->kind == step_kind::wait ? at : at - 1)->begun]);
    add(", ").add(as_size(call.bytes.load())).add(" bytes");
  }
  [[gnu::cold]] void add_step(const step& s) {
    if (is_collective(s)) add(name_of(s.move)).add(" for ");
    add_operation(s);
  }
  [[gnu::cold]] void add_operation(const step& s) {
    add(s.gradient ? "gradient of " : "");
    add(class_of(s.code) == op_class::reduction ? name_of(s.combine) : name_of(s.code));
    if (s.where.line != 0) add(" at ").add(s.where.name()).add(":").add(s.where.line);
  }

  char text_[4096];
  std::size_t length_ = 0;
};

/// Whether a thread waits for other ranks in a call, if it does nothing, and for longer than it may.
[[gnu::cold]] inline bool waits_too_long(call_ring& ring, double seconds) {
  const std::uint64_t number = ring.current.load();
  recorded_call& call = ring.of(number);
  // Calls within the call may have taken its place in the ring.
  if (number == 0 || call.number.load() != number || call.limit.load() == 0 || seconds < call.limit.load())
    return false;
  const step *const steps = call.steps.load(), *const at = call.at.load();
  if (at == nullptr || at->kind == step_kind::wait) return true;
  // A map waits itself for the halo that the wait before it is for. Look-ups and sorts compute for long as well.
  if (at->kind == step_kind::map) return at != steps && at[-1].kind == step_kind::wait;
  return is_collective(*at) && (at->kind == step_kind::move || at->kind == step_kind::exchange);
}
/// Watches the calls of this process, by a thread that never ends, as the record does not: prints the record after each
/// `limit` seconds in which it made no call and no step of one, if there is such a limit; and ends the process, with
/// the record, if it waits in a call for longer than checked mode lets it. Nothing else ends a wait of MPI.
[[gnu::cold]] inline void watch_calls(double limit) {
  static std::atomic<bool> watched{false};
  if (watched.exchange(true)) return;
  // The handlers of the program run on its own threads.
  ::sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread([limit] {
      using clock = std::chrono::steady_clock;
      std::uint64_t seen = 0;
      clock::time_point since = clock::now();
      for (bool printed = false;;) {
        std::this_thread::sleep_for(std::chrono::duration<double>(limit > 0 ? std::min(limit / 8, 1.0) : 0.5));
        const auto counted = [] {
          std::uint64_t n = 0;
          for (const call_ring& r : rings_of_calls) n += r.number.load() + r.steps.load();
          return n;
        };
        const std::uint64_t now = counted();
        if (now != seen) seen = now, since = clock::now(), printed = false;
        const double idle = std::chrono::duration<double>(clock::now() - since).count();
        for (call_ring& r : rings_of_calls)
          // Counted once more: it may have entered the call a moment ago.
          if (waits_too_long(r, idle) && counted() == seen) {
            calls_text(idle).write();
            trace_file::own().flush();
            std::_Exit(EXIT_FAILURE);
          }
        if (printed || limit <= 0 || idle < limit) continue;
        calls_text().write();
        printed = true;
      }
    }).detach();
  } catch (const std::system_error&) {
    // No rank may throw alone here: this one prints nothing by itself.
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}
/// The signal of CLEAVE_PRINT_CALLS; 0 if there is none. Throws environment_error if it is none of these.
[[gnu::cold]] inline int signal_of_environment() {
  const std::string_view word = word_of_environment("CLEAVE_PRINT_CALLS", {"", "USR1", "USR2"});
  return word.empty() ? 0 : word == "USR1" ? SIGUSR1 : SIGUSR2;
}

/// Once in each process, with its first grid: sets the name, and starts the watch and the handler that the environment
/// asks for.
[[gnu::cold]] inline void begin_recording(int rank, int ranks, double limit) {
  if (name_of_process.ranks.exchange(ranks) != 0) return;
  name_of_process.rank = rank;
  begin_trace(rank);
  ::gethostname(name_of_process.host, sizeof name_of_process.host - 1);
  const char* const given = std::getenv("CLEAVE_TIME_LIMIT");
  if (given != nullptr && *given != '\0') watch_calls(limit);
  if (const int signal = signal_of_environment(); signal != 0) {
    struct ::sigaction action{};
    action.sa_handler = [](int) {
      const int kept = errno;
      calls_text().write();
      errno = kept;
    };
    action.sa_flags = SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}

/// Watches the calls of a process with grids.
inline constexpr call_watcher watched_calls{[] { signal_of_environment(); }, &begin_recording, [] { watch_calls(0); }};

} // namespace comm

/// Writes the last six calls of this process to standard error: its rank, and of each call the operation, its line, and
/// whether the process is inside it, and at which step. A handler of a signal may call it, and a debugger.
/// CLEAVE_PRINT_CALLS=USR1 in the environment makes it the handler of that signal, and CLEAVE_TIME_LIMIT=60 has it
/// called when a process does nothing with the library for so many seconds.
inline void print_calls() noexcept { comm::calls_text().write(); }

}} // namespace cleave::v0
