// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "support.hpp"

#include <cleave/cleave.hpp>
#include <cleave/nn/attention.hpp>
#include <cleave/nn/embedding.hpp>
#include <cleave/nn/feed_forward.hpp>
#include <cleave/simulate/evaluate.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <vector>

// What is particular to element types: 16-bit numbers are computed in float, complex numbers, integers that wrap, what
// literals become, and NaN and signed zeros in reductions between devices.

namespace CLEAVE_SOURCE {

inline constexpr cleave::axis<"data"> data;
inline constexpr cleave::mesh mesh{data};
inline constexpr cleave::dim<"row"> row;
inline constexpr cleave::dim<"col"> col;
inline constexpr cleave::dim<"deep"> deep;

template <class T>
using rows = cleave::tensor<T, mesh(row / data)>;
template <class T>
using matrix = cleave::tensor<T, mesh(row / data, col)>;
template <class T>
using vector = cleave::tensor<T, mesh(col)>;
template <class T>
using sharded = cleave::tensor<T, mesh(col / data)>;
template <class T>
using single = cleave::tensor<T, mesh()>;

cleave::grid line() { return {mesh, MPI_COMM_WORLD, {support::ranks()}}; }
cleave::grid alone() { return {mesh, MPI_COMM_SELF, {1}}; }

/// Whether all ranks hold the same bits.
template <class T>
bool same_everywhere(const std::vector<T>& mine) {
  std::vector<T> first = mine;
  MPI_Bcast(first.data(), static_cast<int>(first.size() * sizeof(T)), MPI_BYTE, 0, MPI_COMM_WORLD);
  return support::over_ranks(std::memcmp(first.data(), mine.data(), mine.size() * sizeof(T)) == 0 ? 0 : 1) == 0;
}

template <class T>
class narrow_elements : public testing::Test {};
using narrow_types = testing::Types<cleave::bfloat16, cleave::half>;
TYPED_TEST_SUITE(narrow_elements, narrow_types);

TYPED_TEST(narrow_elements, chains_are_computed_in_float_and_stored_rounded) {
  using T = TypeParam;
  const cleave::grid g = line();
  matrix<T> x(g, {9, 5}), y(g, {9, 5}), z(g, {9, 5});
  matrix<float> wide(g, {9, 5});
  const auto at = [](std::int64_t i) { return T(0.37 * static_cast<double>(i) - 3); };
  x.fill_by([&](const auto& p) { return at(p[0] * 5 + p[1]); });
  // Numbers take the type of the tensor beside them: 1.01 is rounded, whether an argument or a literal.
  const float factor = T(1.01);
  y = (x * 1.01f + 700) - 700;
  constexpr cleave::function literal([](auto v) { return (v * 1.01f + 700) - 700; });
  z = literal(x);
  wide = cast<float>(cast<T>(cast<float>(x) * 1.01f));
  const auto ys = y.to_global(), zs = z.to_global();
  const auto ws = wide.to_global();
  for (std::int64_t i = 0; i < 45; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const float value = at(i);
    EXPECT_EQ(ys[k].bits, T((value * factor + 700.0f) - 700.0f).bits);
    EXPECT_EQ(zs[k].bits, ys[k].bits);
    // A cast that the program asks for rounds, even inside of a chain.
    EXPECT_EQ(ws[k], static_cast<float>(T(value * 1.01f)));
  }
}

/// Composed functions of as many equal scores that their number is beyond half, and of the number bfloat16 counts.
constexpr std::int64_t many = 80000;
constexpr cleave::function of_scores([](auto scores, auto keys, auto query, auto label) {
  const auto mixed = cleave::nn::attention(query, keys, keys, {row, deep, col});
  return std::tuple(softmax(scores, deep), log_softmax(scores, deep), logsumexp(scores),
                    cleave::nn::cross_entropy(scores, label, deep), mixed);
});
TYPED_TEST(narrow_elements, composed_functions_sum_in_float) {
  using T = TypeParam;
  using line_of = cleave::tensor<T, mesh(deep / data)>;
  const cleave::grid g = line();
  line_of scores(g, {many}), shares(g, {many}), logarithms(g, {many});
  cleave::tensor<T, mesh(deep / data, col)> keys(g, {many, 2});
  cleave::tensor<T, mesh(row, col)> query(g, {1, 2}), mixed(g, {1, 2});
  single<T> total(g, {}), loss(g, {});
  single<std::int32_t> label(g, {});
  scores.fill(T(3));
  keys.fill(T(1));
  // Their product is beyond half, their score is not.
  query.fill(T(40000));
  label.fill(7);
  of_scores(scores, keys, query, label).into(shares, logarithms, total, loss, mixed);
  const double last = std::is_same_v<T, cleave::half> ? 0x1p-11 : 0x1p-8, log_of_many = std::log(double{many});
  for (const T share : shares.to_global()) ASSERT_NEAR(static_cast<double>(share) * many, 1, 0.01);
  for (const T x : logarithms.to_global()) ASSERT_EQ(x.bits, T(-log_of_many).bits);
  EXPECT_EQ(total.item().bits, T(3 + log_of_many).bits);
  EXPECT_EQ(loss.item().bits, T(log_of_many).bits);
  // Weights and their sum are floats, also between devices. A product of so many floats is right to four digits.
  for (const T x : mixed.to_global()) EXPECT_NEAR(static_cast<double>(x), 1, last);
}

// Each of them would round in between, or lose digits of its constant.
constexpr cleave::function activations([](auto x) {
  return std::tuple(cleave::nn::gelu_exact(x), cleave::nn::silu(x), dropout(x, 0.3, 5));
});
TYPED_TEST(narrow_elements, composed_functions_round_once) {
  using T = TypeParam;
  const cleave::grid g = line();
  matrix<T> x(g, {3, 64}), gelu(g, {3, 64}), silu(g, {3, 64}), dropped(g, {3, 64});
  x.fill_by([](const auto& p) { return T(0.11 * static_cast<double>(p[1]) - 3.3 + static_cast<double>(p[0])); });
  activations(x).into(gelu, silu, dropped);
  const auto as_doubles = [](auto& t) {
    const auto v = t.to_global();
    return std::vector<double>(v.begin(), v.end());
  };
  const auto xs = as_doubles(x);
  const auto got = std::array{as_doubles(gelu), as_doubles(silu), as_doubles(dropped)};
  // Half a unit of the last place of 16 bits, and what float adds.
  const double half = std::is_same_v<T, cleave::half> ? 0x1.02p-11 : 0x1.02p-8;
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const double want[] = {0.5 * xs[i] * std::erfc(-xs[i] * std::sqrt(0.5)), xs[i] / (1 + std::exp(-xs[i])),
                           got[2][i] == 0 ? 0 : xs[i] / 0.7};
    for (std::size_t f = 0; f < 3; ++f)
      EXPECT_NEAR(got[f][i], want[f], half * std::fabs(want[f])) << "function " << f << " of " << xs[i];
  }
}

