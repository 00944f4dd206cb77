// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cleave/base/indexed_vector.hpp>
#include <cleave/ops/scalar.hpp>
#include <cleave/simulate/scalar.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

// The elementwise functions: accuracy of the float versions, special values, integers that wrap, and that the kernels'
// functions are what the list of operations says.

namespace CLEAVE_SOURCE {

using namespace cleave;

/// The largest relative error of an op on an interval; results below `floor` count as that large.
template <op Code, class F>
double worst_error(double from, double to, double floor, F&& exact) {
  double worst = 0;
  constexpr int samples = 200000;
  for (int i = 0; i <= samples; ++i) {
    const auto x = static_cast<float>(from + (to - from) * i / samples);
    const double want = exact(static_cast<double>(x)), got = static_cast<double>(scalar_op<Code, float>::of(x));
    worst = std::fmax(worst, std::abs(got - want) / std::fmax(std::abs(want), floor));
  }
  return worst;
}
template <op Code>
float of(float x) {
  return scalar_op<Code, float>::of(x);
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

TEST(scalar, accuracy) {
  EXPECT_LT(worst_error<op::exp>(-87.3, 88.7, 0, [](double x) { return std::exp(x); }), 1e-7);
  EXPECT_LT(worst_error<op::expm1>(-87.3, 88.7, 0, [](double x) { return std::expm1(x); }), 3e-7);
  EXPECT_LT(worst_error<op::expm1>(-0.6, 0.6, 0, [](double x) { return std::expm1(x); }), 3e-7);
  EXPECT_LT(worst_error<op::expm1>(-1e-30, 1e-30, 0, [](double x) { return std::expm1(x); }), 1e-7);
  EXPECT_LT(worst_error<op::log>(1e-6, 0.9, 0, [](double x) { return std::log(x); }), 1e-7);
  EXPECT_LT(worst_error<op::log>(1.1, 1e6, 0, [](double x) { return std::log(x); }), 1e-7);
  EXPECT_LT(worst_error<op::sqrt>(1e-6, 1e6, 0, [](double x) { return std::sqrt(x); }), 1e-7);
  EXPECT_LT(worst_error<op::rsqrt>(1e-6, 1e6, 0, [](double x) { return 1 / std::sqrt(x); }), 2e-7);
  EXPECT_LT(worst_error<op::tanh>(-10, 10, 1e-30, [](double x) { return std::tanh(x); }), 5e-7);
  EXPECT_LT(worst_error<op::erf>(-6, 6, 1e-30, [](double x) { return std::erf(x); }), 5e-7);
  EXPECT_LT(worst_error<op::sigmoid>(-80, 80, 0, [](double x) { return 1 / (1 + std::exp(-x)); }), 3e-7);
  EXPECT_LT(worst_error<op::gelu>(-4, 10, 1e-3, gelu), 2e-6);
  for (double x : {-3.0, -0.1, 0.7, 2.5}) EXPECT_NEAR((scalar_op<op::gelu, double>::of(x)), gelu(x), 1e-15);
}

/// The largest relative error of a function of double on an interval.
template <op Code, class F>
double worst_double_error(double from, double to, F&& exact) {
  double worst = 0;
  constexpr int samples = 200000;
  for (int i = 0; i <= samples; ++i) {
    const double x = from + (to - from) * i / samples;
    const long double want = exact(static_cast<long double>(x));
    if (want == 0) continue;
    const long double off = static_cast<long double>(scalar_op<Code, double>::of(x)) - want;
    worst = std::fmax(worst, static_cast<double>(std::abs(off / want)));
  }
  return worst;
}
TEST(scalar, doubles_have_all_their_digits) {
  const auto exp = [](long double x) { return std::exp(x); };
  const auto tanh = [](long double x) { return std::tanh(x); };
  EXPECT_LT(worst_double_error<op::exp>(-708, 709.7, exp), 4e-16);
  EXPECT_LT(worst_double_error<op::exp>(-1, 1, exp), 4e-16);
  EXPECT_LT(worst_double_error<op::tanh>(-20, 20, tanh), 4e-16);
  EXPECT_LT(worst_double_error<op::tanh>(-0.7, 0.7, tanh), 4e-16);
  EXPECT_LT(worst_double_error<op::tanh>(-1e-300, 1e-300, tanh), 4e-16);
  const auto erf = [](long double x) { return std::erf(x); };
  EXPECT_LT(worst_double_error<op::erf>(-7, 7, erf), 4e-16);
  EXPECT_LT(worst_double_error<op::erf>(-1.01, -0.99, erf), 4e-16);
  EXPECT_LT(worst_double_error<op::erf>(-0.1, 0.1, erf), 4e-16);
  EXPECT_LT(worst_double_error<op::erf>(-1e-300, 1e-300, erf), 4e-16);
  const auto exp_at = [](double x) { return scalar_op<op::exp, double>::of(x); };
  const auto tanh_at = [](double x) { return scalar_op<op::tanh, double>::of(x); };
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(exp_at(infinity), infinity);
  EXPECT_EQ(exp_at(709.8), infinity);
  EXPECT_EQ(exp_at(1e300), infinity);
  EXPECT_EQ(exp_at(-infinity), 0);
  EXPECT_EQ(exp_at(-1e300), 0);
  EXPECT_EQ(exp_at(0), 1);
  EXPECT_NEAR(exp_at(-740), std::exp(-740.0), 1e-322);
  EXPECT_TRUE(std::isnan(exp_at(nan)));
  EXPECT_EQ(tanh_at(infinity), 1);
  EXPECT_EQ(tanh_at(-infinity), -1);
  EXPECT_EQ(tanh_at(1e300), 1);
  EXPECT_TRUE(tanh_at(-0.0) == 0 && std::signbit(tanh_at(-0.0)));
  EXPECT_TRUE(std::isnan(tanh_at(nan)));
  const auto erf_at = [](double x) { return scalar_op<op::erf, double>::of(x); };
  EXPECT_EQ(erf_at(infinity), 1);
  EXPECT_EQ(erf_at(-infinity), -1);
  EXPECT_EQ(erf_at(-1e300), -1);
  EXPECT_TRUE(erf_at(-0.0) == 0 && std::signbit(erf_at(-0.0)));
  EXPECT_TRUE(std::isnan(erf_at(nan)));
}

TEST(scalar, special_values) {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(of<op::exp>(infinity), infinity);
  EXPECT_EQ(of<op::exp>(89.0f), infinity);
  // The last number whose exponential is a float, and the one after it.
  EXPECT_TRUE(std::isfinite(of<op::exp>(88.72283172607421875f)));
  EXPECT_EQ(of<op::exp>(88.72283935546875f), infinity);
  EXPECT_EQ(of<op::expm1>(88.72283935546875f), infinity);
  EXPECT_EQ(of<op::exp>(-infinity), 0);
  EXPECT_EQ(of<op::exp>(-200.0f), 0);
  EXPECT_EQ(of<op::exp>(0.0f), 1);
  EXPECT_EQ(of<op::expm1>(infinity), infinity);
  EXPECT_EQ(of<op::expm1>(-infinity), -1);
  EXPECT_EQ(of<op::expm1>(1e-42f), 1e-42f);
  EXPECT_TRUE(of<op::expm1>(-0.0f) == 0 && std::signbit(of<op::expm1>(-0.0f)));
  EXPECT_EQ(of<op::log>(0.0f), -infinity);
  EXPECT_EQ(of<op::log>(infinity), infinity);
  EXPECT_EQ(of<op::log>(1.0f), 0);
  EXPECT_NEAR(of<op::log>(1e-42f), std::log(1e-42f), 1e-4);
  EXPECT_TRUE(std::isnan(of<op::log>(-1.0f)));
  EXPECT_EQ(of<op::sqrt>(0.0f), 0);
  EXPECT_EQ(of<op::sqrt>(infinity), infinity);
  EXPECT_TRUE(std::isnan(of<op::sqrt>(-1.0f)));
  EXPECT_NEAR(of<op::tanh>(infinity), 1, 4e-7);
  EXPECT_LE(of<op::tanh>(infinity), 1);
  EXPECT_NEAR(of<op::tanh>(-infinity), -1, 4e-7);
  EXPECT_EQ(of<op::tanh>(0.0f), 0);
  EXPECT_EQ(of<op::sigmoid>(-infinity), 0);
  EXPECT_EQ(of<op::sigmoid>(infinity), 1);
  for (float y : {of<op::exp>(nan), of<op::expm1>(nan), of<op::log>(nan), of<op::sqrt>(nan), of<op::tanh>(nan),
                  of<op::erf>(nan), of<op::gelu>(nan), of<op::relu>(nan), of<op::abs>(nan), of<op::sign>(nan)})
    EXPECT_TRUE(std::isnan(y));
  EXPECT_TRUE(std::isnan(scalar_op<op::maximum, float>::of(nan, 1.0f)) &&
              std::isnan(scalar_op<op::maximum, float>::of(1.0f, nan)));
  EXPECT_TRUE(std::isnan(scalar_op<op::minimum, float>::of(nan, 1.0f)) &&
              std::isnan(scalar_op<op::minimum, float>::of(1.0f, nan)));
}

TEST(scalar, integers_wrap) {
  const std::int32_t most = std::numeric_limits<std::int32_t>::max(),
                     least = std::numeric_limits<std::int32_t>::lowest();
  EXPECT_EQ((scalar_op<op::add, std::int32_t>::of(most, 1)), least);
  EXPECT_EQ((scalar_op<op::sub, std::int32_t>::of(least, 1)), most);
  EXPECT_EQ((scalar_op<op::mul, std::int32_t>::of(most, 2)), -2);
  EXPECT_EQ((scalar_op<op::neg, std::int32_t>::of(least)), least);
  EXPECT_EQ((scalar_op<op::abs, std::int8_t>::of(std::int8_t{-128})), -128);
  EXPECT_EQ((scalar_op<op::div, std::int32_t>::of(least, -1)), least);
  EXPECT_EQ((scalar_op<op::div, std::int32_t>::of(7, 0)), 0);
  EXPECT_EQ((scalar_op<op::div, std::int64_t>::of(-7, 2)), -3);
  EXPECT_EQ((scalar_op<op::pow, std::int64_t>::of(-3, 5)), -243);
  EXPECT_EQ((scalar_op<op::pow, std::int32_t>::of(2, -1)), 0);
  EXPECT_EQ((scalar_op<op::mul, std::uint8_t>::of(16, 17)), 16);
}

/// Conversions of numbers to an integer type, one by one and by loops of vectors, against the simulator.
template <class To, class From>
void check_conversion(element to) {
  constexpr From infinity = std::numeric_limits<From>::infinity();
  indexed_vector<From> from;
  for (const From size : {From(0),
                          From(0.75),
                          From(1),
                          From(2.5),
                          From(127),
                          From(128),
                          From(200.5),
                          From(255),
                          From(256),
                          From(3e4),
                          From(2147483520.0),
                          From(2147483648.0),
                          From(3e9),
                          From(4294967296.0),
                          From(5e9),
                          From(9.2e18),
                          From(9223372036854775808.0),
                          From(1e19),
                          From(18446744073709551616.0),
                          From(1e30),
                          infinity})
    from.push_back(size), from.push_back(-size);
  from.push_back(std::numeric_limits<From>::quiet_NaN());
  auto in_a_loop = indexed_vector<To>::filled(std::ssize(from));
  for (std::size_t i = 0; i < from.size(); ++i) in_a_loop[i] = convert<To>(from[i]);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const volatile From alone = from[i];
    const From x = alone;
    EXPECT_EQ(in_a_loop[i], convert<To>(x)) << x;
    // The greatest integers of 64 bits are no doubles: there the simulator has the nearest double that the type has.
    const double got = static_cast<double>(convert<To>(x)), want = simulation::saturated(to, static_cast<double>(x));
    EXPECT_TRUE(got == want || (got >= 0x1p63 && want == std::nextafter(got, 0))) << x << ": " << got << ", " << want;
  }
}
TEST(scalar, conversions_to_integers_end_where_these_do) {
  const auto check = [](auto from) {
    using From = decltype(from);
    check_conversion<std::int8_t, From>(element::i8);
    check_conversion<std::uint8_t, From>(element::u8);
    check_conversion<std::int32_t, From>(element::i32);
    check_conversion<std::uint32_t, From>(element::u32);
    check_conversion<std::int64_t, From>(element::i64);
    check_conversion<std::uint64_t, From>(element::u64);
  };
  check(0.0F);
  check(0.0);
  EXPECT_EQ((convert<std::int64_t>(1e19)), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ((convert<std::uint64_t>(1e30F)), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ((convert<std::int32_t>(3e9F)), std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ((convert<std::uint32_t>(-1.0F)), 0u);
}

TEST(scalar, conversions_and_bool) {
  EXPECT_TRUE((convert<bool>(0.25f)));
  EXPECT_FALSE((convert<bool>(0)));
  EXPECT_EQ((convert<std::int32_t>(-2.75)), -2);
  EXPECT_TRUE((scalar_op<op::add, bool>::of(true, true)));
  EXPECT_FALSE((scalar_op<op::mul, bool>::of(true, false)));
  EXPECT_TRUE((scalar_op<op::logical_or, float>::of(0.0f, 0.5f)));
  EXPECT_EQ((scalar_op<op::select, float>::of(true, 1.0f, 2.0f)), 1);
  EXPECT_FALSE((identity_of<reduction::max, bool>));
  EXPECT_EQ((identity_of<reduction::min, std::int8_t>), 127);
  EXPECT_EQ((identity_of<reduction::max, double>), -std::numeric_limits<double>::infinity());
}

TEST(Scalar, LogOfSumOfExponentials) {
  const auto both = [](double a, double b) { return combined<reduction::logsumexp>(a, b); };
  constexpr double inf = std::numeric_limits<double>::infinity(), none = identity_of<reduction::logsumexp, double>;
  for (const double a : {-800.0, -1.5, 0.0, 2.0, 800.0})
    for (const double b : {-801.0, -1.5, 0.25, 800.0}) {
      const double most = std::fmax(a, b), wanted = most + std::log(std::exp(a - most) + std::exp(b - most));
      EXPECT_NEAR(both(a, b), wanted, 1e-15 * std::fmax(1.0, std::fabs(wanted)));
      EXPECT_EQ(both(a, b), both(b, a));
    }
  EXPECT_EQ(none, -inf);
  EXPECT_EQ(both(none, none), -inf);
  EXPECT_EQ(both(none, 3), 3);
  EXPECT_EQ(both(inf, -inf), inf);
  EXPECT_EQ(both(inf, inf), inf);
  EXPECT_TRUE(std::isnan(both(std::nan(""), 1)) && std::isnan(both(inf, std::nan(""))));
  EXPECT_NEAR((combined<reduction::logsumexp>(1.0f, 2.0f)), 2.3132617f, 3e-7f);
}

/// Compares the kernels' function of one op of the list with the meaning that stands in the list.
template <op Code, class T>
int compare(const std::vector<T>& numbers) {
  constexpr element e = element_of<T>;
  int compared = 0;
  const auto same = [&](double got, double want) {
    // What is no number of an integer type becomes any number there.
    if (std::is_integral_v<T> && std::isnan(want)) return;
    ++compared;
    EXPECT_TRUE(got == want || (std::isnan(got) && std::isnan(want)) || std::abs(got - want) <= 1e-14 * std::abs(want))
        << name_of(Code) << ": " << got << ", not " << want;
  };
  const auto meant = [&](T x, T y) {
    const element out = has_trait(Code, op_traits::to_bool) ? element::boolean : e;
    const double a = static_cast<double>(x), b = static_cast<double>(y);
    const bool is_a_number = std::abs(simulation::meaning_of(Code, e, out, a, b, 0)) <=
                             static_cast<double>(std::numeric_limits<T>::max());
    return is_a_number || !std::is_integral_v<T> ? simulation::applied(Code, e, out, a, b, 0) : std::nan("");
  };
  for (const T x : numbers) {
    if constexpr (entry_of(Code).arity == 1)
      same(static_cast<double>(convert<T>(scalar_op<Code, T>::of(x))), meant(x, T(0)));
    if constexpr (entry_of(Code).arity == 2)
      for (const T y : numbers) same(static_cast<double>(scalar_op<Code, T>::of(x, y)), meant(x, y));
  }
  return compared;
}
template <class T, std::size_t... I>
int compare_all(const std::vector<T>& numbers, std::index_sequence<I...>) {
  constexpr auto one = [](auto index, const auto& all) {
    constexpr const op_entry& e = op_table[decltype(index)::value];
    // Conversions are no functions of numbers, and copies have none.
    constexpr bool is_function = e.code != op::complex && e.code != op::cast && e.code != op::broadcast;
    if constexpr (e.what == op_class::elementwise && is_function && (e.arity == 1 || e.arity == 2))
      return compare<e.code, T>(all);
    else return 0;
  };
  return (one(std::integral_constant<std::size_t, I>{}, numbers) + ...);
}

TEST(scalar, kernels_and_the_list_agree) {
  constexpr auto all = std::make_index_sequence<std::size(op_table)>{};
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_GT(compare_all<double>({-infinity, -3, -0.75, -0.0, 0, 1e-3, 0.5, 1, 2, 17.5, infinity, nan}, all), 2000);
  EXPECT_GT(compare_all<std::int32_t>({std::numeric_limits<std::int32_t>::lowest(), -7, -1, 0, 1, 2, 5, 1000,
                                       std::numeric_limits<std::int32_t>::max()},
                                      all),
            1000);
}

} // namespace CLEAVE_SOURCE
