// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/redistribute/distributions.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

// Arrays in distributions of other codes: to tensors and back, each element where it belongs, and no byte too many.

namespace CLEAVE_SOURCE {

using cleave::block_cyclic;
using cleave::block_sizes;
using cleave::grid;
using cleave::tensor;

inline constexpr cleave::axis<"p"> p;
inline constexpr cleave::axis<"q"> q;
inline constexpr cleave::mesh mesh{p, q};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;

double value_at(std::int64_t i, std::int64_t j) { return static_cast<double>(1000 * i + j); }

/// What the checks of the arrays and of the memory cost: two all-reduces of a number.
std::int64_t check_bytes() {
  support::reset_charges();
  int one = 1, all = 0;
  MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return 2 * support::charged_bytes();
}

/// The global indices that a rank has along a dim of a block-cyclic matrix, one by one, as ScaLAPACK's INDXL2G counts.
std::vector<std::int64_t> cyclic_indices(std::int64_t n, std::int64_t block, std::int64_t process, std::int64_t first,
                                         std::int64_t processes) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < n; ++i)
    if ((i / block + first) % processes == process) all.push_back(i);
  return all;
}
struct indices {
  std::vector<std::int64_t> rows, cols;

  std::int64_t common(const std::array<std::int64_t, 2>& begin, const std::array<std::int64_t, 2>& extent) const {
    const auto inside = [&](const std::vector<std::int64_t>& all, std::size_t d) {
      return std::count_if(all.begin(), all.end(),
                           [&](std::int64_t i) { return i >= begin[d] && i < begin[d] + extent[d]; });
    };
    return inside(rows, 0) * inside(cols, 1);
  }
};
indices indices_of(const block_cyclic& c, std::array<std::int64_t, 2> matrix, int rank) {
  const std::int64_t number = rank;
  if (number >= c.processes[0] * c.processes[1]) return {};
  const std::int64_t y = c.column_order ? number % c.processes[0] : number / c.processes[1],
                     x = c.column_order ? number / c.processes[0] : number % c.processes[1];
  return {cyclic_indices(matrix[0], c.block[0], y, c.first[0], c.processes[0]),
          cyclic_indices(matrix[1], c.block[1], x, c.first[1], c.processes[1])};
}

template <class Tensor>
void expect_cyclic(const grid& g, block_cyclic c, std::array<std::int64_t, 2> matrix) {
  const indices mine = indices_of(c, matrix, support::rank());
  const auto rows = std::ssize(mine.rows), cols = std::ssize(mine.cols);
  ASSERT_EQ(c.local_extents(matrix, support::rank()), (std::array<std::int64_t, 2>{rows, cols}));
  // A leading dimension with something between the columns, of each rank its own.
  c.leading = rows + support::rank() % 3;
  const double untouched = -7;
  std::vector<double> array(static_cast<std::size_t>(c.leading * cols), untouched), want = array;
  for (std::int64_t j = 0; j < cols; ++j)
    for (std::int64_t i = 0; i < rows; ++i)
      want[static_cast<std::size_t>(i + j * c.leading)] = value_at(mine.rows[static_cast<std::size_t>(i)],
                                                                   mine.cols[static_cast<std::size_t>(j)]);
  Tensor x(g, matrix);
  const std::int64_t here = mine.common(x.offset(), x.local_extents()), check = check_bytes();

  support::reset_charges();
  cleave::from_block_cyclic(want, c, x);
  EXPECT_EQ(support::charged_bytes() - check, 8 * (x.local_size() - here));
  const std::vector<double> all = x.to_global();
  int wrong = 0;
  for (std::int64_t i = 0; i < matrix[0]; ++i)
    for (std::int64_t j = 0; j < matrix[1]; ++j)
      wrong += all[static_cast<std::size_t>(i * matrix[1] + j)] == value_at(i, j) ? 0 : 1;
  EXPECT_EQ(wrong, 0);

  support::reset_charges();
  cleave::to_block_cyclic(x, array, c);
  EXPECT_EQ(support::charged_bytes() - check, 8 * (rows * cols - here));
  EXPECT_EQ(array, want); // and nothing between the columns
}

