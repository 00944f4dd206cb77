// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

// Operations of the user: fused elementwise ones, kernels on shards that the planner divides, and manual mode.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"time"> time_dim;
inline constexpr cleave::dim<"panel"> panel;

using cleave::tensor;

/// log(1 + exp(x)), with the derivative 1 / (1 + exp(-x)).
struct softplus {
  static constexpr cleave::elementwise_entry entry{"softplus", {cleave::symbols::g / (1.0 + exp(-cleave::symbols::x))}};
  template <class T>
    requires std::floating_point<T>
  CLEAVE_FUNCTION T operator()(T x) const {
    return Kokkos::log(T(1) + Kokkos::exp(x));
  }
};
inline constexpr cleave::operation<softplus> soft;

/// Of whole numbers: the greatest common divisor, which has no derivative.
struct common_divisor {
  static constexpr cleave::elementwise_entry entry{"common_divisor"};
  CLEAVE_FUNCTION std::int32_t operator()(std::int32_t a, std::int32_t b) const {
    while (b != 0) {
      const std::int32_t rest = a % b;
      a = b;
      b = rest;
    }
    return a;
  }
};
inline constexpr cleave::operation<common_divisor> gcd;

/// a * b + c in one function of three operands.
struct multiply_add {
  static constexpr cleave::elementwise_entry entry{"multiply_add",
                                                   {cleave::symbols::g * cleave::symbols::y,
                                                    cleave::symbols::g * cleave::symbols::x, cleave::symbols::g}};
  template <class T>
    requires std::floating_point<T>
  CLEAVE_FUNCTION T operator()(T a, T b, T c) const {
    return a * b + c;
  }
};
inline constexpr cleave::operation<multiply_add> fma3;

double wave(std::int64_t i, std::int64_t j) {
  return std::sin(0.3 + 0.7 * static_cast<double>(i) + 1.3 * static_cast<double>(j));
}

std::vector<cleave::grid> grids() { return support::grids(mesh); }

template <class T>
void check_elementwise(double tolerance) {
  using X = tensor<T, mesh(row / data, time_dim / model)>;
  for (const cleave::grid& g : grids()) {
    X x(g, {5, 7}), y(g, {5, 7});
    tensor<T, mesh(time_dim)> bias(g, {7});
    x.fill_by([](const auto& at) { return static_cast<T>(wave(at[0], at[1])); });
    bias.fill_by([](const auto& at) { return static_cast<T>(wave(at[0], 0)); });
    y = soft(x * T(2)) + fma3(x, T(0.5), bias);
    const auto got = y.to_global();
    for (std::int64_t i = 0; i < 5; ++i)
      for (std::int64_t j = 0; j < 7; ++j) {
        const double v = static_cast<double>(static_cast<T>(wave(i, j))),
                     b = static_cast<double>(static_cast<T>(wave(j, 0)));
        ASSERT_NEAR(static_cast<double>(got[static_cast<std::size_t>(i * 7 + j)]),
                    std::log(1 + std::exp(2 * v)) + 0.5 * v + b, tolerance);
      }
    const auto slope =
        cleave::grad(cleave::function([](auto v, auto u) { return sum(soft(v) * fma3(v, v, u)); }))(x, bias).make();
    const auto by = slope.to_global();
    for (std::int64_t i = 0; i < 5; ++i)
      for (std::int64_t j = 0; j < 7; ++j) {
        const double v = static_cast<double>(static_cast<T>(wave(i, j))),
                     b = static_cast<double>(static_cast<T>(wave(j, 0)));
        ASSERT_NEAR(static_cast<double>(by[static_cast<std::size_t>(i * 7 + j)]),
                    (v * v + b) / (1 + std::exp(-v)) + std::log(1 + std::exp(v)) * 2 * v, tolerance * 4);
      }
  }
}
TEST(operations, elementwise_in_double) { check_elementwise<double>(1e-14); }
TEST(operations, elementwise_in_float) { check_elementwise<float>(1e-6); }

TEST(operations, elementwise_of_whole_numbers) {
  for (const cleave::grid& g : grids()) {
    tensor<int, mesh(row / data / model)> a(g, {13}), b(g, {13}), c(g, {13});
    a.fill_by([](const auto& at) { return static_cast<int>(6 * (at[0] + 1)); });
    b.fill(12);
    c = gcd(a, b) + 1;
    const auto got = c.to_global();
    for (std::int64_t i = 0; i < 13; ++i) EXPECT_EQ(got[static_cast<std::size_t>(i)], i % 2 == 0 ? 7 : 13);
  }
}

