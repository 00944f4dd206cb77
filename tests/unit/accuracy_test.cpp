// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cleave/expr/mathematics.hpp>
#include <cleave/ops/complex_functions.hpp>
#include <cleave/ops/scalar.hpp>
#include <cleave/ops/table.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

// Every elementwise function of the lists and its derivatives, as the kernels compute them in float and double, beside
// the values of mpmath in tests/accuracy/points.txt. A function in the lists without points there is a failure.
// Functions of complex numbers are beside those in complex_points.txt.

namespace CLEAVE_SOURCE {

using namespace cleave;

// No functions of real numbers, or the numbers themselves.
constexpr bool has_no_points(op code) {
  switch (code) {
    case op::cast:
    case op::broadcast:
    case op::complex:
    case op::select:
    case op::random:
    case op::normal:
    case op::conj:
    case op::real:
    case op::imag: return true;
    default:
      return has_trait(code, op_traits::to_bool) || code == op::logical_not || code == op::logical_and ||
             code == op::logical_or;
  }
}

template <class T>
using arguments = std::array<T, 3>;

/// An elementwise op of the list on numbers of type T.
template <op Code, int Arity, class T>
T of_op(const arguments<T>& in) {
  if constexpr (Code == op::select) return scalar_op<Code, T>::of(in[0] != 0, in[1], in[2]);
  else if constexpr (has_no_points(Code) && !has_trait(Code, op_traits::to_bool)) return in[0];
  else if constexpr (Arity == 1) return static_cast<T>(scalar_op<Code, T>::of(in[0]));
  else return static_cast<T>(scalar_op<Code, T>::of(in[0], in[1]));
}
template <class T>
T run(op code, const arguments<T>& in) {
  switch (code) {
#define CLEAVE_ELEMENTWISE(code, arity, ...) \
  case op::code: return of_op<op::code, arity, T>(in);
#include <cleave/graph/op_list.hpp>
    default: ADD_FAILURE() << "no elementwise op: " << name_of(code); return 0;
  }
}
float run(const user_entry& e, const arguments<float>& in) { return e.f32.call(in[0], in[1], in[2]); }
double run(const user_entry& e, const arguments<double>& in) { return e.f64.call(in[0], in[1], in[2]); }

/// The value of a formula, each term rounded to T, as a kernel computes it.
template <class T>
T value_of(const formula& f, const arguments<T>& operands, T result, T cotangent = 1) {
  std::vector<T> made;
  for (const formula::term& t : f.terms) {
    arguments<T> in{};
    for (std::size_t k = 0; k < 3 && t.code != op::input; ++k)
      if (t.in[k] >= 0) in[k] = made[static_cast<std::size_t>(t.in[k])];
    if (t.code == op::constant) made.push_back(static_cast<T>(t.number));
    else if (t.code == op::input)
      made.push_back(t.in[0] == 4 ? cotangent : t.in[0] == 3 ? result : operands[static_cast<std::size_t>(t.in[0])]);
    else made.push_back(t.code == op::user ? run(t.function(), in) : run(t.code, in));
  }
  return made.back();
}

/// A function of the lists: an op, or an entry of its own.
struct listed {
  op code = op::user;
  const user_entry* user = nullptr;
  int arity = 1;
  const formula* derivative = nullptr;

  template <class T>
  T operator()(const arguments<T>& x) const {
    return user != nullptr ? run(*user, x) : run(code, x);
  }
};
const std::map<std::string, listed>& all_functions() {
  static const std::map<std::string, listed> all = [] {
    std::map<std::string, listed> m;
    for (const op_entry& e : op_table)
      if (e.what == op_class::elementwise && e.code != op::user && !has_no_points(e.code))
        m[std::string(e.name)] = {e.code, nullptr, e.arity, e.derivative};
    const auto add = [&](const user_entry& e) { m[std::string(e.name)] = {op::user, &e, e.arity, e.derivative}; };
#define CLEAVE_OF_ONE(name, ...) add(cleave::detail::elementwise_operation<cleave::detail::mathematics::name>);
#define CLEAVE_OF_TWO(name, ...) CLEAVE_OF_ONE(name)
#include <cleave/expr/mathematics_list.hpp>
    return m;
  }();
  return all;
}

/// The error of a number in units of the last place of the exact one; 0 if both round to the same infinity.
template <class T>
double ulps(T got, long double exact) {
  const T near = static_cast<T>(exact);
  if (got == near || (std::isnan(got) && std::isnan(near))) return 0;
  if (!std::isfinite(got) || !std::isfinite(near)) return std::numeric_limits<double>::infinity();
  int exponent = std::numeric_limits<T>::min_exponent;
  if (exact != 0) exponent = std::max(exponent, std::ilogb(exact) + 1);
  const long double unit = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::fabs(static_cast<long double>(got) - exact) / unit);
}

