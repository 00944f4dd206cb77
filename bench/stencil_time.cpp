// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stencils in loops, and state that is updated in place, against the same by hand, both in this process.
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
  const auto run = [&](const std::string& what, double limit, int calls, auto ours, auto theirs) {
    refill();
    ours();
    theirs();
    expect_same(u.data(), hand.data(), mine * n, what);
    out.factor(what + where, measure::compare(comm, calls, seconds, ours, theirs), limit);
  };
  run(
      "Jacobi sweep to another plate", 1.15, 2,
      [&] {
        other = sweep(u);
        std::swap(u, other);
      },
      [&] { hand.sweep(); });
  run("Jacobi sweep, u = sweep(u)", 1.15, 2, [&] { u = sweep(u); }, [&] { hand.sweep(); });
  run(
      "Jacobi sweeps in a loop", 1.15, 1, [&] { u = sweeps(u, times); },
      [&] {
        for (int i = 0; i < times; ++i) hand.sweep();
      });
  run("Jacobi to a tolerance", 1.15, 1, [&] { solve(u, -1.0, times).into(u, change); }, [&] { hand.solve(-1, times); });
}

} // namespace

int main(int argc, char** argv) {
  int provided = 0, status = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    int ranks = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    try {
      if (argc < 2) throw std::runtime_error("usage: stencil_time RESULTS.jsonl [seconds for each measurement]");
      measure::results out(argv[1], MPI_COMM_WORLD);
      const double seconds = argc > 2 ? std::atof(argv[2]) : 2;
      run_plates(out, MPI_COMM_WORLD, ranks, seconds, 256);
      run_plates(out, MPI_COMM_WORLD, ranks, seconds, 2048);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "%s\n", e.what());
      status = 1;
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  MPI_Finalize();
  return status;
}
