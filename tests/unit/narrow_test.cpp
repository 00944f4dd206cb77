// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cleave/expr/functions.hpp>
#include <cleave/ops/scalar.hpp>
#include <cleave/type/narrow.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

// The 16-bit floating-point types against their definitions: every value, the neighbourhood of every point between two
// values, and a sample of all floats.

namespace CLEAVE_SOURCE {

using namespace cleave;

static_assert(sizeof(bfloat16) == 2 && std::is_trivially_copyable_v<half> &&
              std::is_trivially_default_constructible_v<half>);
static_assert(static_cast<float>(bfloat16(1.0f)) == 1 && static_cast<float>(half(-0.5)) == -0.5f &&
              half(3).bits == 0x4200);
// Beside the operators of values in functions.
static_assert(bfloat16(1.5f) + bfloat16(2) == 3.5f && -half(2) == -2.0f && half(3) / bfloat16(2) == 1.5f &&
              bfloat16(2) * 3.0f == 6.0f && 2 - half(1) == 1.0f);
static_assert(bfloat16(1) == bfloat16(1) && half(1) != bfloat16(2) && bfloat16(1) < bfloat16(2) && half(2) >= half(2) &&
              half(1) <= bfloat16(2) && 2.0 > bfloat16(1));
static_assert(element_of<bfloat16> == element::bf16 && element_of<half> == element::f16 && !is_floating(element::c64));

/// A format of a sign, some bits of exponent and the rest of mantissa, as IEEE 754 defines it.
struct format {
  int exponent_bits, mantissa_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  /// The value of the bits without sign. The bits of infinity give the value that would come next.
  double value(std::uint32_t bits) const {
    const int exponent = static_cast<int>(bits >> mantissa_bits);
    const double mantissa = static_cast<double>(bits & ((1u << mantissa_bits) - 1u));
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    return std::ldexp(mantissa + std::ldexp(1.0, mantissa_bits), exponent - bias() - mantissa_bits);
  }
  std::uint32_t infinity() const { return ((1u << exponent_bits) - 1u) << mantissa_bits; }
};

template <class T>
class narrow_types : public testing::Test {
 public:
  static format form() { return std::is_same_v<T, half> ? format{5, 10} : format{8, 7}; }
  /// All finite values from 0 up, then what stands for infinity; the index is the bits.
  static const std::vector<double>& values() {
    static const std::vector<double> all = [] {
      std::vector<double> v;
      for (std::uint32_t bits = 0; bits <= form().infinity(); ++bits) v.push_back(form().value(bits));
      return v;
    }();
    return all;
  }
  /// The nearest of them, the even one of two.
  static std::uint16_t nearest(double x) {
    const auto& v = values();
    const double size = std::fabs(x);
    auto above = static_cast<std::uint32_t>(std::lower_bound(v.begin(), v.end(), size) - v.begin());
    if (above == v.size()) above = static_cast<std::uint32_t>(v.size() - 1);
    if (above > 0) {
      // Both differences are exact: the values are few bits apart.
      const double up = v[above] - size, down = size - v[above - 1];
      if (down < up || (down == up && above % 2 == 1)) --above;
    }
    return static_cast<std::uint16_t>(above | (std::signbit(x) ? 0x8000u : 0u));
  }
};
using both = testing::Types<bfloat16, half>;
TYPED_TEST_SUITE(narrow_types, both);

TYPED_TEST(narrow_types, every_value) {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto x = TypeParam::of_bits(static_cast<std::uint16_t>(bits));
    const std::uint32_t size = bits & 0x7FFFu;
    const float f = x;
    if (size > this->form().infinity()) {
      wrong += std::isnan(f) && std::isnan(static_cast<float>(TypeParam(f))) ? 0 : 1;
    } else {
      const double want = size == this->form().infinity() ? std::numeric_limits<double>::infinity()
                                                          : this->form().value(size);
      wrong += std::fabs(static_cast<double>(f)) == want && std::signbit(f) == (bits >= 0x8000) ? 0 : 1;
      // There and back, from both types.
      wrong += TypeParam(f).bits == bits && TypeParam(static_cast<double>(f)).bits == bits ? 0 : 1;
    }
  }
  EXPECT_EQ(wrong, 0);
}

TYPED_TEST(narrow_types, rounds_to_nearest_even) {
  const auto& v = this->values();
  int wrong = 0;
  const auto check = [&](double x) {
    for (const double y : {x, -x}) {
      wrong += TypeParam(y).bits == this->nearest(y) ? 0 : 1;
      const auto f = static_cast<float>(y);
      if (std::isfinite(f)) wrong += TypeParam(f).bits == this->nearest(static_cast<double>(f)) ? 0 : 1;
    }
  };
  for (std::size_t i = 0; i + 1 < v.size(); ++i) {
    const double middle = v[i] + (v[i + 1] - v[i]) / 2;
    // A double just beside the middle must not first become a float on it.
    for (const double x : {middle, std::nextafter(middle, 0.0), std::nextafter(middle, 1e300)}) check(x);
    if (const auto f = static_cast<float>(middle); std::isfinite(f)) {
      check(static_cast<double>(std::nextafterf(f, 0.0f)));
      check(static_cast<double>(std::nextafterf(f, 1e38f)));
    }
  }
  EXPECT_EQ(wrong, 0);
  for (std::uint64_t bits = 0; bits < 0x7F800000u; bits += 997)
    check(static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
  EXPECT_EQ(wrong, 0);
  for (const double huge : {1e39, 1e300, std::numeric_limits<double>::infinity()}) {
    EXPECT_EQ(TypeParam(huge).bits, this->form().infinity());
    EXPECT_EQ(TypeParam(-huge).bits, this->form().infinity() | 0x8000u);
  }
  EXPECT_EQ(TypeParam(1e-300).bits, 0);
  EXPECT_EQ(TypeParam(-1e-300).bits, 0x8000);
}

TEST(narrow, integers_round_once) {
  const std::uint64_t tie = (std::uint64_t{1} << 63) + (std::uint64_t{1} << 55);
  EXPECT_EQ(static_cast<float>(bfloat16(tie)), 0x1p63f);
  EXPECT_EQ(static_cast<float>(bfloat16(tie + 1)), 0x1p63f + 0x1p56f);
  EXPECT_EQ(static_cast<float>(bfloat16(-257)), -256);
  EXPECT_EQ(static_cast<float>(bfloat16(-258)), -258);
  EXPECT_EQ(static_cast<float>(half(std::int64_t{2049})), 2048);
  EXPECT_EQ(static_cast<float>(half(65519)), 65504);
  EXPECT_EQ(static_cast<float>(half(65520u)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(static_cast<float>(half(true)), 1);
}

TEST(narrow, reductions_have_their_identities) {
  EXPECT_EQ(static_cast<float>(identity_of<reduction::max, half>), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(static_cast<float>(identity_of<reduction::min, bfloat16>), std::numeric_limits<float>::infinity());
  EXPECT_EQ(static_cast<float>(identity_of<reduction::prod, half>), 1);
  // 256 + 1 in float, rounded to even; 257 + 2 would be 260.
  EXPECT_EQ(static_cast<float>(combined<reduction::sum>(bfloat16(256), bfloat16(1))), 256);
  EXPECT_EQ(static_cast<float>(combined<reduction::max>(half(-1), half(2))), 2);
}

} // namespace CLEAVE_SOURCE
