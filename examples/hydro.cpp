// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gas in a box with walls: the equations of Euler in two dimensions, compared with exact solutions. Sod's shock tube
// has a shock, a contact and a rarefaction; Sedov's blast is a point explosion in the corner of the box.
//
// Finite volumes: linear reconstruction with van Leer's limiter, half a time step of Hancock, the fluxes of HLLC (Toro
// 2009, chapters 10 and 14), one direction after the other. Unlike schemes on staggered grids, which carry the internal
// energy and need an artificial viscosity, this one conserves mass and total energy to rounding. Both are checked.
//
//   mpirun -n 4 hydro [--problem sedov] [--cells 200] [--mesh 2x2] [--image hydro.png] [--fields hydro.h5]
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

namespace hydro {

namespace stencil = cleave::stencil;
using cleave::value;
inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ay, ax};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;

using Field = cleave::tensor<double, mesh(row / ay, col / ax)>;
using Number = cleave::tensor<double, mesh()>;

inline constexpr double adiabatic = 1.4;

// Density, velocities along a sweep and across it, pressure.
struct gas {
  value density, along, across, pressure;
};
constexpr value energy(const gas& w) {
  return w.pressure / (adiabatic - 1) + 0.5 * w.density * (w.along * w.along + w.across * w.across);
}
// Mass, momenta and energy: in a cell, or through a face.
struct conserved {
  value mass, along, across, energy;
};

// The slope in a cell whose differences to both neighbours are a and b (van Leer): 0 at an extremum.
constexpr value limited(const value& a, const value& b) { return select(a * b > 0, 2 * a * b / (a + b), 0.0); }

// The gas at both faces of a cell after half a time step. `ratio` is the time step over the spacing.
struct edges {
  gas low, high;
};
constexpr edges edges_of(const gas& before, const gas& here, const gas& behind, const value& ratio) {
  const auto slope = [&](auto part) { return limited(here.*part - before.*part, behind.*part - here.*part); };
  const value rho = slope(&gas::density), u = slope(&gas::along), v = slope(&gas::across), p = slope(&gas::pressure);
  const value half = 0.5 * ratio;
  const gas later{here.density - half * (here.along * rho + here.density * u),
                  here.along - half * (here.along * u + p / here.density), here.across - half * here.along * v,
                  here.pressure - half * (here.along * p + adiabatic * here.pressure * u)};
  return {{later.density - 0.5 * rho, later.along - 0.5 * u, later.across - 0.5 * v, later.pressure - 0.5 * p},
          {later.density + 0.5 * rho, later.along + 0.5 * u, later.across + 0.5 * v, later.pressure + 0.5 * p}};
}

// The flux through a face between two states (HLLC). `middle` is the speed of the contact between both waves; the state
// upwind of it decides, with the wave at its side if the face is behind that wave.
constexpr conserved flux(const gas& l, const gas& r) {
  const value sound_l = sqrt(adiabatic * l.pressure / l.density), sound_r = sqrt(adiabatic * r.pressure / r.density);
  const value wave_l = minimum(l.along - sound_l, r.along - sound_r),
              wave_r = maximum(l.along + sound_l, r.along + sound_r);
  const value through_l = l.density * (wave_l - l.along), through_r = r.density * (wave_r - r.along);
  const value middle = (r.pressure - l.pressure + through_l * l.along - through_r * r.along) / (through_l - through_r);
  const value from_left = middle > 0;
  const auto upwind = [&](auto part) { return select(from_left, l.*part, r.*part); };
  const gas w{upwind(&gas::density), upwind(&gas::along), upwind(&gas::across), upwind(&gas::pressure)};
  const value wave = select(from_left, wave_l, wave_r),
              reached = select(from_left, minimum(wave_l, 0.0), maximum(wave_r, 0.0));
  const value squeezed = (wave - w.along) / (wave - middle), e = energy(w);
  const value e_behind = squeezed * (e + (middle - w.along) * (w.density * middle + w.pressure / (wave - w.along)));
  const value mass = w.density * (w.along + reached * (squeezed - 1));
  return {mass, w.density * (w.along * w.along + reached * (squeezed * middle - w.along)) + w.pressure, w.across * mass,
          w.along * (e + w.pressure) + reached * (e_behind - e)};
}

