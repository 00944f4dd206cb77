// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/nn/convolution.hpp>
#include <cleave/nn/normalization.hpp>
#include <cleave/redistribute/slabs.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

// Numbers that are easily taken for others: short indices along long dims, zeros with a sign. And what one rank may ask
// for alone.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"line"> line;
inline constexpr cleave::mesh mesh{line};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"part", 4> part;
inline constexpr cleave::dim<"class", 300> kind;
template <class T>
using number = cleave::tensor<T, mesh()>;

cleave::grid grid_of_all() { return cleave::grid(mesh, MPI_COMM_WORLD, {support::ranks()}); }

constexpr cleave::function four_from([](auto x, auto first) { return dynamic_slice(x, row, part, first); });
constexpr cleave::function with_four([](auto x, auto p, auto first) { return dynamic_update(x, row, p, part, first); });
template <class Index>
void expect_slices(Index first) {
  const cleave::grid g = grid_of_all();
  cleave::tensor<float, mesh(row)> x(g, {300}), y(g, {300});
  cleave::tensor<float, mesh(part)> p(g, {4});
  number<Index> at(g, {});
  at.fill(first);
  x.fill_by([](const auto& i) { return static_cast<float>(i[0]); });
  p = four_from(x, at);
  EXPECT_EQ(p.to_global().front(), static_cast<float>(first));
  p.fill(-1);
  y = with_four(x, p, at);
  const auto all = y.to_global();
  for (std::size_t i = 0; i < 300; ++i) {
    const bool inside = i >= static_cast<std::size_t>(first) && i < static_cast<std::size_t>(first) + 4;
    EXPECT_EQ(all[i], inside ? -1 : static_cast<float>(i));
  }
}
TEST(numbers, short_indices_of_slices) {
  expect_slices<std::int8_t>(100);
  expect_slices<std::uint8_t>(254);
}

constexpr cleave::function statistics([](auto x) {
  const auto [middle, spread] = cleave::moments(x + 100, row);
  return std::tuple(cleave::mean(x + 1000, row), middle, spread, cleave::layer_norm(x, row, 2, 1),
                    cleave::nn::rms_norm(x, 3, row));
});
/// The numbers are large enough that their sum, or the sum of their squares, is beyond what 16 bits hold; their means
/// are not.
TEST(numbers, means_of_half) {
  const cleave::grid g = grid_of_all();
  using lone = cleave::tensor<cleave::half, mesh()>;
  using all_rows = cleave::tensor<cleave::half, mesh(row / line)>;
  all_rows x(g, {512}), normal(g, {512}), scaled(g, {512});
  lone mean(g, {}), middle(g, {}), spread(g, {});
  x.fill_by([](const auto& i) { return cleave::half(i[0] % 2 == 0 ? 240.0F : -240.0F); });
  statistics(x).into(mean, middle, spread, normal, scaled);
  EXPECT_EQ(static_cast<float>(mean.item()), 1000);
  EXPECT_EQ(static_cast<float>(middle.item()), 100);
  EXPECT_EQ(static_cast<float>(spread.item()), 57600);
  const auto around_one = normal.to_global(), by_size = scaled.to_global();
  for (std::size_t i = 0; i < 512; ++i) {
    EXPECT_EQ(static_cast<float>(around_one[i]), i % 2 == 0 ? 3 : -1);
    EXPECT_EQ(static_cast<float>(by_size[i]), i % 2 == 0 ? 3 : -3);
  }
}

inline constexpr cleave::dim<"pooled"> pooled;
constexpr cleave::function averages([](auto x) {
  const auto taps = cleave::window{row, pooled, part, 4};
  return std::tuple(cleave::nn::average_pool(x, taps), cleave::nn::average_pool_without_padding(x, taps));
});
TEST(numbers, pools_of_half) {
  const cleave::grid g = grid_of_all();
  cleave::tensor<cleave::half, mesh(row / line)> x(g, {20});
  cleave::tensor<cleave::half, mesh(pooled / line)> all(g, {5}), inside(g, {5});
  x.fill(cleave::half(30000.0F)); // the sum of four overflows 16 bits
  averages(x).into(all, inside);
  for (const cleave::half h : all.to_global()) EXPECT_EQ(static_cast<float>(h), 30000);
  for (const cleave::half h : inside.to_global()) EXPECT_EQ(static_cast<float>(h), 30000);
}

