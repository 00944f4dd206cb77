// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <type_traits>

// A formula is one pass, however long it is, and whatever the type of its elements.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"x"> ax;
inline constexpr cleave::mesh mesh{ax};
inline constexpr cleave::dim<"i"> i;
inline constexpr cleave::dim<"j"> j;

template <class T>
using field = cleave::tensor<T, mesh(i / ax, j)>;

template <class Planned>
constexpr const auto& steps_of(const Planned&) {
  return Planned::plan_type::steps;
}

// More operations than 8 bits count, and than clang nests operators.
constexpr int links = 150;
constexpr cleave::function chain([](auto a, auto b) {
  auto v = a;
  for (int n = 0; n < links; ++n) v = v * a + b;
  return v;
});
constexpr auto chain_plan = cleave::plan<field<double>(field<double>, field<double>)>(chain);
static_assert(steps_of(chain_plan).size() == 1);
static_assert(steps_of(chain_plan)[0].ops == 2 * links + 2);

// A limiter as codes of gas dynamics have it: its values have several readers, most of them behind a condition.
template <class T>
constexpr cleave::function limiter([](auto low, auto high, auto flow, auto size) {
  const auto right = flow > T(1);
  const auto donor = select(right, low, high), up = select(right, high, size), down = select(right, size, low);
  const auto before = donor - up, after = down - donor;
  const auto least = minimum(minimum(abs(before), abs(after)), maximum(T(2) * abs(before), abs(after) - size));
  return flow * (donor + select(before * after > T(0), least, T(0) * before));
});
template <class T>
constexpr bool limiter_is_one_pass =
    steps_of(cleave::plan<field<T>(field<T>, field<T>, field<T>, field<T>)>(limiter<T>)).size() == 1;

/// Small integers, which every element type has.
template <class T>
T number(std::int64_t row, std::int64_t col, std::int64_t factor) {
  return T(static_cast<float>((row * 7 + col * factor) % 5));
}
template <class T>
double limited(std::int64_t row, std::int64_t col) {
  const auto at = [&](std::int64_t factor) { return static_cast<double>((row * 7 + col * factor) % 5); };
  const double low = at(3), high = at(4), flow = at(11), size = at(13);
  const bool right = flow > 1;
  const double donor = right ? low : high, up = right ? high : size, down = right ? size : low;
  const double before = donor - up, after = down - donor;
  const double least = std::min(std::min(std::abs(before), std::abs(after)),
                                std::max(2 * std::abs(before), std::abs(after) - size));
  return flow * (donor + (before * after > 0 ? least : 0));
}

template <class T>
class limiters : public testing::Test {};
using elements = testing::Types<double, float, std::int32_t, std::int64_t, cleave::bfloat16, cleave::half>;
TYPED_TEST_SUITE(limiters, elements);

TYPED_TEST(limiters, are_one_pass) {
  using T = TypeParam;
  static_assert(limiter_is_one_pass<T>);
  // Lines that are shorter than a block, and no multiple of one.
  for (const std::int64_t cols : {5, 16, 83}) {
    const std::int64_t rows = 6;
    const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
    field<T> low(g, {rows, cols}), high(g, {rows, cols}), flow(g, {rows, cols}), size(g, {rows, cols});
    low.fill_by([](const auto& at) { return number<T>(at[0], at[1], 3); });
    high.fill_by([](const auto& at) { return number<T>(at[0], at[1], 4); });
    flow.fill_by([](const auto& at) { return number<T>(at[0], at[1], 11); });
    size.fill_by([](const auto& at) { return number<T>(at[0], at[1], 13); });
    const field<T> result = limiter<T>(low, high, flow, size);
    const auto all = result.to_global();
    for (std::int64_t k = 0; k < rows * cols; ++k)
      EXPECT_EQ(static_cast<double>(static_cast<cleave::computed<T>>(all[static_cast<std::size_t>(k)])),
                limited<T>(k / cols, k % cols))
          << "element " << k;
  }
}

TEST(formulas, of_hundreds_of_operations) {
  const std::int64_t rows = 4, cols = 37;
  const cleave::grid g(mesh, MPI_COMM_WORLD, {support::ranks()});
  field<double> a(g, {rows, cols}), b(g, {rows, cols});
  const auto at = [](std::int64_t row, std::int64_t col) { return 0.5 + 0.01 * static_cast<double>((row + col) % 7); };
  a.fill_by([&](const auto& p) { return at(p[0], p[1]); });
  b.fill_by([&](const auto& p) { return at(p[1], p[1]); });
  const field<double> result = chain(a, b);
  const auto all = result.to_global();
  for (std::int64_t k = 0; k < rows * cols; ++k) {
    const double x = at(k / cols, k % cols), y = at(k % cols, k % cols);
    double v = x;
    for (int n = 0; n < links; ++n) v = v * x + y;
    EXPECT_NEAR(all[static_cast<std::size_t>(k)], v, 1e-14) << "element " << k;
  }
}

// As many arrays as a pass reads, and more.
template <std::size_t... K>
constexpr auto weighted_sum(std::index_sequence<K...>) {
  return [](auto... x) { return (... + (static_cast<double>(K + 1) * x)); };
}
constexpr cleave::function sum_of_30(weighted_sum(std::make_index_sequence<30>{}));
template <std::size_t>
using one_field = field<double>;
template <std::size_t... K>
constexpr std::size_t passes_of_sum(std::index_sequence<K...>) {
  return steps_of(cleave::plan<field<double>(one_field<K>...)>(sum_of_30)).size();
}
static_assert(passes_of_sum(std::make_index_sequence<30>{}) == 3);

} // namespace CLEAVE_SOURCE
