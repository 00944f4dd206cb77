// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "solve_reference.hpp"
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/solve/cg.hpp>
#include <cleave/sparse/matrix_market.hpp>

#include <gtest/gtest.h>

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

// Sparse matrices on real grids beside maps of their entries.

namespace CLEAVE_SOURCE {

namespace solve = cleave::solve;
namespace sparse = cleave::sparse;

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"load"> load;

using Matrix = sparse::csr<double, mesh(row / data), col>;
using Y = cleave::tensor<double, mesh(row / data)>;
using X = cleave::tensor<double, mesh(col / data)>;
using Loads = cleave::tensor<double, mesh(col / data, load)>;
using Turned = cleave::tensor<double, mesh(load / model, row / data)>;
using Number = cleave::tensor<double, mesh()>;
using Count = cleave::tensor<int, mesh()>;
using Entries = std::map<std::pair<std::int64_t, std::int64_t>, double>;
using Triplets = std::vector<sparse::triplet<double>>;

constexpr cleave::function product([](auto a, auto x) { return sparse::multiply(a, x); });
constexpr cleave::function turned([](auto a, auto x) { return sparse::multiply(a, x); });

/// Near the diagonal, and some far away; some rows are empty.
Entries scattered(std::int64_t rows, std::int64_t columns) {
  Entries all;
  for (std::int64_t i = 0; i < rows; ++i)
    if (i % 7 != 3)
      for (const std::int64_t c : {i - 1, i, i + 1, i * 7919 % columns, (i * 31 + 5) % columns})
        if (c >= 0 && c < columns) all[{i, c}] += support::wave(i, c, 0);
  return all;
}
/// Every rank gives every third entry or so, in parts whose sum is exact, and the others in whole.
Triplets dealt(const Entries& all) {
  Triplets mine;
  std::int64_t n = 0;
  for (const auto& [place, value] : all) {
    ++n;
    if (n % support::ranks() == support::rank()) mine.push_back({place.first, place.second, value / 2});
    if ((n + 1) % support::ranks() == support::rank())
      mine.insert(mine.begin(), {place.first, place.second, value / 2});
  }
  return mine;
}
/// By rows, in the order of the columns.
std::vector<double> times(const Entries& all, std::int64_t rows, const std::vector<double>& x) {
  std::vector<double> y(static_cast<std::size_t>(rows));
  for (const auto& [place, value] : all) {
    double& sum = y[static_cast<std::size_t>(place.first)];
    const double factor = x[static_cast<std::size_t>(place.second)];
#ifdef KOKKOS_ENABLE_CUDA
    // nvcc makes a product and a sum one operation.
    sum = std::fma(value, factor, sum);
#else
    sum += value * factor;
#endif
  }
  return y;
}
void fill(const X& x) {
  x.fill_by([](const auto& at) { return support::wave(at[0], 2, 1); });
}

TEST(sparse, a_product_is_that_of_one_device_to_the_last_bit) {
  for (const cleave::grid& g : support::grids(mesh))
    for (const auto& [m, n] :
         {std::pair<std::int64_t, std::int64_t>{23, 31}, {31, 23}, {1, 9}, {9, 1}, {3, 3}, {40, 40}}) {
      const Entries all = scattered(m, n);
      const auto a = sparse::assemble<Matrix>(g, m, n, dealt(all));
      X x(g, {n});
      Y y(g, {m});
      fill(x);
      y = product(a, x);
      EXPECT_EQ(y.to_global(), times(all, m, x.to_global())) << m << " x " << n;
    }
}

TEST(sparse, products_are_statements_too) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const Entries entries = scattered(29, 29);
    const Matrix a = sparse::assemble<Matrix>(g, 29, 29, dealt(entries));
    X x(g, {29});
    Y y(g, {29}), of_rows(g, {29}), z(g, {29});
    x.fill_by([](const auto& at) { return support::wave(at[0], 1, 2); });
    of_rows.fill_by([](const auto& at) { return support::wave(at[0], 1, 2); });
    const std::vector<double> expected = times(entries, 29, x.to_global());
    y = sparse::multiply(a, x);
    EXPECT_EQ(y.to_global(), expected);
    y = a(x);
    EXPECT_EQ(y.to_global(), expected);
    z = y - a(2.0 * of_rows) * 0.5;
    EXPECT_EQ(z.to_global(), std::vector<double>(29, 0.0));
  }
}
TEST(sparse, several_vectors_in_any_order_of_dims) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const std::int64_t m = 17, n = 22, loads = 3;
    const Entries all = scattered(m, n);
    const auto a = sparse::assemble<Matrix>(g, m, n, dealt(all));
    Loads x(g, {n, loads});
    Turned y(g, {loads, m});
    x.fill_by([](const auto& at) { return support::wave(at[0], at[1], 1); });
    y = turned(a, x);
    const std::vector<double> from = x.to_global(), got = y.to_global();
    for (std::int64_t k = 0; k < loads; ++k) {
      std::vector<double> one;
      for (std::int64_t i = 0; i < n; ++i) one.push_back(from[static_cast<std::size_t>(i * loads + k)]);
      const std::vector<double> want = times(all, m, one);
      for (std::int64_t i = 0; i < m; ++i)
        EXPECT_EQ(got[static_cast<std::size_t>(k * m + i)], want[static_cast<std::size_t>(i)]);
    }
  }
}