/// The next number of a line and the error that it may have, `usual` units of the last place unless the line says so.
template <class T>
void expect_next(std::istringstream& line, T got, double usual, const std::string& what) {
  std::string exact, limit;
  line >> exact;
  const long double want = std::strtold(exact.c_str(), nullptr);
  if ((line >> std::ws).peek() == 'u' || line.peek() == 'a') line >> limit;
  if (limit.starts_with('a'))
    EXPECT_LE(std::fabs(static_cast<long double>(got) - want), std::strtold(limit.c_str() + 1, nullptr))
        << what << " is " << got << " and not " << exact;
  else
    EXPECT_LE(ulps(got, want), limit.empty() ? usual : std::strtod(limit.c_str() + 1, nullptr))
        << what << " is " << got << " and not " << exact;
}
template <class T>
void compare(const listed& f, std::istringstream& line, const std::string& what) {
  arguments<T> x{};
  std::string text;
  for (std::size_t i = 0; line >> text && text != "="; ++i) x[i] = static_cast<T>(std::strtold(text.c_str(), nullptr));
  const T result = f(x);
  expect_next(line, result, 4, what);
  for (int i = 0; i < f.arity; ++i) {
    const formula& d = f.derivative[i];
    expect_next(line, d.empty() ? T(0) : value_of(d, x, result), 16, "the derivative of " + what);
  }
}

TEST(Accuracy, OfEveryFunctionAndDerivative) {
  std::ifstream file("tests/accuracy/points.txt");
  ASSERT_TRUE(file) << "tests/accuracy/points.txt is missing";
  std::set<std::string> without;
  for (const auto& f : all_functions()) without.insert({f.first + " f32", f.first + " f64"});
  for (std::string line; std::getline(file, line);) {
    std::istringstream in(line);
    std::string name, type;
    in >> name >> type;
    const auto f = all_functions().find(name);
    ASSERT_NE(f, all_functions().end()) << line;
    without.erase(name + " " + type);
    const std::string what = line.substr(0, line.find(" ="));
    if (type == "f32") compare<float>(f->second, in, what);
    else compare<double>(f->second, in, what);
  }
  for (const std::string& name : without) ADD_FAILURE() << "tests/accuracy/points.py has no points of " << name;
}

/// Whether a selection makes a term 0 at some operands.
bool may_be_excluded(const formula& f, int at) {
  if (at < 0) return false;
  const formula::term& t = f.terms[static_cast<std::size_t>(at)];
  const auto is_zero = [&](int k) {
    const formula::term& of = f.terms[static_cast<std::size_t>(t.in[static_cast<std::size_t>(k)])];
    return of.code == op::constant && of.number == 0;
  };
  return t.code == op::select &&
         (is_zero(1) || is_zero(2) || may_be_excluded(f, t.in[1]) || may_be_excluded(f, t.in[2]));
}
// What a derivative excludes is selected: 0 times an infinite cotangent would be NaN.
TEST(Accuracy, DerivativesMultiplyByNoSelection) {
  const float infinity = std::numeric_limits<float>::infinity();
  int selections = 0;
  for (const auto& [name, f] : all_functions())
    for (int k = 0; k < f.arity; ++k) {
      const formula& d = f.derivative[k];
      for (const formula::term& t : d.terms) {
        selections += t.code == op::select ? 1 : 0;
        const bool excludes = t.code == op::mul && (may_be_excluded(d, t.in[0]) || may_be_excluded(d, t.in[1]));
        EXPECT_FALSE(excludes) << name << ", operand " << k;
      }
    }
  EXPECT_GT(selections, 10);
  const auto slope = [&](const char* name, int operand, float x, float y) {
    const listed& f = all_functions().at(name);
    return value_of<float>(f.derivative[operand], {x, y, 0}, f(arguments<float>{x, y, 0}), infinity);
  };
  for (const char* name : {"maximum", "minimum"}) {
    const bool larger = name == std::string("maximum");
    EXPECT_EQ(slope(name, 0, 1, 2), larger ? 0 : infinity) << name;
    EXPECT_EQ(slope(name, 1, 1, 2), larger ? infinity : 0) << name;
    EXPECT_EQ(slope(name, 0, 2, 2), infinity) << name;
  }
  EXPECT_EQ(slope("abs", 0, 0, 0), 0);
  EXPECT_EQ(slope("abs", 0, -1, 0), -infinity);
  EXPECT_EQ(slope("relu", 0, -1, 0), 0);
  EXPECT_EQ(slope("pow", 0, 2, 0), 0);
  EXPECT_EQ(slope("pow", 0, 0, 0), 0);
  EXPECT_EQ(slope("pow", 1, 0, 2), 0);
  EXPECT_EQ(slope("hypot", 0, 0, 0), 0);
  EXPECT_EQ(slope("ceil", 0, 1, 0), 0);
}

