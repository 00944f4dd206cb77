// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/simulate/evaluate.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

// Slices that begin at an index known at run time, which products read where they are: which of them a program has,
// and the results, also where arrays are overwritten.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"ranks"> line;
inline constexpr cleave::mesh mesh{line};
inline constexpr cleave::dim<"head"> head;
inline constexpr cleave::dim<"place"> place;
inline constexpr cleave::dim<"feature"> feature;
inline constexpr cleave::dim<"other"> other;
inline constexpr cleave::dim<"part", 6> part;

using Cache = cleave::tensor<double, mesh(head / line, place, feature)>;
using Query = cleave::tensor<double, mesh(head / line, feature)>;
using Scores = cleave::tensor<double, mesh(head / line, part)>;
using Block = cleave::tensor<double, mesh(head / line, part, feature)>;

constexpr std::int64_t features = 5, heads = 7;

/// The slices of a plan that products read where they are, for so many rows of an array.
template <class Plan>
std::size_t slices_in_place(const Plan& plan, std::int64_t length) {
  const cleave::program_view p = plan.view();
  const cleave::sizes at = plan.sized({head = heads, place = length, feature = features, line = 1});
  const auto address = [&](const cleave::buffer& b) {
    return cleave::addressing_of(b, p.buffers, p.maps, at, cleave::coordinates{});
  };
  return cleave::detail::slice_search(p, at, address).found().size();
}

double value(std::int64_t h, std::int64_t p, std::int64_t f) {
  return std::sin(static_cast<double>(h * 31 + p * 7 + f) * 0.37);
}
void fill(Cache& c) {
  c.fill_by([](const auto& at) { return value(at[0], at[1], at[2]); });
}
void fill(Query& q) {
  q.fill_by([](const auto& at) { return static_cast<double>(at[0]) - 0.5 * static_cast<double>(at[1]); });
}
/// The slice at `first` of a cache, times the query, as plain loops.
std::vector<double> scores_at(std::int64_t first, std::int64_t length, const auto& element) {
  const std::int64_t begin = std::clamp<std::int64_t>(first, 0, length - 6);
  std::vector<double> all;
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t p = 0; p < 6; ++p) {
      double sum = 0;
      for (std::int64_t f = 0; f < features; ++f)
        sum += element(h, begin + p, f) * (static_cast<double>(h) - 0.5 * static_cast<double>(f));
      all.push_back(sum);
    }
  return all;
}
void expect_scores(const Scores& s, const std::vector<double>& wanted) {
  const auto got = s.to_global();
  EXPECT_EQ(cleave::first_difference(wanted, std::vector<double>(got.begin(), got.end()), 1e-12), -1);
}

constexpr cleave::function scores([](auto keys, auto q, auto first) {
  return dot(q, cleave::dynamic_slice(keys, place, part, first), feature);
});

TEST(slices, products_read_them_where_they_are) {
  constexpr auto plan = cleave::plan<Scores(Cache, Query, int)>(scores);
  EXPECT_EQ(slices_in_place(plan, 40), 1u);
  // There is no such slice.
  EXPECT_EQ(slices_in_place(plan, 4), 0u);
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  for (const std::int64_t length : {40, 6, 4}) {
    Cache keys(g, {heads, length, features});
    Query q(g, {heads, features});
    Scores s(g, {heads, 6});
    fill(keys), fill(q);
    if (length < 6) {
      EXPECT_THROW(s = scores(keys, q, 0), cleave::shape_error);
      continue;
    }
    for (const int first : {0, 3, 17, 34, 39, 100, -5}) {
      s = scores(keys, q, first);
      expect_scores(s, scores_at(first, length, value));
    }
  }
}

// What others read too is copied.
constexpr cleave::function block_and_scores([](auto keys, auto q, auto first) {
  const auto block = cleave::dynamic_slice(keys, place, part, first);
  return std::pair(block, dot(q, block, feature));
});
constexpr cleave::function doubled_scores([](auto keys, auto q, auto first) {
  const auto block = cleave::dynamic_slice(keys, place, part, first);
  return dot(q, block, feature) + sum(block, feature);
});
TEST(slices, others_read_copies) {
  EXPECT_EQ(slices_in_place(cleave::plan<std::tuple<Block, Scores>(Cache, Query, int)>(block_and_scores), 40), 0u);
  EXPECT_EQ(slices_in_place(cleave::plan<Scores(Cache, Query, int)>(doubled_scores), 40), 0u);
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  Cache keys(g, {heads, 40, features});
  Query q(g, {heads, features});
  Scores s(g, {heads, 6});
  Block b(g, {heads, 6, features});
  fill(keys), fill(q);
  block_and_scores(keys, q, 11).into(b, s);
  expect_scores(s, scores_at(11, 40, value));
}

// A result in the memory of the argument that has the slice: the slice is read before.
constexpr cleave::function scores_and_next([](auto keys, auto q, auto first) {
  const auto s = dot(q, cleave::dynamic_slice(keys, place, part, first), feature);
  return std::pair(2 * keys, s);
});
TEST(slices, are_read_before_the_array_is_overwritten) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  Cache keys(g, {heads, 40, features});
  Query q(g, {heads, features});
  Scores s(g, {heads, 6});
  fill(keys), fill(q);
  double times = 1;
  for (const int first : {4, 30, 9}) {
    scores_and_next(keys, q, first).into(keys, s);
    expect_scores(s, scores_at(first, 40, [&](auto h, auto p, auto f) { return times * value(h, p, f); }));
    times *= 2;
  }
}

