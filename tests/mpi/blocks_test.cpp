// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

// Maps whose lines are computed in blocks: square roots, stores past the caches, and elements that have a label.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"ranks"> line;
inline constexpr cleave::mesh mesh{line};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;

template <class T>
using vector = cleave::tensor<T, mesh(row / line)>;
template <class T>
using matrix = cleave::tensor<T, mesh(row / line, col)>;

constexpr cleave::function root([](auto x) { return sqrt(x); });
constexpr cleave::function inverse_root([](auto x) { return rsqrt(x); });
// A root of a root, a root of another operand, and numbers and indices on both sides of each.
constexpr cleave::function roots([](auto x, auto y) {
  const auto place = cleave::cast<double>(cleave::iota<int>(x, row));
  return (sqrt(sqrt(x * 3.0 + place) + 2.0) + x) * rsqrt(y + 0.5) - place;
});

/// The roots of normal numbers, of the smallest and largest ones, and of what has none.
template <class T>
T number(std::int64_t i) {
  using limits = std::numeric_limits<T>;
  const T special[] = {T(0),          -T(0), limits::infinity(), limits::denorm_min(), limits::min(),
                       limits::max(), T(-1), -limits::min(),     limits::quiet_NaN(),  limits::min() / 8};
  const std::int64_t count = std::ssize(special);
  return i % 3 == 1 ? special[i / 3 % count]
                    : std::ldexp(T(1) + T(0.37) * static_cast<T>(i), static_cast<int>(i % 41) - 20);
}

template <class T>
void expect_roots(std::int64_t n) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  vector<T> x(g, {n}), y(g, {n}), z(g, {n});
  x.fill_by([](const auto& at) { return number<T>(at[0]); });
  y = root(x);
  z = inverse_root(x);
  const std::vector<T> got = y.to_global(), inverse = z.to_global();
  for (std::int64_t i = 0; i < n; ++i) {
    const T from = number<T>(i), want = std::sqrt(from);
    const auto k = static_cast<std::size_t>(i);
    EXPECT_TRUE(std::isnan(want) ? std::isnan(got[k]) : want == got[k])
        << "sqrt(" << from << ") is " << got[k] << " in place " << i << " of " << n;
    const T one = 1 / want;
    EXPECT_TRUE(std::isnan(want) ? std::isnan(inverse[k]) : one == inverse[k])
        << "rsqrt(" << from << ") is " << inverse[k] << " in place " << i << " of " << n;
  }
}

TEST(blocks, roots) {
  for (std::int64_t n : {0, 1, 7, 16, 255, 256, 257, 1000, 4099}) {
    expect_roots<float>(n);
    expect_roots<double>(n);
  }
}

TEST(blocks, several_roots_in_one_pass) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  const std::int64_t n = 2345;
  vector<double> x(g, {n}), y(g, {n}), z(g, {n});
  const auto x_at = [](std::int64_t i) { return 0.5 + 0.01 * static_cast<double>(i); };
  const auto y_at = [](std::int64_t i) { return 3 + 2 * std::sin(static_cast<double>(i)); };
  x.fill_by([&](const auto& at) { return x_at(at[0]); });
  y.fill_by([&](const auto& at) { return y_at(at[0]); });
  static_assert(cleave::plan<vector<double>(vector<double>, vector<double>)>(roots).collectives() == 0);
  z = roots(x, y);
  x = roots(x, y);
  const std::vector<double> apart = z.to_global(), in_place = x.to_global();
  for (std::int64_t i = 0; i < n; ++i) {
    const auto place = static_cast<double>(i);
    const double want = (std::sqrt(std::sqrt(x_at(i) * 3 + place) + 2) + x_at(i)) / std::sqrt(y_at(i) + 0.5) - place;
    EXPECT_NEAR(apart[static_cast<std::size_t>(i)], want, 1e-11);
    EXPECT_EQ(apart[static_cast<std::size_t>(i)], in_place[static_cast<std::size_t>(i)]);
  }
}

