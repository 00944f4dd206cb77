// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

// Where what one step, one thread or one rank writes is the memory of what another one has yet to read, and where ranks
// with small shards might communicate otherwise than the others.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"line"> line;
inline constexpr cleave::mesh mesh{line};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;

template <auto Layout>
using f64 = cleave::tensor<double, Layout>;

cleave::grid grid_of_all() { return cleave::grid(mesh, MPI_COMM_WORLD, {support::ranks()}); }
double at_of(std::int64_t i, int k) { return std::sin(0.37 * static_cast<double>(i % 9973) + k); }
template <class Tensor>
void fill(const Tensor& t, int k) {
  t.fill_by([=](const auto& at) {
    std::int64_t flat = 0;
    for (const auto i : at) flat = flat * 1009 + static_cast<std::int64_t>(i);
    return at_of(flat, k);
  });
}

// A slice that is read in place has no memory of its own, and a value of a loop that swaps its memory may have the slot
// that it would have.
namespace slice_beside_a_loop {
inline constexpr cleave::dim<"place"> place;
inline constexpr cleave::dim<"part", 6> part;
inline constexpr cleave::dim<"feature", 5> feature;
inline constexpr cleave::dim<"out", 4> out;
inline constexpr cleave::dim<"left", 8> left;
inline constexpr cleave::dim<"right", 8> right;
inline constexpr cleave::dim<"other", 8> other;
using Cache = f64<mesh(place, feature)>;
using Matrix = f64<mesh(left, right)>;
constexpr cleave::function both([](auto cache, auto w, auto first, auto a, auto start) {
  const auto scores = dot(dynamic_slice(cache, place, part, first), w, feature);
  const auto last = cleave::repeat_times(3, start, [=](auto v) { return dot(rename(v, right, other), a, other); });
  return std::tuple(scores, last);
});
} // namespace slice_beside_a_loop
TEST(hazards, a_slice_in_place_beside_values_that_swap) {
  namespace here = slice_beside_a_loop;
  const cleave::grid g = grid_of_all();
  here::Cache cache(g, {40, 5}), kept(g, {40, 5});
  f64<mesh(here::feature, here::out)> w(g, {5, 4});
  f64<mesh(here::other, here::right)> a(g, {8, 8});
  f64<mesh(here::part, here::out)> scores(g, {6, 4});
  here::Matrix start(g, {8, 8}), last(g, {8, 8});
  fill(cache, 1);
  fill(kept, 1);
  fill(w, 2);
  fill(a, 3);
  fill(start, 4);
  here::both(cache, w, 2, a, start).into(scores, last);
  std::vector<double> want = start.to_global();
  const std::vector<double> by = a.to_global();
  for (int times = 0; times < 3; ++times) {
    std::vector<double> next(64, 0);
    for (std::size_t i = 0; i < 8; ++i)
      for (std::size_t k = 0; k < 8; ++k)
        for (std::size_t j = 0; j < 8; ++j) next[i * 8 + j] += want[i * 8 + k] * by[k * 8 + j];
    want = next;
  }
  const std::vector<double> got = last.to_global();
  for (std::size_t i = 0; i < 64; ++i) EXPECT_NEAR(got[i], want[i], 1e-10);
  EXPECT_EQ(cache.to_global(), kept.to_global());
}

// The last rank has one row less than the kernel for small products needs.
namespace products_of_rows {
inline constexpr cleave::dim<"slot", 3> slot;
inline constexpr cleave::dim<"column"> column;
constexpr cleave::function product([](auto v, auto c, auto x) { return dot(v, gather(x, column, c), slot); });
} // namespace products_of_rows
TEST(hazards, few_rows_of_looked_up_products_on_one_rank) {
  namespace here = products_of_rows;
  const cleave::grid g = grid_of_all();
  const std::int64_t n = 8 * support::ranks() - 1;
  f64<mesh(row / line, here::slot)> v(g, {n, 3});
  cleave::tensor<std::int32_t, mesh(row / line, here::slot)> c(g, {n, 3});
  f64<mesh(here::column / line)> x(g, {n});
  f64<mesh(row / line)> y(g, {n});
  fill(v, 1);
  fill(x, 2);
  c.fill_by([=](const auto& at) { return static_cast<std::int32_t>((at[0] * 3 + at[1]) % n); });
  y = here::product(v, c, x);
  const std::vector<double> values = v.to_global(), table = x.to_global(), got = y.to_global();
  for (std::int64_t i = 0; i < n; ++i) {
    double want = 0;
    for (std::int64_t k = 0; k < 3; ++k)
      want += values[static_cast<std::size_t>(i * 3 + k)] * table[static_cast<std::size_t>((i * 3 + k) % n)];
    EXPECT_NEAR(got[static_cast<std::size_t>(i)], want, 1e-12);
  }
}

