// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/linalg/summa.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <type_traits>

// The memory that a plan predicts is the memory that its first call allocates: on the rank that needs most, where all
// data goes through MPI. Allocations are counted where Kokkos makes them.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ay, ax};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"inner"> inner;
inline constexpr cleave::dim<"hidden"> hidden;
inline constexpr cleave::dim<"key"> key;

template <auto Layout>
using f64 = cleave::tensor_in<double, Layout>;
using Tiles = f64<mesh(row / ay, col / ax)>;
using Rows = f64<mesh(row / ay / ax, col)>;
using Columns = f64<mesh(row, col / ax / ay)>;
using Number = f64<mesh()>;

/// Bytes that the library has allocated from Kokkos since `begin`; nothing is freed meanwhile.
struct counted {
  static std::int64_t& bytes() {
    static std::int64_t n = 0;
    return n;
  }
  static void allocated(Kokkos::Profiling::SpaceHandle, const char* label, const void*, std::uint64_t size) {
    if (std::strcmp(label, "cleave") == 0) bytes() += static_cast<std::int64_t>(size);
  }
};
/// What a call allocates, on the rank where it is most.
template <class Call>
std::int64_t allocated_by(const Call& call) {
  counted::bytes() = 0;
  Kokkos::Tools::Experimental::set_allocate_data_callback(&counted::allocated);
  call();
  Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr);
  return support::over_ranks(counted::bytes());
}

/// Calls f(grid, extent) on grids that communicate by MPI alone, for blocks that are even and uneven.
template <class F>
void on_all(const F& f) {
  const support::only_mpi here;
  for (const auto& sizes : support::factorings(support::ranks(), 2))
    for (const std::int64_t n : {48, 21}) f(cleave::grid(mesh, MPI_COMM_WORLD, sizes), n);
}
std::string where(const cleave::grid& g, std::int64_t n) {
  return std::to_string(n) + " on " + std::to_string(g.size(ay)) + " x " + std::to_string(g.size(ax));
}

/// In memory of devices no collective is in flight, so that those of a plan hold nothing.
void expect_allocated(std::int64_t bytes, std::int64_t predicted, const std::string& where) {
  if (cleave::on_host) EXPECT_EQ(bytes, predicted) << where;
  else EXPECT_LE(bytes, predicted) << where;
}

// A value that takes all layouts in turn: tiles, rows, columns, and whole.
constexpr cleave::function around([](auto x) {
  const auto rows = cleave::reshard(2 * x, mesh(row / ay / ax, col));
  const auto columns = cleave::reshard(exp(rows), mesh(row, col / ax / ay));
  return cleave::reshard(cleave::cumulative_sum(columns, col), mesh(row / ay, col / ax));
});
TEST(memory, of_moves_and_scans) {
  constexpr auto plan = cleave::plan<Tiles(Tiles)>(around);
  on_all([&](const cleave::grid& g, std::int64_t n) {
    Tiles x(g, {n, n + 3}), y(g, {n, n + 3});
    x.fill(0.5);
    EXPECT_EQ(allocated_by([&] { y = around(x); }),
              plan.workspace({row = n, col = n + 3, ay = g.size(ay), ax = g.size(ax)}))
        << where(g, n);
  });
}

// A step of a network: products, gradients, small all-reduces in one message.
constexpr cleave::function loss([](auto w, auto v, auto x) {
  const auto y = dot(tanh(dot(x, w, inner)), v, hidden);
  return cleave::mean(y * y);
});
constexpr cleave::function train([](auto w, auto v, auto x) {
  const auto [l, g] = cleave::value_and_grad(loss)(w, v, x);
  return std::tuple(w - 0.1 * g, l, cleave::max(x));
});
using Up = f64<mesh(inner, hidden / ax)>;
using Down = f64<mesh(hidden / ax, col)>;
using Batch = f64<mesh(row / ay, inner)>;
TEST(memory, of_a_training_step) {
  constexpr auto plan = cleave::plan<std::tuple<Up, Number, Number>(Up, Down, Batch)>(train);
  on_all([&](const cleave::grid& g, std::int64_t n) {
    Up w(g, {12, n}), w1(g, {12, n});
    Down v(g, {n, 5});
    Batch x(g, {n, 12});
    Number l(g, {}), most(g, {});
    w.fill(0.1), v.fill(0.2), x.fill(0.3);
    expect_allocated(allocated_by([&] { train(w, v, x).into(w1, l, most); }),
                     plan.workspace({row = n, inner = 12, hidden = n, col = 5, ay = g.size(ay), ax = g.size(ax)}),
                     where(g, n));
  });
}