template <class T>
T whole_number(std::int64_t i) {
  return static_cast<T>(static_cast<float>(i));
}
/// Lines of one to eight pieces, two or three times the load in turns, stored past the caches at every distance from a
/// line of the cache: what is beside them stays.
template <class T>
void expect_stores_non_temporal() {
  using cleave::op;
  using load = cleave::fused_node<cleave::load_code, T, 0, 1>;
  using twice = cleave::fused_node<static_cast<int>(op::add), T, 0, 0>;
  using doubled = cleave::fused_expression<1, load, twice>;
  using tripled = cleave::fused_expression<1, load, twice, cleave::fused_node<static_cast<int>(op::add), T, 1, 0>>;
  std::mt19937 random(7);
  const auto any = [&](std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
  for (int repetition = 0; repetition < 500; ++repetition) {
    const auto count = static_cast<int>(any(1, 8));
    const std::int64_t rows = any(1, 3), before = any(0, 70);
    cleave::bound_loops loops;
    loops.walked = 2;
    loops.inner.stride[0] = 1;
    loops.prefetched = static_cast<int>(any(0, 1));
    std::int64_t width = 0;
    cleave::line_piece pieces[8];
    const std::int64_t first[] = {0, 0};
    for (int i = 0; i < count; ++i) {
      const std::int64_t n = any(1, any(0, 3) == 0 ? 3000 : 40);
      const auto code = i % 2 == 1 ? cleave::map_functions_of<tripled, cleave::expression_result<2, T>>
                                   : cleave::map_functions_of<doubled, cleave::expression_result<1, T>>;
      pieces[i] = {loops, nullptr, code.lines, width, width + n, first, nullptr};
      width += n;
    }
    const std::int64_t apart = width + any(0, 20), begin = any(0, width - 1), end = any(begin + 1, width);
    std::vector<T> from(cleave::as_size(rows * apart)), to(cleave::as_size(before + rows * apart + 70));
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = whole_number<T>(static_cast<std::int64_t>(i % 40));
    std::memset(static_cast<void*>(to.data()), 0x55, to.size() * sizeof(T));
    std::vector<T> wanted = to;
    const std::int64_t next[] = {apart, apart};
    const void* loads[8];
    for (int i = 0; i < count; ++i) {
      loads[i] = from.data() + pieces[i].begin;
      pieces[i].from = &loads[i];
      pieces[i].apart = next;
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t j = std::max(begin, pieces[i].begin); j < std::min(end, pieces[i].end); ++j) {
          wanted[cleave::as_size(before + row * apart + j)] = whole_number<T>((row * apart + j) % 40 *
                                                                              (i % 2 == 1 ? 3 : 2));
        }
    }
    void* const out = to.data() + before + begin;
    cleave::compute_lines_non_temporal(pieces, count, {rows, begin, end, &out, &apart, sizeof(T)});
    cleave::finish_stores_non_temporal();
    for (std::size_t i = 0; i < to.size(); ++i)
      ASSERT_EQ(std::memcmp(&to[i], &wanted[i], sizeof(T)), 0)
          << "element " << i << " of lines of " << width << " from " << before << ", " << apart << " apart";
  }
}
/// Two results of one pass, each at its own distance from a line of the cache.
template <class T>
void expect_two_results_non_temporal() {
  using cleave::op;
  using load = cleave::fused_node<cleave::load_code, T, 0, 1>;
  using expression = cleave::fused_expression<1, load, cleave::fused_node<static_cast<int>(op::add), T, 0, 0>,
                                              cleave::fused_node<static_cast<int>(op::add), T, 1, 0>>;
  std::mt19937 random(8);
  const auto any = [&](std::int64_t from, std::int64_t to) {
    return std::uniform_int_distribution<std::int64_t>(from, to)(random);
  };
  const auto code =
      cleave::map_functions_of<expression, cleave::expression_result<1, T>, cleave::expression_result<2, T>>;
  for (int repetition = 0; repetition < 200; ++repetition) {
    const std::int64_t rows = any(1, 3), width = any(1, any(0, 3) == 0 ? 3000 : 40),
                       before[] = {any(0, 70), any(0, 70)};
    const std::int64_t next[] = {width, width + any(0, 20), width + any(0, 20)}, first[] = {0, 0, 0};
    cleave::bound_loops loops;
    loops.walked = 3;
    loops.written = 2;
    loops.inner.stride[0] = 1;
    std::vector<T> from(cleave::as_size(rows * width)), to[2], wanted[2];
    for (std::size_t i = 0; i < from.size(); ++i) from[i] = whole_number<T>(static_cast<std::int64_t>(i % 40));
    for (int r = 0; r < 2; ++r) {
      to[r].resize(cleave::as_size(before[r] + rows * next[r + 1] + 70));
      std::memset(static_cast<void*>(to[r].data()), 0x55, to[r].size() * sizeof(T));
      wanted[r] = to[r];
      for (std::int64_t i = 0; i < rows * width; ++i)
        wanted[r][cleave::as_size(before[r] + i / width * next[r + 1] + i % width)] = whole_number<T>(i % 40 * (2 + r));
    }
    const void* const loads[] = {from.data()};
    cleave::line_piece all(loops, loads, code.lines, 0, width, first, next);
    void* const out[] = {to[0].data() + before[0], to[1].data() + before[1]};
    cleave::compute_lines_non_temporal(&all, 1, {rows, 0, width, out, next + 1, sizeof(T)});
    cleave::finish_stores_non_temporal();
    for (int r = 0; r < 2; ++r)
      ASSERT_EQ(std::memcmp(to[r].data(), wanted[r].data(), to[r].size() * sizeof(T)), 0)
          << "result " << r << " of " << rows << " lines of " << width;
  }
}
TEST(blocks, stores_non_temporal) {
  expect_two_results_non_temporal<double>();
  expect_two_results_non_temporal<std::int8_t>();
  expect_stores_non_temporal<float>();
  expect_stores_non_temporal<double>();
  expect_stores_non_temporal<std::int8_t>();
  expect_stores_non_temporal<cleave::bfloat16>();
  expect_stores_non_temporal<Kokkos::complex<double>>();
}