/// Sums along the last dim up to each element.
struct add_up {
  Kokkos::View<const double**, Kokkos::LayoutRight, cleave::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>> from;
  Kokkos::View<double**, Kokkos::LayoutRight, cleave::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>> to;
  bool backwards;
  CLEAVE_FUNCTION void operator()(std::int64_t i) const {
    double total = 0;
    const auto n = static_cast<std::int64_t>(from.extent(1));
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t j = backwards ? n - 1 - k : k;
      total += from(i, j);
      to(i, j) = total;
    }
  }
};
template <bool Backwards>
struct cumulative {
  static constexpr std::string_view name = Backwards ? "cumulative_backwards" : "cumulative";
  void operator()(const cleave::local_context&, std::span<const cleave::shard> in, const cleave::shard& out) const {
    Kokkos::parallel_for("add_up",
                         Kokkos::RangePolicy<cleave::execution_space>(0, static_cast<std::size_t>(out.local[0])),
                         add_up{in[0].view<const double**>(), out.view<double**>(), Backwards});
    Kokkos::fence();
  }
};
// With its derivative: the cotangent summed from the other end.
constexpr auto cumulative_sum = cleave::custom_vjp(
    [](auto x) { return std::pair(cleave::call<cumulative<false>>(cleave::whole(time_dim), x), std::tuple()); },
    [](auto, auto g) { return cleave::call<cumulative<true>>(cleave::whole(time_dim), g); });

TEST(operations, on_shards_that_the_planner_divides) {
  using X = tensor<double, mesh(row / data / model, time_dim)>;
  using Turned = tensor<double, mesh(row, time_dim / data)>;
  constexpr cleave::function f([](auto x) { return cumulative_sum(x * 2) + 1; });
  // The rows stay where they are; a sharded time is gathered for the kernel and sharded again.
  static_assert(cleave::plan<X(X)>(f).collectives() == 0);
  static_assert(cleave::plan<Turned(Turned)>(f, cleave::expect<model, 1>{}).count(cleave::kind::all_to_all) == 2);
  for (const cleave::grid& g : grids())
    for (std::int64_t rows : {0, 1, 3, 8, 11}) {
      X x(g, {rows, 6}), y(g, {rows, 6});
      Turned t(g, {rows, 6});
      x.fill_by([](const auto& at) { return wave(at[0], at[1]); });
      y = f(x);
      t = x;
      t = f(t);
      const auto slope = cleave::grad(cleave::function([](auto v) { return sum(cumulative_sum(v) * v); }))(x).make();
      const auto got = y.to_global(), turned = t.to_global(), by = slope.to_global();
      for (std::int64_t i = 0; i < rows; ++i) {
        double before = 0, all = 0;
        for (std::int64_t j = 0; j < 6; ++j) all += wave(i, j);
        for (std::int64_t j = 0; j < 6; ++j) {
          before += wave(i, j);
          const auto at = static_cast<std::size_t>(i * 6 + j);
          ASSERT_NEAR(got[at], 2 * before + 1, 1e-13);
          ASSERT_NEAR(turned[at], 2 * before + 1, 1e-13);
          // d/dv_j of sum_i v_i sum_{k<=i} v_k.
          ASSERT_NEAR(by[at], before + all - before + wave(i, j), 1e-13);
        }
      }
    }
}

/// In manual mode: the largest magnitude of all, by hand.
struct fold_magnitude {
  Kokkos::View<const double*, Kokkos::LayoutRight, cleave::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>> from;
  CLEAVE_FUNCTION void operator()(std::size_t i, double& most) const {
    most = Kokkos::fmax(most, Kokkos::fabs(from(i)));
  }
};
struct largest_magnitude {
  static constexpr std::string_view name = "largest_magnitude";
  void operator()(const cleave::local_context& here, std::span<const cleave::shard> in,
                  const cleave::shard& out) const {
    const auto x = in[0].view<const double*>();
    const auto result = out.view<double>();
    double most = 0;
    Kokkos::parallel_reduce("fold_magnitude", Kokkos::RangePolicy<cleave::execution_space>(0, x.extent(0)),
                            fold_magnitude{x}, Kokkos::Max<double>(most));
    Kokkos::deep_copy(result, x.extent(0) == 0 ? 0.0 : most);
    here.all_reduce(result, cleave::reduction::max, data, model);
  }
  static std::int64_t bytes(std::span<const cleave::shape>, const cleave::axis_sizes& mesh_sizes) {
    const std::int64_t n = mesh_sizes.devices();
    return 2 * (n - 1) * 8 / n;
  }
};