// Moves that go on while products are computed, of values that travel alone and of values that share a message: memory
// that one of them holds is that of the next one, once it is waited for.
template <class Plan>
constexpr int in_flight(const Plan& plan, cleave::kind move) {
  int n = 0;
  for (const cleave::step& s : plan.view().steps) n += s.in_flight && s.move == move ? 1 : 0;
  return n;
}
constexpr cleave::function deep_loss([](auto w, auto v, auto u, auto x) {
  const auto y = dot(tanh(dot(tanh(dot(x, w, inner)), v, hidden)), u, key);
  return cleave::mean(y * y);
});
constexpr cleave::function deep_slope(cleave::grad<0, 1, 2>(deep_loss));
template <class First, class Second, class Third>
struct layers {
  using input = cleave::tensor<typename First::element_type, mesh(row / ay, inner)>;
  static constexpr auto plan = cleave::plan<std::tuple<First, Second, Third>(First, Second, Third, input)>(deep_slope);

  static void check(std::int64_t width) {
    on_all([&](const cleave::grid& g, std::int64_t n) {
      First w(g, {n, width}), dw(g, {n, width});
      Second v(g, {width, 3 * n}), dv(g, {width, 3 * n});
      Third u(g, {3 * n, 5}), du(g, {3 * n, 5});
      input x(g, {n + 2, n});
      expect_allocated(allocated_by([&] { deep_slope(w, v, u, x).into(dw, dv, du); }),
                       plan.workspace({row = n + 2, inner = n, hidden = width, key = 3 * n, col = 5, ay = g.size(ay),
                                       ax = g.size(ax)}),
                       where(g, n) + ", " + std::to_string(width));
    });
  }
};
using replicated = layers<f64<mesh(inner, hidden)>, f64<mesh(hidden, key)>, f64<mesh(key, col)>>;
template <auto Layout>
using bf16 = cleave::tensor_in<cleave::bfloat16, Layout>;
using divided = layers<bf16<mesh(inner / ay, hidden)>, bf16<mesh(hidden / ay, key)>, bf16<mesh(key / ay, col)>>;
static_assert(in_flight(replicated::plan, cleave::kind::all_reduce) == 3);
static_assert(in_flight(divided::plan, cleave::kind::all_gather) > 0);
static_assert(in_flight(divided::plan, cleave::kind::reduce_scatter) > 0);
TEST(memory, of_moves_in_flight) {
  replicated::check(17);
  replicated::check(1031);
  divided::check(17);
  divided::check(64);
}

// A stencil, whose halo is packed where it is not one run of memory.
constexpr cleave::function sweep([](auto u) {
  constexpr auto ring = cleave::border::periodic;
  return 0.25 * (cleave::shift(u, row, 1, ring) + cleave::shift(u, row, -1, ring) + cleave::shift(u, col, 1, ring) +
                 cleave::shift(u, col, -1, ring));
});
TEST(memory, of_a_stencil) {
  constexpr auto plan = cleave::plan<Tiles(Tiles)>(sweep);
  on_all([&](const cleave::grid& g, std::int64_t n) {
    Tiles u(g, {n, n + 3}), v(g, {n, n + 3});
    u.fill(0.5);
    const std::int64_t predicted = plan.workspace({row = n, col = n + 3, ay = g.size(ay), ax = g.size(ax)});
    EXPECT_EQ(allocated_by([&] { v = sweep(u); }), predicted) << where(g, n);
    // In place it keeps rows beside the array for each thread, and the rows at its ends if it is a ring by itself.
    const std::int64_t threads = Kokkos::DefaultExecutionSpace().concurrency(),
                       a_row = 8 * ((n + 3 + g.size(ax) - 1) / g.size(ax));
    EXPECT_LE(allocated_by([&] { u = sweep(u); }), threads * (2 * (1 << 15) + 4 * a_row) + 4 * a_row + (1 << 12))
        << where(g, n);
  });
}

