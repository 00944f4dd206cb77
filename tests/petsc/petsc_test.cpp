// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cleave/cleave.hpp>
#include <cleave/interop/petsc.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

// Vecs of PETSc as tensors: without a copy where the blocks are the same, by copies where they are not.

namespace {

namespace interop = cleave::interop;
using cleave::grid;
using cleave::tensor;

inline constexpr cleave::axis<"ranks"> axis_of_ranks;
inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh line{axis_of_ranks};
inline constexpr cleave::mesh plane{ay, ax};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"part"> component;
inline constexpr cleave::dim<"z"> z;
using vector = tensor<double, line(row / axis_of_ranks)>;
using whole = tensor<double, line(row)>;
using field = tensor<double, plane(row / ay, col / ax)>;
using solid = tensor<double, plane(z / ay, row / ax, col)>;
using fields = tensor<double, plane(row / ay, col / ax, component)>;

int ranks() {
  int n = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  return n;
}
int rank() {
  int r = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &r);
  return r;
}
// Calls of PETSc that must not fail.
void sure(PetscErrorCode code) { EXPECT_EQ(static_cast<int>(code), 0); }

/// A Vec, destroyed at the end.
struct vec {
  Vec v = nullptr;
  explicit vec(std::int64_t n, PetscInt local = PETSC_DECIDE) {
    sure(VecCreateMPI(PETSC_COMM_WORLD, local, static_cast<PetscInt>(n), &v));
    for (PetscInt i = begin(); i < end(); ++i) sure(VecSetValue(v, i, 2 * i + 1, INSERT_VALUES));
    sure(VecAssemblyBegin(v));
    sure(VecAssemblyEnd(v));
  }
  vec(const vec&) = delete;
  vec& operator=(const vec&) = delete;
  ~vec() { sure(VecDestroy(&v)); }
  PetscInt begin() const { return range()[0]; }
  PetscInt end() const { return range()[1]; }
  std::array<PetscInt, 2> range() const {
    std::array<PetscInt, 2> r{};
    sure(VecGetOwnershipRange(v, &r[0], &r[1]));
    return r;
  }
  const PetscScalar* array() const {
    const PetscScalar* at = nullptr;
    sure(VecGetArrayRead(v, &at));
    const PetscScalar* const kept = at;
    sure(VecRestoreArrayRead(v, &at));
    return kept;
  }
  double norm() const {
    PetscReal n = 0;
    sure(VecNorm(v, NORM_INFINITY, &n));
    return n;
  }
};

template <class Call>
void expect_everywhere(std::string_view words, Call&& call) {
  std::string said;
  try {
    call();
  } catch (const cleave::error& e) {
    said = e.what();
  }
  EXPECT_NE(said.find(words), std::string::npos) << said;
}