TEST(distributions, block_cyclic_matrices) {
  for (const grid& g : support::grids(mesh))
    for (const auto& sizes : support::factorings(support::ranks(), 2))
      for (const bool column_order : {false, true}) {
        const block_cyclic c{{sizes[0], sizes[1]}, {2, 3}, {sizes[0] - 1, sizes[1] / 2}, 0, column_order};
        expect_cyclic<tensor<double, mesh(row / p, col / q)>>(g, c, {13, 17});
        expect_cyclic<tensor<double, mesh(row / q / p, col)>>(g, c, {13, 17});
        expect_cyclic<tensor<double, mesh(row / p, col / q)>>(g, c, {1, 5});
      }
}
// Fewer processes than ranks, and a matrix that all devices have.
TEST(distributions, processes_and_replicas) {
  for (const grid& g : support::grids(mesh)) {
    const int half = std::max(support::ranks() / 2, 1);
    expect_cyclic<tensor<double, mesh(row / p, col / q)>>(g, {{1, half}, {4, 4}, {0, 0}}, {16, 24});
    expect_cyclic<tensor<double, mesh(row, col)>>(g, {{half, 1}, {3, 5}, {0, 0}}, {11, 9});
    expect_cyclic<tensor<double, mesh(row / p, col)>>(g, {{1, 1}, {64, 64}, {0, 0}}, {10, 10});
  }
}
// Wrapped, an array stays where it is: what it is multiplied by, and what another one is assigned, is in its memory.
inline constexpr cleave::dim<"row_turn"> row_turn;
inline constexpr cleave::dim<"row_part"> row_part;
inline constexpr cleave::dim<"in_row"> in_row;
inline constexpr cleave::dim<"col_turn"> col_turn;
inline constexpr cleave::dim<"col_part"> col_part;
inline constexpr cleave::dim<"in_col"> in_col;
using Cyclic = tensor<double, mesh(col_turn, col_part / q, in_col, row_turn, row_part / p, in_row)>;

struct cyclic_array {
  block_cyclic c;
  std::array<std::int64_t, 2> matrix;
  indices mine;
  std::vector<double> elements;

