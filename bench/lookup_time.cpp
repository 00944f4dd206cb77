// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Look-ups, sums by index and sparse products of Cleave against the same by hand, both in this process.
//
//   mpirun -n 2 lookup_time RESULTS.jsonl [seconds for each measurement]
#include "by_hand_lookups.hpp"
#include "measure.hpp"

#include <cleave/cleave.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace {

inline constexpr cleave::axis<"ranks"> line;
inline constexpr cleave::mesh mesh{line};
inline constexpr cleave::dim<"word"> word;
inline constexpr cleave::dim<"batch"> batch;
inline constexpr cleave::dim<"embed"> embed;
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"column"> column;
inline constexpr cleave::dim<"slot"> slot;
inline constexpr cleave::dim<"entry"> entry;

/// Both programs must have computed the same, or their times say nothing.
template <class T>
void expect_same(const T* ours, const T* theirs, std::int64_t n, const std::string& what) {
  double off = 0, size = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    off = std::max(off, std::fabs(static_cast<double>(ours[i]) - static_cast<double>(theirs[i])));
    size = std::max(size, std::fabs(static_cast<double>(theirs[i])));
  }
  if (!(off <= 1e-6 * size)) throw std::runtime_error("the two programs differ in " + what);
}

/// The table replicated, indices and rows sharded: nothing moves.
void run_lookups(measure::results& out, MPI_Comm comm, int ranks, double seconds, long words, long count, long length) {
  using Table = cleave::tensor<float, mesh(word, embed)>;
  using Indices = cleave::tensor<int, mesh(batch / line)>;
  using Rows = cleave::tensor<float, mesh(batch / line, embed)>;
  const cleave::grid grid(mesh, comm, {ranks});
  Table table(grid, {words, length});
  Indices ids(grid, {count});
  Rows rows(grid, {count, length});
  table.fill_by([](const auto& at) { return std::sin(static_cast<float>(at[0] % 1009 + at[1])); });
  ids.fill_by([&](const auto& at) { return static_cast<int>(at[0] * 7919 % words); });
  const long mine = static_cast<long>(ids.local_size());
  Kokkos::View<float*> by_hand("rows", static_cast<std::size_t>(mine * length));
  const auto gather_ours = [&] { rows = gather(table, word, ids); };
  const auto gather_theirs = [&] { by_hand::gather(table.data(), ids.data(), by_hand.data(), mine, length); };
  gather_ours();
  gather_theirs();
  expect_same(rows.data(), by_hand.data(), mine * length, "rows");
  const std::string size = ", " + std::to_string(count) + " rows of " + std::to_string(length) + " on " +
                           std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
  // Rows of one element are where the caches have them; longer ones are read and written.
  const measure::work w = length > 1 ? measure::work::bytes(8.0 * static_cast<double>(count * length))
                                     : measure::work{};
  out.factor("gather" + size, measure::compare(comm, 1, seconds, gather_ours, gather_theirs), 1.2, w);
  if (ranks > 1) return;
  Table sums(grid, {words, length});
  Kokkos::View<float*> sums_by_hand("sums", static_cast<std::size_t>(words * length));
  const auto add_ours = [&] { sums = scatter_add(rows, ids, word); };
  const auto add_theirs = [&] {
    by_hand::scatter_add(rows.data(), ids.data(), sums_by_hand.data(), mine, length, words);
  };
  add_ours();
  add_theirs();
  expect_same(sums.data(), sums_by_hand.data(), words * length, "sums");
  out.factor("scatter_add" + size, measure::compare(comm, 1, seconds, add_ours, add_theirs), 1.2);
}

/// The table sharded too: rows of other devices are fetched. By hand, the table lives in a window of all ranks.
void run_sharded(const measure::task& t, long words, long count, long length) {
  using Table = cleave::tensor<float, mesh(word / line, embed)>;
  using Indices = cleave::tensor<int, mesh(batch / line)>;
  using Rows = cleave::tensor<float, mesh(batch / line, embed)>;
  const cleave::grid grid(mesh, t.comm, {t.ranks});
  Table table(grid, {words, length});
  Indices ids(grid, {count});
  Rows rows(grid, {count, length});
  table.fill_by([](const auto& at) { return std::sin(static_cast<float>(at[0] % 1009 + at[1])); });
  ids.fill_by([&](const auto& at) { return static_cast<int>(at[0] * 7919 % words); });
  const long mine = static_cast<long>(ids.local_size()), own = words / t.ranks;
  const by_hand::window window(t.comm, static_cast<std::size_t>(own * length));
  std::copy_n(table.data(), table.local_size(), window.own());
  std::vector<float> by_hand(static_cast<std::size_t>(mine * length));
  const auto ours = [&] { rows = gather(table, word, ids); };
  const auto theirs = [&] { by_hand::gather(window, ids.data(), by_hand.data(), mine, length, own); };
  ours();
  theirs();
  expect_same(rows.data(), by_hand.data(), mine * length, "rows of a sharded table");
  const measure::work w = length > 1 ? measure::work::bytes(8.0 * static_cast<double>(count * length))
                                     : measure::work{};
  const std::string size = " sharded table, " + std::to_string(count) + " rows of " + std::to_string(length) + " on " +
                           std::to_string(t.ranks) + " ranks";
  t.out.factor("gather from a" + size, measure::compare(t.comm, 1, t.seconds, ours, theirs), 1.2, w);

  Table sums(grid, {words, length});
  const by_hand::window rows_window(t.comm, static_cast<std::size_t>(mine * length)),
      ids_window(t.comm, static_cast<std::size_t>(mine));
  std::copy_n(rows.data(), rows.local_size(), rows_window.own());
  std::memcpy(ids_window.own(), ids.data(), ids.local_size() * sizeof(int));
  std::vector<float> sums_by_hand(static_cast<std::size_t>(own * length));
  const auto add_ours = [&] { sums = scatter_add(rows, ids, word); };
  const auto add_theirs = [&] {
    by_hand::scatter_add(rows_window, ids_window, sums_by_hand.data(), mine, length, own);
  };
  add_ours();
  add_theirs();
  expect_same(sums.data(), sums_by_hand.data(), own * length, "sums of a sharded table");
  t.out.factor("scatter_add to a" + size, measure::compare(t.comm, 1, t.seconds, add_ours, add_theirs), 1.2);
}

