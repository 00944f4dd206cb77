// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/comm/direct_reads.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

// Moves of operands that other ranks of the node read where they are, from the second call with the same memory on: the
// values of every call, whatever is given in between, and who exposes its memory.

namespace {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::axis<"model"> model;
inline constexpr cleave::mesh mesh{data, model};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;

template <class T, auto Layout>
using of = cleave::tensor<T, Layout>;
constexpr auto by_rows = mesh(row / data, col);
constexpr auto by_columns = mesh(row, col / data);
constexpr auto everywhere = mesh(row, col);
constexpr auto turned = mesh(row / model, col / data);

// 2 to 4 MiB.
template <class T>
constexpr std::int64_t rows = sizeof(T) == 4 ? 900 : 500;
constexpr std::int64_t columns = 805;

template <class T>
T at(std::int64_t i, std::int64_t j, int call) {
  return static_cast<T>((i * 7 + j * 3 + call * 11) % 101);
}
template <class Tensor>
void fill(Tensor& x, int call) {
  using T = typename Tensor::element_type;
  x.fill_by([&](const auto& index) { return at<T>(index[0], index[1], call); });
}
template <class Tensor>
void expect_values(const Tensor& y, double times, int call) {
  using T = typename Tensor::element_type;
  const auto view = support::read(y.view());
  const auto first = y.offset();
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < y.local_extents()[0]; ++i)
    for (std::int64_t j = 0; j < y.local_extents()[1]; ++j)
      wrong += view(i, j) != static_cast<T>(times * at<double>(first[0] + i, first[1] + j, call)) ? 1 : 0;
  EXPECT_EQ(wrong, 0) << "call " << call;
}
template <class Tensor>
bool is_exposed(const Tensor& x) {
  return cleave::expose(x.data(), x.local_size() * std::int64_t{sizeof(*x.data())}, cleave::exposing::done_before)
      .given();
}
bool reads_directly(const cleave::grid& g) {
  return g.size(data) > 1 && g.state().group_of(cleave::axis_set::first(1)).together != nullptr;
}

/// Grids whose ranks behave as if their cores shared a cache: where they do not, nothing is read where it is.
std::vector<cleave::grid> grids() {
  std::vector<cleave::grid> all = support::grids(mesh);
  for (const cleave::grid& g : all)
    for (int axis = 0; axis < 2; ++axis)
      if (auto* const node = g.state().group_of(cleave::axis_set{}.with(axis)).together)
        node->settle(cleave::stores::in_caches);
  return all;
}
/// The operand has some rows on each rank.
template <class T, class F>
void on_every_grid(F&& f) {
  for (const cleave::grid& g : grids()) {
    const std::int64_t all_rows = rows<T> * g.size(data);
    of<T, by_rows> x(g, {all_rows, columns}), other(g, {all_rows, columns});
    f(g, x, other);
  }
}

// All-gather and all-to-all. The operand is the same, another one in turn, or new in each call.
template <class T>
void moves() {
  on_every_grid<T>([](const cleave::grid& g, of<T, by_rows>& x, of<T, by_rows>& other) {
    const std::int64_t all_rows = x.extents()[0];
    of<T, everywhere> all(g, {all_rows, columns});
    of<T, by_columns> across(g, {all_rows, columns});
    of<T, turned> both(g, {all_rows, columns});
    for (int call = 0; call < 8; ++call) {
      auto& given = call > 3 && call % 2 == 0 ? other : x;
      fill(given, call);
      all = given;
      across = given;
      both = given;
      expect_values(all, 1, call);
      expect_values(across, 1, call);
      expect_values(both, 1, call);
    }
    EXPECT_EQ(is_exposed(x), reads_directly(g));
    for (int call = 0; call < 4; ++call) {
      of<T, by_rows> fresh(g, {all_rows, columns});
      fill(fresh, call);
      all = fresh;
      across = fresh;
      expect_values(all, 1, call);
      expect_values(across, 1, call);
      EXPECT_FALSE(is_exposed(fresh));
    }
  });
}
TEST(direct_reads, moves) {
  moves<float>();
  moves<double>();
}

// All-reduce and reduce-scatter.
template <class T>
void reductions() {
  using Partial = of<T, mesh(row, col, cleave::unreduced(data))>;
  for (const cleave::grid& g : grids()) {
    Partial x(g, {rows<T>, columns});
    of<T, everywhere> all(g, {rows<T>, columns});
    of<T, by_rows> mine(g, {rows<T>, columns});
    of<T, by_columns> across(g, {rows<T>, columns});
    for (int call = 0; call < 5; ++call) {
      // Small whole numbers: sums are exact.
      std::vector<T> own(static_cast<std::size_t>(x.local_size()));
      for (std::int64_t k = 0; k < x.local_size(); ++k)
        own[static_cast<std::size_t>(k)] = at<T>(k / columns, k % columns, call);
      cleave::copy_bytes<cleave::memory_space, Kokkos::HostSpace>(x.data(), own.data(),
                                                                  cleave::bytes_of<T>(x.local_size()));
      all = x;
      mine = x;
      across = x;
      const double parts = static_cast<double>(g.size(data));
      expect_values(all, parts, call);
      expect_values(mine, parts, call);
      expect_values(across, parts, call);
    }
  }
}
TEST(direct_reads, reductions) {
  reductions<float>();
  reductions<double>();
}

// One rank has its shard in memory of its own, which others cannot read: all go on as before.
TEST(direct_reads, memory_of_the_caller) {
  if (!cleave::on_host) GTEST_SKIP() << "the memory of the caller is that of the host";
  for (const cleave::grid& g : grids()) {
    using X = of<float, by_rows>;
    const std::int64_t all_rows = rows<float> * g.size(data);
    X x(g, {all_rows, columns});
    std::vector<float> memory(static_cast<std::size_t>(x.local_size()));
    using view =
        Kokkos::View<float**, Kokkos::LayoutRight, cleave::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
    const view own(g.rank() == g.size() - 1 ? memory.data() : x.data(), static_cast<std::size_t>(x.local_extents()[0]),
                   static_cast<std::size_t>(x.local_extents()[1]));
    X wrapped(g, {all_rows, columns}, own);
    of<float, everywhere> all(g, {all_rows, columns});
    for (int call = 0; call < 4; ++call) {
      fill(wrapped, call);
      all = wrapped;
      expect_values(all, 1, call);
    }
  }
}

} // namespace
