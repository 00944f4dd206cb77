// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Poisson's equation on the unit square with zeros at its border, by conjugate gradients. The operator is a function;
// the whole solve is one plan: a halo exchange and two numbers for each iteration. At the end the solution is an image,
// and the residuals are a CSV file.
//
//   mpirun -n 4 poisson_cg [--points 100] [--mesh 2x2] [--image poisson.png] [--log poisson.csv]
#include "image.hpp"
#include "options.hpp"
#include "progress.hpp"

#include <cleave/cleave.hpp>
#include <cleave/solve/cg.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace poisson {

inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ay, ax};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"step", 2001> steps; // the history has room for so many residuals

using Field = cleave::tensor<double, mesh(row / ay, col / ax)>;
using Number = cleave::tensor<double, mesh()>;
using Count = cleave::tensor<int, mesh()>;
using History = cleave::tensor<double, mesh(steps)>;

// Minus the Laplacian, times the square of the spacing. Beyond the border shift gives zeros.
constexpr auto laplacian = [](auto u) {
  return 4 * u - shift(u, row, 1) - shift(u, row, -1) - shift(u, col, 1) - shift(u, col, -1);
};
constexpr cleave::function solve([](auto right, auto tolerance, auto most) {
  return cleave::solve::cg(laplacian, right, {.tolerance = tolerance, .iterations = most}, cleave::solve::identity{},
                           steps);
});
constexpr cleave::function distance([](auto u, auto v) { return max(abs(u - v)); });

constexpr auto plan = cleave::plan<std::tuple<Field, Number, Count, Count, History>(Field, double, int)>(solve);
// Two numbers before the loop, in one message; in it a halo exchange and two numbers.
static_assert(plan.count(cleave::kind::exchange) == 1 && plan.count(cleave::kind::all_reduce) == 4);

constexpr std::string_view usage =
    "usage: poisson_cg [options]\n"
    "  --points N       points of the interior in each direction (100)\n"
    "  --mesh RxC       processes in both directions (as square as possible)\n"
    "  --tolerance T    of the residual, relative to the right-hand side (1e-10)\n"
    "  --iterations N   give up after so many (2000)\n"
    "  --image FILE     where the solution is written, as a PNG file\n"
    "  --log FILE       a CSV file for the residuals\n";

int run(examples::options& given, int ranks, bool speaks) {
  const long points = given.number("--points", 100L);
  const int most = given.number("--iterations", 2000);
  const double tolerance = given.number("--tolerance", 1e-10);
  const std::array<long, 2> sizes = examples::mesh_of(given.sizes("--mesh"), ranks);
  const std::string image = given.text("--image"), log = given.text("--log");
  given.done();

  cleave::grid grid(mesh, MPI_COMM_WORLD, {sizes[0], sizes[1]});
  if (speaks)
    std::printf("%ld x %ld points on %ld x %ld processes; the plan of the solve:\n\n%s\n", points, points, sizes[0],
                sizes[1], explain(plan, {row = points, col = points, ay = sizes[0], ax = sizes[1]}).c_str());

  // The differences of this solution are exact, so what remains is the error of the solve.
  const double spacing = 1 / static_cast<double>(points + 1);
  const auto place = [&](std::int64_t i) { return spacing * static_cast<double>(i + 1); };
  const auto bump = [](double t) { return t * (1 - t); };
  Field right(grid, {points, points}), exact(grid, {points, points}), u(grid, {points, points});
  right.fill_by([&](const auto& at) { return 2 * spacing * spacing * (bump(place(at[0])) + bump(place(at[1]))); });
  exact.fill_by([&](const auto& at) { return bump(place(at[0])) * bump(place(at[1])); });

  Number residual(grid, {}), largest(grid, {});
  Count iterations(grid, {}), ended(grid, {});
  History history(grid, {std::int64_t{2001}});
  const double start = MPI_Wtime();
  solve(right, tolerance, most).into(u, residual, iterations, ended, history);
  const int count = iterations.item();
  const double seconds = MPI_Wtime() - start;
  const std::vector<double> residuals = history.to_global();
  examples::csv_log numbers(speaks, log, "iteration,residual");
  for (int k = 0; k <= std::min(count, 2000) && !log.empty(); ++k)
    numbers.write({static_cast<double>(k), residuals[static_cast<std::size_t>(k)]});
  examples::write_image(image, u, "solution", speaks);
  for (int k = 0; speaks && k < std::min(count, 2001); k += 50)
    std::printf("iteration %5d  residual %.3e\n", k, residuals[static_cast<std::size_t>(k)]);
  if (speaks)
    std::printf("iteration %5d  residual %.3e; %.2f microseconds an iteration\n", count, residual.item(),
                1e6 * seconds / std::max(count, 1));

  // The error is at most the residual over the lowest eigenvalue.
  const double half = std::sin(std::acos(-1.0) * spacing / 2);
  const double allowed = residual.item() / (8 * half * half) + 1e-13;
  largest = distance(u, exact);
  const bool converged = ended.item() == static_cast<int>(cleave::solve::ended::converged);
  const bool right_result = converged && largest.item() <= allowed;
  if (speaks)
    std::printf("%s after %d iterations, error %.3e, at most %.3e allowed: %s\n",
                converged ? "converged" : "NOT converged", count, largest.item(), allowed,
                right_result ? "right" : "WRONG");
  return right_result ? 0 : 1;
}

} // namespace poisson

int main(int argc, char** argv) { return examples::run(argc, argv, poisson::usage, poisson::run); }
