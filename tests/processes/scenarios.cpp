// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What only a process of its own can show: MPI or Kokkos missing or finalised, no memory, ranks that die or leave. The
// argument names the scenario; run.py says what must come of it.
#include <cleave/cleave.hpp>
#include <cleave/redistribute/distributions.hpp>
#include <cleave/redistribute/slabs.hpp>
#include <cleave/sparse/assemble.hpp>

#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

namespace {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::mesh mesh{data};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"item"> item;
using Rows = cleave::tensor<double, mesh(row / data, col)>;
using Number = cleave::tensor<double, mesh()>;

int ranks() {
  int n = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  return n;
}
int rank() {
  int r = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &r);
  return r;
}
cleave::grid all_ranks(cleave::checks c = {}) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {ranks()});
  if (c.any()) g.check(c);
  return g;
}
constexpr cleave::checks checked{.calls = true, .time_limit = 3};

/// MPI and Kokkos as far as a scenario has them.
struct session {
  std::optional<Kokkos::ScopeGuard> kokkos;
  bool mpi = false;

  void start_mpi(int argc, char** argv) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    mpi = true;
  }
  void start_kokkos(int argc, char** argv) { kokkos.emplace(argc, argv); }
  void end_mpi() {
    if (mpi) MPI_Finalize();
    mpi = false;
  }
};

/// After an error that the other ranks may not have, a program ends as MPI says: for all ranks at once.
int ends_with(const std::exception& e) {
  std::printf("rank %d: %s\n", rank(), e.what());
  std::fflush(stdout);
  // The others say it too before rank 0 ends them all.
  std::this_thread::sleep_for(std::chrono::milliseconds(rank() == 0 ? 500 : 1500));
  MPI_Abort(MPI_COMM_WORLD, 3);
  return 3;
}
/// Sums again and again, as a simulation does; on rank 1 something happens before the third sum.
int loop_with(const std::function<void()>& on_rank_1,
              const std::function<int(const std::exception&)>& end = ends_with) {
  const cleave::grid g = all_ranks(checked);
  Rows x(g, {64, 64});
  Number n(g, {});
  x.fill(1);
  try {
    for (int i = 0; i < 5; ++i) {
      if (i == 2 && rank() == 1) on_rank_1();
      n = sum(x);
      if (*n.data() != 64 * 64) std::printf("rank %d: wrong value\n", rank());
    }
  } catch (const std::exception& e) {
    return end(e);
  }
  return 0;
}
/// Rank 1 fails as if it were alone: it says so, and does not come to the next call. The others find out.
int says_so_alone(const std::exception& e) {
  if (rank() != 1) return ends_with(e);
  std::printf("rank 1: %s\n", e.what());
  std::fflush(stdout);
  std::this_thread::sleep_for(std::chrono::seconds(8));
  return 3;
}

/// Gives each variable of the environment a wrong word, on all ranks or on rank 1. In the order in which grids read
/// them, since a process reads most of them once. At the end the exception of the last one is thrown.
int misspelt(bool on_all) {
  constexpr const char* variables[][2] = {{"CLEAVE_PRINT_CALLS", "HUP"},   {"CLEAVE_CHECKED", "yes"},
                                          {"CLEAVE_TIME_LIMIT", "soon"},   {"CLEAVE_TIME_LIMIT", "0"},
                                          {"CLEAVE_TIME_LIMIT", "nan"},    {"CLEAVE_TRANSPORT", "MPI"},
                                          {"CLEAVE_OVERLAP", "no"},        {"CLEAVE_NODE_RANKS", "2.5"},
                                          {"CLEAVE_GPU_AWARE_MPI", "yes"}, {"CLEAVE_STORES", "none"},
                                          {"CLEAVE_FFT_PLANS", "fast"}};
  for (const auto& [name, word] : variables) {
    if (on_all || rank() == 1) setenv(name, word, 1);
    try {
      all_ranks();
      return 0;
    } catch (const cleave::environment_error& e) {
      std::printf("rank %d: %s\n", rank(), e.what());
    }
    unsetenv(name);
  }
  const cleave::grid g = all_ranks();
  return std::printf("rank %d: a grid with none of them\n", rank()), std::fflush(stdout), 3;
}

