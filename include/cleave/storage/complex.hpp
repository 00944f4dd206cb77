// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/ops/complex_functions.hpp>
#include <cleave/ops/scalar.hpp>
#include <cleave/type/abstract.hpp>

#include <Kokkos_Complex.hpp>

#include <cmath>
#include <complex>

// Complex elements: Kokkos' type, which the rooms that plan do not see. std::complex, which is not for devices and
// whose namespace meddles with calls of max and the like, is taken for single numbers only.

namespace cleave { inline namespace v0 {

template <>
inline constexpr element element_of<Kokkos::complex<float>> = element::c64;
template <>
inline constexpr element element_of<Kokkos::complex<double>> = element::c128;

template <class R>
inline constexpr bool is_number<Kokkos::complex<R>> = true;
template <class R>
inline constexpr bool is_number<std::complex<R>> = true;

namespace detail {
template <class R>
struct kept_as<std::complex<R>> {
  using type = Kokkos::complex<R>;
};
} // namespace detail

template <class R, class From>
struct conversion<Kokkos::complex<R>, From> {
  CLEAVE_FUNCTION static Kokkos::complex<R> of(From x) { return {convert<R>(x), R(0)}; }
};
template <class R, class From>
struct conversion<Kokkos::complex<R>, Kokkos::complex<From>> {
  CLEAVE_FUNCTION static Kokkos::complex<R> of(Kokkos::complex<From> x) {
    return {static_cast<R>(x.real()), static_cast<R>(x.imag())};
  }
};

/// None of them is ever asked for: complex numbers have no order.
template <class R>
inline constexpr Kokkos::complex<R> identity_of<reduction::max, Kokkos::complex<R>> = R(0);
template <class R>
inline constexpr Kokkos::complex<R> identity_of<reduction::min, Kokkos::complex<R>> = R(0);
template <class R>
inline constexpr Kokkos::complex<R> identity_of<reduction::logsumexp, Kokkos::complex<R>> = R(0);

template <op Code, class R>
struct scalar_op<Code, Kokkos::complex<R>> {
  using T = Kokkos::complex<R>;

  CLEAVE_FUNCTION static auto of(T a) {
    if constexpr (Code == op::neg) return -a;
    else if constexpr (Code == op::conj) return T(a.real(), -a.imag());
    else if constexpr (Code == op::real) return a.real();
    else if constexpr (Code == op::imag) return a.imag();
    else if constexpr (Code == op::abs) return std::hypot(a.real(), a.imag());
    else return made(detail::complex_function<Code>(a.real(), a.imag()));
  }
  CLEAVE_FUNCTION static auto of(T a, T b) {
    if constexpr (Code == op::add) return a + b;
    else if constexpr (Code == op::sub) return a - b;
    else if constexpr (Code == op::mul) return a * b;
    else if constexpr (Code == op::div) return made(detail::complex_quotient(parts(a), parts(b)));
    else if constexpr (Code == op::pow) return made(detail::complex_power(parts(a), parts(b)));
    else if constexpr (Code == op::equal) return a == b;
    else {
      static_assert(Code == op::not_equal, "cleave: not an op of two complex numbers");
      return a != b;
    }
  }
  CLEAVE_FUNCTION static T of(bool predicate, T a, T b)
    requires(Code == op::select)
  {
    return predicate ? a : b;
  }

 private:
  CLEAVE_FUNCTION static detail::complex_parts<R> parts(T a) { return {a.real(), a.imag()}; }
  CLEAVE_FUNCTION static T made(detail::complex_parts<R> a) { return {a.re, a.im}; }
};

template <>
struct scalar_op<op::complex, float> {
  CLEAVE_FUNCTION static Kokkos::complex<float> of(float re, float im) { return {re, im}; }
};
template <>
struct scalar_op<op::complex, double> {
  CLEAVE_FUNCTION static Kokkos::complex<double> of(double re, double im) { return {re, im}; }
};

}} // namespace cleave::v0
