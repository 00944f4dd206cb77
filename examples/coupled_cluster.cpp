// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Coupled cluster with doubles (CCD) for the pairing model: particles on equidistant levels, two on each, and pairs
// that hop between levels. The amplitudes have four dims, and each term of the equations is a contraction by names:
// what a chemist writes as v^ab_cd t^cd_ij is dot(v, t, c, d). All of the iterations are one plan.
//
//   mpirun -n 4 coupled_cluster [--levels 8] [--particles 4] [--coupling 0.5] [--mesh 2x2]
//
// Equations: Shavitt and Bartlett 2009, Many-Body Methods in Chemistry and Physics, section 9.3. For two particles CCD
// is exact, and the pairing model has a solution in closed form: the program compares the two.
#include "options.hpp"

#include <cleave/cleave.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <string_view>

namespace ccd {

inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::mesh mesh{ax, ay};
// Empty orbitals are a, b, c, d, and occupied ones i, j, k, l.
inline constexpr cleave::dim<"a"> a;
inline constexpr cleave::dim<"b"> b;
inline constexpr cleave::dim<"c"> c;
inline constexpr cleave::dim<"d"> d;
inline constexpr cleave::dim<"i"> i;
inline constexpr cleave::dim<"j"> j;
inline constexpr cleave::dim<"k"> k;
inline constexpr cleave::dim<"l"> l;

using Amplitudes = cleave::tensor<double, mesh(a / ax, b / ay, i, j)>;
using Particles = cleave::tensor<double, mesh(a / ax, b / ay, c, d)>; // the largest: empty^4
using Holes = cleave::tensor<double, mesh(k, l, i, j)>;
using Mixed = cleave::tensor<double, mesh(k, b / ay, c, j)>;
using Pairs = cleave::tensor<double, mesh(k, l, c, d)>;
using Number = cleave::tensor<double, mesh()>;
using Count = cleave::tensor<int, mesh()>;
using Flag = cleave::tensor<bool, mesh()>;

/// P(pq) x: what x is less than with its two indices exchanged.
constexpr cleave::value antisymmetric(cleave::value x, cleave::dim_ref p, cleave::dim_ref q) {
  return x - rename(x, p, q, q, p);
}

/// The matrix elements <pq|v|rs> of the interaction, by the kinds of their orbitals.
struct interaction {
  cleave::value abij, abcd, klij, kbcj, klcd;
};

// The right-hand side of the equations for t_abij.
constexpr cleave::value doubles(const interaction& v, cleave::value t) {
  // t under other indices: as(c, d, i, j) is t_cdij.
  const auto as = [&](auto p, auto q, auto r, auto s) { return rename(t, a, p, b, q, i, r, j, s); };
  const cleave::value linear = v.abij + 0.5 * dot(v.abcd, as(c, d, i, j), c, d);
  const cleave::value ladder = dot(0.5 * v.klij + 0.25 * dot(v.klcd, as(c, d, i, j), c, d), as(a, b, k, l), k, l);
  const cleave::value ring = antisymmetric(dot(v.kbcj, as(a, c, i, k), k, c), a, b) +
                             dot(dot(v.klcd, as(b, d, j, l), l, d), as(a, c, i, k), k, c);
  const cleave::value holes = 0.5 * dot(dot(v.klcd, as(d, c, i, k), k, c, d), as(a, b, l, j), l);
  const cleave::value particles = 0.5 * dot(dot(v.klcd, as(a, c, l, k), k, l, c), as(d, b, i, j), d);
  return linear + ladder + antisymmetric(ring - holes, i, j) - antisymmetric(particles, a, b);
}

// Amplitudes and correlation energy, from the elements of the interaction and the differences of energies
// e_i + e_j - e_a - e_b.
constexpr cleave::function solve([](auto gap, auto abij, auto abcd, auto klij, auto kbcj, auto klcd) {
  const interaction v{abij, abcd, klij, kbcj, klcd};
  const auto energy_of = [&](cleave::value t) { return 0.25 * sum(v.klcd * rename(t, a, c, b, d, i, k, j, l)); };
  const cleave::value t = v.abij / gap, energy = energy_of(t);
  const auto [last, report] = cleave::repeat_until_reported(
      std::tuple(t, energy, energy),
      [&](const auto& now) {
        const cleave::value next = doubles(v, std::get<0>(now)) / gap, e = energy_of(next);
        return std::tuple(next, e, abs(e - std::get<1>(now)));
      },
      [](const auto& now) { return std::get<2>(now) < 1e-13; }, 200);
  return std::tuple(std::get<0>(last), std::get<1>(last), report.iterations, report.converged);
});

using Result = std::tuple<Amplitudes, Number, Count, Flag>;
constexpr auto plan = cleave::plan<Result(Amplitudes, Amplitudes, Particles, Holes, Mixed, Pairs)>(
    solve, cleave::expect<a, 60>{}, cleave::expect<b, 60>{}, cleave::expect<c, 60>{}, cleave::expect<d, 60>{},
    cleave::expect<i, 8>{}, cleave::expect<j, 8>{}, cleave::expect<k, 8>{}, cleave::expect<l, 8>{});
// Amplitudes move, and the largest tensor stays where it is. An iteration, of which a plan counts 16, moves less than
// half of what a device has of that tensor.
constexpr std::int64_t largest_shard = std::int64_t{60 * 60 * 60 * 60} * 8 / 16;
static_assert(plan.bytes({a = 60, b = 60, c = 60, d = 60, i = 8, j = 8, k = 8, l = 8, ax = 4, ay = 4}) <
              16 * largest_shard / 2);

/// Two spin orbitals on each level, the lower ones occupied. Half the coupling is what a pair gains when it hops.
struct pairing_model {
  long levels, particles;
  double coupling;