/// Rank 1 makes one call less than the others, which wait for it without end: what the record of each rank says then.
constexpr int line_of_total = __LINE__ + 1;
constexpr cleave::function total([](auto x) { return sum(x); });
int says_where_it_waits(int signal) {
  const cleave::grid g = all_ranks();
  Rows x(g, {64, 64});
  Number n(g, {});
  x = x + 1.0;
  // MPI waits in the first thread, so another one ends the process.
  std::thread([signal] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    if (signal != 0) kill(getpid(), signal);
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    std::_Exit(3);
  }).detach();
  if (rank() != 1) n = total(x);
  n = total(x);
  const std::string line = "sum at scenarios.cpp:" + std::to_string(line_of_total);
  const bool has_line = cleave::comm::calls_text().view().find(line) != std::string_view::npos;
  std::printf("rank %d: the record has %s\n", rank(), has_line ? "the line" : "a wrong value");
  std::fflush(stdout);
  n = total(x);
  std::this_thread::sleep_for(std::chrono::seconds(8));
  return 0;
}

/// Lets this process take so many bytes more than it has.
void leave_memory(std::uint64_t bytes) {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) + bytes;
  setrlimit(RLIMIT_AS, &limit);
}

/// Makes a call after which rank 1 has no more than so many bytes.
template <class F>
int without_memory(std::uint64_t bytes, F&& call) {
  if (rank() == 1) leave_memory(bytes);
  try {
    call();
  } catch (const std::exception& e) {
    return ends_with(e);
  }
  return 0;
}

// The shard of rank 1 is what this kernel cannot do.
struct refuses {
  static constexpr std::string_view name = "refuses";
  void operator()(const cleave::local_context&, std::span<const cleave::shard>, const cleave::shard&) const {
    if (rank() == 1) throw std::runtime_error("the kernel of rank 1 refuses");
  }
};
constexpr cleave::function refused([](auto x) { return sum(cleave::call<refuses>(cleave::whole(col), x)); });

// The products of two vectors are the workspace.
constexpr cleave::function sums_of_products([](auto u, auto v) {
  return max(cleave::cumulative_sum(cleave::broadcast(u, row, col) * cleave::broadcast(v, row, col), row), row);
});

