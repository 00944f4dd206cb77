// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Before and after: Jacobi sweeps written by hand with MPI and Kokkos (jacobi_by_hand.hpp), and the same with Cleave on
// Views of the same kind, whose ghosts serve as memory for halos. Both have the same bits; the times are printed.
//
//   mpirun -n 4 jacobi [--rows 512] [--cols 512] [--mesh 2x2] [--sweeps 200]
#include "jacobi_by_hand.hpp"
#include "options.hpp"

#include <cleave/cleave.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <stdexcept>
#include <string_view>

namespace jacobi {

inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ay, ax};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
using Plate = cleave::tensor<double, mesh(row / ay, col / ax)>;

// The whole sweep: what is exchanged, packed and awaited follows from it.
constexpr cleave::function sweep([](auto u) {
  const auto next = 0.25 * (shift(u, row, 1) + shift(u, row, -1) + shift(u, col, 1) + shift(u, col, -1));
  return cleave::interior(next, u, 1, row, col);
});
static_assert(cleave::plan<Plate(Plate)>(sweep).collectives() == 1);

constexpr std::string_view usage =
    "usage: jacobi [options]\n"
    "  --rows N         points from top to bottom, at least 3 (512)\n"
    "  --cols N         points from left to right, at least 3 (512)\n"
    "  --mesh RxC       processes from top to bottom x from left to right (as square as possible)\n"
    "  --sweeps N       sweeps of a round, an even number (200)\n"
    "  --rounds N       rounds, in turns; the fastest of each counts (5)\n";

/// Two blocks of this process with ghosts around them.
struct blocks {
  by_hand::Block u, next;

  explicit blocks(const by_hand::Part& p)
      : u("u", static_cast<std::size_t>(p.extent[0] + 2), static_cast<std::size_t>(p.extent[1] + 2)),
        next("next", static_cast<std::size_t>(p.extent[0] + 2), static_cast<std::size_t>(p.extent[1] + 2)) {
    const auto host = Kokkos::create_mirror_view(u);
    for (std::int64_t i = 0; i < p.extent[0]; ++i)
      for (std::int64_t j = 0; j < p.extent[1]; ++j)
        host(static_cast<std::size_t>(i + 1),
             static_cast<std::size_t>(j + 1)) = examples::noise((p.begin[0] + i) * p.points[1] + p.begin[1] + j);
    Kokkos::deep_copy(u, host);
  }
};

int run(examples::options& given, int ranks, bool speaks) {
  const long rows = given.number("--rows", 512L), cols = given.number("--cols", 512L),
             sweeps = given.number("--sweeps", 200L), rounds = given.number("--rounds", 5L);
  const std::array<long, 2> sizes = examples::mesh_of(given.sizes("--mesh"), ranks);
  given.done();
  if (rows < 3 || cols < 3) throw std::runtime_error("jacobi: --rows and --cols are at least 3");

  const cleave::grid grid(mesh, MPI_COMM_WORLD, {sizes[0], sizes[1]});
  const by_hand::Part part({rows, cols}, {static_cast<int>(sizes[0]), static_cast<int>(sizes[1])}, grid.rank());
  blocks before(part), after(part);
  by_hand::Jacobi hand(MPI_COMM_WORLD, part);
  Plate u(grid, {rows, cols}, cleave::with_ghosts(after.u, {1, 1})),
      next(grid, {rows, cols}, cleave::with_ghosts(after.next, {1, 1}));

  const auto timed = [&](const auto& round) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (long k = 0; k < sweeps; k += 2) round();
    Kokkos::fence();
    MPI_Barrier(MPI_COMM_WORLD);
    return 1e6 * (MPI_Wtime() - start) / static_cast<double>(sweeps + sweeps % 2);
  };
  double by_hand_best = 1e300, cleave_best = 1e300;
  for (long r = 0; r < rounds; ++r) {
    by_hand_best = std::min(by_hand_best, timed([&] {
                              hand.sweep(before.u, before.next);
                              hand.sweep(before.next, before.u);
                            }));
    cleave_best = std::min(cleave_best, timed([&] {
                             next = sweep(u);
                             u = sweep(next);
                           }));
  }

  // The same values where both are now.
  Plate expected(grid, {rows, cols}, cleave::with_ghosts(before.u, {1, 1}));
  const bool same = expected.to_global() == u.to_global();
  if (speaks)
    std::printf(
        "%ld x %ld points on %ld x %ld processes, %ld sweeps\nby hand  %8.2f microseconds a sweep\n"
        "cleave   %8.2f microseconds a sweep, %.2f of it\nthe values are %s\n",
        rows, cols, sizes[0], sizes[1], (sweeps + sweeps % 2) * rounds, by_hand_best, cleave_best,
        cleave_best / by_hand_best, same ? "the same" : "DIFFERENT");
  return same ? 0 : 1;
}

} // namespace jacobi

int main(int argc, char** argv) { return examples::run(argc, argv, jacobi::usage, jacobi::run); }