TEST(operations, in_manual_mode_with_a_collective) {
  using X = tensor<double, mesh(row / data / model)>;
  using Number = tensor<double, mesh()>;
  constexpr cleave::function f([](auto x) {
    return 2 * cleave::local<largest_magnitude>(cleave::result<double>(mesh()), reshard(x, mesh(row / data / model)));
  });
  for (const cleave::grid& g : grids()) {
    X x(g, {11});
    Number y(g, {});
    x.fill_by([](const auto& at) { return at[0] == 7 ? -5.0 : wave(at[0], 0); });
    y = f(x);
    EXPECT_EQ(y.item(), 10);
    support::reset_charges();
    y = f(x);
    const std::int64_t moved = support::over_ranks(support::charged_bytes());
    EXPECT_EQ(moved, (cleave::plan<Number(X)>(f).bytes({data = g.size(data), model = g.size(model), row = 11})));
  }
}

/// A copy, or an exception on every rank.
struct may_throw {
  static constexpr std::string_view name = "may_throw";
  static inline bool now = false, mpi_fails_too = false;
  void operator()(const cleave::local_context&, std::span<const cleave::shard> in, const cleave::shard& out) const {
    if (now && mpi_fails_too) support::fail_calls(1);
    if (now) throw std::runtime_error("stopped");
    Kokkos::deep_copy(out.view<double**>(), in[0].view<const double**>());
  }
};
// Rows are under way to their neighbours while the kernel runs. What it throws leaves none of them behind.
using Timed = tensor<double, mesh(row / data / model, time_dim)>;
constexpr cleave::function beside_an_exchange([](auto x) {
  const cleave::value turned = roll(x, row, 1),
                      copied = cleave::call<may_throw>(cleave::whole(time_dim), cleave::value(x));
  return turned * copied;
});
template <class Planned>
constexpr int in_flight(const Planned&) {
  int count = 0;
  for (const cleave::step& s : Planned::plan_type::steps) count += s.in_flight ? 1 : 0;
  return count;
}
static_assert(in_flight(cleave::plan<Timed(Timed)>(beside_an_exchange)) == 1);
TEST(operations, may_throw_while_an_exchange_is_under_way) {
  for (const cleave::grid& g : grids()) {
    Timed x(g, {9, 50}), y(g, {9, 50});
    for (int times = 0; times < 4; ++times) {
      x.fill_by([&](const auto& at) { return wave(at[0], at[1]) + times; });
      may_throw::now = times % 2 == 0;
      if (may_throw::now) {
        EXPECT_THROW(y = beside_an_exchange(x), std::runtime_error);
        continue;
      }
      y = beside_an_exchange(x);
      const auto got = y.to_global();
      for (std::int64_t i = 0; i < 9; ++i)
        for (std::int64_t j = 0; j < 50; ++j)
          ASSERT_EQ(got[static_cast<std::size_t>(i * 50 + j)], (wave((i + 8) % 9, j) + times) * (wave(i, j) + times));
    }
  }
}

// What is under way then cannot be finished either.
TEST(operations, may_throw_while_an_exchange_fails) {
  const support::only_mpi transport;
  const std::int64_t n = support::ranks();
  const cleave::grid g(mesh, MPI_COMM_WORLD, {n, 1});
  Timed x(g, {2 * n, 50}), y(g, {2 * n, 50});
  y = beside_an_exchange(x);
  may_throw::now = may_throw::mpi_fails_too = true;
  if (n > 1) {
    EXPECT_THROW(y = beside_an_exchange(x), cleave::mpi_error);
    EXPECT_THROW(y = beside_an_exchange(x), cleave::mpi_error);
  } else {
    EXPECT_THROW(y = beside_an_exchange(x), std::runtime_error);
  }
  support::fail_calls(0);
  may_throw::now = may_throw::mpi_fails_too = false;
  EXPECT_EQ(g.state().broken(), n > 1);
}