// In loops the array may be one that the loop carries and changes, and change its memory with another one.
constexpr cleave::function in_loop([](auto keys, auto q, auto first) {
  const auto none = cleave::zeros_like(dot(q, cleave::dynamic_slice(keys, place, part, first), feature));
  const auto last = repeat_times(first, std::tuple(keys, none, first - first), [=](auto state) {
    const auto [now, sum, i] = state;
    const auto s = dot(q, cleave::dynamic_slice(now, place, part, i), feature);
    return std::tuple(now + 1, sum + s, i + 1);
  });
  return std::get<1>(last);
});
TEST(slices, of_arrays_that_loops_carry) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  Cache keys(g, {heads, 40, features});
  Query q(g, {heads, features});
  Scores s(g, {heads, 6});
  fill(keys), fill(q);
  for (const int times : {0, 1, 2, 9}) {
    s = in_loop(keys, q, times);
    std::vector<double> wanted(static_cast<std::size_t>(heads * 6), 0.0);
    for (int i = 0; i < times; ++i) {
      const auto one = scores_at(i, 40, [&](auto h, auto p, auto f) { return i + value(h, p, f); });
      for (std::size_t k = 0; k < one.size(); ++k) wanted[k] += one[k];
    }
    expect_scores(s, wanted);
  }
}

// A row is written into the cache first; then blocks of it are read, and the cache is a result.
constexpr cleave::function decode([](auto keys, auto q, auto at) {
  const auto all = cleave::dynamic_update(keys, place,
                                          cleave::rename(cleave::dynamic_slice(keys, place, part, 0), part, other),
                                          other, at);
  return std::pair(all, dot(q, cleave::dynamic_slice(all, place, part, at), feature));
});
TEST(slices, of_what_was_just_updated) {
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  Cache keys(g, {heads, 40, features});
  Query q(g, {heads, features});
  Scores s(g, {heads, 6});
  fill(keys), fill(q);
  for (int times = 0; times < 2; ++times) {
    decode(keys, q, 20).into(keys, s);
    expect_scores(s, scores_at(20, 40, [&](auto h, auto p, auto f) { return value(h, p - 20, f); }));
  }
}

// Places that no slice has may hold anything, also where NaN are looked for: elsewhere than in arguments.
constexpr cleave::function of_made([](auto keys, auto q, auto first) {
  const auto made = 1 / keys;
  return dot(q, cleave::dynamic_slice(made, place, part, first), feature);
});
TEST(slices, in_checked_mode) {
  cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  g.check({.calls = true, .nans = true});
  Cache keys(g, {heads, 40, features});
  Query q(g, {heads, features});
  Scores s(g, {heads, 6});
  keys.fill(0.5), fill(q);
  s = of_made(keys, q, 33);
  expect_scores(s, scores_at(33, 40, [](auto, auto, auto) { return 2.0; }));
}

// Matrix times vector in vector code, for lengths on both sides of those of vectors and in all forms.
template <class T>
void check_vector_products() {
  constexpr double tolerance = sizeof(T) == sizeof(float) ? 1e-4 : 1e-12;
  for (const std::int64_t m : {1, 3, 16, 130})
    for (const std::int64_t k : {0, 1, 15, 64, 131})
      for (const bool transposed : {false, true})
        for (const auto& [on_left, shared] : {std::pair(false, true), std::pair(true, false), std::pair(true, true)})
          for (const T beta : {T(0), T(2)}) {
            const std::int64_t rows = transposed ? k : m, columns = transposed ? m : k, leading = columns + 3;
            std::vector<T> matrix(static_cast<std::size_t>(rows * leading + 1), T(99)),
                x(static_cast<std::size_t>(2 * k + 1)), y(static_cast<std::size_t>(m), T(0.25));
            const auto at = [&](std::int64_t i, std::int64_t l) -> T& {
              return matrix[static_cast<std::size_t>(transposed ? l * leading + i : i * leading + l)];
            };
            for (std::int64_t l = 0; l < k; ++l) {
              x[static_cast<std::size_t>(l)] = static_cast<T>(std::cos(static_cast<double>(l)));
              for (std::int64_t i = 0; i < m; ++i) at(i, l) = static_cast<T>(value(i, l, 0));
            }
            // y = matrix x, or its transpose y^T = x^T matrix^T.
            const cleave::matrix_ref left{matrix.data(), leading, transposed},
                right{matrix.data(), leading, !transposed};
            const cleave::matrix_ref across{x.data(), on_left ? 1 : k, false};
            using product = cleave::vector_product<T>;
            const product all = on_left ? product(m, 1, k, left, across, y.data(), 1, T(3), beta)
                                        : product(1, m, k, across, right, y.data(), m, T(3), beta);
            all.run(shared);
            for (std::int64_t i = 0; i < m; ++i) {
              double want = static_cast<double>(beta) * 0.25;
              for (std::int64_t l = 0; l < k; ++l)
                want += 3 * static_cast<double>(at(i, l)) * static_cast<double>(x[static_cast<std::size_t>(l)]);
              EXPECT_NEAR(static_cast<double>(y[static_cast<std::size_t>(i)]), want, tolerance)
                  << m << " " << k << " " << transposed << " " << on_left;
            }
          }
}
TEST(slices, products_of_a_vector) {
  if constexpr (cleave::has_vector_products<double>) {
    check_vector_products<double>();
    check_vector_products<float>();
  }
}

} // namespace CLEAVE_SOURCE
