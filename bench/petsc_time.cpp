// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A stencil's steps, products with a sparse matrix, and conjugate gradients against PETSc, both in this process.
//
//   mpirun -n 2 petsc_time RESULTS.jsonl [seconds for each measurement [steps, cube, product or cg]]
#include "measure.hpp"

#include <cleave/cleave.hpp>
#include <cleave/solve/cg.hpp>
#include <cleave/sparse/assemble.hpp>

#include <petscdmda.h>
#include <petscksp.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace {

inline constexpr cleave::axis<"ranks"> line;
inline constexpr cleave::mesh mesh{line};
inline constexpr cleave::dim<"x"> dx;
inline constexpr cleave::dim<"y"> dy;
inline constexpr cleave::dim<"point"> point;
inline constexpr cleave::dim<"column"> column;
inline constexpr cleave::dim<"z"> dz;
using Cube = cleave::tensor<double, mesh(dx / line, dy, dz)>;
using Square = cleave::tensor<double, mesh(dx / line, dy)>;
using Matrix = cleave::sparse::csr<double, mesh(point / line), column>;
using Vector = cleave::tensor<double, mesh(point / line)>;
using Number = cleave::tensor<double, mesh()>;
using Count = cleave::tensor<int, mesh()>;

template <class V>
constexpr auto around(V u) {
  return shift(u, dx, 1) + shift(u, dx, -1) + shift(u, dy, 1) + shift(u, dy, -1);
}
constexpr cleave::function heat([](auto u) { return u + 0.1 * (around(u) - 4.0 * u); });
constexpr cleave::function heat_of_cube([](auto u) {
  return u + 0.1 * (around(u) + shift(u, dz, 1) + shift(u, dz, -1) - 6.0 * u);
});
constexpr auto laplacian = [](auto u) { return 4.0 * u - around(u); };
// So many iterations: no residual is below 0.
constexpr cleave::function by_stencil([](auto right, auto most) {
  const auto s = cleave::solve::cg(laplacian, right, {.tolerance = 0.0, .iterations = most});
  return std::tuple(s.solution, s.iterations);
});
constexpr cleave::function by_matrix([](auto a, auto right, auto most) {
  const auto s = cleave::solve::cg(a, right, {.tolerance = 0.0, .iterations = most});
  return std::tuple(s.solution, s.iterations);
});

void check(PetscErrorCode e) {
  if (e != 0) throw std::runtime_error("PETSc returns error " + std::to_string(e));
}
double start_at(std::int64_t i, std::int64_t j) { return std::sin(static_cast<double>(3 * i + 7 * j % 101)); }

/// A square of points of PETSc, with zeros beyond its border, in the same blocks of rows.
class petsc_square {
 public:
  petsc_square(MPI_Comm comm, int n) {
    int ranks = 1;
    MPI_Comm_size(comm, &ranks);
    // Their x runs fastest: it is our y.
    check(DMDACreate2d(comm, DM_BOUNDARY_GHOSTED, DM_BOUNDARY_GHOSTED, DMDA_STENCIL_STAR, n, n, 1, ranks, 1, 1, nullptr,
                       nullptr, &points));
    check(DMSetUp(points));
    check(DMCreateGlobalVector(points, &u));
    check(VecDuplicate(u, &other));
    check(DMCreateLocalVector(points, &with_halo));
    check(VecSet(with_halo, 0));
    check(DMDAGetCorners(points, &x0, &y0, nullptr, &nx, &ny, nullptr));
    fill(u);
  }
  ~petsc_square() {
    VecDestroy(&u);
    VecDestroy(&other);
    VecDestroy(&with_halo);
    DMDestroy(&points);
  }
  petsc_square(const petsc_square&) = delete;
  petsc_square& operator=(const petsc_square&) = delete;

  void fill(Vec v) {
    PetscScalar** at = nullptr;
    check(DMDAVecGetArrayWrite(points, v, &at));
    for (PetscInt j = y0; j < y0 + ny; ++j)
      for (PetscInt i = x0; i < x0 + nx; ++i) at[j][i] = start_at(j, i);
    check(DMDAVecRestoreArrayWrite(points, v, &at));
  }
  void step() {
    check(DMGlobalToLocalBegin(points, u, INSERT_VALUES, with_halo));
    check(DMGlobalToLocalEnd(points, u, INSERT_VALUES, with_halo));
    const PetscScalar* const* from = nullptr;
    PetscScalar** to = nullptr;
    check(DMDAVecGetArrayRead(points, with_halo, &from));
    check(DMDAVecGetArrayWrite(points, other, &to));
    for (PetscInt j = y0; j < y0 + ny; ++j) {
      const PetscScalar *const here = from[j], *const up = from[j - 1], *const down = from[j + 1];
      PetscScalar* __restrict const out = to[j];
      for (PetscInt i = x0; i < x0 + nx; ++i)
        out[i] = here[i] + 0.1 * (here[i - 1] + here[i + 1] + up[i] + down[i] - 4.0 * here[i]);
    }
    check(DMDAVecRestoreArrayRead(points, with_halo, &from));
    check(DMDAVecRestoreArrayWrite(points, other, &to));
    std::swap(u, other);
  }
  Mat laplacian(int n) const {
    Mat a = nullptr;
    check(DMCreateMatrix(points, &a));
    for (PetscInt j = y0; j < y0 + ny; ++j)
      for (PetscInt i = x0; i < x0 + nx; ++i) {
        MatStencil at{};
        at.i = i;
        at.j = j;
        MatStencil near[5] = {at, at, at, at, at};
        PetscScalar value[5] = {4, -1, -1, -1, -1};
        PetscInt count = 1;
        if (i > 0) near[count++].i = i - 1;
        if (i + 1 < n) near[count++].i = i + 1;
        if (j > 0) near[count++].j = j - 1;
        if (j + 1 < n) near[count++].j = j + 1;
        check(MatSetValuesStencil(a, 1, &at, count, near, value, INSERT_VALUES));
      }
    check(MatAssemblyBegin(a, MAT_FINAL_ASSEMBLY));
    check(MatAssemblyEnd(a, MAT_FINAL_ASSEMBLY));
    return a;
  }