  /// <pq|v|rs>, antisymmetric: pairs on one level go to another level.
  double element(long p, long q, long r, long s) const {
    if (p / 2 != q / 2 || r / 2 != s / 2 || p == q || r == s) return 0;
    return p % 2 == r % 2 ? -coupling / 2 : coupling / 2;
  }
  /// The Hartree-Fock energy of an orbital.
  double energy(long p) const { return static_cast<double>(p / 2) - (p < particles ? coupling / 2 : 0); }
  long empty() const { return 2 * levels - particles; }

  /// The correlation energy of two particles: the lowest root E of 1 = g/2 sum of 1 / (2 level - E), less that of a
  /// pair on the lowest level.
  double correlation_of_a_pair() const {
    double low = -coupling * static_cast<double>(levels), high = -coupling / 2;
    for (int n = 0; n < 200; ++n) {
      const double middle = (low + high) / 2;
      double sum = 0;
      for (long level = 0; level < levels; ++level) sum += coupling / 2 / (2 * static_cast<double>(level) - middle);
      (sum > 1 ? high : low) = middle;
    }
    return low + coupling / 2;
  }
};

constexpr std::string_view usage =
    "usage: coupled_cluster [options]\n"
    "  --levels N       levels of the model, more than particles / 2 (8)\n"
    "  --particles N    an even number (4)\n"
    "  --coupling G     strength of the pairing, between 0 and 1 (0.5)\n"
    "  --mesh RxC       processes over the first x the second empty orbital (as square as possible)\n";

int run(examples::options& given, int ranks, bool speaks) {
  const pairing_model model{given.number("--levels", 8L), given.number("--particles", 4L),
                            given.number("--coupling", 0.5)};
  const std::array<long, 2> sizes = examples::mesh_of(given.sizes("--mesh"), ranks);
  given.done();
  if (model.particles < 2 || model.particles % 2 != 0 || model.empty() < 2)
    throw std::runtime_error("coupled_cluster: --particles is even, at least 2, and less than 2 x --levels");
  if (!(model.coupling > 0 && model.coupling <= 1))
    throw std::runtime_error("coupled_cluster: --coupling is above 0 and at most 1");

  const long n = model.particles, m = model.empty();
  cleave::grid grid(mesh, MPI_COMM_WORLD, {sizes[0], sizes[1]});
  if (speaks)
    std::printf(
        "%ld occupied and %ld empty orbitals on %ld x %ld processes; the plan:\n\n%s\n", n, m, sizes[0], sizes[1],
        explain(plan, {a = m, b = m, c = m, d = m, i = n, j = n, k = n, l = n, ax = sizes[0], ay = sizes[1]}).c_str());

  Amplitudes t(grid, {m, m, n, n}), gap(grid, {m, m, n, n}), abij(grid, {m, m, n, n});
  Particles abcd(grid, {m, m, m, m});
  Holes klij(grid, {n, n, n, n});
  Mixed kbcj(grid, {n, m, m, n});
  Pairs klcd(grid, {n, n, m, m});
  const auto fill = [&](auto& x, std::array<long, 4> first) {
    x.fill_by([&](const auto& at) {
      return model.element(first[0] + at[0], first[1] + at[1], first[2] + at[2], first[3] + at[3]);
    });
  };
  fill(abij, {n, n, 0, 0});
  fill(abcd, {n, n, n, n});
  fill(klij, {0, 0, 0, 0});
  fill(kbcj, {0, n, n, 0});
  fill(klcd, {0, 0, n, n});
  gap.fill_by([&](const auto& at) {
    return model.energy(at[2]) + model.energy(at[3]) - model.energy(n + at[0]) - model.energy(n + at[1]);
  });

  Number energy(grid, {});
  Count iterations(grid, {});
  Flag converged(grid, {});
  const double start = MPI_Wtime();
  solve(gap, abij, abcd, klij, kbcj, klcd).into(t, energy, iterations, converged);
  const double correlation = energy.item(), seconds = MPI_Wtime() - start;
  const int count = iterations.item();
  const bool ended = converged.item();
  if (speaks)
    std::printf("correlation energy %.10f after %d iterations, %.2f ms each%s\n", correlation, count,
                1e3 * seconds / count, ended ? "" : ": NOT CONVERGED");
  if (n != 2) return ended ? 0 : 1;
  const double exact = model.correlation_of_a_pair();
  const bool right = ended && std::abs(correlation - exact) < 1e-10;
  if (speaks) std::printf("exact for a pair      %.10f: %s\n", exact, right ? "right" : "WRONG");
  return right ? 0 : 1;
}

} // namespace ccd

int main(int argc, char** argv) { return examples::run(argc, argv, ccd::usage, ccd::run); }