// A loop that keeps what it computes in each iteration.
using Inputs = f64<mesh(key)>;
constexpr cleave::function history([](auto u, auto inputs) {
  const auto [last, all] = cleave::scan(key, u, inputs, [](auto now, auto in) {
    const auto next = 0.5 * now + in * cleave::sum(now, col);
    return std::pair(next, next);
  });
  return last + cleave::max(all, key);
});
TEST(memory, of_a_loop_that_stacks) {
  constexpr auto plan = cleave::plan<Tiles(Tiles, Inputs)>(history);
  on_all([&](const cleave::grid& g, std::int64_t n) {
    Tiles u(g, {n, n + 3}), v(g, {n, n + 3});
    Inputs in(g, {5});
    u.fill(0.5), in.fill(0.25);
    EXPECT_EQ(allocated_by([&] { v = history(u, in); }),
              plan.workspace({row = n, col = n + 3, key = 5, ay = g.size(ay), ax = g.size(ax)}))
        << where(g, n);
  });
}

// Attention over one head: products, a softmax along a sharded dim, and a transposed operand.
using Queries = f64<mesh(row / ay, inner)>;
using Keys = f64<mesh(key / ax, inner)>;
using Values = f64<mesh(key / ax, col)>;
using Attended = f64<mesh(row / ay, col)>;
constexpr cleave::function attention([](auto q, auto k, auto v) {
  return dot(cleave::softmax(dot(q, k, inner), key), v, key);
});
TEST(memory, of_attention) {
  constexpr auto plan = cleave::plan<Attended(Queries, Keys, Values)>(attention);
  on_all([&](const cleave::grid& g, std::int64_t n) {
    Queries q(g, {n, 4});
    Keys k(g, {n + 1, 4});
    Values v(g, {n + 1, 6});
    Attended a(g, {n, 6});
    q.fill(0.1), k.fill(0.2), v.fill(0.3);
    EXPECT_EQ(allocated_by([&] { a = attention(q, k, v); }),
              plan.workspace({row = n, key = n + 1, inner = 4, col = 6, ay = g.size(ay), ax = g.size(ax)}))
        << where(g, n);
  });
}

// A product whose kernel asks for workspace, under the cap that was asked, at compile time and on the devices.
using Left = f64<mesh(row / ay, inner / ax)>;
using Right = f64<mesh(inner / ay, col / ax)>;
constexpr std::int64_t cap = 1000;
constexpr cleave::function product([](auto a, auto b) {
  return cleave::linalg::summa<cap>(a, b, inner, mesh(row / ay, col / ax));
});
constexpr auto capped = cleave::plan<Tiles(Left, Right)>(product, cleave::at_most_workspace<cap>{},
                                                         cleave::expect<row, 24>{}, cleave::expect<col, 16>{},
                                                         cleave::expect<inner, 1000>{}, cleave::expect<ay, 4>{},
                                                         cleave::expect<ax, 2>{});
static_assert(capped.workspace() <= cap && 2 * capped.workspace() > cap);
static_assert(capped.parts_of_workspace().kernels == capped.workspace());
TEST(memory, of_a_kernel_that_asks_for_it) {
  constexpr auto plan = cleave::plan<Tiles(Left, Right)>(product);
  on_all([&](const cleave::grid& g, std::int64_t n) {
    Left a(g, {24, 10 * n});
    Right b(g, {10 * n, 16});
    Tiles c(g, {24, 16});
    a.fill(0.5), b.fill(0.25);
    const std::int64_t bytes = allocated_by([&] { c = product(a, b); });
    EXPECT_EQ(bytes, plan.workspace({row = 24, col = 16, inner = 10 * n, ay = g.size(ay), ax = g.size(ax)}))
        << where(g, n);
    EXPECT_LE(bytes, cap);
  });
}

/// Bytes of the library that are allocated and not freed, since this exists.
class held {
 public:
  held() {
    sizes().clear();
    Kokkos::Tools::Experimental::set_allocate_data_callback(
        [](Kokkos::Profiling::SpaceHandle, const char* label, const void* at, std::uint64_t size) {
          if (std::strcmp(label, "cleave") == 0) sizes()[at] = static_cast<std::int64_t>(size);
        });
    Kokkos::Tools::Experimental::set_deallocate_data_callback(
        [](Kokkos::Profiling::SpaceHandle, const char*, const void* at, std::uint64_t) { sizes().erase(at); });
  }
  ~held() {
    Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr);
    Kokkos::Tools::Experimental::set_deallocate_data_callback(nullptr);
  }
  static std::int64_t bytes() {
    std::int64_t all = 0;
    for (const auto& [at, size] : sizes()) all += size;
    return all;
  }

 private:
  static std::map<const void*, std::int64_t>& sizes() {
    static std::map<const void*, std::int64_t> all;
    return all;
  }
};

