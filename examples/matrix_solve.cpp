// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Solves A x = b for a sparse matrix in a Matrix Market file, by conjugate gradients or by BiCGStab:
// examples/run 4 matrix_solve examples/data/lund_a.mtx. The right-hand side is A times ones, so the solution is known.
#include "options.hpp"

#include <cleave/cleave.hpp>
#include <cleave/solve/bicgstab.hpp>
#include <cleave/solve/cg.hpp>
#include <cleave/sparse/matrix_market.hpp>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace matrix_solve {

namespace solve = cleave::solve;
namespace sparse = cleave::sparse;

inline constexpr cleave::axis<"ranks"> ranks;
inline constexpr cleave::mesh mesh{ranks};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"step", 10001> steps; // the history has room for so many residuals

using Matrix = sparse::csr<double, mesh(row / ranks), col>;
using Vector = cleave::tensor<double, mesh(row / ranks)>;
using Number = cleave::tensor<double, mesh()>;
using Count = cleave::tensor<int, mesh()>;
using History = cleave::tensor<double, mesh(steps)>;
using Solved = std::tuple<Vector, Number, Count, Count, History>;

// The preconditioner is the inverse of the diagonal.
constexpr cleave::function by_cg([](auto a, auto diagonal, auto b, auto tolerance, auto most) {
  const auto scaled = [=](auto r) { return r / diagonal; };
  return solve::cg(a, b, {.tolerance = tolerance, .iterations = most}, scaled, steps);
});
constexpr cleave::function by_bicgstab([](auto a, auto diagonal, auto b, auto tolerance, auto most) {
  const auto scaled = [=](auto r) { return r / diagonal; };
  return solve::bicgstab(a, b, {.tolerance = tolerance, .iterations = most}, scaled, steps);
});
constexpr cleave::function product([](auto a, auto x) { return a(x); });
constexpr cleave::function distance([](auto u, auto v) { return sqrt(sum((u - v) * (u - v))); });
constexpr cleave::function length([](auto u) { return sqrt(sum(u * u)); });

// No device gathers a vector: a product sends the elements that the rows of others read.
constexpr auto plan = cleave::plan<Solved(Matrix, Vector, Vector, double, int)>(by_cg);
static_assert(plan.count(cleave::kind::all_gather) == 0 && plan.count(cleave::kind::exchange) == 0);

constexpr std::string_view usage =
    "usage: matrix_solve MATRIX [options]\n"
    "MATRIX is a file in the Matrix Market format, such as examples/data/lund_a.mtx.\n"
    "  --method M       cg, for symmetric positive definite matrices, or bicgstab (cg)\n"
    "  --tolerance T    of the residual, relative to the right-hand side (1e-10)\n"
    "  --iterations N   give up after so many (10000)\n"
    "  --log FILE       the residual of each iteration, as comma-separated values\n";

// The diagonal of a matrix; 1 where it has none.
Vector diagonal_of(const cleave::grid& grid, const Matrix& a, std::int64_t rows) {
  Vector diagonal(grid, {rows});
  const auto entries = sparse::triplets_of(a);
  auto at = entries.begin();
  return diagonal.fill_by([&](const auto& index) {
    while (at != entries.end() && at->row < index[0]) ++at;
    while (at != entries.end() && at->row == index[0] && at->column < index[0]) ++at;
    const bool there = at != entries.end() && at->row == index[0] && at->column == index[0] && at->value != 0;
    return there ? at->value : 1.0;
  });
}

void write_log(const std::string& path, const std::vector<double>& residuals, int count, bool speaks) {
  bool written = true;
  if (speaks) {
    std::ofstream file(path);
    file << "iteration,residual\n";
    for (int k = 0; k <= count && k < std::ssize(residuals); ++k) file << k << ',' << residuals[std::size_t(k)] << '\n';
    file.flush();
    written = file.good();
  }
  if (!examples::agreed(written)) throw std::runtime_error("cannot write the log '" + path + "'");
}

int run(examples::options& given, int size, bool speaks) {
  const std::string method = given.text("--method", "cg"), log = given.text("--log");
  const double tolerance = given.number("--tolerance", 1e-10);
  const int most = given.number("--iterations", 10000);
  const std::string path = given.word();
  given.done();
  if (path.empty()) throw std::runtime_error("the file of the matrix is missing, see --help");
  if (method != "cg" && method != "bicgstab")
    throw std::runtime_error("there is no method '" + method + "', see --help");

  cleave::grid grid(mesh, MPI_COMM_WORLD, {size});
  const auto a = sparse::read_matrix_market<Matrix>(grid, path);
  const std::int64_t rows = a.ends.extents()[0];
  Vector ones(grid, {rows}), b(grid, {rows}), x(grid, {rows}), again(grid, {rows});
  const Vector diagonal = diagonal_of(grid, a, rows);
  ones.fill(1.0);
  b = product(a, ones);

  Number residual(grid, {}), error(grid, {}), norm(grid, {}), rest(grid, {});
  Count iterations(grid, {}), ended(grid, {});
  History history(grid, {std::int64_t{10001}});
  const double start = MPI_Wtime();
  if (method == "cg") by_cg(a, diagonal, b, tolerance, most).into(x, residual, iterations, ended, history);
  else by_bicgstab(a, diagonal, b, tolerance, most).into(x, residual, iterations, ended, history);
  const int count = iterations.item();
  const double seconds = MPI_Wtime() - start;
  if (!log.empty()) write_log(log, history.to_global(), count, speaks);

  // The residual that a method carries along drifts from b - A x; this is the latter.
  again = product(a, x);
  rest = distance(again, b);
  norm = length(b);
  error = distance(x, ones);
  const bool converged = ended.item() == static_cast<int>(solve::ended::converged);
  const bool right = converged && rest.item() <= 100 * tolerance * norm.item();
  if (speaks)
    std::printf(
        "%lld rows on %d processes: %s %s after %d iterations, %.2f microseconds each\n"
        "residual %.3e of the right-hand side, error %.3e of the solution: %s\n",
        static_cast<long long>(rows), size, method.c_str(), converged ? "converged" : "did NOT converge", count,
        1e6 * seconds / std::max(count, 1), rest.item() / norm.item(),
        error.item() / std::sqrt(static_cast<double>(rows)), right ? "right" : "WRONG");
  return right ? 0 : 1;
}

} // namespace matrix_solve

int main(int argc, char** argv) { return examples::run(argc, argv, matrix_solve::usage, matrix_solve::run); }
