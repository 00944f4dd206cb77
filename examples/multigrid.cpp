// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The problem of HPCG: an operator with 27 points on a grid in three dims, solved by conjugate gradients whose
// preconditioner is a V-cycle of multigrid. As in HPCG, a coarser grid has every second point in each direction, and
// the same operator; residuals are injected, and corrections are added at the points of the coarser grid.
//
// The smoother differs. A polynomial of Chebyshev in the operator damps the upper part of its spectrum. All points are
// computed at once, and the iterates have the same bits on every mesh but for the rounding of the inner products.
// docs/15-performance.md compares the times with those of HPCG. `--smoother gauss-seidel` sweeps as HPCG does: the
// points of a process wait for one another, so the result depends on the number of processes. The sweep is a kernel of
// this file that gets its neighbours by the plan.
//
// An operator of 27 points takes the compiler long, so it is in two plans only. All levels have the same types and
// share them: a level knows its extents at run time. The dims of a coarser grid need other names where both occur; then
// one array has both names.
//
//   mpirun -n 4 multigrid [--points 64] [--levels 4] [--mesh 1x2x2] [--smoother gauss-seidel] [--log multigrid.csv]
#include "options.hpp"
#include "progress.hpp"

#include <cleave/cleave.hpp>
#include <cleave/stencil/field.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace multigrid {

namespace stencil = cleave::stencil;
using cleave::value;
inline constexpr cleave::axis<"az"> az;
inline constexpr cleave::axis<"ay"> ay;
inline constexpr cleave::axis<"ax"> ax;
inline constexpr cleave::mesh mesh{az, ay, ax};
inline constexpr cleave::dim<"z"> z;
inline constexpr cleave::dim<"y"> y;
inline constexpr cleave::dim<"x"> x;
inline constexpr cleave::dim<"coarse_z"> coarse_z;
inline constexpr cleave::dim<"coarse_y"> coarse_y;
inline constexpr cleave::dim<"coarse_x"> coarse_x;

using Field = cleave::tensor<double, mesh(z / az, y / ay, x / ax)>;
using Coarse = cleave::tensor<double, mesh(coarse_z / az, coarse_y / ay, coarse_x / ax)>;
using Number = cleave::tensor<double, mesh()>;

constexpr auto neighbours_of(const value& u) {
  return stencil::box<1>(u, along(z, stencil::fixed(0)), along(y, stencil::fixed(0)), along(x, stencil::fixed(0)));
}
// 26 on the diagonal, -1 for each neighbour; there are none beyond the faces.
constexpr value applied(const value& u) {
  const auto around = neighbours_of(u);
  value total = 27 * u;
  for (const int k : {-1, 0, 1})
    for (const int j : {-1, 0, 1})
      for (const int i : {-1, 0, 1}) total = total - around(k, j, i);
  return total;
}

// Adds a correction to a solution and takes it from the residual. The next correction is made of both.
constexpr cleave::function correct([](auto u, auto correction, auto residual, auto again, auto more) {
  const value left = residual - applied(correction);
  return std::tuple(u + correction, again * correction + more * left, left);
});
constexpr cleave::function scaled([](auto u, auto by) { return by * u; });

// To the next coarser grid, and from it. Its solution is one to which the last correction has not been added.
constexpr cleave::function injected([](auto u) {
  const auto half = [](const value& v, auto from, auto to) { return slice(v, from, to, 0, cleave::to_the_end, 2); };
  return half(half(half(u, z, coarse_z), y, coarse_y), x, coarse_x);
});
constexpr cleave::function spread([](auto u, auto correction) {
  const auto twice = [](const value& v, auto from, auto to) { return pad(v, from, to, 0, 1, 1); };
  return twice(twice(twice(u + correction, coarse_z, z), coarse_y, y), coarse_x, x);
});