// Extents that change from call to call: a plan stays bound for as many as the grid keeps, those that were used last.
TEST(memory, of_extents_that_change) {
  constexpr auto plan = cleave::plan<Tiles(Tiles)>(around);
  const auto call = [](const cleave::grid& g, std::int64_t n) {
    Tiles x(g, {n, 32}), y(g, {n, 32});
    x.fill(0.5);
    const std::int64_t before = g.state().bound().times_made();
    y = around(x);
    return g.state().bound().times_made() - before;
  };
  const support::only_mpi here;
  const cleave::grid g(mesh, MPI_COMM_WORLD, {1, support::ranks()});
  const auto workspace = [&](std::int64_t n) {
    return plan.workspace({row = n, col = 32, ay = g.size(ay), ax = g.size(ax)});
  };
  const held now;
  for (std::int64_t n = 1; n <= 40; ++n) EXPECT_EQ(call(g, n), 1);
  EXPECT_EQ(call(g, 9), 0) << "32 are kept";
  EXPECT_EQ(call(g, 8), 1);
  EXPECT_EQ(call(g, 9), 0) << "9 was used after 10";
  EXPECT_EQ(call(g, 10), 1);
  // One rank that asks for fewer decides for all.
  g.keep_extents(support::rank() == 0 ? 2 : 3);
  // All plans share the workspace, which stays as large as the largest of them.
  if (cleave::on_host) {
    EXPECT_EQ(support::over_ranks(held::bytes()), workspace(40));
  }
  EXPECT_EQ(call(g, 9), 0);
  EXPECT_EQ(call(g, 10), 0);
  EXPECT_EQ(call(g, 40), 1);
  EXPECT_EQ(call(g, 9), 1);
  g.keep_extents(1);
  g.release_workspace();
  EXPECT_EQ(call(g, 9), 0);
  if (cleave::on_host) {
    EXPECT_EQ(support::over_ranks(held::bytes()), workspace(9));
  }
}

// A kernel of the user calls the plan that runs it, with other extents: what runs stays bound.
using Part = f64<mesh(row / ay)>;
void call_again(const cleave::grid& g, std::int64_t n);
struct calls_again {
  static constexpr std::string_view name = "calls again";
  static inline cleave::grid on{};
  void operator()(const cleave::local_context&, std::span<const cleave::shard> in, const cleave::shard& out) const {
    if (in[0].global[0] > 1) call_again(on, in[0].global[0] - 1);
    cleave::copy_bytes(out.data, in[0].data, out.local.elements() * std::int64_t{sizeof(double)});
  }
};
constexpr cleave::function again([](auto x) {
  return 2 * cleave::local<calls_again>(cleave::result<double>(mesh(row / ay)), exp(x));
});
void call_again(const cleave::grid& g, std::int64_t n) {
  Part x(g, {n}), y(g, {n});
  y = again(x);
  for (const double v : support::elements(y)) EXPECT_EQ(v, 2) << n;
}
TEST(memory, of_a_plan_that_is_called_while_it_runs) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks(), 1});
  g.keep_extents(1);
  calls_again::on = g;
  for (const std::int64_t n : {6, 3, 6}) call_again(g, n);
  calls_again::on = {};
}

// Products that gather their operands panel by panel: both of them along the dim that is contracted, and one along a
// dim of the result, in blocks of two axes, of which one stays.
constexpr cleave::function gathered([](auto a, auto b) { return dot(a, b, inner); });
constexpr auto in_panels = cleave::with(gathered, cleave::within_workspace<2000>{}, cleave::expect<row, 24>{},
                                        cleave::expect<col, 16>{}, cleave::expect<inner, 1000>{});