// A time step along one dim. At walls the gas is mirrored, and the velocity against them has the opposite sign. Slopes
// and fluxes are computed where they are needed, for a cell and its neighbours: the step is one exchange, a pass for
// the velocity beyond walls, and a pass for all else.
constexpr std::array<value, 4> swept(auto dim, const gas& w, const value& ratio) {
  const auto density = stencil::star<2>(w.density, along(dim, stencil::wall)),
             against = stencil::star<2>(w.along, along(dim, stencil::odd_wall)),
             across = stencil::star<2>(w.across, along(dim, stencil::wall)),
             pressure = stencil::star<2>(w.pressure, along(dim, stencil::wall));
  const auto at = [&](int i) { return gas{density(i), against(i), across(i), pressure(i)}; };
  const gas low = at(-1), high = at(1);
  const edges before = edges_of(at(-2), low, w, ratio), here = edges_of(low, w, high, ratio),
              behind = edges_of(w, high, at(2), ratio);
  const conserved in = flux(before.high, here.low), out = flux(here.high, behind.low);
  const value mass = w.density - ratio * (out.mass - in.mass);
  const value u = (w.density * w.along - ratio * (out.along - in.along)) / mass,
              v = (w.density * w.across - ratio * (out.across - in.across)) / mass;
  const value e = energy(w) - ratio * (out.energy - in.energy);
  return {mass, u, v, (adiabatic - 1) * (e - 0.5 * mass * (u * u + v * v))};
}
constexpr cleave::function step_down([](auto density, auto down, auto right, auto pressure, auto ratio) {
  const auto [mass, u, v, p] = swept(row, {density, down, right, pressure}, ratio);
  return std::tuple(mass, u, v, p);
});
constexpr cleave::function step_right([](auto density, auto down, auto right, auto pressure, auto ratio) {
  const auto [mass, u, v, p] = swept(col, {density, right, down, pressure}, ratio);
  return std::tuple(mass, v, u, p);
});
// The fastest waves down and to the right: no wave may cross a cell in a time step.
constexpr cleave::function fastest([](auto density, auto down, auto right, auto pressure) {
  const auto sound = sqrt(adiabatic * pressure / density);
  return std::tuple(max(abs(down) + sound), max(abs(right) + sound));
});
// Mass, energy, and the number of cells whose pressure is above a limit.
constexpr cleave::function totals([](auto density, auto down, auto right, auto pressure, auto limit) {
  return std::tuple(sum(density), sum(energy({density, down, right, pressure})),
                    sum(select(pressure > limit, 1.0, 0.0)));
});
constexpr cleave::function difference([](auto a, auto b) { return mean(abs(a - b)); });

// Two columns of four fields for each neighbour, in one message. Both speeds come from one pass, and are reduced in one
// message.
using Step = std::tuple<Field, Field, Field, Field>(Field, Field, Field, Field, double);
constexpr auto plan = cleave::plan<Step>(step_right);
static_assert(plan.collectives() == 1);
static_assert(plan.bytes({row = 512, col = 512, ay = 4, ax = 4}) == 4 * 2 * 2 * 128 * 8);
static_assert(
    cleave::plan<std::tuple<Number, Number>(Field, Field, Field, Field)>(fastest).count(cleave::kind::all_reduce) == 2);

/// Two neighbouring gases at rest, and the waves between them after a time (Toro 2009, chapter 4).
class shock_tube {
 public:
  struct side {
    double density, pressure;
  };
  shock_tube(side left, side right) : left_(left), right_(right) {
    double low = 0, high = 10 * std::max(left.pressure, right.pressure);
    for (int k = 0; k < 200; ++k) {
      pressure_ = 0.5 * (low + high);
      (gain(left_) + gain(right_) > 0 ? high : low) = pressure_;
    }
    speed_ = 0.5 * (gain(right_) - gain(left_));
  }
  /// The density at `x` after the time `t`; the gases meet at 0.
  double density(double x, double t) const {
    return x < speed_ * t ? density_of(left_, speed_, -x / t) : density_of(right_, -speed_, x / t);
  }

 private:
  static double sound(side s) { return std::sqrt(adiabatic * s.pressure / s.density); }
  /// The velocity that a gas gains through the wave that brings it to the pressure in the middle.
  double gain(side s) const {
    const double a = 2 / ((adiabatic + 1) * s.density), b = (adiabatic - 1) / (adiabatic + 1) * s.pressure;
    if (pressure_ > s.pressure) return (pressure_ - s.pressure) * std::sqrt(a / (pressure_ + b));
    const double power = (adiabatic - 1) / (2 * adiabatic);
    return 2 * sound(s) / (adiabatic - 1) * (std::pow(pressure_ / s.pressure, power) - 1);
  }
  /// At the speed `away` from the middle, on the side of a gas whose middle moves with `toward` against it.
  double density_of(side s, double toward, double away) const {
    const double c = sound(s), g = (adiabatic - 1) / (adiabatic + 1), ratio = pressure_ / s.pressure;
    if (ratio > 1) {
      const double shock = c * std::sqrt((adiabatic + 1) / (2 * adiabatic) * ratio + (adiabatic - 1) / (2 * adiabatic));
      return away > shock ? s.density : s.density * (ratio + g) / (g * ratio + 1);
    }
    if (away > c) return s.density;
    const double tail = c * std::pow(ratio, (adiabatic - 1) / (2 * adiabatic)) - toward;
    if (away < tail) return s.density * std::pow(ratio, 1 / adiabatic);
    return s.density * std::pow(2 / (adiabatic + 1) + g * away / c, 2 / (adiabatic - 1));
  }
  side left_, right_;
  double pressure_ = 0, speed_ = 0;
};