  DM points = nullptr;
  Vec u = nullptr, other = nullptr, with_halo = nullptr;
  PetscInt x0 = 0, y0 = 0, nx = 0, ny = 0;
};

/// A cube of points of PETSc likewise, in the same slabs.
class petsc_cube {
 public:
  petsc_cube(MPI_Comm comm, int n) {
    int ranks = 1;
    MPI_Comm_size(comm, &ranks);
    constexpr DMBoundaryType zeros = DM_BOUNDARY_GHOSTED;
    // Their x runs fastest: it is our z.
    check(DMDACreate3d(comm, zeros, zeros, zeros, DMDA_STENCIL_STAR, n, n, n, 1, 1, ranks, 1, 1, nullptr, nullptr,
                       nullptr, &points));
    check(DMSetUp(points));
    check(DMCreateGlobalVector(points, &u));
    check(VecDuplicate(u, &other));
    check(DMCreateLocalVector(points, &with_halo));
    check(VecSet(with_halo, 0));
    check(DMDAGetCorners(points, &x0, &y0, &z0, &nx, &ny, &nz));
  }
  ~petsc_cube() {
    VecDestroy(&u);
    VecDestroy(&other);
    VecDestroy(&with_halo);
    DMDestroy(&points);
  }
  petsc_cube(const petsc_cube&) = delete;
  petsc_cube& operator=(const petsc_cube&) = delete;

  void fill(const double* from) {
    PetscScalar* at = nullptr;
    check(VecGetArrayWrite(u, &at));
    std::copy_n(from, static_cast<std::int64_t>(nx) * ny * nz, at);
    check(VecRestoreArrayWrite(u, &at));
  }
  void step() {
    check(DMGlobalToLocalBegin(points, u, INSERT_VALUES, with_halo));
    check(DMGlobalToLocalEnd(points, u, INSERT_VALUES, with_halo));
    const PetscScalar* const* const* from = nullptr;
    PetscScalar*** to = nullptr;
    check(DMDAVecGetArrayRead(points, with_halo, &from));
    check(DMDAVecGetArrayWrite(points, other, &to));
    for (PetscInt k = z0; k < z0 + nz; ++k)
      for (PetscInt j = y0; j < y0 + ny; ++j) {
        const PetscScalar *const here = from[k][j], *const up = from[k][j - 1], *const down = from[k][j + 1],
                                 *const before = from[k - 1][j], *const behind = from[k + 1][j];
        PetscScalar* __restrict const out = to[k][j];
        for (PetscInt i = x0; i < x0 + nx; ++i)
          out[i] = here[i] +
                   0.1 * (here[i - 1] + here[i + 1] + up[i] + down[i] + before[i] + behind[i] - 6.0 * here[i]);
      }
    check(DMDAVecRestoreArrayRead(points, with_halo, &from));
    check(DMDAVecRestoreArrayWrite(points, other, &to));
    std::swap(u, other);
  }

  DM points = nullptr;
  Vec u = nullptr, other = nullptr, with_halo = nullptr;
  PetscInt x0 = 0, y0 = 0, z0 = 0, nx = 0, ny = 0, nz = 0;
};

void expect_same(const double* ours, Vec theirs, std::int64_t n, const char* what) {
  const PetscScalar* at = nullptr;
  check(VecGetArrayRead(theirs, &at));
  double off = 0, size = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    off = std::max(off, std::fabs(ours[i] - at[i]));
    size = std::max(size, std::fabs(at[i]));
  }
  check(VecRestoreArrayRead(theirs, &at));
  if (!(off <= 1e-9 * size)) throw std::runtime_error(std::string("the two programs differ in ") + what);
}