const std::map<std::string, std::function<int(int, char**, session&)>> scenarios = {
    {"no_mpi", [](int, char**, session&) { return cleave::grid(mesh, MPI_COMM_WORLD, {1}), 0; }},
    {"no_kokkos",
     [](int argc, char** argv, session& s) {
       s.start_mpi(argc, argv);
       const cleave::grid g = all_ranks();
       const Rows x(g, {4, 4});
       return 0;
     }},
    {"mpi_finalised",
     [](int argc, char** argv, session& s) {
       s.start_mpi(argc, argv);
       s.start_kokkos(argc, argv);
       const cleave::grid g = all_ranks();
       Rows x(g, {4, 4});
       x = x + 1.0;
       s.end_mpi();
       x = x + 1.0;
       return 0;
     }},
    {"local_after_mpi",
     [](int argc, char** argv, session& s) {
       s.start_mpi(argc, argv);
       s.start_kokkos(argc, argv);
       const int me = rank();
       const cleave::grid g = all_ranks();
       Rows x(g, {4, 4}), z(g, {4, 4});
       const Number n(g, {});
       s.end_mpi();
       x.fill(1);
       const Rows y = x;
       z = y;
       x.fill_by([](const auto& at) { return static_cast<double>(at[1]); });
       n.fill(7);
       double sum = 0;
       for (std::int64_t i = 0; i < x.local_size(); ++i) sum += 100 * x.data()[i] + 10 * y.data()[i] + z.data()[i];
       const bool right = sum == static_cast<double>(x.local_size()) * (150 + 10 + 1) && n.item() == 7;
       std::printf("rank %d: what stays here is %s\n", me, right ? "right" : "a wrong value");
       // Even what would not communicate, if a plan runs it.
       x = x + 1.0;
       return 0;
     }},
    {"grid_after_mpi",
     [](int argc, char** argv, session& s) {
       s.start_mpi(argc, argv);
       s.end_mpi();
       return cleave::grid(mesh, MPI_COMM_WORLD, {1}), 0;
     }},
    {"kokkos_finalised",
     [](int argc, char** argv, session& s) {
       s.start_mpi(argc, argv);
       s.start_kokkos(argc, argv);
       const cleave::grid g = all_ranks();
       Rows x(g, {4, 4});
       x = x + 1.0;
       s.kokkos.reset();
       x = x + 1.0;
       return 0;
     }},
    {"fill_after_kokkos",
     [](int argc, char** argv, session& s) {
       s.start_mpi(argc, argv);
       s.start_kokkos(argc, argv);
       const cleave::grid g = all_ranks();
       Rows x(g, {4, 4});
       s.kokkos.reset();
       x.fill(1);
       return 0;
     }},
    {"no_communicator", [](int, char**, session&) { return cleave::grid(mesh, MPI_COMM_NULL, {1}), 0; }},
    {"no_memory",
     [](int, char**, session&) {
       const Rows x(all_ranks(), {std::int64_t{1} << 26, std::int64_t{1} << 19});
       return 0;
     }},
    {"uncountable",
     [](int, char**, session&) {
       const Rows x(all_ranks(), {std::int64_t{1} << 40, std::int64_t{1} << 40});
       return 0;
     }},
    {"no_workspace",
     [](int, char**, session&) {
       const cleave::grid g = all_ranks();
       cleave::tensor<double, mesh(row)> a(g, {std::int64_t{1} << 23});
       cleave::tensor<double, mesh(col)> b(g, {std::int64_t{1} << 23}), y(g, {std::int64_t{1} << 23});
       y = sums_of_products(a, b);
       return 0;
     }},
    {"no_memory_on_one_rank",
     [](int, char**, session&) {
       const cleave::grid g = all_ranks(checked);
       return without_memory(std::uint64_t{1} << 26, [&] { const Rows x(g, {1 << 15, 1 << 13}); });
     }},
    {"skips_the_grid",
     [](int, char**, session&) {
       // As a program does that constructs a grid where only some ranks come by.
       setenv("CLEAVE_CHECKED", "on", 1);
       setenv("CLEAVE_TIME_LIMIT", "3", 1);
       if (rank() == 1) {
         std::this_thread::sleep_for(std::chrono::seconds(6));
         _exit(0);
       }
       try {
         all_ranks();
       } catch (const std::exception& e) {
         return ends_with(e);
       }
       return 0;
     }},
    {"waits_and_gets_a_signal",
     [](int, char**, session&) {
       setenv("CLEAVE_PRINT_CALLS", "USR1", 1);
       return says_where_it_waits(SIGUSR1);
     }},
    {"waits_too_long",
     [](int, char**, session&) {
       setenv("CLEAVE_TIME_LIMIT", "1", 1);
       return says_where_it_waits(0);
     }},
    {"misspelt_on_all", [](int, char**, session&) { return misspelt(true); }},
    {"misspelt_on_one", [](int, char**, session&) { return misspelt(false); }},
    {"hangs",
     [](int, char**, session&) {
       return loop_with([] {
         std::printf("rank 1 hangs\n");
         std::fflush(stdout);
         std::raise(SIGSTOP);
       });
     }},
    {"killed",
     [](int, char**, session&) {
       return loop_with([] {
         std::printf("rank 1 is killed\n");
         std::fflush(stdout);
         std::raise(SIGKILL);
       });
     }},
    {"leaves",
     [](int, char**, session&) {
       return loop_with([] {
         std::printf("rank 1 leaves\n");
         std::fflush(stdout);
         std::this_thread::sleep_for(std::chrono::seconds(6));
         _exit(0);
       });
     }},
    {"throws_alone",
     [](int, char**, session&) {
       return loop_with([] { throw std::runtime_error("rank 1 has no input"); }, says_so_alone);
     }},
    {"full_disk",
     [](int, char**, session&) {
       return loop_with(
           [] {
             std::ofstream out("/dev/full");
             out.exceptions(std::ios::badbit | std::ios::failbit);
             out << "a checkpoint" << std::flush;
           },
           says_so_alone);
     }},
    {"throws", [](int, char**, session&) { return loop_with([] { throw std::runtime_error("rank 1 has no disk"); }); }},
    {"skips",
     [](int, char**, session&) {
       return loop_with([] {
         const cleave::grid none;
         std::this_thread::sleep_for(std::chrono::seconds(5));
       });
     }},
    {"skips_one_of_two",
     [](int, char**, session&) {
       const cleave::grid g = all_ranks(checked);
       Rows x(g, {64, 64});
       Number n(g, {});
       try {
         for (int i = 0; i < 5; ++i) {
           if (i != 2 || rank() != 1) n = sum(x);
           x = x + 1.0;
         }
       } catch (const std::exception& e) {
         return ends_with(e);
       }
       return 0;
     }},
    {"no_workspace_on_one_rank",
     [](int, char**, session&) {
       const cleave::grid g = all_ranks(checked);
       cleave::tensor<double, mesh(row)> a(g, {1 << 12});
       cleave::tensor<double, mesh(col)> b(g, {1 << 12}), y(g, {1 << 12});
       return without_memory(std::uint64_t{1} << 26, [&] { y = sums_of_products(a, b); });
     }},
    {"no_memory_within_a_call",
     [](int, char**, session&) {
       // In the second call rank 1 has all the rows, and no memory to send them from. Ranks of a node would read them
       // where they are.
       cleave::comm::transport_mode() = cleave::comm::transport::mpi;
       const cleave::grid g = all_ranks(checked);
       constexpr std::int64_t each = 1 << 15;
       Rows table(g, {ranks(), 64});
       cleave::tensor<std::int32_t, mesh(item / data)> at(g, {ranks() * each});
       cleave::tensor<double, mesh(item / data, col)> out(g, {ranks() * each, 64});
       try {
         for (const bool first : {true, false}) {
           at.fill(first ? rank() : 1);
           if (!first && rank() == 1) leave_memory(std::uint64_t{1} << 23);
           out = cleave::gather(table, row, at);
         }
       } catch (const std::exception& e) {
         return ends_with(e);
       }
       return 0;
     }},
    {"no_memory_beside",
     [](int, char**, session&) {
       const cleave::grid g = all_ranks();
       Rows x(g, {1 << 12, 1 << 10});
       return without_memory(std::uint64_t{1} << 22, [&] { x = flip(x, col); });
     }},
    {"no_memory_to_gather",
     [](int, char**, session&) {
       const cleave::grid g = all_ranks();
       const Rows x(g, {1 << 12, 1 << 10});
       return without_memory(std::uint64_t{1} << 24, [&] { static_cast<void>(cleave::gather_to(x, 1)); });
     }},
    {"no_memory_to_gather_sums",
     [](int, char**, session&) {
       const cleave::grid g = all_ranks();
       const cleave::tensor<double, mesh(row, col, cleave::unreduced(data))> x(g, {1 << 12, 1 << 10});
       return without_memory(std::uint64_t{1} << 24, [&] { static_cast<void>(cleave::gather_to(x, 1)); });
     }},
    {"no_memory_for_the_whole",
     [](int, char**, session&) {
       const cleave::grid g = all_ranks();
       const Rows x(g, {1 << 12, 1 << 10});
       return without_memory(std::uint64_t{1} << 24, [&] { static_cast<void>(x.to_global()); });
     }},
    {"no_memory_to_fill",
     [](int, char**, session&) {
       const cleave::grid g = all_ranks();
       const Rows x(g, {1 << 10, 1 << 12});
       Number n(g, {});
       n = sum(x);
       return without_memory(std::uint64_t{1} << 21, [&] {
         x.fill_by([](const auto& at) { return static_cast<double>(at[0]); });
         n = sum(x);
         std::printf("rank %d: the sum is %.0f\n", rank(), *n.data());
         throw std::runtime_error("all could fill");
       });
     }},
    {"no_memory_to_sort",
     [](int, char**, session&) {
       const cleave::grid g = all_ranks();
       const cleave::tensor<double, mesh(item / data)> x(g, {1 << 22});
       cleave::tensor<double, mesh(item / data)> y(g, {1 << 22});
       return without_memory(std::uint64_t{1} << 24, [&] { y = sort(x, item); });
     }},
    {"no_memory_to_copy",
     [](int, char**, session&) {
       // Nothing of this communicates, so the others go on.
       const cleave::grid g = all_ranks();
       const Rows x(g, {1 << 10, 1 << 12});
       const cleave::tensor<double, mesh(row, col)> whole(g, {1 << 10, 1 << 12});
       return without_memory(std::uint64_t{1} << 21, [&] {
         bool copied = false;
         try {
           const Rows y = x;
           copied = true;
         } catch (const cleave::memory_error& e) {
           std::printf("rank %d has no copy: %s\n", rank(), e.what());
         }
         if (copied) throw std::runtime_error("copied");
         static_cast<void>(whole.to_global());
       });
     }},
    {"no_memory_for_blocks",
     [](int, char**, session&) {
       const cleave::grid g = all_ranks();
       const Rows x(g, {ranks() << 11, 1 << 10});
       const auto local = x.local_extents();
       const Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> mine("mine", local[0], local[1]);
       return without_memory(std::uint64_t{1} << 23, [&] { cleave::to_blocks(x, mine, {{}, {}}); });
     }},
    {"no_memory_to_assemble",
     [](int, char**, session&) {
       const cleave::grid g = all_ranks();
       constexpr std::int64_t n = 1 << 20;
       std::vector<cleave::sparse::triplet<double>> all;
       if (rank() == 0)
         for (std::int64_t i = 0; i < n; ++i) all.push_back({i, i, 1.0});
       return without_memory(std::uint64_t{1} << 22, [&] {
         using matrix = cleave::sparse::csr<double, mesh(row / data), col>;
         static_cast<void>(cleave::sparse::assemble<matrix>(g, n, n, all));
       });
     }},
    {"no_memory_for_slabs",
     [](int, char**, session&) {
       const cleave::grid g = all_ranks();
       const Rows x(g, {1 << 12, 1 << 10});
       return without_memory(std::uint64_t{1} << 24, [&] {
         cleave::gather_slabs(x, 1, std::int64_t{1} << 25, [](std::int64_t, std::int64_t, const double*) {});
       });
     }},
    {"kernel_throws",
     [](int, char**, session&) {
       const cleave::grid g = all_ranks(checked);
       Rows x(g, {64, 64});
       Number n(g, {});
       try {
         n = refused(x);
       } catch (const std::runtime_error& e) {
         std::printf("rank %d: %s\n", rank(), e.what());
         std::fflush(stdout);
         if (rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(5));
         return ends_with(e);
       }
       return 0;
     }},
};

} // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const auto found = scenarios.find(name);
  if (found == scenarios.end()) {
    std::fprintf(stderr, "there is no scenario '%s'\n", name.c_str());
    return 2;
  }
  session s;
  int result = 0;
  try {
    constexpr std::string_view without_a_session[] = {"no_mpi",           "no_kokkos",      "mpi_finalised",
                                                      "local_after_mpi",  "grid_after_mpi", "kokkos_finalised",
                                                      "fill_after_kokkos"};
    if (std::find(std::begin(without_a_session), std::end(without_a_session), name) == std::end(without_a_session)) {
      s.start_mpi(argc, argv);
      s.start_kokkos(argc, argv);
    }
    result = found->second(argc, argv, s);
    if (result == 0) std::printf("no error\n");
  } catch (const cleave::error& e) {
    if (s.mpi) std::printf("rank %d: ", rank());
    std::printf("%s\n", e.what());
    result = 1;
  }
  s.kokkos.reset();
  s.end_mpi();
  return result;
}