constexpr std::string_view usage =
    "usage: hydro [options]\n"
    "  --problem P      sod: a shock tube from left to right, sod_down: from top to bottom; sedov: a blast (sod)\n"
    "  --cells N        cells along the longer side, at least 32 (200)\n"
    "  --mesh RxC       processes from top to bottom x from left to right (as square as possible)\n"
    "  --image FILE     where the density is written at the end, as a PNG file\n"
    "  --fields FILE    an HDF5 file for the gas, with an XDMF file for ParaView; needs HDF5\n"
    "  --log FILE       a CSV file for times, mass, energy, and the radius of a blast\n"
    "  --every N        pairs of steps between the fields and the lines in these files (10)\n";

enum class problem { sod, sod_down, sedov };
// Sod's gases at the time 0.2, in a tube of length 1.
inline constexpr shock_tube::side dense{1.0, 1.0}, thin{0.125, 0.1};
// A cylindrical blast of this energy has its shock at the radius 0.75 at the time 1 (Kamm and Timmes 2007), where the
// pressure behind it is 2 / (adiabatic + 1) times the square of its speed, and above a third of that everywhere inside.
inline constexpr double blast = 0.311357, radius = 0.75;
inline constexpr double inside = 0.2 * 2 / (adiabatic + 1) * (radius / 2) * (radius / 2);

/// A gas in a box, and the numbers of it that are asked for.
class box {
 public:
  box(const cleave::grid& grid, problem which, long cells)
      : which_(which), rows_(which == problem::sod ? std::max(cells / 8, 2L) : cells),
        cols_(which == problem::sod_down ? std::max(cells / 8, 2L) : cells), end_(which == problem::sedov ? 1.0 : 0.2),
        spacing_(1 / static_cast<double>(cells)), gas_{Field(grid, {rows_, cols_}), Field(grid, {rows_, cols_}),
                                                       Field(grid, {rows_, cols_}), Field(grid, {rows_, cols_})},
        numbers_{Number(grid, {}), Number(grid, {}), Number(grid, {})} {
    const double corner = (adiabatic - 1) * 0.25 * blast / (spacing_ * spacing_);
    gas_[0].fill_by([&](const auto& at) { return which == problem::sedov ? 1.0 : side_of(at).density; });
    gas_[3].fill_by([&](const auto& at) {
      return which != problem::sedov ? side_of(at).pressure : at[0] + at[1] == 0 ? corner : 1e-6;
    });
  }
  /// Two steps in the opposite order of directions, which is second order in time. No wave crosses half a cell.
  void advance() {
    fastest(gas_[0], gas_[1], gas_[2], gas_[3]).into(numbers_[0], numbers_[1]);
    const double speed = std::max(numbers_[0].item(), numbers_[1].item());
    const bool last = 0.8 * spacing_ / speed >= end_ - time_;
    const double ratio = last ? 0.5 * (end_ - time_) / spacing_ : 0.4 / speed;
    for (const bool down : {true, false, false, true}) {
      auto& [density, v, u, pressure] = gas_;
      if (down) step_down(density, v, u, pressure, ratio).into(density, v, u, pressure);
      else step_right(density, v, u, pressure, ratio).into(density, v, u, pressure);
    }
    time_ = last ? end_ : time_ + 2 * ratio * spacing_;
  }
  struct sums {
    double mass, energy, radius;
  };
  sums measured() {
    totals(gas_[0], gas_[1], gas_[2], gas_[3], inside).into(numbers_[0], numbers_[1], numbers_[2]);
    const double cell = spacing_ * spacing_;
    return {cell * numbers_[0].item(), cell * numbers_[1].item(),
            std::sqrt(4 * cell * numbers_[2].item() / std::acos(-1.0))};
  }
  /// The mean difference of the density to the exact one of a shock tube.
  double error() {
    const shock_tube tube(dense, thin);
    Field exact(gas_[0].get_grid(), {rows_, cols_});
    exact.fill_by([&](const auto& at) { return tube.density(along(at), time_); });
    numbers_[0] = difference(gas_[0], exact);
    return numbers_[0].item();
  }
  const std::array<Field, 4>& gas() const { return gas_; }
  double time() const { return time_; }
  bool ended() const { return !(time_ < end_); } // also if the gas is not finite
  double spacing() const { return spacing_; }
  double end() const { return end_; }
  long size() const { return rows_ * cols_; }