  cyclic_array(block_cyclic d, std::array<std::int64_t, 2> m)
      : c(d), matrix(m), mine(indices_of(d, m, support::rank())) {
    c.leading = std::ssize(mine.rows) + support::rank() % 2 * 3;
    elements.assign(static_cast<std::size_t>(c.leading * std::ssize(mine.cols)), -7);
    each([](double& e, std::int64_t i, std::int64_t j) { e = value_at(i, j); });
  }
  template <class F>
  void each(const F& f) {
    for (std::size_t j = 0; j < mine.cols.size(); ++j)
      for (std::size_t i = 0; i < mine.rows.size(); ++i)
        f(elements[i + j * static_cast<std::size_t>(c.leading)], mine.rows[i], mine.cols[j]);
  }
};
// A rank that is no device gives no elements.
TEST(distributions, block_cyclic_arrays_of_some_ranks) {
#ifdef KOKKOS_ENABLE_CUDA
  GTEST_SKIP() << "these arrays are in memory of the host";
#endif
  const std::int64_t some = std::max(support::ranks() - 1, 1);
  const grid g(mesh, MPI_COMM_WORLD, {some, 1}, cleave::on_ranks{});
  const std::array<std::int64_t, 2> matrix{some * 2 * 3, 6};
  cyclic_array a(block_cyclic{{some, 1}, {2, 3}}, matrix);
  auto x = cleave::wrap_block_cyclic<Cyclic>(g, matrix, a.c, a.elements);
  if (g.active()) {
    x = 2 * x;
    a.each([](double& e, std::int64_t i, std::int64_t j) { EXPECT_EQ(e, 2 * value_at(i, j)); });
  }
}
TEST(distributions, numbers_that_make_no_distribution) {
  EXPECT_THROW((block_cyclic{{1, 1}, {0, 2}}.local_extents({4, 4}, 0)), cleave::shape_error);
  EXPECT_THROW((block_cyclic{{0, 1}, {2, 2}}.local_extents({4, 4}, 0)), cleave::shape_error);
  EXPECT_THROW((block_cyclic{{1, 1}, {2, 2}, {1, 0}}.local_extents({4, 4}, 0)), cleave::shape_error);
}
TEST(distributions, block_cyclic_arrays_wrapped_without_a_copy) {
#ifdef KOKKOS_ENABLE_CUDA
  GTEST_SKIP() << "these arrays are in memory of the host";
#endif
  for (const auto& sizes : support::factorings(support::ranks(), 2)) {
    const grid g(mesh, MPI_COMM_WORLD, {sizes[0], sizes[1]});
    const block_cyclic c{{sizes[0], sizes[1]}, {2, 3}};
    const std::array<std::int64_t, 2> matrix{sizes[0] * 2 * 3, sizes[1] * 3 * 2};
    cyclic_array a(c, matrix), b(c, matrix);
    auto x = cleave::wrap_block_cyclic<Cyclic>(g, matrix, a.c, a.elements);
    auto y = cleave::wrap_block_cyclic<Cyclic>(g, matrix, b.c, b.elements);
    ASSERT_EQ(x.strided_view().data(), a.elements.data());
    // Each element at its place: (J * Q + q) * NB + j is the column, and the row likewise.
    const auto at = x.extents();
    const std::vector<double> all = x.to_global();
    std::size_t k = 0;
    int wrong = 0;
    for (std::int64_t J = 0; J < at[0]; ++J)
      for (std::int64_t Q = 0; Q < at[1]; ++Q)
        for (std::int64_t j = 0; j < at[2]; ++j)
          for (std::int64_t I = 0; I < at[3]; ++I)
            for (std::int64_t P = 0; P < at[4]; ++P)
              for (std::int64_t i = 0; i < at[5]; ++i, ++k)
                wrong += all[k] == value_at((I * at[4] + P) * at[5] + i, (J * at[1] + Q) * at[2] + j) ? 0 : 1;
    EXPECT_EQ(wrong, 0);
    y = 2 * x + y; // agrees once on what is called
    support::reset_charges();
    y = 2 * x + y;
    EXPECT_EQ(support::charged_bytes(), 0);
    b.each([&](double e, std::int64_t i, std::int64_t j) { EXPECT_EQ(e, 5 * value_at(i, j)); });
    for (double e : a.elements) EXPECT_GE(e, -7);
    // Between the columns nothing is written.
    std::int64_t untouched = 0;
    for (double e : b.elements) untouched += e == -7 ? 1 : 0;
    EXPECT_EQ(untouched, (b.c.leading - std::ssize(b.mine.rows)) * std::ssize(b.mine.cols));
  }
}
// The first block is on another process than the first rank: the grid names its ranks in the order of the blocks.
TEST(distributions, a_wrapped_array_whose_first_block_is_elsewhere) {
  const int n = support::ranks();
  const block_cyclic c{{1, n}, {4, 2}, {0, n - 1}};
  const std::array<std::int64_t, 2> matrix{8, 4 * n};
  cyclic_array a(c, matrix);
  std::vector<int> order;
  for (int i = 0; i < n; ++i) order.push_back((i + n - 1) % n);
  const grid turned(mesh, MPI_COMM_WORLD, {1, n}, cleave::on_ranks{.list = order});
  const auto x = cleave::wrap_block_cyclic<Cyclic>(turned, matrix, a.c, a.elements);
  EXPECT_EQ(x.strided_view().data(), a.elements.data());
  if (n == 1) return;
  const grid straight(mesh, MPI_COMM_WORLD, {1, n});
  EXPECT_THROW(cleave::wrap_block_cyclic<Cyclic>(straight, matrix, a.c, a.elements), cleave::shape_error);
}