TYPED_TEST(narrow_elements, sums_run_in_float) {
  using T = TypeParam;
  // Added up in 16 bits ones would stay at 256, or at 2048. Long enough that the range is cut in pieces.
  const std::int64_t n = 3 << 13;
  const auto run = [&](const cleave::grid& g, std::int64_t length) {
    rows<T> x(g, {length});
    single<T> total(g, {});
    x.fill_by([](const auto& at) { return T(at[0] % 3 == 0 ? 0.5 : 1.0); });
    total = sum(x);
    return total.item();
  };
  EXPECT_EQ(run(alone(), n).bits, T(static_cast<double>(n) * 2.5 / 3).bits);
  // Each device rounds what it adds up, and so does each addition between two devices.
  const double exact = 2.5 * 1000 * support::ranks();
  EXPECT_NEAR(static_cast<double>(run(line(), 3000 * support::ranks())), exact,
              exact * (std::is_same_v<T, cleave::half> ? 0.002 : 0.02));
  // Columns, whose results are kept side by side.
  matrix<T> x(alone(), {5000, 40});
  vector<T> down(x.get_grid(), {40});
  x.fill(T(1));
  down = sum(x, row);
  for (const T v : down.to_global()) EXPECT_EQ(v.bits, T(5000).bits);
}

