// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products with sparse matrices against KokkosSparse with a halo by hand, both in this process.
//
//   mpirun -n 2 sparse_time RESULTS.jsonl [seconds for each measurement]
#include "by_hand_sparse.hpp"
#include "measure.hpp"

#include <cleave/cleave.hpp>
#include <cleave/sparse/assemble.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>

namespace {

inline constexpr cleave::axis<"ranks"> line;
inline constexpr cleave::mesh mesh{line};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"column"> column;
using Matrix = cleave::sparse::csr<double, mesh(row / line), column>;
using Vector = cleave::tensor<double, mesh(row / line)>;

/// Calls f(column, value) for the entries of a row, in the order of the columns.
using entries_of_row = std::function<void(std::int64_t, const std::function<void(std::int64_t, double)>&)>;

void compare(const measure::task& t, const std::string& name, std::int64_t n, const entries_of_row& entries) {
  const cleave::grid grid(mesh, t.comm, {t.ranks});
  Vector x(grid, {n}), y(grid, {n});
  x.fill_by([](const auto& at) { return std::sin(static_cast<double>(at[0])); });
  std::vector<cleave::sparse::triplet<double>> all;
  std::vector<int> begins{0};
  std::vector<std::int64_t> columns;
  std::vector<double> values;
  for (std::int64_t i = x.offset()[0]; i < x.offset()[0] + x.local_size(); ++i) {
    entries(i, [&](std::int64_t j, double value) {
      all.push_back({i, j, value});
      columns.push_back(j);
      values.push_back(value);
    });
    begins.push_back(static_cast<int>(columns.size()));
  }
  const auto a = cleave::sparse::assemble<Matrix>(grid, n, n, all);
  by_hand::sparse_product hand(t.comm, n, begins, columns, values);
  for (std::int64_t i = 0; i < x.local_size(); ++i) hand.x(static_cast<std::size_t>(i)) = x.data()[i];
  const auto ours = [&] { y = a(x); };
  const auto theirs = [&] { hand.run(); };
  ours();
  theirs();
  double off = 0;
  for (std::int64_t i = 0; i < y.local_size(); ++i)
    off = std::max(off, std::fabs(y.data()[i] - hand.y(static_cast<std::size_t>(i))));
  if (!(off <= 1e-9)) throw std::runtime_error("the two programs differ in the product, " + name);
  auto entries_of_all = static_cast<std::int64_t>(values.size());
  MPI_Allreduce(MPI_IN_PLACE, &entries_of_all, 1, MPI_INT64_T, MPI_SUM, t.comm);
  t.out.factor("sparse product, " + name + " on " + std::to_string(t.ranks) + (t.ranks == 1 ? " rank" : " ranks"),
               measure::compare(t.comm, 5, t.seconds, ours, theirs), 1.15,
               // Each value with its column once, and both vectors.
               measure::work::bytes(static_cast<double>(entries_of_all) * (sizeof(double) + sizeof(int)) +
                                    2.0 * sizeof(double) * static_cast<double>(n)),
               "KokkosSparse and a halo by hand");
}

void run_all(const measure::task& t) {
  constexpr std::int64_t side = 1000;
  compare(t, "5 points of 1000 x 1000", side * side, [](std::int64_t i, const auto& add) {
    const std::int64_t r = i / side, c = i % side;
    if (r > 0) add(i - side, -1.0);
    if (c > 0) add(i - 1, -1.0);
    add(i, 4.0);
    if (c + 1 < side) add(i + 1, -1.0);
    if (r + 1 < side) add(i + side, -1.0);
  });
  constexpr std::int64_t edge = 80;
  compare(t, "27 points of 80^3", edge * edge * edge, [](std::int64_t i, const auto& add) {
    for (std::int64_t z = -1; z <= 1; ++z)
      for (std::int64_t y = -1; y <= 1; ++y)
        for (std::int64_t x = -1; x <= 1; ++x) {
          const std::int64_t at[3] = {i / (edge * edge) + z, i / edge % edge + y, i % edge + x};
          if (std::all_of(at, at + 3, [](std::int64_t c) { return c >= 0 && c < edge; }))
            add((at[0] * edge + at[1]) * edge + at[2], x == 0 && y == 0 && z == 0 ? 26.0 : -1.0);
        }
  });
  constexpr std::int64_t n = 400000, reach = 20000;
  compare(t, "20 scattered columns of 400,000 rows", n, [](std::int64_t i, const auto& add) {
    std::vector<std::int64_t> columns;
    for (std::int64_t k = 0; k < 20; ++k) {
      const std::int64_t c = i + (i * 7919 + k * 104729) % (2 * reach) - reach;
      if (c >= 0 && c < n) columns.push_back(c);
    }
    std::sort(columns.begin(), columns.end());
    columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
    for (std::int64_t c : columns) add(c, 1.0 / static_cast<double>(1 + c % 7));
  });
}

} // namespace

int main(int argc, char** argv) { return measure::run(argc, argv, 2, run_all); }