TEST(distributions, a_descriptor_of_scalapack) {
  const std::array<int, 9> desc{1, 0, 20, 30, 4, 5, 1, 0, 12};
  const block_cyclic c = block_cyclic::of_descriptor(desc, 2, 3);
  EXPECT_EQ(c.processes, (std::array<std::int64_t, 2>{2, 3}));
  EXPECT_EQ(c.block, (std::array<std::int64_t, 2>{4, 5}));
  EXPECT_EQ(c.first, (std::array<std::int64_t, 2>{1, 0}));
  EXPECT_EQ(c.leading, 12);
  // numroc(20, 4, 0, 1, 2) is 8, and of the second row of processes 12.
  EXPECT_EQ(c.local_extents({20, 30}, 0), (std::array<std::int64_t, 2>{8, 10}));
  EXPECT_EQ(c.local_extents({20, 30}, 5), (std::array<std::int64_t, 2>{12, 10}));
}

// A partial tensor: what is written is its value, and what is read is reduced.
TEST(distributions, partial_values) {
  using Partial = tensor<double, mesh(row / p, col, cleave::unreduced(q))>;
  for (const grid& g : support::grids(mesh)) {
    Partial x(g, {6, 4});
    x.fill_by([](const auto& at) { return value_at(at[0], at[1]); });
    const block_cyclic c{{support::ranks(), 1}, {1, 2}, {0, 0}};
    const auto extents = c.local_extents({6, 4}, support::rank());
    std::vector<double> array(static_cast<std::size_t>(extents[0] * extents[1])), again(array.size());
    cleave::to_block_cyclic(x, array, c);
    for (std::size_t i = 0; i < array.size(); ++i) array[i] *= 2;
    cleave::from_block_cyclic(array, c, x);
    const std::vector<double> all = x.to_global();
    for (std::int64_t k = 0; k < 24; ++k) EXPECT_EQ(all[static_cast<std::size_t>(k)], 2 * value_at(k / 4, k % 4));
    cleave::to_block_cyclic(x, again, c);
    EXPECT_EQ(again, array);
  }
}

