// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/base/containers.hpp>
#include <cleave/base/numbers.hpp>
#include <cleave/ops/table.hpp>

#include <cmath>
#include <cstdint>

// The elementwise ops, once more and plainly, as a reference for the kernels: floating types compute in double and are
// not rounded, integers wrap to their width, bool is 0 or 1.

namespace cleave { inline namespace v0 { namespace plain {

template <class Integer>
double as_integer(std::uint64_t bits) {
  return as_double(static_cast<Integer>(bits));
}
/// A 64-bit integer converted to an element type.
inline double wrapped(element e, std::uint64_t bits) {
  switch (e) {
    case element::boolean: return bits != 0 ? 1 : 0;
    case element::i8: return as_integer<std::int8_t>(bits);
    case element::u8: return as_integer<std::uint8_t>(bits);
    case element::i32: return as_integer<std::int32_t>(bits);
    case element::u32: return as_integer<std::uint32_t>(bits);
    case element::i64: return as_integer<std::int64_t>(bits);
    case element::u64: return as_integer<std::uint64_t>(bits);
    default: return 0;
  }
}

/// The bits of an integer held as double. Numbers that no integer is near become 0, so that nothing is undefined.
inline std::uint64_t bits_of(double x) {
  if (!(std::fabs(x) < 18446744073709551616.0)) return 0;
  return x < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(-x) : static_cast<std::uint64_t>(x);
}

/// A value as it is read back from memory of this element type.
inline double stored(element e, double x) {
  if (is_floating(e)) return x;
  if (e == element::boolean) return x != 0 ? 1 : 0;
  return wrapped(e, bits_of(x));
}

/// A floating-point number converted to an integer type: the nearest towards 0 that the type has, and NaN 0. There is
/// no -0.
inline double saturated(element e, double x) {
  if (x != x) return 0;
  const double lowest = lowest_of(e), beyond = is_signed_integer(e) ? -lowest : std::ldexp(1.0, as_int(8 * size_of(e)));
  // The nearest double to the greatest integer of 64 bits is beyond it.
  const double greatest = size_of(e) == 8 ? std::nextafter(beyond, 0) : beyond - 1;
  return x >= beyond ? greatest : x <= lowest ? lowest : std::trunc(x) + 0.0;
}

/// op::random and op::normal: Philox4x32-10 as its authors write it, on arrays, and the numbers made of its words.
inline double random_number(op code, element result, std::uint64_t key, std::uint64_t row, std::uint64_t column) {
  constexpr std::uint64_t low = 0xFFFFFFFFu;
  std::uint64_t c[4]{column & low, row & low, column >> 32, row >> 32}, k[2]{key & low, key >> 32};
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product[2]{c[0] * 0xD2511F53u, c[2] * 0xCD9E8D57u};
    const std::uint64_t next[4]{(product[1] >> 32) ^ c[1] ^ k[0], product[1] & low, (product[0] >> 32) ^ c[3] ^ k[1],
                                product[0] & low};
    for (int i = 0; i < 4; ++i) c[i] = next[i];
    k[0] = (k[0] + 0x9E3779B9u) & low;
    k[1] = (k[1] + 0xBB67AE85u) & low;
  }
  // The leading bits of words one after the other, as a whole number and as a part of 1.
  const auto leading = [&](int first, int bits) {
    return as_double(bits > 32 ? (c[first] << 32 | c[first + 1]) >> (64 - bits) : c[first] >> (32 - bits));
  };
  if (code == op::normal) {
    const int bits = result == element::f64 ? 53 : 32;
    const double u = std::ldexp(leading(0, bits) + 1, -bits), v = std::ldexp(leading(bits > 32 ? 2 : 1, bits), -bits);
    return std::sqrt(-2 * std::log(u)) * std::cos(6.283185307179586 * v);
  }
  if (!is_floating(result)) return leading(0, 32);
  const int bits = result == element::bf16 ? 8 : result == element::f16 ? 11 : result == element::f32 ? 24 : 53;
  return std::ldexp(leading(0, bits), -bits);
}

inline double random_of(op code, element result, double key, double row, double column) {
  return random_number(code, result, bits_of(key), bits_of(row), bits_of(column));
}

/// Sums, products, quotients and powers of integers, which double would round; none for other ops.
[[gnu::cold]] inline optional_value<std::uint64_t> applied_to_integers(op code, element e, double a, double b) {
  const std::uint64_t x = bits_of(a), y = bits_of(b);
  switch (code) {
    case op::add: return x + y;
    case op::sub: return x - y;
    case op::mul: return x * y;
    case op::div: {
      if (y == 0) return 0;
      if (e == element::u64) return x / y;
      const auto n = static_cast<std::int64_t>(x), d = static_cast<std::int64_t>(y);
      return d == -1 ? std::uint64_t{0} - x : static_cast<std::uint64_t>(n / d);
    }
    case op::pow: {
      if (b < 0) return a == 1 ? 1u : a != -1 ? 0u : (y & 1u) != 0 ? ~std::uint64_t{0} : 1u;
      std::uint64_t result = 1, square = x;
      for (std::uint64_t left = y; left != 0; left >>= 1, square *= square)
        if ((left & 1u) != 0) result *= square;
      return result;
    }
    default: return {};
  }
}

/// An elementwise op on doubles, from its line in graph/op_list.hpp.
[[gnu::cold]] inline double meaning_of(op code, element in, element out, double x, double y, double z) {
  if (!is_floating(in))
    if (const auto whole = applied_to_integers(code, in, x, y)) return wrapped(in, *whole);
  switch (code) {
#define CLEAVE_ELEMENTWISE(code, arity, sums, traits, meaning, ...) \
  case op::code: return meaning;
#include <cleave/graph/op_list.hpp>
    default: return 0;
  }
}

/// The result of an elementwise op as read back from memory. `in` is the type in which it computes, see typed_operand;
/// `out` that of the result. An operand that is returned unchanged was stored already and is not rounded again: the
/// greatest integers of 64 bits are no doubles, and the nearest ones would wrap.
inline double applied(op code, element in, element out, double x, double y, double z) {
  const double value = meaning_of(code, in, out, x, y, z);
  if (is_floating(in) && is_integer(out)) return saturated(out, value);
  // Integers have no -0.
  if (in == out && (value == x || value == y || value == z)) return is_floating(out) ? value : value + 0.0;
  return stored(out, value);
}
/// An op of two operands whose result has their type.
inline double applied(op code, element e, double a, double b) { return meaning_of(code, e, e, a, b, 0); }

}}} // namespace cleave::v0::plain