// A symmetric sweep of Gauss-Seidel in place. One thread computes it, since each point needs those before it.
struct sweep_in_order {
  Kokkos::View<double***, Kokkos::LayoutRight, cleave::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>> u;
  Kokkos::View<const double***, Kokkos::LayoutRight, cleave::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>> b;

  CLEAVE_FUNCTION void relax(std::int64_t k, std::int64_t j, std::int64_t i) const {
    double total = b(k - 1, j - 1, i - 1) - u(k, j, i);
    for (std::int64_t c = k - 1; c <= k + 1; ++c)
      for (std::int64_t d = j - 1; d <= j + 1; ++d) total += u(c, d, i - 1) + u(c, d, i) + u(c, d, i + 1);
    u(k, j, i) = total / 26;
  }
  CLEAVE_FUNCTION void operator()(int) const {
    const auto nz = static_cast<std::int64_t>(b.extent(0)), ny = static_cast<std::int64_t>(b.extent(1)),
               nx = static_cast<std::int64_t>(b.extent(2));
    for (std::int64_t k = 1; k <= nz; ++k)
      for (std::int64_t j = 1; j <= ny; ++j)
        for (std::int64_t i = 1; i <= nx; ++i) relax(k, j, i);
    for (std::int64_t k = nz; k >= 1; --k)
      for (std::int64_t j = ny; j >= 1; --j)
        for (std::int64_t i = nx; i >= 1; --i) relax(k, j, i);
  }
};
struct symmetric_sweep {
  static constexpr std::string_view name = "symmetric_sweep";
  static constexpr int halo = 1;
  static constexpr bool in_place = true;
  void operator()(const cleave::local_context&, std::span<const cleave::shard> in, const cleave::shard& u) const {
    Kokkos::parallel_for("symmetric sweep", Kokkos::RangePolicy<cleave::execution_space, Kokkos::IndexType<int>>(0, 1),
                         sweep_in_order{u.view<double***>(), in[1].view<const double***>()});
  }
};
constexpr cleave::function swept([](auto u, auto correction, auto b) {
  return cleave::call<symmetric_sweep>(cleave::whole(), neighbours_of(u + correction), b);
});

// Conjugate gradients in two halves, with a V-cycle between them.
constexpr cleave::function direction([](auto u, auto correction, auto r, auto p, auto before) {
  const value preconditioned = u + correction, now = sum(preconditioned * r);
  return std::tuple(preconditioned + now / before * p, now);
});
constexpr cleave::function advance([](auto u, auto r, auto p, auto product) {
  const value q = applied(p), step = product / sum(p * q), left = r - step * q;
  return std::tuple(u + step * p, left, sqrt(sum(left * left)));
});
constexpr cleave::function norm([](auto r) { return sqrt(sum(r * r)); });
constexpr cleave::function error([](auto u) { return max(abs(u - 1)); });

// A halo with edges and corners, in one exchange; the numbers of an iteration are reduced.
using Three = std::tuple<Field, Field, Field>;
constexpr auto plan = cleave::plan<Three(Field, Field, Field, double, double)>(correct);
static_assert(plan.count(cleave::kind::exchange) == 1 && plan.collectives() == 1);

constexpr std::string_view usage =
    "usage: multigrid [options]\n"
    "  --points N       points in each direction, divisible by 2 for each level but the last (64)\n"
    "  --levels N       grids, 1 to 8 (4)\n"
    "  --mesh PxRxC     processes in each direction (as cubic as possible)\n"
    "  --smoother NAME  chebyshev, or gauss-seidel as in HPCG (chebyshev)\n"
    "  --tolerance T    of the residual, relative to the right-hand side (1e-9)\n"
    "  --iterations N   give up after so many (200)\n"
    "  --log FILE       a CSV file for the residuals\n";