inline constexpr cleave::dim<"long", 3'000'000'000> long_dim;
constexpr cleave::function short_index([](auto x) { return sum(cleave::cast<int>(iota<std::int8_t>(x, row)), row); });
constexpr cleave::function short_count([](auto x) { return cleave::count<std::uint8_t>(x) + cleave::sum(x, row); });
constexpr cleave::function far_index([](auto x) { return argmax(broadcast(x, long_dim), long_dim); });
constexpr cleave::function far_count([](auto x) { return cleave::count<int>(broadcast(x, long_dim)); });
/// The bounds of a select by ranges are sums of 32 bits.
inline constexpr cleave::dim<"near", 2147483000> near_dim;
constexpr cleave::function near_bounds([](auto x) {
  const auto far = broadcast(cleave::cast<double>(x), near_dim);
  const auto chosen = exp(select(iota<std::int32_t>(far, near_dim) < 3, far, 2.0 * far));
  return cleave::cast<int>(sum(chosen) + cleave::max(chosen));
});
/// An index or a number of elements that its type cannot hold is an error of the call, on every rank.
TEST(numbers, indices_too_large_for_their_type) {
  const cleave::grid g = grid_of_all();
  const auto refuses = [](auto&& call, const std::string& words) {
    try {
      call();
      ADD_FAILURE() << "does not throw: " << words;
    } catch (const cleave::shape_error& e) {
      EXPECT_EQ(std::string(e.what()), "cleave: " + words + ", which cannot hold so many");
    }
  };
  number<int> i(g, {});
  number<std::uint8_t> n(g, {});
  const auto of_rows = [&](std::int64_t rows) {
    cleave::tensor<std::uint8_t, mesh(row / line)> x(g, {rows});
    i = short_index(x);
    n = short_count(x);
  };
  of_rows(128);
  EXPECT_EQ(i.item(), 127 * 64);
  EXPECT_EQ(n.item(), 128);
  refuses([&] { of_rows(129); }, "dim 'row' has extent 129, but the function numbers its indices in i8");
  cleave::tensor<std::uint8_t, mesh(row / line)> x(g, {256});
  refuses([&] { n = short_count(x); }, "dim 'row' has extent 256, but the function numbers its indices in u8");
  const std::string far = "dim 'long' has extent 3000000000, but the function numbers its indices in i32";
  refuses([&] { i = far_index(n); }, far);
  refuses([&] { i = far_count(n); }, far);
  refuses([&] { i = near_bounds(n); }, "dim 'near' has extent 2147483000, but the function numbers its indices in i32");
}

/// A number takes the type of the tensor beside it also as an argument of a branch, or where no gradient flows.
constexpr cleave::function of_branch([](auto x, auto a) {
  return cond(sum(x) > 0.0, [](auto y, auto b) { return y * b; }, [](auto y, auto b) { return y - b; }, x, a);
});
constexpr cleave::function without_slope([](auto x, auto a) { return x * stop_gradient(a); });
TEST(numbers, of_branches) {
  const cleave::grid g = grid_of_all();
  cleave::tensor<double, mesh(row / line)> x(g, {5}), y(g, {5});
  x.fill(3);
  const float half = 0.5f;
  y = of_branch(x, half);
  for (const double v : y.to_global()) EXPECT_EQ(v, 1.5);
  y = without_slope(x, half);
  for (const double v : y.to_global()) EXPECT_EQ(v, 1.5);
  y = cond(sum(x) < 0.0, [](auto a, auto b) { return a * b; }, [](auto a, auto b) { return a - b; }, x, 0.5);
  for (const double v : y.to_global()) EXPECT_EQ(v, 2.5);
}

/// A number of a statement takes the type of the tensor beside it, which must have it.
TEST(numbers, that_the_type_beside_them_lacks) {
  const cleave::grid g = grid_of_all();
  cleave::tensor<std::uint8_t, mesh(row / line)> u(g, {5});
  cleave::tensor<std::int32_t, mesh(row / line)> i(g, {5});
  cleave::tensor<bool, mesh(row / line)> below(g, {5});
  u.fill(100);
  below = u < 200;
  for (const bool b : below.to_global()) EXPECT_TRUE(b);
  const auto refuses = [](auto&& call, const std::string& type, const std::string& number) {
    try {
      call();
      ADD_FAILURE() << "takes " << number;
    } catch (const cleave::number_error& e) {
      EXPECT_EQ(std::string(e.what()), "cleave: a number of the statement takes the element type " + type +
                                           " of the tensor beside it, which has no " + number);
    }
  };
  refuses([&] { below = u < 300; }, "u8", "300");
  refuses([&] { u = u + (-1); }, "u8", "-1");
  refuses([&] { i = i + 3'000'000'000; }, "i32", "3000000000");
  // The greatest integers of 64 bits, which no double is.
  cleave::tensor<std::int64_t, mesh(row / line)> l(g, {5});
  cleave::tensor<std::uint64_t, mesh(row / line)> w(g, {5});
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  l = l + static_cast<std::uint64_t>(most);
  for (const std::int64_t x : l.to_global()) EXPECT_EQ(x, most);
  w = w + std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t x : w.to_global()) EXPECT_EQ(x, std::numeric_limits<std::uint64_t>::max());
  l = l + std::numeric_limits<std::int64_t>::min();
  for (const std::int64_t x : l.to_global()) EXPECT_EQ(x, -1);
  refuses([&] { l = l + (static_cast<std::uint64_t>(most) + 1); }, "i64", "9223372036854775808");
  refuses([&] { w = w + std::int64_t{-1}; }, "u64", "-1");
  // Also where some ranks are no devices.
  const cleave::grid one(mesh, MPI_COMM_WORLD, {1}, cleave::on_ranks{0, 1});
  cleave::tensor<std::uint8_t, mesh(row / line)> v(one, {5});
  refuses([&] { v = v + 300; }, "u8", "300");
  i = i + std::int64_t{7};
  for (const int n : i.to_global()) EXPECT_EQ(n, 7);
}

constexpr cleave::function above_zero([](auto x) {
  return select(iota<std::int32_t>(x, row) + 2147483645 > 0, x, 0 * x);
});
constexpr cleave::function at_the_other_end([](auto x) {
  return select(iota<std::int32_t>(x, row) - 2147483647 - 5 == 2147483647, x, 0 * x);
});
/// Indices to which numbers are added wrap, also where a select by them is cut into ranges.
TEST(numbers, ranges_of_indices_that_wrap) {
  const cleave::grid g = grid_of_all();
  cleave::tensor<double, mesh(row / line)> x(g, {9}), y(g, {9}), z(g, {9});
  x.fill_by([](const auto& at) { return static_cast<double>(at[0] + 1); });
  y = above_zero(x);
  z = at_the_other_end(x);
  const auto some = y.to_global(), one = z.to_global();
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(some[i], i <= 2 ? static_cast<double>(i + 1) : 0) << i;
    EXPECT_EQ(one[i], i == 3 ? 4 : 0) << i;
  }
}

