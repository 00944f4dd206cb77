// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "solve_reference.hpp"
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/solve/cg.hpp>
#include <cleave/sparse/matrix_market.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

// Sparse matrices whose rows and columns are in blocks of given sizes, and the same ones in equal blocks.

namespace CLEAVE_SOURCE {

namespace solve = cleave::solve;
namespace sparse = cleave::sparse;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim_in_blocks<"row", "cells"> row;
inline constexpr cleave::dim_in_blocks<"col", "cells"> col;
inline constexpr cleave::dim_in_blocks<"wide", "others"> wide;
inline constexpr cleave::dim_in_blocks<"load", "loads"> load;
inline constexpr cleave::dim<"i"> i;
inline constexpr cleave::dim<"j"> j;

using Matrix = sparse::csr<double, mesh(row / data), col>;
using Wide = sparse::csr<double, mesh(row / data), wide>;
using Equal = sparse::csr<double, mesh(i / data), j>;
using Triplets = std::vector<sparse::triplet<double>>;
template <auto Dim>
using Vector = cleave::tensor<double, mesh(Dim / data)>;

using Back = sparse::csr<double, mesh(wide / data), row>;
using Equal_back = sparse::csr<double, mesh(j / data), i>;

constexpr cleave::function product([](auto a, auto x) { return sparse::multiply(a, x); });

/// Tables of sizes with so many blocks that add up to `sum`: all in one block, uneven ones with empty blocks, and one
/// block for all devices.
std::vector<std::vector<std::int64_t>> tables(std::int64_t parts, std::int64_t sum) {
  const auto n = static_cast<std::size_t>(parts);
  std::vector<std::int64_t> last(n, 0), uneven(2 * n, 0);
  last.back() = sum;
  std::int64_t rest = sum;
  for (std::size_t b = 1; b < uneven.size(); b += 2)
    rest -= uneven[b] = std::min(rest, static_cast<std::int64_t>(3 * b));
  uneven[uneven.size() / 2] += rest;
  return {last, uneven, {sum}};
}
template <class F>
void on_all_grids(std::int64_t rows, std::int64_t columns, const F& f) {
  for (std::size_t which = 0; which < 3; ++which)
    for (const cleave::grid& g : support::grids(mesh)) {
      g.set_blocks(row, tables(g.size(data), rows)[which]);
      g.set_blocks(wide, tables(g.size(data), columns)[2 - which]);
      g.set_blocks(load, std::vector<std::int64_t>{3});
      f(g);
    }
}
/// Near the diagonal and far away, from rank 0 and from the last one; some rows are empty.
Triplets entries(std::int64_t rows, std::int64_t columns) {
  Triplets all;
  for (std::int64_t r = support::rank(); r < rows; r += support::ranks())
    if (r % 7 != 3)
      for (const std::int64_t c : {r - 1, r, r + 1, r * 7919 % columns})
        if (c >= 0 && c < columns) all.push_back({r, c, support::wave(r, c, 0)});
  return all;
}
void fill(const auto& x) {
  x.fill_by([](const auto& at) { return support::wave(at[0], 2, 1); });
}

TEST(sparse_blocks, products_are_those_of_equal_blocks) {
  on_all_grids(23, 31, [](const cleave::grid& g) {
    const auto a = sparse::assemble<Wide>(g, 23, 31, entries(23, 31));
    const auto b = sparse::assemble<Equal>(g, 23, 31, entries(23, 31));
    Vector<wide> x(g, {31}), back(g, {31});
    Vector<row> y(g, {23});
    Vector<j> of_equal(g, {31}), back_of_equal(g, {31});
    Vector<i> want(g, {23});
    fill(x), fill(of_equal);
    y = product(a, x);
    want = product(b, of_equal);
    EXPECT_EQ(y.to_global(), want.to_global());
    back = product(sparse::transposed(a), y);
    back_of_equal = product(sparse::transposed(b), want);
    EXPECT_EQ(back.to_global(), back_of_equal.to_global());
    for (const auto& e : sparse::triplets_of(a)) {
      EXPECT_GE(e.row, y.offset()[0]);
      EXPECT_LT(e.row, y.offset()[0] + y.local_extents()[0]);
    }
  });
}
// Half the square of a product, whose derivative is the product with the transpose.
constexpr cleave::function loss([](auto x, auto a, auto back) {
  const auto times = cleave::custom_vjp([=](auto v) { return std::pair(sparse::multiply(a, v), std::tuple()); },
                                        [=](auto, auto y) { return sparse::multiply(back, y); });
  const cleave::value y = times(x);
  return 0.5 * sum(y * y);
});
TEST(sparse_blocks, gradients) {
  on_all_grids(23, 31, [](const cleave::grid& g) {
    const auto a = sparse::assemble<Wide>(g, 23, 31, entries(23, 31));
    const auto b = sparse::assemble<Equal>(g, 23, 31, entries(23, 31));
    const Back at = sparse::transposed(a);
    const Equal_back bt = sparse::transposed(b);
    Vector<wide> x(g, {31}), slope(g, {31}), again(g, {31});
    Vector<j> of_equal(g, {31}), want(g, {31});
    Vector<row> y(g, {23});
    fill(x), fill(of_equal);
    slope = cleave::grad(loss)(x, a, at);
    want = cleave::grad(loss)(of_equal, b, bt);
    EXPECT_EQ(slope.to_global(), want.to_global());
    y = product(a, x);
    again = product(at, y);
    EXPECT_EQ(slope.to_global(), again.to_global());
  });
}
TEST(sparse_blocks, several_vectors) {
  on_all_grids(23, 31, [](const cleave::grid& g) {
    const auto a = sparse::assemble<Wide>(g, 23, 31, entries(23, 31));
    const auto b = sparse::assemble<Equal>(g, 23, 31, entries(23, 31));
    cleave::tensor<double, mesh(wide / data, load)> x(g, {31, 3});
    cleave::tensor<double, mesh(row / data, load)> y(g, {23, 3});
    cleave::tensor<double, mesh(j / data, load)> of_equal(g, {31, 3});
    cleave::tensor<double, mesh(i / data, load)> want(g, {23, 3});
    const auto wave = [](const auto& at) { return support::wave(at[0], at[1], 1); };
    x.fill_by(wave), of_equal.fill_by(wave);
    y = product(a, x);
    want = product(b, of_equal);
    EXPECT_EQ(y.to_global(), want.to_global());
  });
}
// A vector of the rows has the blocks of the columns, so that it is not moved before the product.
TEST(sparse_blocks, bytes_are_the_distinct_columns_of_others) {
  const support::only_mpi transport;
  on_all_grids(41, 41, [](const cleave::grid& g) {
    const auto a = sparse::assemble<Matrix>(g, 41, 41, entries(41, 41));
    Vector<row> x(g, {41}), y(g, {41});
    fill(x);
    y = a(x);
    support::reset_charges();
    y = a(x);
    std::set<std::int64_t> read;
    for (const auto& e : sparse::triplets_of(a))
      if (e.column < x.offset()[0] || e.column >= x.offset()[0] + x.local_size()) read.insert(e.column);
    EXPECT_EQ(support::charged_bytes(), 8 * std::ssize(read));
    const auto plan = cleave::plan<Vector<row>(Matrix, Vector<col>)>(product);
    const std::int64_t most = a.halo.extents()[1];
    EXPECT_EQ(support::over_ranks(std::ssize(read)), most);
    EXPECT_EQ(cleave::bytes(plan.view(),
                            g.sizes_of(plan, {row = 41, col = 41, cleave::named_size{"halo row,col", most}})),
              8 * most);
  });
}
TEST(sparse_blocks, conjugate_gradients) {
  on_all_grids(47, 47, [](const cleave::grid& g) {
    Triplets mine;
    for (std::int64_t r = support::rank(); r < 47; r += support::ranks())
      for (const auto& [by, value] : {std::pair{0, 6.3}, {1, -1.0}, {6, -1.5}}) {
        mine.push_back({r, r + by < 47 ? r + by : r, r + by < 47 ? value : 0.0});
        if (by > 0 && r + by < 47) mine.push_back({r + by, r, value});
      }
    const auto a = sparse::assemble<Matrix>(g, 47, 47, mine);
    Vector<row> b(g, {47}), u(g, {47}), back(g, {47});
    cleave::tensor<double, mesh()> residual(g, {});
    cleave::tensor<int, mesh()> iterations(g, {}), ended(g, {});
    fill(b);
    solve::cg(a, b, {.tolerance = 1e-11, .iterations = 500}).into(u, residual, iterations, ended);
    EXPECT_EQ(ended.item(), static_cast<int>(solve::ended::converged));
    back = a(u);
    const std::vector<double> got = back.to_global(), want = b.to_global();
    for (std::size_t k = 0; k < got.size(); ++k) EXPECT_NEAR(got[k], want[k], 1e-9);
  });
}
TEST(sparse_blocks, matrix_market_files) {
  int owner = static_cast<int>(getpid());
  MPI_Bcast(&owner, 1, MPI_INT, 0, MPI_COMM_WORLD);
  const std::string path =
      (std::filesystem::temp_directory_path() / ("cleave_blocks_" + std::to_string(owner) + ".mtx")).string();
  if (support::rank() == 0)
    std::ofstream(path) << "%%MatrixMarket matrix coordinate integer symmetric\n3 3 3\n1 1 4\n3 1 -2\n3 3 5\n";
  on_all_grids(3, 4, [&](const cleave::grid& g) {
    const auto a = sparse::read_matrix_market<Matrix>(g, path);
    Vector<row> x(g, {3}), y(g, {3});
    x.fill_by([](const auto& at) { return static_cast<double>(at[0] + 1); });
    y = a(x);
    EXPECT_EQ(y.to_global(), (std::vector<double>{-2, 0, 13}));
  });
  MPI_Barrier(MPI_COMM_WORLD);
  if (support::rank() == 0) std::remove(path.c_str());
}
TEST(sparse_blocks, mistakes_are_said_on_all_ranks) {
  const auto said = [](const cleave::grid& g, std::int64_t rows, std::int64_t columns) {
    try {
      sparse::assemble<Wide>(g, rows, columns, Triplets{});
    } catch (const cleave::shape_error& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  for (const cleave::grid& g : support::grids(mesh)) {
    EXPECT_NE(said(g, 4, 5).find("'row' has the blocks 'cells', for which the grid was given no sizes"),
              std::string::npos);
    g.set_blocks(row, {4});
    EXPECT_NE(said(g, 4, 5).find("'wide' has the blocks 'others', for which the grid was given no sizes"),
              std::string::npos);
    g.set_blocks(wide, {5});
    EXPECT_EQ(said(g, 4, 5), "nothing");
    EXPECT_NE(said(g, 4, 6).find("dim 'wide' has extent 6, but the sizes of its blocks 'others' add up to 5"),
              std::string::npos);
  }
}

} // namespace CLEAVE_SOURCE