constexpr cleave::function scaled([](auto x, auto y) { return x * 2.0 + y; });

// Results that are larger than the caches, beside their operands and in their place.
TEST(blocks, results_larger_than_the_caches) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  // Lines that begin anywhere in a line of the cache.
  const std::int64_t cols = 1031, rows = support::ranks() * ((cleave::non_temporal_bytes / 4 + cols) / cols);
  matrix<float> x(g, {rows, cols}), z(g, {rows, cols});
  vector<float> y(g, {rows});
  const auto x_at = [](std::int64_t i, std::int64_t j) { return static_cast<float>((i * 7 + j * 3) % 1000); };
  x.fill_by([&](const auto& at) { return x_at(at[0], at[1]); });
  y.fill_by([](const auto& at) { return static_cast<float>(at[0]); });
  const auto expect_scaled = [&](const matrix<float>& got) {
    std::int64_t wrong = 0;
    const std::int64_t first = got.offset()[0], mine = got.local_extents()[0];
    for (std::int64_t i = 0; i < mine; ++i)
      for (std::int64_t j = 0; j < cols; ++j)
        if (got.data()[i * cols + j] != 2 * x_at(first + i, j) + static_cast<float>(first + i)) ++wrong;
    EXPECT_EQ(wrong, 0);
  };
  // So many times that both ways to store them are tried, and one is chosen.
  for (int run = 0; run < 8; ++run) {
    z.fill(-1);
    z = scaled(x, y);
    expect_scaled(z);
  }
  x = scaled(x, y);
  expect_scaled(x);
}

// An index compared with a label: true at one element of a line at most, in this expression for two labels.
constexpr cleave::function marked([](auto x, auto first, auto second) {
  const auto hit = cleave::cast<double>(one_hot(second, col, cleave::element::boolean));
  return sqrt(select(one_hot(first, col, cleave::element::boolean), -x, x * x)) + hit * x - 3.0 * hit;
});
void expect_marked(std::int64_t cols) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  const std::int64_t rows = 3 * cols + 4;
  using labels = cleave::tensor<int, mesh(row / line)>;
  matrix<double> x(g, {rows, cols}), y(g, {rows, cols});
  labels first(g, {rows}), second(g, {rows});
  // All elements, and some before and behind the line.
  const auto first_at = [=](std::int64_t i) { return static_cast<int>(i % (cols + 4) - 2); };
  const auto second_at = [=](std::int64_t i) { return static_cast<int>(i * 5 % (cols + 3) - 1); };
  const auto x_at = [](std::int64_t i, std::int64_t j) { return static_cast<double>((i * 7 + j * 3) % 100 - 150); };
  x.fill_by([&](const auto& at) { return x_at(at[0], at[1]); });
  first.fill_by([&](const auto& at) { return first_at(at[0]); });
  second.fill_by([&](const auto& at) { return second_at(at[0]); });
  const auto expect = [&](const matrix<double>& got) {
    const std::vector<double> all = got.to_global();
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < cols; ++j) {
        const double from = x_at(i, j), hit = j == second_at(i) ? 1 : 0;
        const double want = std::sqrt(j == first_at(i) ? -from : from * from) + hit * from - 3 * hit;
        ASSERT_NEAR(all[static_cast<std::size_t>(i * cols + j)], want, 1e-12 * (1 + std::fabs(want)))
            << i << " " << j << " of " << cols;
      }
  };
  y = marked(x, first, second);
  expect(y);
  x = marked(x, first, second);
  expect(x);
}
TEST(blocks, labels_of_lines) {
  for (std::int64_t cols : {1, 3, 15, 16, 17, 40, 131, 300}) expect_marked(cols);
}

} // namespace CLEAVE_SOURCE
