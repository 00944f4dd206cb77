// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shallow water in a basin with walls: a hill of water in the middle collapses, and its waves come back from the walls.
// Finite volumes with the flux of Lax and Friedrichs. At the end the water level is an image.
//
//   mpirun -n 4 shallow_water [--rows 240] [--cols 320] [--mesh 2x2] [--image water.png] [--fields water.h5]
#include "image.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "recording.hpp"

#include <cleave/cleave.hpp>
#include <cleave/stencil/field.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace water {

namespace stencil = cleave::stencil;
inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ay, ax};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;

using Field = cleave::tensor<double, mesh(row / ay, col / ax)>;
using Number = cleave::tensor<double, mesh()>;

inline constexpr double gravity = 9.81;

// The depth, and the momenta along the rows and along the columns.
struct state {
  cleave::value depth, down, right;
};
/// What of a state flows in a direction, where `through` is the momentum in that direction.
constexpr state flux(const state& s, const cleave::value& through) {
  const cleave::value speed = through / s.depth;
  return {through, s.down * speed, s.right * speed};
}
constexpr cleave::value pressure(const state& s) { return 0.5 * gravity * s.depth * s.depth; }

// A step of the time `ratio * spacing`. `celerity` is not below the speed of any wave. Water does not flow through
// walls: outside of a wall, the momentum against it has the opposite sign.
constexpr cleave::function step([](auto h, auto hv, auto hu, auto ratio, auto celerity) {
  const auto depth = stencil::star<1>(h, along(row, stencil::wall), along(col, stencil::wall));
  const auto down = stencil::star<1>(hv, along(row, stencil::odd_wall), along(col, stencil::wall));
  const auto right = stencil::star<1>(hu, along(row, stencil::wall), along(col, stencil::odd_wall));
  const auto at = [&](int i, int j) { return state{depth(i, j), down(i, j), right(i, j)}; };
  const state here = at(0, 0), above = at(-1, 0), below = at(1, 0), before = at(0, -1), behind = at(0, 1);

  const state y0 = flux(above, above.down), y1 = flux(below, below.down);
  const state x0 = flux(before, before.right), x1 = flux(behind, behind.right);
  const auto next = [&](auto part) {
    const auto spread = above.*part + below.*part + before.*part + behind.*part - 4 * here.*part;
    const auto flow = (y1.*part - y0.*part) + (x1.*part - x0.*part);
    return here.*part + 0.5 * ratio * (celerity * spread - flow);
  };
  return std::tuple(next(&state::depth), next(&state::down) - 0.5 * ratio * (pressure(below) - pressure(above)),
                    next(&state::right) - 0.5 * ratio * (pressure(behind) - pressure(before)));
});
constexpr cleave::function volume([](auto h) { return sum(h); });
constexpr cleave::function lowest([](auto h) { return min(h); });
// How far the water is from its mirror image, along both dims.
constexpr cleave::function skew([](auto h) { return max(abs(h - flip(h, row))) + max(abs(h - flip(h, col))); });

// A halo for each field, none with corners, in one message to each neighbour; the fluxes of neighbours are computed
// from them, and are not sent.
constexpr auto plan = cleave::plan<std::tuple<Field, Field, Field>(Field, Field, Field, double, double)>(step);
static_assert(plan.count(cleave::kind::exchange) == 1 && plan.collectives() == 1);
static_assert(plan.bytes({row = 512, col = 512, ay = 4, ax = 4}) == 3 * 4 * 128 * 8);

constexpr std::string_view usage =
    "usage: shallow_water [options]\n"
    "  --rows N         cells from top to bottom, at least 2 (240)\n"
    "  --cols N         cells from left to right, at least 2 (320)\n"
    "  --mesh RxC       processes from top to bottom x from left to right (as square as possible)\n"
    "  --steps N        time steps (400)\n"
    "  --image FILE     where the water level is written at the end, as a PNG file\n"
    "  --fields FILE    an HDF5 file for depth and momenta, with an XDMF file for ParaView beside it; needs HDF5\n"
    "  --log FILE       a CSV file for the volume and the least depth\n"
    "  --every N        steps between the fields and the lines in these files (20)\n";