TYPED_TEST(narrow_elements, reductions_between_devices) {
  using T = TypeParam;
  const cleave::grid g = line();
  const std::int64_t n = support::ranks();
  // 2^k on every device, so that all partial sums are exact: the collectives add up what is 16 bits wide.
  matrix<T> x(g, {64 * n, 11});
  vector<T> whole(g, {11}), most(g, {11}), least(g, {11});
  sharded<T> parts(g, {11});
  x.fill_by([](const auto& at) { return T((at[1] % 2 == 0 ? 1 : -1) * (at[0] == 3 ? 4 : 1)); });
  whole = sum(x, row);
  parts = sum(x, row);
  most = max(x, row);
  least = min(x, row);
  const auto ws = whole.to_global(), ps = parts.to_global(), up = most.to_global(), down = least.to_global();
  for (std::size_t j = 0; j < 11; ++j) {
    const int sign = j % 2 == 0 ? 1 : -1;
    const double exact = static_cast<double>(sign) * static_cast<double>(64 * n + 3);
    EXPECT_NEAR(static_cast<double>(ws[j]), exact, std::fabs(exact) / 100);
    EXPECT_EQ(ws[j].bits, ps[j].bits);
    EXPECT_EQ(static_cast<float>(up[j]), sign > 0 ? 4 : -1);
    EXPECT_EQ(static_cast<float>(down[j]), sign > 0 ? 1 : -4);
  }
  EXPECT_TRUE(same_everywhere(ws));
}

TYPED_TEST(narrow_elements, products_add_up_in_float) {
  using T = TypeParam;
  using left = cleave::tensor<T, mesh(row, deep / data)>;
  using right = cleave::tensor<T, mesh(deep / data, col)>;
  const auto run = [](const cleave::grid& g, std::int64_t k) {
    left a(g, {3, k});
    right b(g, {k, 4});
    cleave::tensor<T, mesh(col, row)> c(g, {4, 3});
    a.fill_by([](const auto& at) { return T(at[0] + 1); });
    b.fill_by([](const auto& at) { return T(at[1] % 2 == 0 ? 1 : -1); });
    c = dot(a, b, deep);
    return c.to_global();
  };
  for (const std::int64_t k : {0, 1, 5000}) {
    const auto one = run(alone(), k), many = run(line(), k);
    for (std::int64_t j = 0; j < 4; ++j)
      for (std::int64_t i = 0; i < 3; ++i) {
        const auto at = static_cast<std::size_t>(j * 3 + i);
        const double exact = static_cast<double>((i + 1) * k * (j % 2 == 0 ? 1 : -1));
        EXPECT_EQ(one[at].bits & 0x7FFF, T(std::fabs(exact)).bits) << k;
        EXPECT_NEAR(static_cast<double>(many[at]), exact, std::fabs(exact) * 0.02);
      }
  }
}

template <class R>
class complex_elements : public testing::Test {};
using real_types = testing::Types<float, double>;
TYPED_TEST_SUITE(complex_elements, real_types);

template <class R>
std::complex<R> plain(const Kokkos::complex<R>& z) {
  return {z.real(), z.imag()};
}
template <class R>
void expect_close(const Kokkos::complex<R>& got, const std::complex<R>& want) {
  EXPECT_LE(std::abs(plain(got) - want), 20 * std::numeric_limits<R>::epsilon() * (1 + std::abs(want)));
}

TYPED_TEST(complex_elements, elementwise) {
  using R = TypeParam;
  using C = Kokkos::complex<R>;
  using S = std::complex<R>;
  const cleave::grid g = line();
  const auto wave = [](std::int64_t i, double shift) {
    return S(static_cast<R>(std::sin(0.7 * static_cast<double>(i) + shift)),
             static_cast<R>(std::cos(1.3 * static_cast<double>(i))));
  };
  rows<C> x(g, {17}), y(g, {17}), z(g, {17});
  rows<R> re(g, {17}), size(g, {17});
  rows<bool> equal(g, {17});
  x.fill_by([&](const auto& at) { return C(wave(at[0], 0)); });
  y.fill_by([&](const auto& at) { return C(wave(at[0], 1)); });
  const auto check = [&](const auto& want) {
    const auto all = z.to_global();
    for (std::int64_t i = 0; i < 17; ++i) expect_close(all[static_cast<std::size_t>(i)], want(wave(i, 0), wave(i, 1)));
  };
  z = x * y + x / y - y;
  check([](S a, S b) { return a * b + a / b - b; });
  z = exp(-x) * sqrt(y) + conj(x);
  check([](S a, S b) { return std::exp(-a) * std::sqrt(b) + std::conj(a); });
  // Numbers of every kind stand beside complex tensors.
  z = 2 * x + y * std::complex<double>(0, 1) - C(R(0.5), R(2)) / y + 1.5;
  check([](S a, S b) { return R(2) * a + b * S(0, 1) - S(R(0.5), 2) / b + R(1.5); });
  re = real(x) - imag(y);
  size = abs(x);
  z = complex(re, size);
  check([](S a, S b) { return S(a.real() - b.imag(), std::abs(a)); });
  constexpr cleave::function turned(
      [](auto a, auto b) { return select(a != b, a * Kokkos::complex<double>(0, 2), b); });
  z = turned(x, y);
  check([](S a, S) { return a * S(0, 2); });
  equal = x == y;
  for (const bool e : equal.to_global()) EXPECT_FALSE(e);
  // Of real numbers too, so that one program serves both.
  re = real(conj(size)) + imag(size);
  EXPECT_EQ(re.to_global(), size.to_global());
}

