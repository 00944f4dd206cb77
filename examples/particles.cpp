// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Particle-in-cell in two dimensions: two beams of charges run through each other in a periodic box, and their waves
// grow until they trap the particles (two-stream instability). The rate of growth is compared with the theory of cold
// beams, and energy and momentum with those of the start.
//
// A step deposits the charges on a grid (bilinear weights, `scatter_add`), solves Poisson's equation (conjugate
// gradients from the potential of the last step), and gathers the field at the particles (`gather`), which leap. Now
// and then the particles are sorted by cell, so that neighbours in space are neighbours in memory. Lengths are in
// cells, times in 1 / plasma frequency.
//
//   mpirun -n 4 particles [--cols 64] [--rows 16] [--steps 400] [--image phase_space.png] [--log energies.csv]
#include "image.hpp"
#include "options.hpp"
#include "progress.hpp"

#include <cleave/cleave.hpp>
#include <cleave/solve/cg.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace pic {

using cleave::value;
inline constexpr cleave::axis<"ranks"> ranks;
inline constexpr cleave::mesh mesh{ranks};
inline constexpr cleave::dim<"particle"> particle;
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"cell"> cell; // row and col in one
inline constexpr cleave::dim<"speed"> speed;
inline constexpr cleave::dim<"corner", 4> corner;

using Each = cleave::tensor<double, mesh(particle / ranks)>;
using Field = cleave::tensor<double, mesh(row / ranks, col)>;
using Picture = cleave::tensor<double, mesh(speed, col / ranks)>;
using Number = cleave::tensor<double, mesh()>;

/// The four points of the grid around a particle, by their index among all, and their parts in it.
struct place {
  value points, parts;
};
constexpr place place_of(const value& y, const value& x, const value& rows, const value& cols) {
  const value i = floor(y), j = floor(x), below = y - i, right = x - j;
  const auto next = [](const value& k, const value& n) { return select(k + 1 < n, k + 1, 0.0); };
  const auto at = [&](const value& a, const value& b) { return cleave::cast<int>(a * cols + b); };
  const value i1 = next(i, rows), j1 = next(j, cols);
  return {stack(corner, at(i, j), at(i, j1), at(i1, j), at(i1, j1)),
          stack(corner, (1 - below) * (1 - right), (1 - below) * right, below * (1 - right), below * right)};
}
// Into [0, length), where -1e-20 + length would be length.
constexpr value wrapped(const value& x, const value& length) {
  const value inside = x - length * floor(x / length);
  return select(inside < length, inside, 0.0);
}

// The charges in each cell. All have the same sign, and a background of the opposite one makes the box neutral.
constexpr cleave::function deposit([](auto y, auto x, auto rows, auto cols, auto charge) {
  const auto [points, parts] = place_of(y, x, rows, cols);
  const auto density = split(scatter_add(charge * parts, points, cell), cell, row, col);
  return density - mean(density);
});
constexpr auto laplacian = [](auto u) {
  return 4 * u - roll(u, row, 1) - roll(u, row, -1) - roll(u, col, 1) - roll(u, col, -1);
};
constexpr cleave::function solve([](auto density, auto before) {
  const auto s = cleave::solve::cg(laplacian, density, {.tolerance = 1e-9, .iterations = 1000, .start = before});
  return std::tuple(s.solution, 0.5 * sum(density * s.solution));
});
// A step of all particles: velocities from half a step before to half a step after, then places. Also their energy at
// the time between both velocities, and their momentum to the right.
constexpr cleave::function leap([](auto y, auto x, auto v, auto u, auto potential, auto rows, auto cols, auto time,
                                   auto mass) {
  const auto [points, parts] = place_of(y, x, rows, cols);
  const value whole = reshard(potential, mesh(row, col)); // gathered once, in place of both parts of the field
  const auto felt = [&](const value& field) {
    return sum(parts * gather(merge(field, row, col, cell), cell, points), corner);
  };
  const value v1 = v + 0.5 * time * felt(roll(whole, row, 1) - roll(whole, row, -1)),
              u1 = u + 0.5 * time * felt(roll(whole, col, 1) - roll(whole, col, -1));
  return std::tuple(wrapped(y + time * v1, rows), wrapped(x + time * u1, cols), v1, u1,
                    0.5 * mass * sum(v * v1 + u * u1), mass * sum(u1));
});
constexpr cleave::function in_order([](auto y, auto x, auto v, auto u, auto cols) {
  const auto order = argsort(cleave::cast<int>(floor(y) * cols + floor(x)), particle);
  const auto ordered = [&](const value& all) { return take_along(all, order, particle); };
  return std::tuple(ordered(y), ordered(x), ordered(v), ordered(u));
});
// How many particles have a place and a speed to the right; the fastest and the slowest are not counted beyond `most`.
constexpr cleave::function phase_space([](auto x, auto u, auto speeds, auto cols, auto most) {
  const value faster = floor((most - u) / (2 * most) * speeds), line = minimum(maximum(faster, 0.0), speeds - 1);
  return split(scatter_add(0 * u + 1, cleave::cast<int>(line * cols + floor(x)), cell), cell, speed, col);
});

