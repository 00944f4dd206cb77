// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The heat equation on a plate whose border has fixed temperatures, until nothing changes any more. The plate is
// sharded in both directions; each sweep sets its interior and keeps its border. At the end the temperatures are an
// image.
//
//   mpirun -n 4 heat [--rows 48] [--cols 64] [--mesh 2x2] [--image heat.png] [--log heat.csv]
#include "image.hpp"
#include "options.hpp"
#include "progress.hpp"

#include <cleave/cleave.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>

namespace heat {

inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ay, ax};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;

using Plate = cleave::tensor<double, mesh(row / ay, col / ax)>;
using Number = cleave::tensor<double, mesh()>;

// The longest explicit time step that is stable: every point of the interior becomes the mean of its four neighbours
// (Jacobi).
constexpr cleave::function sweep([](auto u) {
  const auto next = 0.25 * (shift(u, row, 1) + shift(u, row, -1) + shift(u, col, 1) + shift(u, col, -1));
  return cleave::interior(next, u, 1, row, col);
});
// What a sweep would still change.
constexpr cleave::function change([](auto u) { return max(abs(sweep(u) - u), row, col); });
constexpr cleave::function distance([](auto u, auto v) { return max(abs(u - v), row, col); });

// All four neighbours come in one exchange, the edges of a shard without its corners: two rows and two columns of 128
// doubles.
constexpr auto plan = cleave::plan<Plate(Plate)>(sweep);
static_assert(plan.count(cleave::kind::exchange) == 1 && plan.collectives() == 1);
static_assert(plan.bytes({row = 512, col = 512, ay = 4, ax = 4}) == 4 * 128 * 8);
// Sharded in one direction only, twice as many bytes would move for as many devices: two rows of 512.
static_assert(plan.bytes({row = 512, col = 512, ay = 16, ax = 1}) == 2 * 512 * 8);
// The change costs one maximum more.
constexpr auto change_plan = cleave::plan<Number(Plate)>(change);
static_assert(change_plan.count(cleave::kind::all_reduce) == 1 && change_plan.collectives() == 2);

// x^2 - y^2 is harmonic, and its means over four neighbours are exact: the sweeps converge to it at every point.
double exact(double y, double x) { return x * x - y * y; }

constexpr std::string_view usage =
    "usage: heat [options]\n"
    "  --rows N         points from top to bottom, at least 3 (48)\n"
    "  --cols N         points from left to right, at least 3 (64)\n"
    "  --mesh RxC       processes from top to bottom x from left to right (as square as possible)\n"
    "  --tolerance T    stop when a sweep changes no point by more (1e-10)\n"
    "  --sweeps N       give up after so many (100000)\n"
    "  --image FILE     where the temperatures are written at the end, as a PNG file\n"
    "  --log FILE       a CSV file for the changes\n";

int solve(examples::options& given, int ranks, bool speaks) {
  const long rows = given.number("--rows", 48L), cols = given.number("--cols", 64L),
             most = given.number("--sweeps", 100000L);
  const double tolerance = given.number("--tolerance", 1e-10);
  const std::array<long, 2> sizes = examples::mesh_of(given.sizes("--mesh"), ranks);
  const std::string image = given.text("--image"), log = given.text("--log");
  given.done();
  if (rows < 3 || cols < 3)
    throw std::runtime_error("heat: --rows and --cols are at least 3, a plate without interior has nothing to compute");

  cleave::grid grid(mesh, MPI_COMM_WORLD, {sizes[0], sizes[1]});
  if (speaks)
    std::printf("plate %ld x %ld on %ld x %ld processes; the plan of a sweep:\n\n%s\n", rows, cols, sizes[0], sizes[1],
                explain(plan, {row = rows, col = cols, ay = sizes[0], ax = sizes[1]}).c_str());

  const double spacing = 1.0 / static_cast<double>(std::max(rows, cols) - 1);
  const auto solution = [&](const auto& at) {
    return exact(spacing * static_cast<double>(at[0]), spacing * static_cast<double>(at[1]));
  };
  Plate target(grid, {rows, cols}), u(grid, {rows, cols});
  target.fill_by(solution);
  u.fill_by([&](const auto& at) {
    const bool border = at[0] == 0 || at[0] == rows - 1 || at[1] == 0 || at[1] == cols - 1;
    return border ? solution(at) : 0.0; // cold inside
  });

  // A sweep shrinks the slowest wave of the error by this factor.
  const double pi = std::acos(-1.0);
  const double factor = 0.5 *
                        (std::cos(pi / static_cast<double>(rows - 1)) + std::cos(pi / static_cast<double>(cols - 1)));
  // About so many sweeps, since a sweep changes that wave by a hundredth in the beginning. A plate with one free point
  // needs one.
  const double needed = factor > 1e-3 ? std::ceil(std::log(100 * tolerance) / std::log(factor)) : 1;
  const long expected = std::clamp(static_cast<long>(std::min(needed, 1e9)), 1L, most);

  Number largest(grid, {});
  double seconds = 0, changes = 0;
  long sweeps = 0;
  examples::csv_log numbers(speaks, log, "sweep,change");
  examples::progress bar(speaks, expected, rows * cols, "points");
  while (sweeps < most) {
    const double start = MPI_Wtime();
    const long until = std::min(sweeps + 100, most);
    for (; sweeps < until; ++sweeps) u = sweep(u); // in place
    seconds += MPI_Wtime() - start;
    largest = change(u);
    changes = largest.item();
    numbers.write({static_cast<double>(sweeps), changes});
    if (sweeps <= expected) bar.show(sweeps, {{"log10 of the change", std::log10(changes)}});
    if (changes <= tolerance) break;
  }
  bar.leave();
  if (speaks) std::printf("sweep %ld  change %.3e\n", sweeps, changes);
  examples::write_image(image, u, "temperatures", speaks);
  if (speaks) std::printf("%.2f microseconds a sweep\n", 1e6 * seconds / static_cast<double>(sweeps));

  // What is left of the error is the geometric series of the changes.
  const double allowed = 2 * tolerance / (1 - factor) + 1e-14;
  largest = distance(u, target);
  const double error = largest.item();
  const bool right = changes <= tolerance && error <= allowed; // false for NaN
  if (speaks) std::printf("error %.3e, at most %.3e allowed: %s\n", error, allowed, right ? "right" : "WRONG");
  return right ? 0 : 1;
}

} // namespace heat

int main(int argc, char** argv) { return examples::run(argc, argv, heat::usage, heat::solve); }