/// A five-point matrix, columns and rows sharded: the border of x travels.
void run_sparse(measure::results& out, MPI_Comm comm, int ranks, double seconds) {
  using X = cleave::tensor<double, mesh(column / line)>;
  using Y = cleave::tensor<double, mesh(row / line)>;
  using Values = cleave::tensor<double, mesh(row / line, slot)>;
  using Columns = cleave::tensor<int, mesh(row / line, slot)>;
  constexpr long n = 400000, side = 600, slots = 5, offset[slots] = {0, -1, 1, -side, side};
  const cleave::grid grid(mesh, comm, {ranks});
  X x(grid, {n});
  Y y(grid, {n});
  Values v(grid, {n, slots});
  Columns c(grid, {n, slots});
  const auto column_of = [&](long i, long s) {
    const long j = i + offset[s];
    return j < 0 || j >= n ? i : j;
  };
  x.fill_by([](const auto& at) { return std::sin(static_cast<double>(at[0])); });
  v.fill_by([](const auto& at) { return at[1] == 0 ? 4.0 : -1.0; });
  c.fill_by([&](const auto& at) { return static_cast<int>(column_of(at[0], at[1])); });
  const long mine = static_cast<long>(y.local_extents()[0]), first = static_cast<long>(y.offset()[0]);
  by_hand::banded_product hand(comm, mine, slots, side);
  for (long i = 0; i < mine; ++i) {
    hand.x(static_cast<std::size_t>(side + i)) = x.data()[i];
    for (long s = 0; s < slots; ++s) {
      hand.values.data()[i * slots + s] = v.data()[i * slots + s];
      hand.columns.data()[i * slots + s] = static_cast<int>(column_of(first + i, s) - first + side);
    }
  }
  constexpr cleave::function product(
      [](auto values, auto columns, auto of) { return dot(values, gather(of, column, columns), slot); });
  const auto ours = [&] { y = product(v, c, x); };
  ours();
  hand.run();
  expect_same(y.data(), hand.y.data(), mine, "the sparse product");
  out.factor("sparse product (ELL) by gather and dot on " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks"),
             measure::compare(comm, 3, seconds, ours, [&] { hand.run(); }), 1.2,
             measure::work::bytes(static_cast<double>(n) *
                                  (slots * (sizeof(double) + sizeof(int)) + 2 * sizeof(double))));

  // The same entries one after another, each with its row.
  using Entries = cleave::tensor<double, mesh(entry / line)>;
  using Positions = cleave::tensor<int, mesh(entry / line)>;
  Entries values(grid, {n * slots});
  Positions rows(grid, {n * slots}), columns(grid, {n * slots});
  values.fill_by([](const auto& at) { return at[0] % slots == 0 ? 4.0 : -1.0; });
  rows.fill_by([](const auto& at) { return static_cast<int>(at[0] / slots); });
  columns.fill_by([&](const auto& at) { return static_cast<int>(column_of(at[0] / slots, at[0] % slots)); });
  std::vector<int> own_rows(static_cast<std::size_t>(mine * slots));
  for (long k = 0; k < mine * slots; ++k) own_rows[static_cast<std::size_t>(k)] = static_cast<int>(k / slots);
  constexpr cleave::function by_entries([](auto values, auto rows, auto columns, auto of) {
    return scatter_add(values * gather(of, column, columns), rows, row);
  });
  const auto ours_by_entries = [&] { y = by_entries(values, rows, columns, x); };
  const auto theirs_by_entries = [&] { hand.run_by_entries(own_rows.data()); };
  ours_by_entries();
  theirs_by_entries();
  expect_same(y.data(), hand.y.data(), mine, "the sparse product by entries");
  out.factor(
      "sparse product (COO) by gather and scatter_add on " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks"),
      measure::compare(comm, 3, seconds, ours_by_entries, theirs_by_entries), 1.5,
      measure::work::bytes(static_cast<double>(n) * (slots * (sizeof(double) + 2 * sizeof(int)) + 3 * sizeof(double))));
}

} // namespace

int main(int argc, char** argv) {
  return measure::run(argc, argv, 2, [](const measure::task& t) {
    run_lookups(t.out, t.comm, t.ranks, t.seconds, 100000, 1000000, 1);
    run_lookups(t.out, t.comm, t.ranks, t.seconds, 30000, 20000, 512);
    if (t.ranks == 2) {
      run_sharded(t, 100000, 1000000, 1);
      run_sharded(t, 30000, 20000, 512);
    }
    run_sparse(t.out, t.comm, t.ranks, t.seconds);
  });
}