/// A function of one or two complex numbers.
template <class R>
std::array<R, 2> of_complex(const std::string& name, const std::vector<R>& x) {
  using namespace cleave::detail;
  using parts = complex_parts<R>;
  const auto found = [&]() -> parts {
    if (name == "exp") return complex_function<op::exp>(x[0], x[1]);
    if (name == "log") return complex_function<op::log>(x[0], x[1]);
    if (name == "tanh") return complex_function<op::tanh>(x[0], x[1]);
    if (name == "sqrt") return complex_function<op::sqrt>(x[0], x[1]);
    if (name == "rsqrt") return complex_function<op::rsqrt>(x[0], x[1]);
    if (name == "sin") return complex_function<op::sin>(x[0], x[1]);
    if (name == "cos") return complex_function<op::cos>(x[0], x[1]);
    if (name == "abs") return {std::hypot(x[0], x[1]), 0};
    const parts first{x[0], x[1]}, second{x[2], x[3]};
    if (name == "div") return complex_quotient(first, second);
    if (name == "pow") return complex_power(first, second);
    ADD_FAILURE() << "no function of complex numbers: " << name;
    return {};
  }();
  return {found.re, found.im};
}

/// Errors are relative to the larger part, but what is not finite, and the sign of 0, is so part by part.
template <class R>
void compare_complex(const std::string& name, std::istringstream& line, const std::string& what) {
  std::vector<R> x;
  std::string text, exact[2];
  while (line >> text && text != "=") x.push_back(static_cast<R>(std::strtold(text.c_str(), nullptr)));
  line >> exact[0] >> exact[1];
  const std::array<R, 2> got = of_complex<R>(name, x);
  long double want[2], size = 0;
  for (int i = 0; i < 2; ++i) {
    want[i] = std::strtold(exact[i].c_str() + (exact[i][0] == '~' ? 1 : 0), nullptr);
    if (std::isfinite(want[i])) size = std::max(size, std::fabs(want[i]));
  }
  for (int i = 0; i < 2; ++i) {
    const R part = got[static_cast<std::size_t>(i)];
    const bool any_sign = exact[i][0] == '~';
    const auto wrong = [&] {
      std::ostringstream s;
      s << "part " << i << " of " << what << " is " << part << " and not " << exact[i];
      return s.str();
    };
    const R near = static_cast<R>(want[i]);
    if (!std::isfinite(near) || (part == 0 && want[i] == 0)) {
      EXPECT_EQ(std::isnan(part), std::isnan(near)) << wrong();
      if (std::isnan(near)) continue;
      EXPECT_EQ(std::fabs(part), std::fabs(near)) << wrong();
      EXPECT_TRUE(any_sign || std::signbit(part) == std::signbit(near)) << wrong();
    } else {
      const int exponent = std::max(size == 0 ? 0 : std::ilogb(size) + 1, std::numeric_limits<R>::min_exponent);
      const long double unit = std::ldexp(1.0L, exponent - std::numeric_limits<R>::digits);
      EXPECT_LE(static_cast<double>(std::fabs(static_cast<long double>(part) - want[i]) / unit), 4) << wrong();
    }
  }
}

TEST(Accuracy, OfComplexFunctionsAtOrdinaryAndSpecialPoints) {
  std::ifstream file("tests/accuracy/complex_points.txt");
  ASSERT_TRUE(file) << "tests/accuracy/complex_points.txt is missing";
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    std::istringstream in(line);
    std::string name, type;
    in >> name >> type;
    const std::string what = line.substr(0, line.find(" ="));
    if (type == "c64") compare_complex<float>(name, in, what);
    else compare_complex<double>(name, in, what);
  }
  EXPECT_GT(lines, 500);
}

// C99, G.5.1: what a quotient and a power of zeros and infinities are.
TEST(Accuracy, OfComplexQuotientsAtSpecialPoints) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto quotient = [](double a, double b, double c, double d) {
    return cleave::detail::complex_quotient<double>({a, b}, {c, d});
  };
  EXPECT_EQ(quotient(1, 0, 0, 0).re, infinity);
  EXPECT_EQ(quotient(-1, 2, 0, 0).im, infinity);
  EXPECT_EQ(quotient(-1, 2, 0, 0).re, -infinity);
  EXPECT_EQ(quotient(infinity, 1, 2, 0).re, infinity);
  EXPECT_EQ(quotient(infinity, nan, 2, 1).re, infinity);
  EXPECT_EQ(quotient(1, 1, infinity, 0).re, 0);
  EXPECT_EQ(quotient(1, 1, infinity, infinity).re, 0);
  EXPECT_EQ(quotient(1, 1, -infinity, nan).re, 0);
  EXPECT_TRUE(std::isnan(quotient(0, 0, 0, 0).re));
  EXPECT_TRUE(std::isnan(quotient(infinity, 0, infinity, 0).re));
  const auto power = cleave::detail::complex_power<float>({0, 0}, {0, 0});
  EXPECT_EQ(power.re, 1);
  EXPECT_EQ(power.im, 0);
}

} // namespace CLEAVE_SOURCE