constexpr cleave::function back([](auto a, auto y) { return sparse::multiply(a, y); });
TEST(sparse, the_transpose_is_a_matrix_of_its_own) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const std::int64_t m = 19, n = 26;
    const Entries all = scattered(m, n);
    Entries swapped;
    for (const auto& [place, value] : all) swapped[{place.second, place.first}] = value;
    const auto a = sparse::assemble<Matrix>(g, m, n, dealt(all));
    const auto t = sparse::transposed(a);
    Y y(g, {m});
    X x(g, {n});
    y.fill_by([](const auto& at) { return support::wave(at[0], 0, 3); });
    x = back(t, y);
    EXPECT_EQ(x.to_global(), times(swapped, n, y.to_global()));
    // Entries are where they were, with the numbers that were given.
    for (const auto& e : sparse::triplets_of(a)) {
      EXPECT_GE(e.row, y.offset()[0]);
      EXPECT_LT(e.row, y.offset()[0] + y.local_extents()[0]);
      EXPECT_EQ(e.value, (all.at({e.row, e.column})));
    }
  }
}

// Each device receives each element of others that its rows read, once.
TEST(sparse, a_product_moves_the_distinct_columns_of_others) {
  const support::only_mpi transport;
  for (const cleave::grid& g : support::grids(mesh)) {
    const std::int64_t n = 41;
    const Entries all = scattered(n, n);
    const auto a = sparse::assemble<Matrix>(g, n, n, dealt(all));
    X x(g, {n});
    Y y(g, {n});
    fill(x);
    y = product(a, x);
    support::reset_charges();
    y = product(a, x);
    const std::int64_t parts = g.size(data), length = (n + parts - 1) / parts;
    std::vector<std::set<std::int64_t>> read(static_cast<std::size_t>(parts));
    for (const auto& [place, value] : all)
      if (place.first / length != place.second / length)
        read[static_cast<std::size_t>(place.first / length)].insert(place.second);
    std::int64_t most = 0;
    for (const auto& columns : read) most = std::max(most, std::ssize(columns));
    EXPECT_EQ(support::charged_bytes(), 8 * std::ssize(read[static_cast<std::size_t>(g.here()[0])]));
    // The price of the plan is that of the busiest device.
    EXPECT_EQ(a.halo.extents()[1], most);
    EXPECT_EQ((cleave::plan<Y(Matrix, X)>(product).bytes(
                  {row = n, col = n, data = parts, model = g.size(model), cleave::named_size{"halo row,col", most}})),
              8 * most);
  }
}

// A square matrix is an operator: in a statement, and captured in a function. Over two orders of magnitude rounding
// changes the iterates of a solve without a preconditioner.
constexpr cleave::function preconditioned([](auto a, auto diagonal, auto b) {
  const auto precondition = [=](cleave::value r) { return r / diagonal; };
  return solve::cg(a, b, {.tolerance = 1e-11, .iterations = 500}, precondition);
});
TEST(sparse, conjugate_gradients_on_a_badly_scaled_matrix) {
  for (const cleave::grid& g : support::grids(mesh))
    for (const bool scaled : {false, true}) {
      const std::int64_t n = 47;
      const auto scale = [&](std::int64_t i) {
        return scaled ? std::pow(10.0, static_cast<double>(i * 5 % 13) / 6) : 1.0;
      };
      Entries all;
      for (std::int64_t i = 0; i < n; ++i)
        for (const auto& [by, value] : {std::pair{0, 6.3}, {1, -1.0}, {6, -1.5}, {13, -0.5}})
          if (i + by < n) all[{i, i + by}] = all[{i + by, i}] = value * scale(i) * scale(i + by);
      const auto a = sparse::assemble<Matrix>(g, n, n, dealt(all));
      Y b(g, {n}), diagonal(g, {n}), u(g, {n});
      b.fill_by([&](const auto& at) { return scale(at[0]) * support::wave(at[0], 0, 0); });
      diagonal.fill_by([&](const auto& at) { return 6.3 * scale(at[0]) * scale(at[0]); });
      Number residual(g, {});
      Count iterations(g, {}), ended(g, {});
      const std::vector<double> right = b.to_global(), d = diagonal.to_global();
      const support::serial_operator apply = [&](const std::vector<double>& x) { return times(all, n, x); };
      const support::serial_operator precondition = [&](std::vector<double> r) {
        for (std::size_t i = 0; i < r.size(); ++i) r[i] /= d[i];
        return r;
      };
      if (scaled) preconditioned(a, diagonal, b).into(u, residual, iterations, ended);
      else solve::cg(a, b, {.tolerance = 1e-11, .iterations = 500}).into(u, residual, iterations, ended);
      const support::serial_result want = support::serial_cg(apply, scaled ? precondition : support::serial_operator{},
                                                             right, 1e-11, 500);
      EXPECT_EQ(iterations.item(), want.iterations);
      EXPECT_EQ(ended.item(), static_cast<int>(solve::ended::converged));
      const std::vector<double> got = u.to_global();
      for (std::size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], want.solution[i], 1e-10 * support::serial_norm(want.solution));
    }
}