TEST(vec, shares_memory_where_blocks_are_the_same) {
  const grid g(line, PETSC_COMM_WORLD, {ranks()});
  // As many on each rank; and blocks of Cleave that PETSc was told of.
  const std::int64_t even = 5 * ranks(), uneven = 3 * ranks() - 2;
  for (const std::int64_t n : {even, uneven}) {
    const PetscInt mine = static_cast<PetscInt>(vector(g, {n}).local_size());
    const vec v(n, mine);
    EXPECT_EQ(v.norm(), static_cast<double>(2 * n - 1));
    {
      vector x = interop::wrap_vec<vector>(g, v.v);
      EXPECT_EQ(x.extent(row), n);
      EXPECT_EQ(x.data(), v.array());
      for (std::int64_t i = 0; i < mine; ++i)
        EXPECT_EQ(x.view()(static_cast<std::size_t>(i)), static_cast<double>(2 * (v.begin() + i) + 1));
      x = 3 * x;
    }
    // PETSc keeps norms until it is told that the values have changed.
    EXPECT_EQ(v.norm(), static_cast<double>(6 * n - 3));
    vector y(g, {n});
    {
      const vector x = interop::wrap_const_vec<vector>(g, v.v);
      EXPECT_EQ(x.data(), v.array());
      EXPECT_THROW(x.fill(1), cleave::view_error);
      y = x + 1;
    }
    EXPECT_EQ(y.to_global().back(), static_cast<double>(6 * n - 2));
  }
}
TEST(vec, lives_as_long_as_its_tensor) {
  const grid g(line, PETSC_COMM_WORLD, {ranks()});
  vector x;
  {
    const vec v(2 * ranks());
    x.rebind(interop::wrap_vec<vector>(g, v.v));
  }
  x = x + 1;
  EXPECT_EQ(x.to_global()[1], 4);
}
TEST(vec, is_copied_where_blocks_differ) {
  const grid g(line, PETSC_COMM_WORLD, {ranks()});
  const std::int64_t n = 2 * ranks() + 1; // balanced: 3, 2, 2, ...; of Cleave: 3, 3, ..., and less on the last ones
  const vec v(n), other(n);
  if (ranks() > 2)
    expect_everywhere(
        "along dim 'row' the Vec has the indices from 3 to below 5 on rank 1, but the shard has those from 3",
        [&] { interop::wrap_vec<vector>(g, v.v); });
  vector x(g, {n});
  whole all(g, {n});
  interop::copy_from_vec(v.v, x);
  interop::copy_from_vec(v.v, all);
  const std::vector<double> values = x.to_global();
  for (std::int64_t i = 0; i < n; ++i) EXPECT_EQ(values[static_cast<std::size_t>(i)], static_cast<double>(2 * i + 1));
  EXPECT_EQ(all.to_global(), values);
  x = 10 * x;
  EXPECT_EQ(other.norm(), static_cast<double>(2 * n - 1));
  interop::copy_to_vec(x, other.v);
  EXPECT_EQ(other.norm(), static_cast<double>(20 * n - 10));
  for (PetscInt i = other.begin(); i < other.end(); ++i) EXPECT_EQ(other.array()[i - other.begin()], 20 * i + 10);
}
TEST(vec, mistakes_are_seen_by_all_ranks) {
  const grid g(line, PETSC_COMM_WORLD, {ranks()});
  const vec v(2 * ranks());
  const vector longer(g, {2 * ranks() + 1});
  expect_everywhere("along dim 'row' the Vec has extent", [&] { interop::copy_from_vec(v.v, longer); });
  if (ranks() > 1) {
    Vec alone = nullptr;
    sure(VecCreateSeq(PETSC_COMM_SELF, 4, &alone));
    expect_everywhere("the grid and the Vec are on other communicators", [&] { interop::wrap_vec<vector>(g, alone); });
    sure(VecDestroy(&alone));
    expect_everywhere("the shard has those from 0 to below " + std::to_string(2 * ranks()),
                      [&] { interop::wrap_vec<whole>(g, v.v); });
  }
  // A Vec that is not finished.
  Vec unfinished = nullptr;
  sure(VecCreate(PETSC_COMM_WORLD, &unfinished));
  sure(PetscPushErrorHandler(PetscIgnoreErrorHandler, nullptr));
  expect_everywhere("VecGetSize of PETSc failed with the error code",
                    [&] { interop::wrap_vec<vector>(g, unfinished); });
  sure(PetscPopErrorHandler());
  sure(VecDestroy(&unfinished));
}

/// A DMDA with a global Vec.
struct points {
  DM da = nullptr;
  Vec v = nullptr;
  points(PetscInt rows, PetscInt cols, PetscInt m, PetscInt n, PetscInt components, bool blocks_of_cleave) {
    const auto ly = interop::petsc_blocks(rows, n), lx = interop::petsc_blocks(cols, m);
    sure(DMDACreate2d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_STAR, cols, rows, m, n,
                      components, 1, blocks_of_cleave ? lx.data() : nullptr, blocks_of_cleave ? ly.data() : nullptr,
                      &da));
    sure(DMSetUp(da));
    sure(DMCreateGlobalVector(da, &v));
    PetscScalar*** at = nullptr;
    DMDALocalInfo info;
    sure(DMDAGetLocalInfo(da, &info));
    sure(DMDAVecGetArrayDOF(da, v, &at));
    for (PetscInt i = info.ys; i < info.ys + info.ym; ++i)
      for (PetscInt j = info.xs; j < info.xs + info.xm; ++j)
        for (PetscInt c = 0; c < components; ++c) at[i][j][c] = value(i, j, c);
    sure(DMDAVecRestoreArrayDOF(da, v, &at));
  }
  points(const points&) = delete;
  points& operator=(const points&) = delete;
  ~points() {
    sure(VecDestroy(&v));
    sure(DMDestroy(&da));
  }
  static double value(std::int64_t i, std::int64_t j, std::int64_t c) {
    return static_cast<double>(100 * i + j) + 0.25 * static_cast<double>(c);
  }
};