// One rank would copy the slice, since its heads and places are no matrix, and the others have one head. Nothing was
// communicated on the grid before.
namespace slices_of_heads {
inline constexpr cleave::dim<"head"> head;
inline constexpr cleave::dim<"place"> place;
inline constexpr cleave::dim<"part", 4> part;
inline constexpr cleave::dim<"feature"> feature;
inline constexpr cleave::dim<"out"> out;
constexpr cleave::function scores([](auto keys, auto w, auto first) {
  return dot(dynamic_slice(keys, place, part, first), w, feature);
});
} // namespace slices_of_heads
TEST(hazards, a_slice_that_one_rank_copies) {
  namespace here = slices_of_heads;
  const cleave::grid g = grid_of_all();
  const std::int64_t heads = support::ranks() + 1;
  f64<mesh(here::head / line, here::place, here::feature)> keys(g, {heads, 16, 5});
  f64<mesh(here::feature, here::out)> w(g, {5, 3});
  f64<mesh(here::head / line, here::part, here::out)> got(g, {heads, 4, 3});
  fill(keys, 1);
  fill(w, 2);
  got = here::scores(keys, w, 3);
  const std::vector<double> k = keys.to_global(), by = w.to_global(), all = got.to_global();
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t p = 0; p < 4; ++p)
      for (std::int64_t o = 0; o < 3; ++o) {
        double want = 0;
        for (std::int64_t f = 0; f < 5; ++f)
          want += k[static_cast<std::size_t>((h * 16 + p + 3) * 5 + f)] * by[static_cast<std::size_t>(f * 3 + o)];
        EXPECT_NEAR(all[static_cast<std::size_t>((h * 4 + p) * 3 + o)], want, 1e-12);
      }
}

// Two sums travel as one message. One of them is updated in part, which leaves the rest of it as it is.
namespace updated_sums {
inline constexpr cleave::dim<"k"> k;
inline constexpr cleave::dim<"place", 12> place;
inline constexpr cleave::dim<"part", 3> part;
constexpr cleave::function updated([](auto x, auto y, auto p, auto at) {
  const auto first = sum(x, k), second = sum(y, k);
  const auto a = reshard(first, mesh(place)), b = reshard(second, mesh(place));
  const auto u = dynamic_update(a, place, p, part, at);
  return std::tuple(u * u, b * b);
});
} // namespace updated_sums
TEST(hazards, an_update_of_a_sum_that_travelled_with_others) {
  namespace here = updated_sums;
  const cleave::grid g = grid_of_all();
  f64<mesh(here::k / line, here::place)> x(g, {9, 12}), y(g, {9, 12});
  f64<mesh(here::part)> p(g, {3});
  f64<mesh(here::place)> first(g, {12}), second(g, {12});
  fill(x, 1);
  fill(y, 2);
  fill(p, 3);
  here::updated(x, y, p, 4).into(first, second);
  const std::vector<double> xs = x.to_global(), ys = y.to_global(), ps = p.to_global(), a = first.to_global(),
                            b = second.to_global();
  for (std::size_t c = 0; c < 12; ++c) {
    double s = 0, q = 0;
    for (std::size_t r = 0; r < 9; ++r) s += xs[r * 12 + c], q += ys[r * 12 + c];
    if (c >= 4 && c < 7) s = ps[c - 4];
    EXPECT_NEAR(a[c], s * s, 1e-12);
    EXPECT_NEAR(b[c], q * q, 1e-12);
  }
}

// All that a rank reads of its neighbour is in the halo, so the result takes the place of the argument without rolling
// through it, while the argument is on its way: a row is longer than what is sent at once.
constexpr cleave::function with_the_next([](auto x) { return 2 * x + shift(x, row, -1); });
TEST(hazards, a_shard_that_is_overwritten_while_it_travels) {
  const cleave::grid g = grid_of_all();
  for (const std::int64_t rows : {support::ranks(), support::ranks() + 1}) {
    f64<mesh(row / line, col)> x(g, {rows, 1 << 17}), y(g, {rows, 1 << 17});
    fill(x, 1);
    y = with_the_next(x);
    x = with_the_next(x);
    EXPECT_EQ(support::elements(x), support::elements(y));
  }
}

// Each element needs the two before it, and the last block of a thread has one. Each thread ends before the next one
// begins.
constexpr cleave::function with_those_before([](auto x) {
  return 0.5 * x + 0.25 * shift(x, row, 1) + 0.125 * shift(x, row, 2);
});
TEST(hazards, threads_that_roll_through_their_argument) {
  if (!cleave::on_host) GTEST_SKIP() << "a device does not roll";
  const cleave::grid g = grid_of_all();
  // Blocks of 32 KiB.
  for (const std::int64_t of_thread : {4096, 4097, 4098, 3 * 4096 + 1}) {
    const std::int64_t rows = 3 * of_thread * support::ranks();
    f64<mesh(row / line)> x(g, {rows}), y(g, {rows});
    fill(x, 1);
    y = with_those_before(x);
    const support::three_threads given;
    x = with_those_before(x);
    EXPECT_EQ(support::elements(x), support::elements(y));
  }
}

// Nothing outside the shard is written, also where there is nothing to add up.
namespace products_over_nothing {
inline constexpr cleave::dim<"k"> k;
constexpr cleave::function product([](auto a, auto b) { return dot(a, b, k); });
} // namespace products_over_nothing
TEST(hazards, a_product_over_nothing_into_a_part_of_a_view) {
  namespace here = products_over_nothing;
  const cleave::grid g = grid_of_all();
  Kokkos::View<double**, Kokkos::LayoutRight, cleave::memory_space> all("all", 4, 8);
  Kokkos::deep_copy(all, 7.0);
  f64<mesh(row, col)> y(g, {4, 5}, Kokkos::subview(all, Kokkos::ALL, std::pair(0, 5)));
  f64<mesh(row, here::k)> a(g, {4, 0});
  f64<mesh(here::k, col)> b(g, {0, 5});
  y = here::product(a, b);
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), all);
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t j = 0; j < 8; ++j) EXPECT_EQ(host(i, j), j < 5 ? 0 : 7);
}

} // namespace CLEAVE_SOURCE
