// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

// Products of short rows that read one operand in a table at indices, as sparse matrices do: one pass with the bits of
// two. In checked mode every step runs on its own.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"ranks"> line;
inline constexpr cleave::mesh mesh{line};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"column"> column;
inline constexpr cleave::dim<"slot"> slot;
inline constexpr cleave::dim<"side"> side;

using vector = cleave::tensor<double, mesh(column / line)>;
using vectors = cleave::tensor<double, mesh(column / line, side)>;
using results = cleave::tensor<double, mesh(row / line)>;
using several_results = cleave::tensor<double, mesh(row / line, side)>;
using values_type = cleave::tensor<double, mesh(row / line, slot)>;
using columns_type = cleave::tensor<int, mesh(row / line, slot)>;

constexpr cleave::function right([](auto v, auto c, auto x) { return dot(v, gather(x, column, c), slot); });
constexpr cleave::function left([](auto v, auto c, auto x) { return dot(gather(x, column, c), v, slot); });
constexpr cleave::function in_place([](auto v, auto c, auto x) {
  return rename(dot(v, gather(x, column, c), slot), row, column);
});

/// Rows of a rank; rows and columns of all ranks.
constexpr std::int64_t rows_of_a_rank = 40;
std::int64_t rows() { return rows_of_a_rank * support::ranks(); }

template <class Tensor>
void fill(Tensor& t) {
  t.fill_by([](const auto& at) {
    double sum = 0.3;
    for (std::size_t i = 0; i < at.size(); ++i) sum += static_cast<double>(at[i]) * (0.7 + static_cast<double>(i));
    return std::sin(sum);
  });
}
/// The indices of one run after the other, by row and slot.
using indices = std::function<std::int64_t(std::int64_t, std::int64_t)>;
std::vector<indices> runs() {
  const std::int64_t n = rows();
  const auto block_of = [](std::int64_t i) { return i / rows_of_a_rank * rows_of_a_rank; };
  const indices band = [=](std::int64_t i, std::int64_t s) { return (i + (s % 2 == 0 ? s : -s) / 2 + n) % n; };
  const indices own = [=](std::int64_t i, std::int64_t s) { return block_of(i) + (i * 7 + s * 3) % rows_of_a_rank; };
  const indices first_rank_differs = [=](std::int64_t i, std::int64_t s) {
    return i == 3 && s == 1 ? (band(i, s) + n / 2) % n : band(i, s);
  };
  const indices in_no_table = [=](std::int64_t i, std::int64_t s) {
    return i % 5 == 0 ? (s == 0 ? n : -1) : own(i, s);
  };
  const indices anywhere = [=](std::int64_t i, std::int64_t s) { return (i * 31 + s * 17) % n; };
  return {band, band, own, first_rank_differs, in_no_table, in_no_table, anywhere, band};
}

/// What the elements of row i should be.
std::vector<double> wanted_of(const std::vector<double>& v, const std::vector<int>& c, const std::vector<double>& x,
                              std::int64_t slots, std::int64_t sides) {
  std::vector<double> y(static_cast<std::size_t>(rows() * sides), 0.0);
  for (std::int64_t i = 0; i < rows(); ++i)
    for (std::int64_t s = 0; s < slots; ++s)
      for (std::int64_t j = 0; j < sides; ++j) {
        const std::int64_t from = c[static_cast<std::size_t>(i * slots + s)];
        if (from >= 0 && from < rows())
          y[static_cast<std::size_t>(i * sides + j)] += v[static_cast<std::size_t>(i * slots + s)] *
                                                        x[static_cast<std::size_t>(from * sides + j)];
      }
  return y;
}
std::vector<double> near(const std::vector<double>& wanted, const std::vector<double>& got) {
  std::vector<double> off;
  for (std::size_t i = 0; i < wanted.size(); ++i) off.push_back(std::fabs(wanted[i] - got[i]) <= 1e-13 ? 0 : got[i]);
  return off;
}

/// Runs with all indices, in one pass and step by step.
template <class F, class X, class Y>
void check(const F& f, const cleave::grid& g, std::int64_t slots, X& x, Y& y, std::int64_t sides) {
  values_type v(g, {rows(), slots});
  columns_type c(g, {rows(), slots});
  fill(v);
  fill(x);
  const std::vector<double> from = x.to_global();
  for (const indices& at : runs()) {
    c.fill_by([&](const auto& i) { return static_cast<int>(at(i[0], i[1])); });
    y = f(v, c, x);
    const std::vector<double> in_one_pass = y.to_global();
    const std::vector<double> wanted = wanted_of(v.to_global(), c.to_global(), from, slots, sides);
    ASSERT_EQ(near(wanted, in_one_pass), std::vector<double>(wanted.size(), 0.0)) << slots;
    cleave::checks calls;
    calls.calls = true;
    g.check(calls);
    y = f(v, c, x);
    g.check({});
    ASSERT_EQ(in_one_pass, y.to_global()) << slots;
  }
}
template <class Plan>
std::size_t groups_of(const cleave::grid& g, const Plan& plan, std::int64_t slots) {
  cleave::executor p(g.state(), plan.sized({row = rows(), column = rows(), slot = slots, line = support::ranks()}),
                     cleave::runnable_of<typename Plan::plan_type>);
  return p.state().groups.size();
}

TEST(indexed_products, with_a_vector) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  vector x(g, {rows()});
  results y(g, {rows()});
  for (const std::int64_t slots : {1, 2, 5, 8, 9}) {
    check(right, g, slots, x, y, 1);
    check(left, g, slots, x, y, 1);
    if (slots == 1) continue;
    // On a device the rows are stored first.
    EXPECT_EQ(groups_of(g, cleave::plan<results(values_type, columns_type, vector)>(right), slots),
              cleave::on_host ? 1u : 0u)
        << slots;
  }
}

TEST(indexed_products, with_several_vectors) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  for (const std::int64_t sides : {1, 3}) {
    vectors x(g, {rows(), sides});
    several_results y(g, {rows(), sides});
    check(right, g, 5, x, y, sides);
    check(left, g, 4, x, y, sides);
  }
}

// The table is read while the result is written, which must not take its place.
TEST(indexed_products, in_the_memory_of_the_table) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  vector x(g, {rows()});
  values_type v(g, {rows(), 3});
  columns_type c(g, {rows(), 3});
  fill(v);
  fill(x);
  c.fill_by([](const auto& at) { return static_cast<int>((at[0] * 7 + at[1] * 5 + 1) % rows()); });
  const std::vector<double> wanted = wanted_of(v.to_global(), c.to_global(), x.to_global(), 3, 1);
  x = in_place(v, c, x);
  EXPECT_EQ(near(wanted, x.to_global()), std::vector<double>(wanted.size(), 0.0));
}

// While indices stay, only rows of other devices travel.
TEST(indexed_products, moves_what_other_devices_have) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  vector x(g, {rows()});
  results y(g, {rows()});
  values_type v(g, {rows(), 5});
  columns_type c(g, {rows(), 5});
  fill(v);
  fill(x);
  c.fill_by([](const auto& at) { return static_cast<int>((at[0] + at[1] - 2 + rows()) % rows()); });
  y = right(v, c, x);
  support::reset_charges();
  y = right(v, c, x);
  const std::int64_t ranks = support::ranks(), moved = support::over_ranks(support::charged_bytes());
  // Rows at the ends of a block read two indices and one of other devices: three rows travel for them at each end.
  // Beside them each device tells the others that its indices stay.
  EXPECT_EQ(moved, ranks > 1 ? 2 * 3 * 8 + 8 * (ranks - 1) : 0);
}

} // namespace CLEAVE_SOURCE