/// Sizes that add up to an extent, each its own, one of them 0.
std::vector<std::int64_t> sizes_of(std::int64_t extent, std::int64_t parts) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(parts), 0);
  for (std::int64_t i = 0, rest = extent; i < parts; ++i) {
    all[static_cast<std::size_t>(i)] = i + 1 == parts ? rest : i == 1 ? 0 : std::min(rest, 2 * i + 1);
    rest -= all[static_cast<std::size_t>(i)];
  }
  return all;
}
template <class Tensor, class Layout>
void expect_blocks(const grid& g, std::int64_t row_parts, std::int64_t row_block, std::int64_t col_parts,
                   std::int64_t col_block) {
  const std::array<std::int64_t, 2> extents{19, 23};
  const block_sizes sizes{sizes_of(19, row_parts), sizes_of(23, col_parts)};
  const auto begin = [](const std::vector<std::int64_t>& all, std::int64_t n) {
    return std::accumulate(all.begin(), all.begin() + n, std::int64_t{0});
  };
  const std::array<std::int64_t, 2> first{begin(sizes.along[0], row_block), begin(sizes.along[1], col_block)},
      length{sizes.along[0][static_cast<std::size_t>(row_block)], sizes.along[1][static_cast<std::size_t>(col_block)]};
  // With room around it, as ghosts.
  using view = Kokkos::View<double**, Layout, Kokkos::HostSpace>;
  const view whole("block", static_cast<std::size_t>(length[0] + 2), static_cast<std::size_t>(length[1] + 2));
  const auto inner = Kokkos::subview(whole, std::pair<std::int64_t, std::int64_t>(1, 1 + length[0]),
                                     std::pair<std::int64_t, std::int64_t>(1, 1 + length[1]));
  for (std::size_t i = 0; i < inner.extent(0); ++i)
    for (std::size_t j = 0; j < inner.extent(1); ++j)
      inner(i, j) = value_at(first[0] + static_cast<std::int64_t>(i), first[1] + static_cast<std::int64_t>(j));
  Tensor x(g, extents);
  std::int64_t here = 1;
  for (std::size_t d = 0; d < 2; ++d)
    here *= std::max<std::int64_t>(std::min(first[d] + length[d], x.offset()[d] + x.local_extents()[d]) -
                                       std::max(first[d], x.offset()[d]),
                                   0);
  const std::int64_t check = check_bytes();
  support::reset_charges();
  cleave::from_blocks(inner, sizes, x);
  EXPECT_EQ(support::charged_bytes() - check, 8 * (x.local_size() - here));
  const std::vector<double> all = x.to_global();
  int wrong = 0;
  for (std::int64_t k = 0; k < 19 * 23; ++k)
    wrong += all[static_cast<std::size_t>(k)] == value_at(k / 23, k % 23) ? 0 : 1;
  EXPECT_EQ(wrong, 0);
  Kokkos::deep_copy(whole, -1);
  support::reset_charges();
  cleave::to_blocks(x, inner, sizes);
  EXPECT_EQ(support::charged_bytes() - check, 8 * (length[0] * length[1] - here));
  for (std::size_t i = 0; i < inner.extent(0); ++i)
    for (std::size_t j = 0; j < inner.extent(1); ++j)
      EXPECT_EQ(inner(i, j),
                value_at(first[0] + static_cast<std::int64_t>(i), first[1] + static_cast<std::int64_t>(j)));
  for (std::size_t j = 0; j < whole.extent(1); ++j) EXPECT_EQ(whole(0, j), -1);
}
TEST(distributions, blocks_of_given_sizes) {
  for (const grid& g : support::grids(mesh)) {
    const std::int64_t rows = g.size(p), cols = g.size(q), y = g.here()[0], x = g.here()[1];
    expect_blocks<tensor<double, mesh(row / p, col / q)>, Kokkos::LayoutRight>(g, rows, y, cols, x);
    expect_blocks<tensor<double, mesh(row / q / p, col)>, Kokkos::LayoutLeft>(g, rows * cols, x * rows + y, 1, 0);
    expect_blocks<tensor<double, mesh(row, col / p)>, Kokkos::LayoutLeft>(g, 1, 0, rows, y);
  }
}
// An empty list stands for the blocks of the tensor: then nothing moves.
TEST(distributions, the_blocks_of_the_tensor) {
  for (const grid& g : support::grids(mesh)) {
    tensor<float, mesh(row / p, col / q)> x(g, {7, 9});
    x.fill(3);
    const Kokkos::View<float**, Kokkos::HostSpace> mine("mine", static_cast<std::size_t>(x.local_extents()[0]),
                                                        static_cast<std::size_t>(x.local_extents()[1]));
    const std::int64_t check = check_bytes();
    support::reset_charges();
    cleave::to_blocks(x, mine, {{}, {}});
    EXPECT_EQ(support::charged_bytes(), check);
    for (std::size_t i = 0; i < mine.size(); ++i) EXPECT_EQ(mine.data()[i], 3);
  }
}

// Blocks of which each rank has another number of places in use are wrapped where they are. What is not in use takes
// no part in sums, whatever it is.
inline constexpr cleave::dim<"part"> part;
inline constexpr cleave::dim<"place"> place;
using Places = tensor<double, mesh(part / p / q, place)>;
using InUse = tensor<std::int64_t, mesh(part / p / q)>;
constexpr cleave::function centred([](auto x, auto count) {
  const auto in_use = cleave::iota<std::int64_t>(x, place) < cleave::broadcast(count, part, place);
  const auto mean = cleave::sum(cleave::select(in_use, x, 0.0)) / cleave::cast<double>(cleave::sum(count));
  return cleave::select(in_use, x - mean, x);
});
TEST(distributions, blocks_with_room_are_wrapped_without_a_copy) {
  const std::int64_t n = support::ranks(), room = n * n + 1;
  const std::vector<std::int64_t> used = sizes_of(n * n, n);
  const double unused = std::numeric_limits<double>::quiet_NaN();
  for (const grid& g : support::grids(mesh)) {
    const auto here = static_cast<std::size_t>(g.here()[0] * g.size(q) + g.here()[1]);
    const Kokkos::View<double*, cleave::memory_space> mine("mine", static_cast<std::size_t>(room));
    const std::int64_t first = std::accumulate(used.begin(), used.begin() + static_cast<std::ptrdiff_t>(here),
                                               std::int64_t{0});
    const auto host = Kokkos::create_mirror_view(mine);
    for (std::int64_t i = 0; i < room; ++i)
      host(static_cast<std::size_t>(i)) = i < used[here] ? value_at(first + i, 0) : unused;
    Kokkos::deep_copy(mine, host);
    using block =
        Kokkos::View<double**, Kokkos::LayoutRight, cleave::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    Places x(g, {n, room}, block(mine.data(), 1, mine.extent(0)));
    InUse count(g, {n});
    count.fill_by([&](const auto& at) { return used[static_cast<std::size_t>(at[0])]; });
    ASSERT_EQ(x.view().data(), mine.data());
    x = centred(x, count);
    Kokkos::deep_copy(host, mine);
    const double mean = 1000 * static_cast<double>(n * n - 1) / 2;
    for (std::int64_t i = 0; i < room; ++i) {
      const double got = host(static_cast<std::size_t>(i));
      if (i < used[here]) EXPECT_EQ(got, value_at(first + i, 0) - mean);
      else EXPECT_TRUE(std::isnan(got));
    }
  }
}