 private:
  /// The centre of a cell of a tube, from its middle.
  double along(const auto& at) const {
    return (static_cast<double>(at[which_ == problem::sod ? 1 : 0]) + 0.5) * spacing_ - 0.5;
  }
  shock_tube::side side_of(const auto& at) const { return along(at) < 0 ? dense : thin; }
  problem which_;
  long rows_, cols_;
  double end_, spacing_, time_ = 0;
  std::array<Field, 4> gas_;
  std::array<Number, 3> numbers_;
};

int run(examples::options& given, int ranks, bool speaks) {
  const std::string name = given.text("--problem", "sod");
  const long cells = given.number("--cells", 200L), every = given.number("--every", 10L);
  const std::array<long, 2> sizes = examples::mesh_of(given.sizes("--mesh"), ranks);
  const std::string image = given.text("--image"), fields = given.text("--fields"), log = given.text("--log");
  given.done();
  if (name != "sod" && name != "sod_down" && name != "sedov")
    throw std::runtime_error("hydro: there is no problem '" + name + "', see --help");
  if (cells < 32) throw std::runtime_error("hydro: --cells is at least 32");
  const problem which = name == "sod" ? problem::sod : name == "sedov" ? problem::sedov : problem::sod_down;

  cleave::grid grid(mesh, MPI_COMM_WORLD, {sizes[0], sizes[1]});
  box gas(grid, which, cells);
  if (speaks)
    std::printf("%s, %ld cells on %ld x %ld processes; the plan of a step to the right:\n\n%s\n", name.c_str(),
                gas.size(), sizes[0], sizes[1],
                explain(plan,
                        {row = gas.gas()[0].extent(row), col = gas.gas()[0].extent(col), ay = sizes[0], ax = sizes[1]})
                    .c_str());

  examples::recording file(grid, fields, gas.spacing());
  examples::csv_log numbers(speaks, log, "pair,time,mass,energy,radius");
  const box::sums before = gas.measured();
  long pairs = 0;
  const auto record = [&] {
    const box::sums now = gas.measured();
    file.write(gas.time(), examples::named{"density", gas.gas()[0]}, examples::named{"down", gas.gas()[1]},
               examples::named{"right", gas.gas()[2]}, examples::named{"pressure", gas.gas()[3]});
    numbers.write({static_cast<double>(pairs), gas.time(), now.mass, now.energy, now.radius});
  };
  examples::progress bar(speaks, 1000, gas.size(), "cells"); // in thousandths of the time
  const double start = MPI_Wtime();
  for (; !gas.ended(); ++pairs) {
    if (pairs % every == 0) record();
    gas.advance();
    bar.show(std::max(static_cast<long>(1000 * gas.time() / gas.end()), 1L), {{"time", gas.time()}});
  }
  bar.leave();
  const double seconds = MPI_Wtime() - start;
  record();
  examples::write_image(image, gas.gas()[0], "densities", speaks);

  const box::sums after = gas.measured();
  const double lost = std::max(std::abs(after.mass - before.mass) / before.mass,
                               std::abs(after.energy - before.energy) / before.energy);
  bool right = lost <= 1e-12;
  if (speaks)
    std::printf("%ld pairs of steps, %.2f million cells a second; mass and energy changed by %.1e of themselves\n",
                pairs, 2e-6 * static_cast<double>(pairs * gas.size()) / seconds, lost);
  if (which == problem::sedov) {
    const double off = std::abs(after.radius - radius);
    right = right && off <= 1.5 * gas.spacing();
    if (speaks)
      std::printf("the shock is at %.4f, exactly %.4f; %.2f cells away, at most 1.5 allowed: %s\n", after.radius,
                  radius, off / gas.spacing(), right ? "right" : "WRONG");
  } else {
    // The same on half as many cells. Shocks are spread over a number of cells, so the error is of first order, and
    // contacts make it a little worse.
    box coarse(grid, which, cells / 2);
    while (!coarse.ended()) coarse.advance();
    const double fine = gas.error(), rough = coarse.error(), order = std::log2(rough / fine);
    right = right && fine <= 0.8 * gas.spacing() && order >= 0.75;
    if (speaks)
      std::printf("mean error of the density %.2e, %.2f of a cell, and %.2e on half as many cells: order %.2f: %s\n",
                  fine, fine / gas.spacing(), rough, order, right ? "right" : "WRONG");
  }
  return right ? 0 : 1;
}

} // namespace hydro

int main(int argc, char** argv) { return examples::run(argc, argv, hydro::usage, hydro::run); }
