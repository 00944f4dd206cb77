// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stencils in loops, and state that is updated in position, against the same by hand, both in this process.
//
//   mpirun -n 2 stencil_time RESULTS.jsonl [seconds for each measurement]
#include "by_hand_stencils.hpp"
#include "measure.hpp"

#include <cleave/cleave.hpp>

#include <cmath>
#include <cstdlib>
#include <stdexcept>

namespace {

inline constexpr cleave::axis<"ranks"> line;
inline constexpr cleave::mesh mesh{line};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"column"> column;
using Plate = cleave::tensor<double, mesh(row / line, column)>;
using Number = cleave::tensor<double, mesh()>;

template <class V>
constexpr auto swept(V u) {
  const auto mean = 0.25 * (shift(u, row, 1) + shift(u, row, -1) + shift(u, column, 1) + shift(u, column, -1));
  return cleave::interior(mean, u, 1, row, column);
}
constexpr cleave::function sweep([](auto u) { return swept(u); });
constexpr cleave::function sweeps([](auto u, auto times) {
  return repeat_times(times, u, [](auto now) { return swept(now); });
});
constexpr cleave::function solve([](auto u, auto tolerance, auto most) {
  return repeat_until(
      std::tuple(u, tolerance),
      [](auto state) {
        const auto now = std::get<0>(state), next = swept(now);
        return std::tuple(next, max(abs(next - now)));
      },
      [=](auto state) { return std::get<1>(state) < tolerance; }, most);
});

/// Both programs must have computed the same, or their times say nothing.
void expect_same(const double* ours, const double* theirs, std::int64_t n, const std::string& what) {
  for (std::int64_t i = 0; i < n; ++i)
    if (!(std::fabs(ours[i] - theirs[i]) <= 1e-12)) throw std::runtime_error("the two programs differ in " + what);
}

void run_plates(measure::results& out, MPI_Comm comm, int ranks, double seconds, long n) {
  const cleave::grid grid(mesh, comm, {ranks});
  Plate u(grid, {n, n}), other(grid, {n, n});
  Number change(grid, {});
  const long mine = static_cast<long>(u.local_extents()[0]);
  by_hand::plate hand(comm, mine, n);
  const auto refill = [&] {
    u.fill_by(
        [](const auto& at) { return std::sin(0.1 * static_cast<double>(at[0])) + static_cast<double>(at[1] % 7); });
    std::copy_n(u.data(), mine * n, hand.data());
  };
  const std::string where = ", " + std::to_string(n) + "^2 on " + std::to_string(ranks) +
                            (ranks == 1 ? " rank" : " ranks");
  constexpr int times = 10;
  // Of large plates: one is read and one written in a sweep.
  const double bytes = n > 1024 ? 2.0 * sizeof(double) * static_cast<double>(n * n) : 0;
  const auto run = [&](const std::string& what, double limit, int calls, int swept, auto ours, auto theirs) {
    refill();
    ours();
    theirs();
    expect_same(u.data(), hand.data(), mine * n, what);
    out.factor(what + where, measure::compare(comm, calls, seconds, ours, theirs), limit,
               bytes > 0 ? measure::work::bytes(swept * bytes) : measure::work{});
  };
  run(
      "Jacobi sweep to another plate", 1.1, 2, 1,
      [&] {
        other = sweep(u);
        std::swap(u, other);
      },
      [&] { hand.sweep(); });
  run("Jacobi sweep, u = sweep(u)", 1.1, 2, 1, [&] { u = sweep(u); }, [&] { hand.sweep(); });
  run(
      "Jacobi sweeps in a loop", 1.15, 1, times, [&] { u = sweeps(u, times); },
      [&] {
        for (int i = 0; i < times; ++i) hand.sweep();
      });
  run(
      "Jacobi to a tolerance", 1.15, 1, times, [&] { solve(u, -1.0, times).into(u, change); },
      [&] { hand.solve(-1, times); });
}

inline constexpr cleave::dim<"head"> head;
inline constexpr cleave::dim<"position"> position;
inline constexpr cleave::dim<"one", 1> one;
inline constexpr cleave::dim<"feature"> feature;
using Cache = cleave::tensor<float, mesh(head / line, position, feature)>;
using Row = cleave::tensor<float, mesh(head / line, one, feature)>;
constexpr cleave::function store([](auto cache, auto row, auto at) {
  return cleave::dynamic_update(cache, position, row, one, at);
});

/// A row for each head, into caches of two sizes.
void run_cache(measure::results& out, MPI_Comm comm, int ranks, double seconds, long positions) {
  const cleave::grid grid(mesh, comm, {ranks});
  constexpr long heads = 32, features = 128;
  Cache cache(grid, {heads, positions, features});
  Row row(grid, {heads, 1, features});
  row.fill_by([](const auto& at) { return std::sin(static_cast<float>(at[0] + at[2])); });
  const long mine = static_cast<long>(cache.local_extents()[0]);
  Kokkos::View<float*> hand("cache", static_cast<std::size_t>(mine * positions * features));
  int next = 0, next_by_hand = 0;
  const auto ours = [&] { cache = store(cache, row, next++ % static_cast<int>(positions)); };
  const auto theirs = [&] {
    by_hand::write_row(hand.data(), row.data(), next_by_hand++ % positions, mine, positions, features);
  };
  ours();
  theirs();
  for (long i = 0; i < mine * positions * features; ++i)
    if (cache.data()[i] != hand.data()[i]) throw std::runtime_error("the two programs differ in the cache");
  out.above("a row into a cache of " + std::to_string(positions) + " positions on " + std::to_string(ranks) +
                (ranks == 1 ? " rank" : " ranks"),
            measure::compare(comm, 20, seconds, ours, theirs), 15);
}

constexpr cleave::function settle([](auto x, auto most) {
  return repeat_until(x, [](auto now) { return 0.5 * now + 1.0; }, [](auto now) { return now < -1.0; }, most);
});

/// A loop over one number: what an iteration costs beside the work.
void run_numbers(measure::results& out, MPI_Comm comm, int ranks, double seconds) {
  const cleave::grid grid(mesh, comm, {ranks});
  Number x(grid, {}), y(grid, {});
  x.fill(3);
  constexpr int times = 1000;
  volatile double by_hand = 0;
  const auto ours = [&] { y = settle(x, times); };
  const auto theirs = [&] {
    by_hand = 3;
    for (int i = 0; i < times && by_hand >= -1; ++i) by_hand = 0.5 * by_hand + 1;
  };
  ours();
  theirs();
  if (y.item() != by_hand) throw std::runtime_error("the two programs differ in the number");
  out.above("1000 iterations over one number on " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks"),
            measure::compare(comm, 20, seconds, ours, theirs), 200);
}

} // namespace

int main(int argc, char** argv) {
  return measure::run(argc, argv, 2, [](const measure::task& t) {
    run_plates(t.out, t.comm, t.ranks, t.seconds, 256);
    run_plates(t.out, t.comm, t.ranks, t.seconds, 2048);
    run_numbers(t.out, t.comm, t.ranks, t.seconds);
    run_cache(t.out, t.comm, t.ranks, t.seconds, 256);
    run_cache(t.out, t.comm, t.ranks, t.seconds, 8192);
  });
}