template <class Error, class F>
void expect_thrown(const F& f, const std::string& words) {
  try {
    f();
    ADD_FAILURE() << "nothing thrown: " << words;
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
  }
}
TEST(distributions, what_does_not_fit_is_an_error_of_all_ranks) {
  const int n = support::ranks();
  const grid g(mesh, MPI_COMM_WORLD, {n, 1});
  tensor<double, mesh(row / p, col / q)> x(g, {2 * n, 3});
  const Kokkos::View<double**, Kokkos::HostSpace> two("two", 2, 3), one("one", 1, 3);
  const auto from = [&](const auto& view, const block_sizes& sizes) { cleave::from_blocks(view, sizes, x); };
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(n), 2), longer(sizes), negative(sizes);
  longer.push_back(2);
  expect_thrown<cleave::shape_error>([&] { from(two, {sizes}); }, "2 dims, but block sizes were given for 1");
  expect_thrown<cleave::shape_error>([&] { from(two, {longer, {}}); }, "sizes were given");
  negative.back() = -1;
  expect_thrown<cleave::shape_error>([&] { from(two, {negative, {}}); }, "must not be negative");
  sizes.back() = 3;
  expect_thrown<cleave::shape_error>([&] { from(two, {sizes, {}}); }, "add up to");
  // Of one rank alone.
  expect_thrown<cleave::view_error>([&] { from(support::rank() == n - 1 ? one : two, {{}, {}}); }, "of some rank");
  std::vector<double> array(6);
  const auto cyclic = [&](const block_cyclic& c) { cleave::to_block_cyclic(x, array, c); };
  expect_thrown<cleave::shape_error>([&] { cyclic({{n, 1}, {0, 1}}); }, "block-cyclic");
  expect_thrown<cleave::shape_error>([&] { cyclic({{n, 1}, {1, 1}, {n, 0}}); }, "first block");
  expect_thrown<cleave::shape_error>([&] { cyclic({{n + 1, 1}, {1, 1}}); }, "as many ranks");
  std::vector<double> whole(4);
  const auto wrapped = [&](std::array<std::int64_t, 2> matrix, const block_cyclic& c) {
    return cleave::wrap_block_cyclic<Cyclic>(g, matrix, c, whole);
  };
  expect_thrown<cleave::shape_error>([&] { wrapped({2 * n + 1, 2}, {{n, 1}, {2, 2}}); }, "whole blocks");
  expect_thrown<cleave::shape_error>([&] { wrapped({2 * n, 2}, {{n, 1}, {2, 0}}); }, "block-cyclic");
  if (n > 1) expect_thrown<cleave::shape_error>([&] { wrapped({2, 2 * n}, {{1, n}, {2, 2}}); }, "another process");
  wrapped({2 * n, 2}, {{n, 1}, {2, 2}});
  if (support::rank() == n - 1) whole.resize(3);
  expect_thrown<cleave::view_error>([&] { wrapped({2 * n, 2}, {{n, 1}, {2, 2}}); }, "of some rank");
  if (support::rank() == 0) array.resize(5);
  expect_thrown<cleave::view_error>([&] { cyclic({{n, 1}, {1, 1}}); }, "of some rank");
}

} // namespace CLEAVE_SOURCE