TYPED_TEST(complex_elements, sums_products_and_moves) {
  using R = TypeParam;
  using C = Kokkos::complex<R>;
  const cleave::grid g = line();
  const std::int64_t n = 13;
  cleave::tensor<C, mesh(row, deep / data)> a(g, {3, n});
  cleave::tensor<C, mesh(deep / data, col)> b(g, {n, 4});
  cleave::tensor<C, mesh(row, col)> c(g, {3, 4});
  cleave::tensor<C, mesh(col, row / data)> turned(g, {4, 3});
  cleave::tensor<C, mesh(row)> total(g, {3});
  // Integers, so that every order of additions gives the same.
  const auto left = [](std::int64_t i, std::int64_t k) {
    return std::complex<R>(static_cast<R>(i - k % 3), static_cast<R>(k % 5));
  };
  const auto right = [](std::int64_t k, std::int64_t j) {
    return std::complex<R>(static_cast<R>(k % 2), static_cast<R>(j - k % 4));
  };
  a.fill_by([&](const auto& at) { return C(left(at[0], at[1])); });
  b.fill_by([&](const auto& at) { return C(right(at[0], at[1])); });
  c = dot(a, b, deep);
  turned = c;
  total = sum(a, deep);
  const auto cs = c.to_global(), ts = turned.to_global(), sums = total.to_global();
  for (std::int64_t i = 0; i < 3; ++i) {
    std::complex<R> sum = 0;
    for (std::int64_t k = 0; k < n; ++k) sum += left(i, k);
    EXPECT_EQ(plain(sums[static_cast<std::size_t>(i)]), sum);
    for (std::int64_t j = 0; j < 4; ++j) {
      std::complex<R> want = 0;
      for (std::int64_t k = 0; k < n; ++k) want += left(i, k) * right(k, j);
      EXPECT_EQ(plain(cs[static_cast<std::size_t>(i * 4 + j)]), want);
      EXPECT_EQ(plain(ts[static_cast<std::size_t>(j * 3 + i)]), want);
    }
  }
}

TEST(elements, complex_numbers_are_not_simulated) {
  cleave::recorder in(mesh.value);
  in.output(2 * in.input(cleave::element::c64, mesh(row / data)));
  const cleave::graph g = in.take();
  const std::vector<cleave::host_array> arguments(1);
  EXPECT_THROW(cleave::evaluate(g, {}, arguments), cleave::evaluation_error);
}

TEST(elements, integers_wrap) {
  const cleave::grid g = line();
  const std::int64_t n = 3 * support::ranks();
  rows<std::int32_t> x(g, {n});
  rows<std::int8_t> y(g, {n});
  single<std::int32_t> total(g, {});
  single<std::int8_t> small(g, {});
  const std::int32_t most = std::numeric_limits<std::int32_t>::max();
  x.fill(most);
  y.fill(100);
  total = sum(x);
  small = sum(y);
  EXPECT_EQ(total.item(), static_cast<std::int32_t>(static_cast<std::uint32_t>(n) * static_cast<std::uint32_t>(most)));
  EXPECT_EQ(small.item(), static_cast<std::int8_t>(100 * n));
  x = x + 1;
  EXPECT_EQ(x.to_global()[0], std::numeric_limits<std::int32_t>::lowest());
}

