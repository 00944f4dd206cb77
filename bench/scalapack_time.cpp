// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products, Cholesky factors and QR factors of tall matrices against ScaLAPACK, both in this process and with the same
// BLAS. ScaLAPACK's matrices are where it wants them, so no time of its own goes into moving them.
//
//   mpirun -n 2 scalapack_time RESULTS.jsonl [seconds for each measurement [product, cholesky or qr]]
#include "measure.hpp"

#include <cleave/cleave.hpp>
#include <cleave/linalg/grid_factor.hpp>
#include <cleave/linalg/linalg.hpp>
#include <cleave/linalg/summa.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <stdexcept>

extern "C" {
void Cblacs_get(int, int, int*);
void Cblacs_gridinit(int*, const char*, int, int);
void Cblacs_gridinfo(int, int*, int*, int*, int*);
int numroc_(const int* n, const int* block, const int* at, const int* first, const int* count);
void descinit_(int* d, const int* m, const int* n, const int* mb, const int* nb, const int* row, const int* col,
               const int* context, const int* ld, int* info);
void pdgemm_(const char*, const char*, const int*, const int*, const int*, const double*, const double*, const int*,
             const int*, const int*, const double*, const int*, const int*, const int*, const double*, double*,
             const int*, const int*, const int*);
void pdpotrf_(const char*, const int*, double*, const int*, const int*, const int*, int*);
void pdgeqrf_(const int*, const int*, double*, const int*, const int*, const int*, double*, double*, const int*, int*);
void pdorgqr_(const int*, const int*, const int*, double*, const int*, const int*, const int*, double*, double*,
              const int*, int*);
}

namespace {

inline constexpr cleave::axis<"y"> ay;
inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ay, ax};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"inner"> inner;
inline constexpr cleave::dim<"col"> col;
using A = cleave::tensor<double, mesh(row / ay, inner / ax)>;
using B = cleave::tensor<double, mesh(inner / ay, col / ax)>;
using C = cleave::tensor<double, mesh(row / ay, col / ax)>;
using Tall = cleave::tensor<double, mesh(row / ay, col)>;
using Triangle = cleave::tensor<double, mesh(inner, col)>;
using Basis = cleave::tensor<double, mesh(row / ay, inner)>;

constexpr cleave::function product([](auto a, auto b) {
  return cleave::linalg::summa<64 << 20>(a, b, inner, mesh(row / ay, col / ax));
});
constexpr cleave::function factor([](auto a) {
  return cleave::linalg::grid_cholesky<64>(a, mesh(row / ay, col / ax));
});
constexpr cleave::function orthonormal([](auto a) { return cleave::linalg::tall_qr(a, row, col, inner); });

/// A matrix in ScaLAPACK's distribution.
struct cyclic_matrix {
  std::vector<double> at;
  std::array<int, 9> d{};
  int rows = 0, cols = 0, block = 0;
  std::array<int, 4> place{}; // sizes of the grid, and this process in it

  template <class F>
  cyclic_matrix(int context, int m, int n, int block_size, const F& element) : block(block_size) {
    Cblacs_gridinfo(context, &place[0], &place[1], &place[2], &place[3]);
    const int zero = 0;
    rows = numroc_(&m, &block, &place[2], &zero, &place[0]);
    cols = numroc_(&n, &block, &place[3], &zero, &place[1]);
    const int ld = std::max(rows, 1);
    int info = 0;
    descinit_(d.data(), &m, &n, &block, &block, &zero, &zero, &context, &ld, &info);
    if (info != 0) throw std::runtime_error("descinit failed");
    at.resize(static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols));
    for (int j = 0; j < cols; ++j)
      for (int i = 0; i < rows; ++i) (*this)(i, j) = element(global(i, 0), global(j, 1));
  }
  double& operator()(int i, int j) {
    return at[static_cast<std::size_t>(i) + static_cast<std::size_t>(j) * static_cast<std::size_t>(rows)];
  }
  long global(int local, std::size_t along) const {
    return (local / block * place[along] + place[along + 2]) * static_cast<long>(block) + local % block;
  }
};

double wave(long i, long j) {
  return std::sin(0.3 + 0.7 * static_cast<double>(i) + 1.3 * static_cast<double>(j % 1000));
}
double definite(long i, long j, long n) { return i == j ? 2 + static_cast<double>(n) : (wave(i, j) + wave(j, i)) / 2; }

void expect_near(const char* what, double ours, double theirs, double scale) {
  if (!(std::fabs(ours - theirs) <= 1e-9 * scale))
    throw std::runtime_error(std::string("the two programs differ in ") + what + ": " + std::to_string(ours) + " and " +
                             std::to_string(theirs));
}
double sum_over(MPI_Comm comm, double here) {
  MPI_Allreduce(MPI_IN_PLACE, &here, 1, MPI_DOUBLE, MPI_SUM, comm);
  return here;
}
/// The sum of squares of a matrix: both programs must agree on it.
template <class T>
double squares(MPI_Comm comm, const T& t, bool lower_half = false) {
  double here = 0;
  if constexpr (requires { t.cols; }) {
    auto& m = const_cast<T&>(t);
    for (int j = 0; j < m.cols; ++j)
      for (int i = 0; i < m.rows; ++i)
        if (!lower_half || m.global(i, 0) >= m.global(j, 1)) here += m(i, j) * m(i, j);
  } else {
    for (std::int64_t i = 0; i < t.local_size(); ++i) here += t.data()[i] * t.data()[i];
  }
  return sum_over(comm, here);
}

