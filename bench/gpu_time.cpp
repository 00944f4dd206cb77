// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a device can do, and how much of it programs get: products beside the vendor's BLAS called by hand, and what
// memory decides beside a copy of as many bytes as must be read and written. bench/gpu.py runs it; on the host it runs
// too.
//
//   gpu_time RESULTS.jsonl [seconds for each measurement [product, map, stencil, sum, rows, sparse or small]]
#include "measure.hpp"

#include <cleave/cleave.hpp>
#include <cleave/sparse/assemble.hpp>

#include <KokkosBlas3_gemm.hpp>

namespace {

inline constexpr cleave::axis<"device"> device;
inline constexpr cleave::mesh mesh{device};
inline constexpr cleave::dim<"i"> di;
inline constexpr cleave::dim<"j"> dj;
inline constexpr cleave::dim<"k"> dk;
inline constexpr cleave::dim<"word"> word;
using A = cleave::tensor<float, mesh(di / device, dk)>;
using B = cleave::tensor<float, mesh(dk, dj)>;
using C = cleave::tensor<float, mesh(di / device, dj)>;

constexpr cleave::function product([](auto a, auto b) { return dot(a, b, dk); });
constexpr cleave::function chain([](auto x, auto y) { return relu(2 * x + y) * (1 - x); });
constexpr cleave::function sweep([](auto u) {
  return 0.5f * u + 0.125f * (shift(u, di, 1) + shift(u, di, -1) + shift(u, dj, 1) + shift(u, dj, -1));
});
constexpr cleave::function sweep_of_cubes([](auto u) {
  return 0.4f * u + 0.1f * (shift(u, di, 1) + shift(u, di, -1) + shift(u, dj, 1) + shift(u, dj, -1) + shift(u, dk, 1) +
                            shift(u, dk, -1));
});
constexpr cleave::function sums_of_rows([](auto x) { return sum(x, dj); });
constexpr cleave::function sums_of_columns([](auto x) { return sum(x, di); });
constexpr cleave::function sum_of_all([](auto x) { return sum(x, di, dj); });
constexpr cleave::function shares([](auto x) { return softmax(x, dj); });

using bytes_view = Kokkos::View<char*, cleave::memory_space>;

/// Copies half of the bytes from one half of a View to the other: as many read as written.
struct copied {
  bytes_view from, to;
  explicit copied(std::int64_t bytes)
      : from("from", static_cast<std::size_t>(bytes / 2)), to("to", static_cast<std::size_t>(bytes / 2)) {}
  void operator()() const {
    Kokkos::deep_copy(to, from);
    cleave::wait_for_kernels();
  }
};

template <class Tensor>
void fill(Tensor& t) {
  t.fill_by([](const auto& at) { return static_cast<float>((at[0] * 7 + at[1] * 5) % 11 - 5); });
}

/// A program beside a copy that reads and writes so many bytes together.
template <class F>
void against_copy(const measure::task& with, const std::string& name, std::int64_t bytes, double limit, const F& run) {
  const auto t = measure::compare(
      with.comm, 1, with.seconds,
      [&] {
        run();
        cleave::wait_for_kernels();
      },
      copied(bytes));
  with.out.factor(name + ", against a copy of as many bytes", t, limit);
}

void measure_product(const measure::task& with, const cleave::grid& grid, std::int64_t n) {
  A a(grid, {n, n});
  B b(grid, {n, n});
  C c(grid, {n, n}), by_hand(grid, {n, n});
  fill(a);
  fill(b);
  const auto t = measure::compare(
      with.comm, 1, with.seconds,
      [&] {
        c = product(a, b);
        cleave::wait_for_kernels();
      },
      [&] {
        KokkosBlas::gemm(cleave::execution_space(), "N", "N", 1.0f, a.view(), b.view(), 0.0f, by_hand.view());
        Kokkos::fence();
      });
  with.out.factor("product " + std::to_string(n) + " float, against the BLAS", t, 1.1);
}

void measure_maps(const measure::task& with, const cleave::grid& grid, std::int64_t m) {
  const std::string size = std::to_string(m) + "^2";
  C x(grid, {m, m}), y(grid, {m, m}), z(grid, {m, m});
  fill(x);
  fill(y);
  const std::int64_t bytes = x.local_size() * 4;
  against_copy(with, "chain of " + size, 3 * bytes, 1.2, [&] { z = chain(x, y); });
  cleave::tensor<float, mesh(dj, di / device)> turned(grid, {m, m});
  against_copy(with, "transpose, " + size, 2 * bytes, 1.5, [&] { turned = x; });
}

void measure_stencils(const measure::task& with, const cleave::grid& grid, std::int64_t m, std::int64_t edge) {
  C x(grid, {m, m}), z(grid, {m, m});
  fill(x);
  against_copy(with, "5 points of " + std::to_string(m) + "^2", x.local_size() * 8, 1.5, [&] { z = sweep(x); });
  cleave::tensor<float, mesh(di / device, dj, dk)> cube(grid, {edge, edge, edge}), next(grid, {edge, edge, edge});
  fill(cube);
  against_copy(with, "7 points of " + std::to_string(edge) + "^3", cube.local_size() * 8, 1.5,
               [&] { next = sweep_of_cubes(cube); });
}

void measure_sums(const measure::task& with, const cleave::grid& grid, std::int64_t m) {
  const std::string size = " of " + std::to_string(m) + "^2";
  C x(grid, {m, m}), z(grid, {m, m});
  fill(x);
  const std::int64_t bytes = x.local_size() * 4;
  cleave::tensor<float, mesh(di / device)> rows(grid, {m});
  cleave::tensor<float, mesh(dj)> columns(grid, {m});
  cleave::tensor<float, mesh()> all(grid, {});
  against_copy(with, "sums of rows" + size, bytes, 1.5, [&] { rows = sums_of_rows(x); });
  against_copy(with, "sums of columns" + size, bytes, 1.5, [&] { columns = sums_of_columns(x); });
  against_copy(with, "sum of all" + size, bytes, 1.5, [&] { all = sum_of_all(x); });
  // The logarithm of the sum of a row first, then its shares.
  against_copy(with, "softmax of rows" + size, 3 * bytes, 1.5, [&] { z = shares(x); });
}

void measure_rows(const measure::task& with, const cleave::grid& grid, std::int64_t count, std::int64_t length) {
  const std::int64_t words = count / 4;
  cleave::tensor<float, mesh(word, dj)> table(grid, {words, length}), sums(grid, {words, length});
  cleave::tensor<int, mesh(di / device)> ids(grid, {count});
  C rows(grid, {count, length});
  fill(table);
  ids.fill_by([&](const auto& at) { return static_cast<int>(at[0] * 7919 % words); });
  const std::string size = ", " + std::to_string(count) + " rows of " + std::to_string(length);
  against_copy(with, "gather" + size, rows.local_size() * 8, 1.5, [&] { rows = gather(table, word, ids); });
  against_copy(with, "scatter_add" + size, rows.local_size() * 4 + words * length * 4, 3,
               [&] { sums = scatter_add(rows, ids, word); });
}

/// A five-point matrix of side^2 rows.
void measure_sparse(const measure::task& with, const cleave::grid& grid, std::int64_t side) {
  using Matrix = cleave::sparse::csr<double, mesh(di / device), dj>;
  const std::int64_t n = side * side;
  cleave::tensor<double, mesh(di / device)> x(grid, {n}), y(grid, {n});
  x.fill(1.0);
  std::vector<cleave::sparse::triplet<double>> all;
  for (std::int64_t i = x.offset()[0]; i < x.offset()[0] + x.local_size(); ++i) {
    const std::int64_t row = i / side, column = i % side;
    if (row > 0) all.push_back({i, i - side, -1.0});
    if (column > 0) all.push_back({i, i - 1, -1.0});
    all.push_back({i, i, 4.0});
    if (column + 1 < side) all.push_back({i, i + 1, -1.0});
    if (row + 1 < side) all.push_back({i, i + side, -1.0});
  }
  const auto a = cleave::sparse::assemble<Matrix>(grid, n, n, all);
  const auto bytes = static_cast<std::int64_t>(all.size()) * 12 + x.local_size() * (8 + 16);
  against_copy(with, "sparse product, 5 points of " + std::to_string(side) + "^2", bytes, 1.5, [&] { y = a(x); });
}

/// What a call takes beside its kernel.
void measure_small(const measure::task& with, const cleave::grid& grid) {
  C x(grid, {64, 64}), y(grid, {64, 64}), z(grid, {64, 64});
  fill(x);
  fill(y);
  against_copy(with, "chain of 64^2", 3 * x.local_size() * 4, 2, [&] { z = chain(x, y); });
}

void measure_all(const measure::task& with) {
  const cleave::grid grid(mesh, with.comm, {with.ranks});
  const auto wanted = [&](const char* part) { return with.only.empty() || with.only == part; };
  // On the host, as much as ends in seconds.
  constexpr bool host = cleave::on_host;
  const std::int64_t m = host ? 2048 : 16384;
  if (wanted("product")) measure_product(with, grid, host ? 1024 : 8192);
  if (wanted("map")) measure_maps(with, grid, m);
  if (wanted("stencil")) measure_stencils(with, grid, m, host ? 128 : 640);
  if (wanted("sum")) measure_sums(with, grid, m);
  if (wanted("rows")) measure_rows(with, grid, host ? 1 << 16 : 1 << 20, 128);
  if (wanted("sparse")) measure_sparse(with, grid, host ? 512 : 2048);
  if (wanted("small")) measure_small(with, grid);
}

} // namespace

int main(int argc, char** argv) {
  return measure::run(argc, argv, 2, [](const measure::task& with) { measure_all(with); });
}