/// What an exception of all ranks says.
template <class Error, class F>
std::string said(const F& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "nothing";
}
void expect_says(const std::string& got, const std::string& words) {
  EXPECT_NE(got.find(words), std::string::npos) << got;
}

// Matrices with the same dims and other numbers of entries, in one function.
using Other = sparse::csr<double, mesh(row / data), col, sparse::in_order, cleave::dim<"other">>;
constexpr cleave::function sum_of_products([](auto a, auto b, auto x) {
  return sparse::multiply(a, x) + sparse::multiply(b, x);
});
TEST(sparse, two_matrices_in_one_function) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const Entries all = scattered(23, 31);
    Entries few;
    for (const auto& e : all)
      if (few.size() < 3) few.insert(e);
    const auto a = sparse::assemble<Matrix>(g, 23, 31, dealt(all));
    const auto b = sparse::assemble<Other>(g, 23, 31, dealt(few));
    X x(g, {31});
    Y y(g, {23});
    fill(x);
    y = sum_of_products(a, b, x);
    std::vector<double> want = times(all, 23, x.to_global());
    const std::vector<double> more = times(few, 23, x.to_global());
    for (std::size_t i = 0; i < want.size(); ++i) want[i] += more[i];
    EXPECT_EQ(y.to_global(), want);
  }
}

TEST(sparse, what_does_not_fit_is_said_on_all_ranks) {
  for (const cleave::grid& g : support::grids(mesh)) {
    Triplets mine{{0, 0, 1.0}};
    if (support::rank() == support::ranks() - 1) mine.push_back({2, 5, 1.0});
    expect_says(said<cleave::shape_error>([&] { sparse::assemble<Matrix>(g, 4, 5, mine); }),
                "a triplet at row 2, column 5 lies outside of a matrix of 4 x 5");
    expect_says(said<cleave::shape_error>([&] { sparse::assemble<Matrix>(g, 3, -1, Triplets{}); }), "'col'");
    expect_says(said<cleave::shape_error>([&] { sparse::assemble<Matrix>(g, -1, 3, Triplets{}); }), "'row'");
    EXPECT_THROW(sparse::assemble<Matrix>(g, 2, std::numeric_limits<std::int64_t>::max(), Triplets{}),
                 cleave::shape_error);
    const auto a = sparse::assemble<Matrix>(g, 4, 5, Triplets{});
    X x(g, {6});
    Y y(g, {4});
    expect_says(said<cleave::shape_error>([&] { y = product(a, x); }),
                "a sparse matrix of 5 columns was multiplied with a vector whose dim 'col' has extent 6");
  }
}