struct measured {
  const measure::task& with;
  const cleave::grid& grid;
  int context;

  std::string where() const { return " on " + std::to_string(with.ranks) + (with.ranks == 1 ? " rank" : " ranks"); }
  template <class F, class G>
  void compare(const std::string& what, const F& ours, const G& theirs, double limit, double flops) const {
    with.out.factor(what + where(), measure::compare(with.comm, 1, with.seconds, ours, theirs), limit,
                    measure::work::products<double>(flops), "ScaLAPACK");
  }

  void products(int n) const {
    A a(grid, {n, n});
    B b(grid, {n, n});
    C c(grid, {n, n});
    a.fill_by([](const auto& at) { return wave(at[0], at[1]); });
    b.fill_by([](const auto& at) { return wave(at[1], at[0] + 5); });
    cyclic_matrix sa(context, n, n, 64, wave);
    cyclic_matrix sb(context, n, n, 64, [](long i, long j) { return wave(j, i + 5); });
    cyclic_matrix sc(context, n, n, 64, [](long, long) { return 0.0; });
    const auto ours = [&] { c = product(a, b); };
    const auto theirs = [&] {
      const int one = 1;
      const double alpha = 1, beta = 0;
      pdgemm_("N", "N", &n, &n, &n, &alpha, sa.at.data(), &one, &one, sa.d.data(), sb.at.data(), &one, &one,
              sb.d.data(), &beta, sc.at.data(), &one, &one, sc.d.data());
    };
    ours();
    theirs();
    const double size = squares(with.comm, sc);
    expect_near("the product", squares(with.comm, c), size, size);
    compare("SUMMA of " + std::to_string(n) + "^2", ours, theirs, 0.97, 2.0 * n * n * n);
  }
  void factors(int n) const {
    const auto element = [n](long i, long j) { return definite(i, j, n); };
    C a(grid, {n, n}), l(grid, {n, n});
    a.fill_by([&](const auto& at) { return element(at[0], at[1]); });
    const cyclic_matrix given(context, n, n, 64, element);
    cyclic_matrix s = given;
    const auto ours = [&] { l = factor(a); };
    // Both read the matrix and write the factor.
    const auto theirs = [&] {
      const int one = 1;
      int info = 0;
      s.at = given.at;
      pdpotrf_("L", &n, s.at.data(), &one, &one, s.d.data(), &info);
    };
    ours();
    theirs();
    const double size = squares(with.comm, s, true);
    expect_near("the factor", squares(with.comm, l), size, size);
    compare("Cholesky factor of " + std::to_string(n) + "^2", ours, theirs, 1.2, 1.0 / 3 * n * n * n);
  }
  void tall(int m, int n) const {
    Tall a(grid, {m, n});
    Basis q(grid, {m, n});
    Triangle r(grid, {n, n});
    const auto element = [](long i, long j) { return wave(i * (j + 1), j); };
    a.fill_by([&](const auto& at) { return element(at[0], at[1]); });
    const cyclic_matrix given(context, m, n, 32, element);
    cyclic_matrix s = given;
    std::vector<double> tau(static_cast<std::size_t>(n)), work(1);
    const int one = 1;
    int info = 0, length = -1;
    pdgeqrf_(&m, &n, s.at.data(), &one, &one, s.d.data(), tau.data(), work.data(), &length, &info);
    int most = static_cast<int>(work[0]);
    pdorgqr_(&m, &n, &n, s.at.data(), &one, &one, s.d.data(), tau.data(), work.data(), &length, &info);
    most = std::max(most, static_cast<int>(work[0]));
    work.resize(static_cast<std::size_t>(most));
    const auto ours = [&] { orthonormal(a).into(q, r); };
    const auto theirs = [&] {
      s.at = given.at;
      pdgeqrf_(&m, &n, s.at.data(), &one, &one, s.d.data(), tau.data(), work.data(), &most, &info);
      pdorgqr_(&m, &n, &n, s.at.data(), &one, &one, s.d.data(), tau.data(), work.data(), &most, &info);
    };
    ours();
    theirs();
    expect_near("the basis", squares(with.comm, q), squares(with.comm, s), n);
    compare("QR factors of " + std::to_string(m) + " x " + std::to_string(n), ours, theirs, 1.2,
            // The factor and its first columns: of each 2 m n^2.
            4.0 * m * n * n);
  }
};

void measure_all(const measure::task& with) {
  // A grid of processes as square as possible: its taller side is the first one.
  int wide = 1;
  for (int x = 1; x * x <= with.ranks; ++x)
    if (with.ranks % x == 0) wide = x;
  int context = 0, line = 0;
  Cblacs_get(-1, 0, &context);
  Cblacs_gridinit(&context, "Row", with.ranks / wide, wide);
  Cblacs_get(-1, 0, &line);
  Cblacs_gridinit(&line, "Row", with.ranks, 1);
  const cleave::grid grid(mesh, with.comm, {with.ranks / wide, wide});
  const cleave::grid column(mesh, with.comm, {with.ranks, 1});
  const measured square{with, grid, context}, rows{with, column, line};
  const auto wanted = [&](const char* part) { return with.only.empty() || with.only == part; };
  if (wanted("product")) square.products(2048);
  if (wanted("cholesky")) square.factors(2048);
  if (wanted("qr")) rows.tall(200000, 32);
}

} // namespace

int main(int argc, char** argv) { return measure::run(argc, argv, 5, measure_all); }