// No particle moves to another device: the potential is all that does, and two numbers.
using Leap = std::tuple<Each, Each, Each, Each, Number, Number>(Each, Each, Each, Each, Field, double, double, double,
                                                                double);
constexpr auto plan = cleave::plan<Leap>(leap);
static_assert(plan.count(cleave::kind::all_gather) == 1 && plan.count(cleave::kind::exchange) == 0);

constexpr std::string_view usage =
    "usage: particles [options]\n"
    "  --rows N         cells from top to bottom, at least 2 (16)\n"
    "  --cols N         cells from left to right, a wavelength, at least 16 (64)\n"
    "  --each N         particles of a beam in a cell, a square number (4)\n"
    "  --steps N        time steps of 0.1 (400)\n"
    "  --sort N         steps between sorts by cell (25)\n"
    "  --image FILE     where places and speeds of the particles are drawn at the end, as a PNG file\n"
    "  --log FILE       a CSV file for the energies\n";

/// The rate at which the logarithm of the numbers rises in each step, by the line through those from `first` on.
double slope(const std::vector<double>& numbers, std::size_t first, std::size_t last) {
  const double n = static_cast<double>(last - first), middle = 0.5 * (n - 1);
  double up = 0, all = 0;
  for (std::size_t k = first; k < last; ++k) {
    const double at = static_cast<double>(k - first) - middle;
    up += at * std::log(numbers[k]);
    all += at * at;
  }
  return up / all;
}