int run(examples::options& given, int ranks, bool speaks) {
  const long rows = given.number("--rows", 240L), cols = given.number("--cols", 320L),
             steps = given.number("--steps", 400L), every = given.number("--every", 20L);
  const std::array<long, 2> sizes = examples::mesh_of(given.sizes("--mesh"), ranks);
  const std::string image = given.text("--image"), fields = given.text("--fields"), log = given.text("--log");
  given.done();
  if (every < 1) throw std::runtime_error("shallow_water: --every is at least 1");
  if (rows < 2 || cols < 2) throw std::runtime_error("shallow_water: --rows and --cols are at least 2");

  cleave::grid grid(mesh, MPI_COMM_WORLD, {sizes[0], sizes[1]});
  if (speaks)
    std::printf("%ld x %ld cells on %ld x %ld processes; the plan of a step:\n\n%s\n", rows, cols, sizes[0], sizes[1],
                explain(plan, {row = rows, col = cols, ay = sizes[0], ax = sizes[1]}).c_str());

  // One metre of water, and a hill of half a metre in the middle. The waves run at sqrt(g h), and the water itself
  // much slower.
  const double shorter = static_cast<double>(std::min(rows, cols));
  Field h(grid, {rows, cols}), down(grid, {rows, cols}), right(grid, {rows, cols});
  h.fill_by([&](const auto& at) {
    const double y = (static_cast<double>(at[0]) - 0.5 * static_cast<double>(rows - 1)) / shorter,
                 x = (static_cast<double>(at[1]) - 0.5 * static_cast<double>(cols - 1)) / shorter;
    return 1 + 0.5 * std::exp(-100 * (x * x + y * y));
  });
  const double celerity = 1.5 * std::sqrt(gravity * 1.5), ratio = 0.45 / celerity;

  Number number(grid, {});
  const auto measured = [&](const auto& f) {
    number = f(h);
    return number.item();
  };
  examples::recording water(grid, fields, 1 / shorter);
  examples::csv_log numbers(speaks, log, "step,time,volume,least_depth");
  const double before = measured(volume);
  const auto record = [&](long k) {
    const double time = static_cast<double>(k) * ratio / shorter;
    using examples::named;
    water.write(time, named{"depth", h}, named{"momentum_down", down}, named{"momentum_right", right});
    if (!log.empty()) numbers.write({static_cast<double>(k), time, measured(volume), measured(lowest)});
  };
  examples::progress bar(speaks, steps, rows * cols, "cells");
  double seconds = 0;
  for (long k = 0; k < steps; ++k) {
    if (k % every == 0) record(k);
    const double start = MPI_Wtime();
    step(h, down, right, ratio, celerity).into(h, down, right);
    seconds += MPI_Wtime() - start;
    bar.show(k + 1, {{"time", static_cast<double>(k + 1) * ratio / shorter}});
  }
  bar.leave();
  record(steps);
  const double after = measured(volume), least = measured(lowest), unlike = measured(skew);

  examples::write_image(image, h, "water levels", speaks);
  if (speaks) std::printf("%.2f microseconds a step\n", 1e6 * seconds / static_cast<double>(steps));
  // No water is lost through walls, and the basin and the hill are symmetric.
  const bool sound = std::abs(after - before) <= 1e-12 * before * std::sqrt(static_cast<double>(steps)) &&
                     unlike <= 1e-10 && least > 0;
  if (speaks)
    std::printf("volume changed by %.1e of itself, symmetric to %.1e, least depth %.3f: %s\n",
                std::abs(after - before) / before, unlike, least, sound ? "right" : "WRONG");
  return sound ? 0 : 1;
}

} // namespace water

int main(int argc, char** argv) { return examples::run(argc, argv, water::usage, water::run); }