/// Each device's shard replaced by that of its neighbour, its rows counted, and all of it gathered.
struct exchange {
  static constexpr std::string_view name = "exchange";
  void operator()(const cleave::local_context& here, std::span<const cleave::shard> in,
                  const cleave::shard& out) const {
    const auto mine = in[0].view<const double*>();
    const auto all = out.view<double*>();
    Kokkos::View<double*, Kokkos::LayoutRight, cleave::memory_space> theirs("theirs", mine.extent(0)),
        parts("parts", all.extent(0));
    here.shift(mine, theirs, 1, data);
    here.all_gather(theirs, parts, data);
    // Every device adds the same: the sum of equal parts is their number times as much.
    Kokkos::View<double*, Kokkos::LayoutRight, cleave::memory_space> part("part", mine.extent(0));
    here.reduce_scatter(parts, part, cleave::reduction::sum, data);
    here.all_gather(part, all, data);
    EXPECT_EQ(here.size(data), static_cast<std::int64_t>(all.extent(0) / mine.extent(0)));
    EXPECT_EQ(here.index(data), in[0].offset[0] / in[0].local[0]);
    EXPECT_THROW((void)in[0].view<const float*>(), cleave::view_error);
    EXPECT_THROW((void)in[0].view<const double**>(), cleave::view_error);
    EXPECT_THROW(here.all_gather(mine, part, data), cleave::view_error);
  }
};
/// The shard of the device in the middle of an axis, on every device.
struct middle_shard {
  static constexpr std::string_view name = "middle_shard";
  void operator()(const cleave::local_context& here, std::span<const cleave::shard> in,
                  const cleave::shard& out) const {
    const auto to = out.view<double*>();
    Kokkos::deep_copy(to, in[0].view<const double*>());
    here.broadcast(to, here.size(data) / 2, data);
    EXPECT_THROW(here.broadcast(to, here.size(data), data), cleave::grid_error);
    EXPECT_THROW(here.broadcast(to, -1, data), cleave::grid_error);
  }
  static std::int64_t bytes(std::span<const cleave::shape> shards, const cleave::axis_sizes& axes) {
    return axes[0] > 1 ? 8 * shards[1].elements() : 0;
  }
};
TEST(operations, in_manual_mode_with_a_broadcast) {
  using X = tensor<double, mesh(row / data)>;
  using Panel = tensor<double, mesh(panel)>;
  constexpr cleave::function f([](auto x) {
    return cleave::local<middle_shard>(cleave::result<double>(mesh(panel)), reshard(x, mesh(row / data)));
  });
  for (const cleave::grid& g : grids()) {
    X x(g, {5 * g.size(data)});
    Panel y(g, {5});
    x.fill_by([](const auto& at) { return wave(at[0], 3); });
    y = f(x);
    const auto got = y.to_global();
    for (std::int64_t i = 0; i < 5; ++i) ASSERT_EQ(got[static_cast<std::size_t>(i)], wave(g.size(data) / 2 * 5 + i, 3));
    support::reset_charges();
    y = f(x);
    const std::int64_t moved = support::over_ranks(support::charged_bytes());
    EXPECT_EQ(moved, g.size(data) > 1 ? 5 * 8 : 0);
    EXPECT_EQ(moved, (cleave::plan<Panel(X)>(f).bytes(
                         {data = g.size(data), model = g.size(model), row = 5 * g.size(data), panel = 5})));
  }
}

// Device r sends r + d numbers to device d: as many as both together say, from all to all.
struct deal {
  static constexpr std::string_view name = "deal";
  void operator()(const cleave::local_context& here, std::span<const cleave::shard> in,
                  const cleave::shard& out) const {
    const std::int64_t devices = here.size(data), me = here.index(data);
    std::vector<std::int64_t> counts;
    for (std::int64_t d = 0; d < devices; ++d) counts.push_back(me + d);
    const auto from = in[0].view<const double*>();
    const auto to = out.view<double*>();
    here.all_to_all(from, counts, to, counts, data);
    const auto nothing = Kokkos::subview(to, std::pair<std::size_t, std::size_t>(0, 0));
    counts.back() += 1;
    EXPECT_THROW(here.all_to_all(from, counts, nothing, counts, data), cleave::view_error);
    counts.pop_back();
    EXPECT_THROW(here.all_to_all(from, counts, to, counts, data), cleave::view_error);
  }
};
TEST(operations, in_manual_mode_with_pieces_of_any_length) {
  using X = tensor<double, mesh(row / data)>;
  constexpr cleave::function f([](auto x) {
    return cleave::local<deal>(cleave::result<double>(mesh(row / data)), reshard(x, mesh(row / data)));
  });
  for (const cleave::grid& g : grids()) {
    const std::int64_t devices = g.size(data), room = 2 * devices * devices;
    X x(g, {room * devices}), y(g, {room * devices});
    x.fill_by([](const auto& at) { return static_cast<double>(at[0]); });
    y = f(x);
    const auto got = y.to_global();
    for (std::int64_t to = 0; to < devices; ++to)
      for (std::int64_t from = 0, at = to * room; from < devices; ++from) {
        std::int64_t first = from * room;
        for (std::int64_t d = 0; d < to; ++d) first += from + d;
        for (std::int64_t i = 0; i < from + to; ++i, ++at)
          ASSERT_EQ(got[static_cast<std::size_t>(at)], static_cast<double>(first + i));
      }
    const support::only_mpi transport;
    const cleave::grid alone(mesh, MPI_COMM_WORLD, {g.size(data), g.size(model)});
    X u(alone, {room * devices}), v(alone, {room * devices});
    v = f(u);
    support::reset_charges();
    v = f(u);
    std::int64_t others = 0;
    for (std::int64_t d = 0; d < devices; ++d) others += d == g.here()[0] ? 0 : d + g.here()[0];
    EXPECT_EQ(support::charged_bytes(), 8 * others);
  }
}