/// MPI libraries reduce long messages by vector instructions, some of which saturate where others wrap.
template <class T>
class integers : public testing::Test {};
using integer_types =
    testing::Types<std::int8_t, std::uint8_t, std::int32_t, std::uint32_t, std::int64_t, std::uint64_t>;
TYPED_TEST_SUITE(integers, integer_types);

TYPED_TEST(integers, reductions_over_ranks_wrap_in_messages_of_any_length) {
  using T = TypeParam;
  const cleave::grid g = line();
  const std::int64_t ranks = support::ranks();
  // All bits of the type take part, and the sign of a signed one.
  const auto at = [](std::int64_t r, std::int64_t c) {
    return static_cast<T>(static_cast<std::uint64_t>(r * 1000 + c + 1) * 0x9E3779B97F4A7C15u >> 7);
  };
  for (const std::int64_t length : {1, 15, 16, 17, 64, 203}) {
    matrix<T> x(g, {ranks, length});
    vector<T> sums(g, {length}), products(g, {length}), least(g, {length}), most(g, {length});
    x.fill_by([&](const auto& p) { return at(p[0], p[1]); });
    sums = sum(x, row);
    products = prod(x, row);
    least = min(x, row);
    most = max(x, row);
    const auto s = sums.to_global(), p = products.to_global(), low = least.to_global(), high = most.to_global();
    for (std::int64_t c = 0; c < length; ++c) {
      std::uint64_t total = 0, product = 1;
      T smallest = std::numeric_limits<T>::max(), largest = std::numeric_limits<T>::lowest();
      for (std::int64_t r = 0; r < ranks; ++r) {
        total += static_cast<std::uint64_t>(at(r, c));
        product *= static_cast<std::uint64_t>(at(r, c));
        smallest = std::min(smallest, at(r, c));
        largest = std::max(largest, at(r, c));
      }
      const auto i = static_cast<std::size_t>(c);
      EXPECT_EQ(s[i], static_cast<T>(total)) << "length " << length << ", element " << c;
      EXPECT_EQ(p[i], static_cast<T>(product)) << "length " << length << ", element " << c;
      EXPECT_EQ(low[i], smallest) << "length " << length << ", element " << c;
      EXPECT_EQ(high[i], largest) << "length " << length << ", element " << c;
    }
  }
}

TEST(elements, numbers_take_the_type_of_the_tensor) {
  const cleave::grid g = line();
  rows<float> x(g, {5}), y(g, {5});
  rows<int> i(g, {5}), j(g, {5});
  rows<cleave::bfloat16> b(g, {5});
  x.fill(1.5f);
  i.fill(7);
  b.fill(cleave::bfloat16(3));
  constexpr cleave::function literals([](auto a, auto k) { return std::tuple(2 * a + 0.25, k * 2.0); });
  literals(x, i).into(y, j);
  EXPECT_EQ(y.to_global()[0], 3.25f);
  EXPECT_EQ(j.to_global()[0], 14);
  // In a statement the number is an argument; it becomes what a literal would.
  y = 2 * x + 0.25;
  j = 2 * i;
  b = b * 0.5 + cleave::bfloat16(1);
  EXPECT_EQ(y.to_global()[0], 3.25f);
  EXPECT_EQ(j.to_global()[0], 14);
  EXPECT_EQ(static_cast<float>(b.to_global()[0]), 2.5f);
}

TEST(elements, nan_and_zeros_in_reductions_between_devices) {
  const cleave::grid g = line();
  const std::int64_t n = support::ranks();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (std::int64_t odd = 0; odd < n; ++odd) {
    matrix<float> x(g, {n, 2});
    vector<float> most(g, {2}), least(g, {2});
    // Column 0: NaN on one device. Column 1: zeros, one of them negative.
    x.fill_by([&](const auto& at) {
      return at[1] == 0 ? (at[0] == odd ? nan : static_cast<float>(at[0])) : at[0] == odd ? -0.0f : 0.0f;
    });
    most = max(x, row);
    least = min(x, row);
    const auto up = most.to_global(), down = least.to_global();
    EXPECT_TRUE(std::isnan(up[0]) && std::isnan(down[0]));
    EXPECT_TRUE(same_everywhere(up) && same_everywhere(down));
    EXPECT_EQ(std::signbit(up[1]), n == 1);
    EXPECT_TRUE(std::signbit(down[1]));
  }
}

} // namespace CLEAVE_SOURCE