class market {
 public:
  explicit market(const std::string& text) {
    int owner = static_cast<int>(getpid());
    MPI_Bcast(&owner, 1, MPI_INT, 0, MPI_COMM_WORLD);
    path_ = (std::filesystem::temp_directory_path() / ("cleave_" + std::to_string(owner) + ".mtx")).string();
    if (support::rank() == 0) std::ofstream(path_) << text;
    MPI_Barrier(MPI_COMM_WORLD);
  }
  market(const market&) = delete;
  market& operator=(const market&) = delete;
  ~market() {
    MPI_Barrier(MPI_COMM_WORLD);
    if (support::rank() == 0) std::remove(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_{};
};
TEST(sparse, matrix_market_files) {
  for (const cleave::grid& g : support::grids(mesh)) {
    const std::pair<std::string, Entries> files[] = {
        {"%%MatrixMarket matrix coordinate real general\n% a comment\n\n3 4 3\n1 1 2.5\n3 4 -1e-3\n1 1 0.5\n",
         {{{0, 0}, 3.0}, {{2, 3}, -1e-3}}},
        {"%%matrixmarket MATRIX coordinate integer symmetric\n3 3 3\n1 1 4\n3 1 -2\n3 3 5\n",
         {{{0, 0}, 4.0}, {{2, 0}, -2.0}, {{0, 2}, -2.0}, {{2, 2}, 5.0}}},
        {"%%MatrixMarket matrix coordinate pattern general\n2 3 2\n1 3\n2 2", {{{0, 2}, 1.0}, {{1, 1}, 1.0}}},
    };
    for (const auto& [text, want] : files) {
      const market file(text);
      const auto a = sparse::read_matrix_market<Matrix>(g, file.path());
      std::int64_t entries = 0;
      for (const auto& e : sparse::triplets_of(a)) {
        EXPECT_EQ(e.value, (want.at({e.row, e.column})));
        ++entries;
      }
      // Each replica of the rows counts.
      std::int64_t sum = 0;
      MPI_Allreduce(&entries, &sum, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
      EXPECT_EQ(sum, std::ssize(want) * g.size(model));
    }
  }
}
TEST(sparse, a_wrong_line_of_a_file_is_named) {
  const std::pair<std::string, std::string> files[] = {
      {"", ":1: the first line is not"},
      {"%%MatrixMarket matrix array real general\n1 1\n3\n", ":1: only coordinate matrices"},
      {"%%MatrixMarket matrix coordinate complex general\n1 1 1\n1 1 0 1\n", ":1: only coordinate matrices"},
      {"%%MatrixMarket matrix coordinate real general\n% 1 1 1\n2 x 1\n", ":3: there are not three numbers"},
      {"%%MatrixMarket matrix coordinate real symmetric\n2 3 1\n1 1 1\n", ":2: there are not three numbers"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n\n1 2\n", ":5: an entry is not a row"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1.5 1\n", ":3: an entry is not a row"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1e400\n", ":3: an entry is not a row"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 99999999999999999999 1\n", ":3: an entry is not a row"},
      {"%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 2.5\n", ":3: an entry is not a row"},
      {"%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 0x10\n", ":3: an entry is not a row"},
      {"%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 9007199254740993\n", ":3: an entry is not a row"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 3 1\n", ":3: an entry lies outside"},
      {"%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n1 2 1\n", ":3: an entry of a symmetric matrix"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n", ":3: the file ends before"},
      {"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n2 2 1\n", ":4: there are more entries"},
  };
  const cleave::grid g = support::grids(mesh).front();
  // A byte 0 for each @: it hides what is behind it where a line is read as a string of C.
  const std::pair<std::string, std::string> with_zeros[] = {
      {"%%MatrixMarket matrix coordinate real general@\n1 1 1\n1 1 1\n", ":1: the line has a byte 0"},
      {"%%MatrixMarket matrix coordinate real general\n1 1 1@junk\n1 1 1\n", ":2: the line has a byte 0"},
      {"%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 5@ 7 7\n", ":3: the line has a byte 0"},
      {"%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n@\n", ":4: the line has a byte 0"},
  };
  for (const auto& [text, words] : with_zeros) {
    std::string written = text;
    std::replace(written.begin(), written.end(), '@', '\0');
    const market file(written);
    expect_says(said<cleave::file_error>([&] { sparse::read_matrix_market<Matrix>(g, file.path()); }),
                file.path() + words);
  }
  for (const auto& [text, words] : files) {
    const market file(text);
    expect_says(said<cleave::file_error>([&] { sparse::read_matrix_market<Matrix>(g, file.path()); }),
                file.path() + words);
  }
  const market large("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1e39\n");
  using of_floats = sparse::csr<float, mesh(row / data), col>;
  expect_says(said<cleave::file_error>([&] { sparse::read_matrix_market<of_floats>(g, large.path()); }),
              large.path() +
                  ":3: an entry is not a row, a column and, unless it is a pattern, a number of the element");
  expect_says(said<cleave::file_error>([&] { sparse::read_matrix_market<Matrix>(g, "nowhere.mtx"); }),
              "cannot open 'nowhere.mtx': No such file or directory");
  expect_says(said<cleave::file_error>([&] { sparse::read_matrix_market<Matrix>(g, "."); }),
              "cannot read '.': Is a directory");
}

} // namespace CLEAVE_SOURCE