/// The arrays of a grid. Those that a finer one reads or writes have a second name.
struct level {
  level(const cleave::grid& grid, long n, bool coarser)
      : b(grid, {n, n, n}), u(grid, {n, n, n}), correction(grid, {n, n, n}), residual(grid, {n, n, n}) {
    if (!coarser) return;
    coarse_b.rebind(Coarse(grid, {n, n, n}, b.view()));
    coarse_u.rebind(Coarse(grid, {n, n, n}, u.view()));
    coarse_correction.rebind(Coarse(grid, {n, n, n}, correction.view()));
  }
  void correct_by(const Field& from, double again, double more) {
    correct(u, correction, from, again, more).into(u, correction, residual);
  }
  Field b, u, correction, residual;
  Coarse coarse_b{}, coarse_u{}, coarse_correction{};
};

// The eigenvalues are 27 - (1 + 2 cos a)(1 + 2 cos b)(1 + 2 cos c), so they are below 36. Waves that a coarser grid
// cannot have are above 18 = 27 - 1 * 3 * 3; those of which it has little are damped too.
constexpr double lowest = 9, highest = 36;
// Two steps of Chebyshev over this interval (Saad 2003, algorithm 12.1): the first correction is a part of the
// residual, the second one is made of the first and of the residual after it.
constexpr double middle = (highest + lowest) / 2, half = (highest - lowest) / 2, ratio = half / middle;
constexpr double next = 1 / (2 / ratio - ratio), first_part = 1 / middle, again = next * ratio, more = 2 * next / half;

/// One V-cycle from zeros on level `l` and the coarser ones, for the right-hand side `b`. The last correction is not
/// yet added.
void v_cycle(std::vector<level>& levels, std::size_t l, const Field& b) {
  level& at = levels[l];
  at.u = 0.0;
  at.correction = scaled(b, first_part);
  at.correct_by(b, again, more);
  if (l + 1 == levels.size()) return;
  level& coarse = levels[l + 1];
  at.correct_by(at.residual, 0, 0);
  coarse.coarse_b = injected(at.residual);
  v_cycle(levels, l + 1, coarse.b);
  at.correction = spread(coarse.coarse_u, coarse.coarse_correction);
  at.correct_by(at.residual, 0, first_part);
  at.correct_by(at.residual, again, more);
}

/// The same with HPCG's smoother.
void swept_cycle(std::vector<level>& levels, std::size_t l, const Field& b) {
  level& at = levels[l];
  at.u = 0.0;
  at.correction = 0.0;
  at.correction = swept(at.u, at.correction, b);
  if (l + 1 == levels.size()) return;
  at.correct_by(b, 0, 0);
  level& coarse = levels[l + 1];
  coarse.coarse_b = injected(at.residual);
  swept_cycle(levels, l + 1, coarse.b);
  at.correction = spread(coarse.coarse_u, coarse.coarse_correction);
  at.u = swept(at.u, at.correction, b);
  at.correction = 0.0;
}

/// Floating-point operations of an iteration, as HPCG counts them: 2 for each nonzero of a product with the operator, 2
/// for each element of an inner product or of an update of a vector, and none for the vectors within a smoother.
double flops_of_iteration(long n, std::size_t levels, bool sweeps) {
  const auto nonzeros = [](long m) { return std::pow(3.0 * static_cast<double>(m) - 2, 3); };
  double all = 2 * nonzeros(n) + 6 * 2 * std::pow(static_cast<double>(n), 3);
  // Two until the residual is injected, and two after the correction of the coarser grid; one on the coarsest grid. A
  // symmetric sweep counts as two.
  const int finer = sweeps ? 5 : 4, coarsest = sweeps ? 2 : 1;
  for (std::size_t l = 0; l < levels; ++l, n /= 2) all += (l + 1 < levels ? finer : coarsest) * 2 * nonzeros(n);
  return all;
}