TEST(dmda, shares_memory_in_its_own_order) {
  for (PetscInt n = 1; n <= ranks(); ++n) {
    if (ranks() % n != 0) continue;
    const PetscInt m = ranks() / n;
    const grid g(plane, PETSC_COMM_WORLD, {n, m});
    // As many points for each rank, and blocks of Cleave.
    for (const bool even : {true, false}) {
      const PetscInt rows = even ? 3 * n : 3 * n - 1, cols = even ? 4 * m : 4 * m - 1;
      const points one(rows, cols, m, n, 1, !even), two(rows, cols, m, n, 2, !even);
      {
        const field x = interop::wrap_dmda<field>(g, one.da, one.v);
        const fields y = interop::wrap_dmda<fields>(g, two.da, two.v);
        const std::vector<double> a = x.to_global(), b = y.to_global();
        for (PetscInt i = 0; i < rows; ++i)
          for (PetscInt j = 0; j < cols; ++j) {
            const auto at = static_cast<std::size_t>(i * cols + j);
            EXPECT_EQ(a[at], points::value(i, j, 0));
            EXPECT_EQ(b[2 * at + 1], points::value(i, j, 1));
          }
        const PetscScalar* array = nullptr;
        sure(VecGetArrayRead(one.v, &array));
        EXPECT_EQ(x.data(), array);
        sure(VecRestoreArrayRead(one.v, &array));
        x.fill(7);
        const field c = interop::wrap_const_dmda<field>(g, one.da, one.v);
        EXPECT_EQ(c.to_global()[0], 7);
      }
      PetscReal largest = 0;
      sure(VecNorm(one.v, NORM_INFINITY, &largest));
      EXPECT_EQ(largest, 7);
      expect_everywhere("the DMDA has 3 dims, but the tensor has 2",
                        [&] { interop::wrap_dmda<field>(g, two.da, two.v); });
      expect_everywhere("does not fit the part", [&] { interop::wrap_dmda<field>(g, one.da, two.v); });
    }
  }
}
TEST(dmda, is_copied_where_blocks_differ) {
  const PetscInt n = ranks(), rows = 2 * n + 1;
  const grid g(plane, PETSC_COMM_WORLD, {n, 1});
  const points p(rows, 5, 1, n, 2, false);
  if (n > 2)
    expect_everywhere("along dim 'row' the DMDA has the indices", [&] { interop::wrap_dmda<fields>(g, p.da, p.v); });
  fields x(g, {rows, 5, 2});
  interop::copy_from_dmda(p.da, p.v, x);
  const std::vector<double> all = x.to_global();
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < 5; ++j)
      EXPECT_EQ(all[static_cast<std::size_t>(2 * (5 * i + j) + 1)], points::value(i, j, 1));
  x = x + 1000;
  interop::copy_to_dmda(x, p.da, p.v);
  PetscReal largest = 0, least = 0;
  sure(VecMax(p.v, nullptr, &largest));
  sure(VecMin(p.v, nullptr, &least));
  EXPECT_EQ(largest, 1000 + points::value(rows - 1, 4, 1));
  EXPECT_EQ(least, 1000);
  const fields longer(g, {rows + 1, 5, 2});
  expect_everywhere("along dim 'row' the DMDA has extent", [&] { interop::copy_to_dmda(longer, p.da, p.v); });
}
TEST(dmda, with_three_dims) {
  const PetscInt n = ranks();
  const grid g(plane, PETSC_COMM_WORLD, {n, 1});
  DM da = nullptr;
  Vec v = nullptr;
  sure(DMDACreate3d(PETSC_COMM_WORLD, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DM_BOUNDARY_NONE, DMDA_STENCIL_BOX, 5, 3,
                    2 * n, 1, 1, n, 1, 1, nullptr, nullptr, nullptr, &da));
  sure(DMSetUp(da));
  sure(DMCreateGlobalVector(da, &v));
  {
    solid x = interop::wrap_dmda<solid>(g, da, v);
    EXPECT_EQ(x.extents(), (std::array<std::int64_t, 3>{2 * n, 3, 5}));
    x.fill_by([](const auto& at) { return static_cast<double>(100 * at[0] + 10 * at[1] + at[2]); });
  }
  PetscScalar*** at = nullptr;
  sure(DMDAVecGetArrayRead(da, v, &at));
  EXPECT_EQ(at[2 * rank() + 1][2][4], 100.0 * (2 * rank() + 1) + 24);
  sure(DMDAVecRestoreArrayRead(da, v, &at));
  sure(VecDestroy(&v));
  sure(DMDestroy(&da));
}

} // namespace

int main(int argc, char** argv) {
  int provided = 0, failed = 1, anywhere = 1;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  if (PetscInitialize(&argc, &argv, nullptr, nullptr) == 0) {
    const Kokkos::ScopeGuard kokkos(argc, argv);
    testing::InitGoogleTest(&argc, argv);
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    if (rank() != 0 && ranks() > 1) delete listeners.Release(listeners.default_result_printer());
    failed = RUN_ALL_TESTS();
    MPI_Allreduce(&failed, &anywhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    (void)PetscFinalize();
  }
  MPI_Finalize();
  return anywhere == 0 ? 0 : 1;
}