/// Shards move along an axis in one row of the mesh only, and the other rows wait for that: the first use of a group is
/// behind them all by then.
struct first_row_moves {
  static constexpr std::string_view name = "first_row_moves";
  void operator()(const cleave::local_context& here, std::span<const cleave::shard> in,
                  const cleave::shard& out) const {
    static_cast<void>(here.comm(model));
    const auto to = out.view<double*>();
    if (here.index(data) == 0) here.shift(in[0].view<const double*>(), to, 1, model);
    else Kokkos::deep_copy(to, -1.0);
    MPI_Barrier(here.comm(data, model));
  }
};
TEST(operations, in_manual_mode_some_groups_go_on_alone) {
  using X = tensor<double, mesh(row / data / model)>;
  constexpr cleave::function f([](auto x) {
    return cleave::local<first_row_moves>(cleave::result<double>(mesh(row / data / model)),
                                          reshard(x, mesh(row / data / model)));
  });
  for (const cleave::grid& g : grids()) {
    const std::int64_t columns = g.size(model), devices = g.size();
    X x(g, {devices}), y(g, {devices});
    x.fill_by([](const auto& at) { return static_cast<double>(at[0]); });
    y = f(x);
    const auto got = y.to_global();
    for (std::int64_t i = 0; i < devices; ++i)
      EXPECT_EQ(got[static_cast<std::size_t>(i)],
                i < columns ? static_cast<double>((i + columns - 1) % columns) : -1.0);
  }
}

/// A copy. Device 0 is late, and looks for messages that nobody has sent to a kernel.
struct late_listener {
  static constexpr std::string_view name = "late_listener";
  void operator()(const cleave::local_context& here, std::span<const cleave::shard> in,
                  const cleave::shard& out) const {
    const MPI_Comm comm = here.comm(data);
    Kokkos::deep_copy(out.view<double*>(), in[0].view<const double*>());
    if (here.index(data) != 0) return;
    int found = 0;
    const double start = MPI_Wtime();
    while (found == 0 && MPI_Wtime() < start + 0.1)
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, MPI_STATUS_IGNORE);
    EXPECT_EQ(found, 0);
  }
};
TEST(operations, in_manual_mode_only_kernels_use_the_communicator) {
  using X = tensor<double, mesh(row / data)>;
  constexpr cleave::function f([](auto x) {
    return reshard(cleave::local<late_listener>(cleave::result<double>(mesh(row / data)), reshard(x, mesh(row / data))),
                   mesh(row));
  });
  const support::only_mpi transport;
  const std::int64_t n = support::ranks(), limit = cleave::comm::count_limit();
  const cleave::grid g(mesh, MPI_COMM_WORLD, {n, 1});
  X x(g, {4 * n});
  tensor<double, mesh(row)> y(g, {4 * n});
  x.fill_by([](const auto& at) { return static_cast<double>(at[0]); });
  // So that the shards are gathered by messages.
  cleave::comm::count_limit() = 3;
  y = f(x);
  cleave::comm::count_limit() = limit;
  EXPECT_EQ(y.to_global(), x.to_global());
}

TEST(operations, in_manual_mode_with_every_collective) {
  const std::int64_t n = support::ranks();
  const cleave::grid g(mesh, MPI_COMM_WORLD, {n, 1});
  tensor<double, mesh(row)> y(g, {2 * n});
  tensor<double, mesh(row / data)> x(g, {2 * n});
  x.fill_by([](const auto& at) { return static_cast<double>(at[0]); });
  if (n == 1) return;
  y = cleave::local<exchange>(cleave::result<double>(mesh(row)), reshard(x, mesh(row / data)));
  const auto got = y.to_global();
  for (std::int64_t i = 0; i < 2 * n; ++i)
    EXPECT_EQ(got[static_cast<std::size_t>(i)], static_cast<double>(n * ((i + 2 * n - 2) % (2 * n))));
}

} // namespace CLEAVE_SOURCE