int run(examples::options& given, int ranks, bool speaks) {
  const long points = given.number("--points", 64L), count = given.number("--levels", 4L),
             most = given.number("--iterations", 200L);
  const double tolerance = given.number("--tolerance", 1e-9);
  const std::string shape = given.text("--mesh"), log = given.text("--log"),
                    smoother = given.text("--smoother", "chebyshev");
  given.done();
  const bool sweeps = smoother == "gauss-seidel";
  if (!sweeps && smoother != "chebyshev")
    throw std::runtime_error("multigrid: --smoother is chebyshev or gauss-seidel");
  std::array<int, 3> sizes{};
  if (shape.empty()) MPI_Dims_create(ranks, 3, sizes.data());
  else {
    const std::vector<long> asked = examples::options::numbers_in("--mesh", shape, 3);
    std::transform(asked.begin(), asked.end(), sizes.begin(), [](long n) { return static_cast<int>(n); });
  }
  if (count > 8 || points % (1L << (count - 1)) != 0 || points >> (count - 1) < 2)
    throw std::runtime_error("multigrid: --points is at least 2 on the coarsest grid, and halved without a remainder");

  cleave::grid grid(mesh, MPI_COMM_WORLD, {sizes[0], sizes[1], sizes[2]});
  if (speaks)
    std::printf(
        "%ld^3 points, %ld grids, on %d x %d x %d processes; the plan of a correction:\n\n"
        "%s\n",
        points, count, sizes[0], sizes[1], sizes[2],
        explain(plan, {z = points, y = points, x = points, az = sizes[0], ay = sizes[1], ax = sizes[2]}).c_str());

  std::vector<level> levels;
  levels.reserve(static_cast<std::size_t>(count));
  for (long l = 0; l < count; ++l) levels.emplace_back(grid, points >> l, l > 0);
  const std::initializer_list<std::int64_t> extents{points, points, points};
  Field r(grid, extents), u(grid, extents), p(grid, extents);
  // The solution is 1 everywhere: the diagonal less the number of neighbours.
  r.fill_by([&](const auto& at) {
    double near = 1;
    for (const std::int64_t i : at) near *= i == 0 || i == points - 1 ? 2 : 3;
    return 27 - near;
  });

  Number product(grid, {}), size(grid, {});
  size = norm(r);
  product = 1.0; // at first there is no direction before
  const double first = size.item();
  double left = first, seconds = 0;
  long k = 0;
  examples::csv_log numbers(speaks, log, "iteration,residual");
  numbers.write({0, 1});
  examples::progress bar(speaks, most, points * points * points, "points");
  for (; k < most && left > tolerance * first; ++k) {
    const double start = MPI_Wtime();
    sweeps ? swept_cycle(levels, 0, r) : v_cycle(levels, 0, r);
    direction(levels[0].u, levels[0].correction, r, p, product).into(p, product);
    advance(u, r, p, product).into(u, r, size);
    left = size.item();
    seconds += MPI_Wtime() - start;
    numbers.write({static_cast<double>(k + 1), left / first});
    bar.show(k + 1, {{"log10 of the residual", std::log10(left / first)}});
  }
  bar.leave();

  // The error is at most the residual over the lowest eigenvalue.
  const double cosine = std::cos(std::acos(-1.0) / static_cast<double>(points + 1));
  const double allowed = left / (27 - std::pow(1 + 2 * cosine, 3)) + 1e-13;
  size = error(u);
  const double off = size.item();
  const bool right = left <= tolerance * first && off <= allowed;
  const double each = seconds / static_cast<double>(std::max(k, 1L));
  if (speaks) {
    std::printf("%ld iterations, residual %.2e, %.3f of it left by each; %.3f ms an iteration\n", k, left / first,
                std::pow(left / first, 1 / static_cast<double>(std::max(k, 1L))), 1e3 * each);
    std::printf("rating: %.3f GFLOP/s\n", 1e-9 * flops_of_iteration(points, levels.size(), sweeps) / each);
    std::printf("error %.2e, at most %.2e allowed: %s\n", off, allowed, right ? "right" : "WRONG");
  }
  return right ? 0 : 1;
}

} // namespace multigrid

int main(int argc, char** argv) { return examples::run(argc, argv, multigrid::usage, multigrid::run); }