constexpr cleave::function joined([](auto a, auto b) {
  return dot(a, cleave::reshard(2 * b, mesh(inner, col / ay)), inner);
});
constexpr auto joined_in_panels = cleave::with(joined, cleave::within_workspace<1>{});
TEST(memory, of_panels) {
  constexpr auto plan = cleave::plan<Tiles(Left, Right)>(in_panels);
  static_assert(plan.parts_of_workspace({row = 24, col = 16, inner = 1000, ay = 4, ax = 4}).values == 0);
  static_assert(plan.workspace({row = 24, col = 16, inner = 1000, ay = 4, ax = 4}) <= 2000);
  using Wide = f64<mesh(inner, col / ay / ax)>;
  using Whole = f64<mesh(row / ax, inner)>;
  using Result = f64<mesh(row / ax, col / ay)>;
  constexpr auto other = cleave::plan<Result(Whole, Wide)>(joined_in_panels);
  on_all([&](const cleave::grid& g, std::int64_t n) {
    Left a(g, {n, 3 * n});
    Right b(g, {3 * n, 16});
    Tiles c(g, {n, 16});
    a.fill(0.5), b.fill(0.25);
    EXPECT_EQ(allocated_by([&] { c = in_panels(a, b); }),
              plan.workspace({row = n, col = 16, inner = 3 * n, ay = g.size(ay), ax = g.size(ax)}))
        << where(g, n);
    Whole x(g, {n, 12});
    Wide y(g, {12, n + 2});
    Result z(g, {n, n + 2});
    x.fill(0.5), y.fill(0.25);
    EXPECT_EQ(allocated_by([&] { z = joined_in_panels(x, y); }),
              other.workspace({row = n, col = n + 2, inner = 12, ay = g.size(ay), ax = g.size(ax)}))
        << where(g, n);
    for (const double value : z.to_global()) EXPECT_EQ(value, 3.0);
  });
}

// What travels where the data say so is not predicted, but bounded: a sort keeps its elements, what it sends and what
// it receives, each at most twice a block, and samples; a look-up keeps the rows that it asks for and that others ask
// of it.
constexpr cleave::function sorted([](auto x) { return sort(x, row); });
using Line = f64<mesh(row / ay / ax)>;
using Places = cleave::tensor<int, mesh(key / ax)>;
using Table = f64<mesh(row / ay, col)>;
using Found = f64<mesh(key / ax, col)>;
constexpr cleave::function look_up([](auto table, auto places) { return gather(table, row, places); });
TEST(memory, of_data_that_travel) {
  constexpr auto sorting = cleave::plan<Line(Line)>(sorted);
  constexpr auto finding = cleave::plan<Found(Table, Places)>(look_up);
  on_all([&](const cleave::grid& g, std::int64_t n) {
    Line x(g, {64 * n}), y(g, {64 * n});
    x.fill_by([](const auto& at) { return double(at[0] * 7919 % 1009); });
    EXPECT_EQ(sorting.workspace({row = 64 * n, ay = g.size(ay), ax = g.size(ax)}), 0);
    const std::int64_t devices = g.size(ay) * g.size(ax), block = (64 * n + devices - 1) / devices;
    EXPECT_LE(allocated_by([&] { y = sorted(x); }), 8 * (6 * 2 * block + 64 * devices * devices)) << where(g, n);
    Table table(g, {n, 5});
    Places places(g, {3 * n});
    Found found(g, {3 * n, 5});
    places.fill_by([&](const auto& at) { return static_cast<int>(at[0] * 5 % n); });
    const std::int64_t asked = (3 * n + g.size(ax) - 1) / g.size(ax),
                       predicted = finding.workspace({row = n, col = 5, key = 3 * n, ay = g.size(ay), ax = g.size(ax)});
    EXPECT_LE(allocated_by([&] { found = look_up(table, places); }),
              predicted + (asked + g.size(ay) * asked) * (8 * 5 + 6 * 8))
        << where(g, n);
  });
}

#if defined(__linux__)
/// The flags that Linux has for the memory at an address, as in "rd wr mr mw me ac hg".
std::string flags_of(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  bool found = false;
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) found = begin <= wanted && wanted < end;
    else if (found && line.rfind("VmFlags:", 0) == 0) return line.substr(8) + " ";
  }
  return {};
}
TEST(memory, large_arrays_ask_for_huge_pages) {
  if (!std::is_same_v<cleave::memory_space, Kokkos::HostSpace>) GTEST_SKIP() << "memory of another space";
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage")) GTEST_SKIP() << "this kernel has no huge pages";
  const cleave::grid g(mesh, MPI_COMM_WORLD, {1, support::ranks()});
  const auto line = cleave::huge_page_bytes / std::int64_t{sizeof(double)};
  for (const std::int64_t pages : {2, 3}) {
    const f64<mesh(row / ax, col)> large(g, {pages * support::ranks(), line});
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data()) % std::uintptr_t{cleave::huge_page_bytes}, 0u);
    EXPECT_NE(flags_of(large.data()).find(" hg "), std::string::npos) << flags_of(large.data());
  }
}
#endif

} // namespace CLEAVE_SOURCE
