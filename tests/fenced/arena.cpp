// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "space.hpp"

#define KOKKOS_IMPL_PUBLIC_INCLUDE
#include <impl/Kokkos_ExecSpaceManager.hpp>
#include <impl/Kokkos_SharedAlloc_timpl.hpp>

#include <execinfo.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <vector>

KOKKOS_IMPL_HOST_INACCESSIBLE_SHARED_ALLOCATION_RECORD_EXPLICIT_INSTANTIATION(fenced::memory);

namespace {

constexpr std::size_t reserved = std::size_t{1} << 32, page = 4096, line = 64;

/// Says which access was stray, and lets the program die of it.
void on_fault(int signal, siginfo_t* what, void*) {
  if (fenced::arena::holds(what->si_addr)) {
    static constexpr char words[] =
        "fenced: the host touches memory of the device outside of kernels and copies, at:\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, words, sizeof words - 1);
    void* frames[32];
    backtrace_symbols_fd(frames, backtrace(frames, 32), STDERR_FILENO);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

/// All of it lies on the host's heap; the pages hold nothing but the device's data.
struct state {
  std::mutex lock{};
  char* pages = nullptr;
  int opened = 0;
  /// Pages below this offset may be touched now. None that are not in use: protecting many pages takes long.
  std::size_t open_to = 0;
  /// Sizes of free and allocated pieces by their offsets.
  std::map<std::size_t, std::size_t> free{}, taken{};
  std::size_t allocated = 0;

  state() {
    void* const at = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) std::abort();
    pages = static_cast<char*>(at);
    free[0] = reserved;
    void* warm[1];
    backtrace(warm, 1); // loads what it needs, which it must not do in a handler
    struct sigaction action{};
    action.sa_sigaction = &on_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
  }
  /// The end of the last page in use.
  std::size_t used() const {
    return taken.empty() ? 0 : (taken.rbegin()->first + taken.rbegin()->second + page - 1) / page * page;
  }
  void protect(std::size_t from, std::size_t to, int how) const {
    if (from < to && mprotect(pages + from, to - from, how) != 0) std::abort();
  }
};

state& all() {
  static state* const kept = new state;
  return *kept;
}

struct launched {
  std::vector<std::function<void()>> kernels{};
  std::size_t ran = 0;
  bool running = false;
};
launched& work() {
  static launched* const kept = new launched;
  return *kept;
}

[[maybe_unused]] const int registered = Kokkos::Impl::initialize_space_factory<fenced::device>("900_Fenced");

} // namespace

namespace fenced {

arena::opened::opened() {
  state& s = all();
  const std::lock_guard<std::mutex> guard(s.lock);
  if (s.opened++ != 0) return;
  s.open_to = s.used();
  s.protect(0, s.open_to, PROT_READ | PROT_WRITE);
}
arena::opened::~opened() {
  state& s = all();
  const std::lock_guard<std::mutex> guard(s.lock);
  if (--s.opened == 0) s.protect(0, s.open_to, PROT_NONE);
}

void* arena::allocate(std::size_t bytes) {
  state& s = all();
  const std::lock_guard<std::mutex> guard(s.lock);
  if (bytes > reserved) return nullptr;
  const std::size_t size = bytes == 0 ? line : (bytes + line - 1) / line * line;
  auto piece = s.free.begin();
  while (piece != s.free.end() && piece->second < size) ++piece;
  if (piece == s.free.end()) return nullptr;
  const auto [at, room] = *piece;
  s.free.erase(piece);
  if (room > size) s.free[at + size] = room - size;
  s.taken[at] = size;
  s.allocated += size;
  if (s.opened > 0 && s.used() > s.open_to) {
    s.protect(s.open_to, s.used(), PROT_READ | PROT_WRITE);
    s.open_to = s.used();
  }
  return s.pages + at;
}

void arena::release(void* memory) {
  state& s = all();
  const std::lock_guard<std::mutex> guard(s.lock);
  const auto found = s.taken.find(static_cast<std::size_t>(static_cast<char*>(memory) - s.pages));
  if (found == s.taken.end()) std::abort();
  s.allocated -= found->second;
  auto piece = s.free.insert(*found).first;
  s.taken.erase(found);
  if (const auto next = std::next(piece); next != s.free.end() && piece->first + piece->second == next->first) {
    piece->second += next->second;
    s.free.erase(next);
  }
  if (piece != s.free.begin()) {
    const auto before = std::prev(piece);
    if (before->first + before->second == piece->first) {
      before->second += piece->second;
      s.free.erase(piece);
    }
  }
}

bool arena::holds(const void* at) {
  const auto begin = reinterpret_cast<std::uintptr_t>(all().pages), address = reinterpret_cast<std::uintptr_t>(at);
  return address >= begin && address < begin + reserved;
}

std::size_t arena::allocated() { return all().allocated; }

void queue::add(std::function<void()> kernel) { work().kernels.push_back(std::move(kernel)); }

void queue::wait() {
  launched& w = work();
  if (w.running || w.kernels.empty()) return;
  w.running = true;
  {
    const arena::opened open;
    for (std::size_t i = 0; i < w.kernels.size(); ++i) w.kernels[i]();
  }
  w.ran += w.kernels.size();
  w.kernels.clear();
  w.running = false;
}

std::size_t queue::kernels() { return work().ran; }

void* memory::allocate(const char*, std::size_t bytes, std::size_t) const {
  void* const at = arena::allocate(bytes);
  if (at == nullptr) throw std::bad_alloc();
  return at;
}
void memory::deallocate(const char*, void* at, std::size_t, std::size_t) const {
  queue::wait();
  arena::release(at);
}

} // namespace fenced