int run(examples::options& given, int processes, bool speaks) {
  const long rows = given.number("--rows", 16L), cols = given.number("--cols", 64L), each = given.number("--each", 4L),
             steps = given.number("--steps", 400L), every = given.number("--sort", 25L);
  const std::string image = given.text("--image"), log = given.text("--log");
  given.done();
  const long side = std::lround(std::sqrt(static_cast<double>(each)));
  if (rows < 2 || cols < 16) throw std::runtime_error("particles: --rows is at least 2, and --cols at least 16");
  if (side * side != each) throw std::runtime_error("particles: --each is a square number");

  cleave::grid grid(mesh, MPI_COMM_WORLD, {processes});
  const long count = 2 * each * rows * cols;
  if (speaks)
    std::printf(
        "%ld particles in %ld x %ld cells on %d processes; the plan of their step:\n\n%s\n", count, rows, cols,
        processes,
        explain(plan, {particle = count, row = rows, col = cols, cell = rows * cols, ranks = processes}).c_str());

  // The wave grows fastest whose phase a beam passes at this rate. Each beam is half of the charge, and a cell has 1.
  const double pi = std::acos(-1.0), passed = std::sqrt(3.0 / 8), time = 0.1;
  const double theory = std::sqrt(0.5 * (std::sqrt(8 * passed * passed + 1) - 2 * passed * passed - 1));
  const double height = static_cast<double>(rows), width = static_cast<double>(cols);
  const double beam = passed * width / (2 * pi), charge = 0.5 / static_cast<double>(each);

  // Both beams fill the cells evenly, but for a wave along them and a smaller one across. The order is that of cells.
  struct start {
    double y, x, speed;
  };
  const auto start_of = [&](std::int64_t n) {
    const std::int64_t in_cell = n / 2 % each, at = n / 2 / each;
    const auto part = [&](std::int64_t k) { return (static_cast<double>(k) + 0.5) / static_cast<double>(side); };
    const double y = static_cast<double>(at / cols) + part(in_cell / side),
                 x = static_cast<double>(at % cols) + part(in_cell % side);
    const double phase = 2 * pi * x / width;
    const double moved = 1e-3 * (std::sin(phase) + 0.3 * std::sin(phase + 2 * pi * y / height));
    return start{y, std::fmod(x + moved + width, width), n % 2 == 0 ? beam : -beam};
  };
  Each y(grid, {count}), x(grid, {count}), v(grid, {count}), u(grid, {count});
  y.fill_by([&](const auto& at) { return start_of(at[0]).y; });
  x.fill_by([&](const auto& at) { return start_of(at[0]).x; });
  u.fill_by([&](const auto& at) { return start_of(at[0]).speed; });

  Field density(grid, {rows, cols}), potential(grid, {rows, cols});
  Number field(grid, {}), kinetic(grid, {}), momentum(grid, {});
  std::vector<double> waves, totals;
  double drift = 0, seconds = 0;
  examples::csv_log numbers(speaks, log, "step,time,field,kinetic,total,momentum");
  examples::curve total, wave;
  examples::progress bar(speaks, steps, count, "particles");
  for (long k = 0; k < steps; ++k) {
    const double begun = MPI_Wtime();
    if (k % every == 0) in_order(y, x, v, u, width).into(y, x, v, u);
    density = deposit(y, x, height, width, charge);
    solve(density, potential).into(potential, field);
    leap(y, x, v, u, potential, height, width, time, charge).into(y, x, v, u, kinetic, momentum);
    waves.push_back(field.item());
    totals.push_back(waves.back() + kinetic.item());
    seconds += MPI_Wtime() - begun;
    drift = std::max(drift, std::abs(momentum.item()));
    total.add(totals.back());
    wave.add(waves.back());
    numbers.write({static_cast<double>(k), time * static_cast<double>(k), waves.back(), kinetic.item(), totals.back(),
                   momentum.item()});
    bar.show(k + 1, {{"energy of the field", waves.back()}, {"in all", totals.back()}});
  }
  bar.leave();

  if (!image.empty()) {
    Picture picture(grid, {cols / 2, cols});
    picture = phase_space(x, u, 0.5 * width, width, 2.5 * beam);
    examples::write_image(image, picture, "places and speeds, particles", speaks);
  }
  // The wave grows alone while it has from a ten thousandth to a hundredth of its largest energy.
  const double peak = *std::max_element(waves.begin(), waves.end());
  const auto reaches = [&](double part) {
    return static_cast<std::size_t>(
        std::find_if(waves.begin(), waves.end(), [&](double e) { return e >= part * peak; }) - waves.begin());
  };
  const double rate = 0.5 * slope(waves, reaches(1e-4), reaches(1e-2)) / time;
  const auto [least, largest] = std::minmax_element(totals.begin(), totals.end());
  const double changed = (*largest - *least) / totals.front(), off = std::abs(rate - theory) / theory;
  const double whole = charge * static_cast<double>(count) * beam;
  const bool right = off <= 0.02 && changed <= 0.03 && drift <= 1e-6 * whole;
  if (speaks) {
    std::printf("%s\n%s\n", total.drawn("energy  ").c_str(), wave.drawn("of waves").c_str());
    std::printf("%.2f million particles a second\n", 1e-6 * static_cast<double>(count * steps) / seconds);
    std::printf("waves grow at %.4f, cold beams at %.4f: %.2f %% apart, at most 2 allowed\n", rate, theory, 100 * off);
    std::printf("energy within %.2f %%, at most 3 allowed; momentum within %.1e of a beam's: %s\n", 100 * changed,
                drift / whole, right ? "right" : "WRONG");
  }
  return right ? 0 : 1;
}

} // namespace pic

int main(int argc, char** argv) { return examples::run(argc, argv, pic::usage, pic::run); }
