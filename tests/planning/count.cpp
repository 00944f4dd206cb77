// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts the calls and allocations of planning: the compiler pays for each of them, some 7,000 times more than a
// compiled planner does. The program is the training step of bench/compile/vision_model.hpp on abstract tensors.
// It is compiled without optimisation, and each function of the library counts its calls (-finstrument-functions), so
// the numbers are the same on every machine. A pass that copies the assignment for each change that it tries, or that
// calls a function for each word of it, exceeds the limits. Calls of the library's vector count, those of the standard
// library do not.
#include "vision_model.hpp"

#include <cleave/plan/plan.hpp>

#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

std::size_t calls = 0, allocations = 0;

} // namespace

extern "C" {
__attribute__((no_instrument_function)) void __cyg_profile_func_enter(void*, void*) { ++calls; }
__attribute__((no_instrument_function)) void __cyg_profile_func_exit(void*, void*) {}
}
void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes == 0 ? 1 : bytes)) return p;
  std::abort();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace {

bool all_within = true;

/// Runs a pass, says what it took, and whether that is at most what the pass may take.
template <class Pass>
auto counted(const char* name, std::size_t most_calls, std::size_t most_allocations, const Pass& pass) {
  const std::size_t calls_before = calls, allocations_before = allocations;
  auto made = pass();
  const std::size_t c = calls - calls_before, a = allocations - allocations_before;
  const bool ok = c <= most_calls && a <= most_allocations;
  std::printf("%-10s %8zu calls (at most %zu), %5zu allocations (at most %zu)%s\n", name, c, most_calls, a,
              most_allocations, ok ? "" : ": TOO MANY");
  all_within = all_within && ok;
  return made;
}

} // namespace

int main() {
  using namespace cleave;
  using of = vision::types<abstract>;
  using signature = std::tuple<of::Network, of::State, of::Number>(of::Network, of::State, of::Images, of::Labels,
                                                                   float);
  using body = std::remove_cvref_t<decltype(vision::step)>;
  const policy rule = policy::time();
  const graph recorded = counted("record", 83000, 181, [] { return recording<body, signature>::record(); });
  const named_size expected[] = {vision::batch = 48, vision::layer = 2,   vision::embed = 32, vision::heads = 4,
                                 vision::head = 8,   vision::hidden = 64, vision::data = 2,   vision::model = 2};
  const sizes at = sizes_for(recorded, expected);
  graph g = counted("simplify", 20000, 27, [&] { return simplify(recorded); });
  const choice chosen = counted("choose", 494000, 135, [&] { return choose(g, at, rule); });
  const program made = counted("lower", 404000, 147, [&] { return lower(g, chosen, at, rule); });
  std::printf("nodes %zu, steps %zu\n", g.nodes.size(), made.steps.size());
  if (!made.found.ok() || g.nodes.size() < 500) {
    std::puts("this is not the program that was counted");
    return 1;
  }
  return all_within ? 0 : 1;
}