constexpr cleave::function classes([](auto label) { return cleave::one_hot<float>(label, kind); });
TEST(numbers, short_labels) {
  const cleave::grid g = grid_of_all();
  cleave::tensor<std::uint8_t, mesh(row / line)> label(g, {5});
  cleave::tensor<float, mesh(row / line, kind)> hot(g, {5, 300});
  label.fill_by([](const auto& i) { return static_cast<std::uint8_t>(10 + 60 * i[0]); });
  hot = classes(label);
  const auto all = hot.to_global();
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t c = 0; c < 300; ++c) EXPECT_EQ(all[i * 300 + c], c == 10 + 60 * i ? 1 : 0);
}

constexpr cleave::function zeros_with_signs([](auto x) {
  return std::tuple(1.0f / (x * 0.0f), 1.0f / (x * -0.0f), 1.0f / (x * -0.0f - -0.0f), x * -0.0f - 0.0f);
});
TEST(numbers, zeros_with_signs) {
  const cleave::grid g = grid_of_all();
  using Row = cleave::tensor<float, mesh(row / line)>;
  Row x(g, {5}), a(g, {5}), b(g, {5}), c(g, {5}), d(g, {5});
  x.fill(1);
  zeros_with_signs(x).into(a, b, c, d);
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const float v : a.to_global()) EXPECT_EQ(v, infinity);
  for (const float v : b.to_global()) EXPECT_EQ(v, -infinity);
  for (const float v : c.to_global()) EXPECT_EQ(v, infinity);
  for (const float v : d.to_global()) EXPECT_TRUE(std::signbit(v));
}

// Nothing was communicated through the grid before but one reduction.
TEST(numbers, one_rank_reads_what_all_have) {
  const cleave::grid g = grid_of_all();
  cleave::tensor<double, mesh(row / line)> x(g, {8});
  number<double> total(g, {});
  x.fill(1);
  total = sum(x);
  if (support::rank() == 0) {
    EXPECT_EQ(total.item(), 8);
    EXPECT_EQ(total.to_global().front(), 8);
  }
}

// The ranks name different sizes of slabs: the least one holds. They name different ranks: all of them say so.
TEST(numbers, slabs_of_different_sizes) {
  const cleave::grid g = grid_of_all();
  cleave::tensor<double, mesh(row / line)> x(g, {100});
  x.fill_by([](const auto& i) { return static_cast<double>(i[0]); });
  std::vector<double> all;
  cleave::gather_slabs(x, 0, support::rank() == 0 ? 400 : 80,
                       [&](std::int64_t first, std::int64_t rows, const double* elements) {
                         EXPECT_EQ(first, std::ssize(all));
                         EXPECT_LE(rows, support::ranks() == 1 ? 50 : 10);
                         all.insert(all.end(), elements, elements + rows);
                       });
  if (support::rank() == 0) {
    ASSERT_EQ(all.size(), 100u);
    for (std::size_t i = 0; i < 100; ++i) EXPECT_EQ(all[i], static_cast<double>(i));
  }
  if (support::ranks() > 1) {
    const auto nothing = [](std::int64_t, std::int64_t, const double*) {};
    EXPECT_THROW(cleave::gather_slabs(x, support::rank() % 2, 80, nothing), cleave::mesh_error);
  }
}

} // namespace CLEAVE_SOURCE