/// The same matrix: a point's number counts along y first, as in memory.
Matrix assembled(const cleave::grid& grid, std::int64_t n, std::int64_t first, std::int64_t rows) {
  std::vector<cleave::sparse::triplet<double>> entries;
  for (std::int64_t i = first; i < first + rows; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const std::int64_t p = i * n + j;
      entries.push_back({p, p, 4.0});
      if (i > 0) entries.push_back({p, p - n, -1.0});
      if (i + 1 < n) entries.push_back({p, p + n, -1.0});
      if (j > 0) entries.push_back({p, p - 1, -1.0});
      if (j + 1 < n) entries.push_back({p, p + 1, -1.0});
    }
  return cleave::sparse::assemble<Matrix>(grid, n * n, n * n, entries);
}

struct measured {
  const measure::task& with;
  const cleave::grid& grid;

  bool wanted(const char* part) const { return with.only.empty() || with.only == part; }
  template <class F, class G>
  void compare(const std::string& what, int calls, const F& ours, const G& theirs, double limit,
               const measure::work& w = {}) const {
    with.out.factor(what + " on " + std::to_string(with.ranks) + (with.ranks == 1 ? " rank" : " ranks"),
                    measure::compare(with.comm, calls, with.seconds, ours, theirs), limit, w, "PETSc");
  }

  void steps(int n) const {
    Square u(grid, {n, n}), other(grid, {n, n});
    u.fill_by([](const auto& at) { return start_at(at[0], at[1]); });
    petsc_square theirs(with.comm, n);
    const auto ours = [&] {
      other = heat(u);
      std::swap(u, other);
    };
    ours();
    theirs.step();
    expect_same(u.data(), theirs.u, u.local_size(), "the steps");
    compare(
        "heat, 5-point, " + std::to_string(n) + "^2", 2, ours, [&] { theirs.step(); }, 0.5,
        measure::work::bytes(2.0 * sizeof(double) * n * n));
  }
  void cubes(int n) const {
    Cube u(grid, {n, n, n}), other(grid, {n, n, n});
    u.fill_by([](const auto& at) { return start_at(at[0] * 5 + at[2], at[1]); });
    petsc_cube theirs(with.comm, n);
    theirs.fill(u.data());
    const auto ours = [&] {
      other = heat_of_cube(u);
      std::swap(u, other);
    };
    ours();
    theirs.step();
    expect_same(u.data(), theirs.u, u.local_size(), "the steps of a cube");
    const double bytes = 2.0 * sizeof(double) * n * n * n;
    compare(
        "heat, 7-point, " + std::to_string(n) + "^3", 2, ours, [&] { theirs.step(); }, 0.5,
        measure::work::bytes(bytes));
  }
  void solves(int n) const {
    constexpr int iterations = 50;
    petsc_square points(with.comm, n);
    Mat a = points.laplacian(n);
    const Matrix mine = assembled(grid, n, points.y0, points.ny);
    const std::int64_t all = std::int64_t{n} * n;
    Square right(grid, {n, n}), u(grid, {n, n});
    Vector b(grid, {all}), x(grid, {all}), y(grid, {all});
    right.fill_by([](const auto& at) { return start_at(at[0], at[1]); });
    b.fill_by([n](const auto& at) { return start_at(at[0] / n, at[0] % n); });
    Count taken(grid, {});
    if (wanted("product")) {
      const auto ours = [&] { y = mine(b); };
      const auto theirs = [&] { check(MatMult(a, points.u, points.other)); };
      ours();
      theirs();
      expect_same(y.data(), points.other, y.local_size(), "the product");
      compare("sparse product, 5-point, " + std::to_string(n) + "^2", 2, ours, theirs, 1.15);
    }
    if (wanted("cg")) {
      KSP solver = nullptr;
      PC none = nullptr;
      check(KSPCreate(with.comm, &solver));
      check(KSPSetType(solver, KSPCG));
      check(KSPGetPC(solver, &none));
      check(PCSetType(none, PCNONE));
      check(KSPSetOperators(solver, a, a));
      check(KSPSetTolerances(solver, 0, 0, PETSC_DEFAULT, iterations));
      const auto theirs = [&] { check(KSPSolve(solver, points.u, points.other)); };
      const auto stencil = [&] { by_stencil(right, iterations).into(u, taken); };
      const auto matrix = [&] { by_matrix(mine, b, iterations).into(x, taken); };
      stencil();
      matrix();
      theirs();
      expect_same(u.data(), points.other, u.local_size(), "conjugate gradients by a stencil");
      expect_same(x.data(), points.other, x.local_size(), "conjugate gradients by a matrix");
      const std::string what = "50 CG iterations, " + std::to_string(n) + "^2, by a ";
      compare(what + "stencil", 1, stencil, theirs, 0.8);
      compare(what + "matrix", 1, matrix, theirs, 1.0);
      check(KSPDestroy(&solver));
    }
    check(MatDestroy(&a));
  }
};

void measure_all(const measure::task& with) {
  check(PetscInitializeNoArguments());
  {
    const cleave::grid grid(mesh, with.comm, {with.ranks});
    const measured all{with, grid};
    if (all.wanted("steps")) all.steps(4096);
    if (all.wanted("cube")) all.cubes(256);
    if (all.wanted("product") || all.wanted("cg")) all.solves(1024);
  }
  check(PetscFinalize());
}

} // namespace

int main(int argc, char** argv) { return measure::run(argc, argv, 5, measure_all); }
