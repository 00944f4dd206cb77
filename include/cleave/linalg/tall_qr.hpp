// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/expr/gradient.hpp>
#include <cleave/expr/loops.hpp>
#include <cleave/expr/reductions.hpp>
#include <cleave/linalg/recorded.hpp>

#include <limits>
#include <tuple>

// QR factors of tall matrices by Cholesky factors, as programs record them; programs include linalg/linalg.hpp.

namespace cleave { inline namespace v0 { namespace linalg {

namespace detail {

/// Half the distance from 1 to the next number.
constexpr double unit_roundoff(value x) {
  return element_in(x) == element::f32 ? std::numeric_limits<float>::epsilon() / 2.0
                                       : std::numeric_limits<double>::epsilon() / 2.0;
}
/// A number with the element type of x: the extent of a dim.
constexpr value extent_of(value x, dim_ref d) {
  return element_in(x) == element::f32 ? count<float>(x, d) : count<double>(x, d);
}
constexpr value on_diagonal(value beside, dim_ref rows, dim_ref columns) {
  return broadcast(iota(beside, rows), rows, columns) == iota(beside, columns);
}

/// The carried values of the iteration: a is dot(q, r, inner) all the time. `shift`, a number for each matrix of a
/// batch, is relative to the trace of the products of columns; `apart` is the largest squared distance of these
/// products from the identity; `left` counts iterations.
struct qr_state {
  value q, r, shift, apart, left;
};

template <class Inner>
struct cholesky_qr {
  dim_ref rows, columns;
  using other = other_dim<Inner>;

  /// One factorization q = q' L^T. Where the products are near the identity it is exact to rounding, and the last one.
  /// Elsewhere a multiple of the identity is added, so that the factor exists and q' is better conditioned than q.
  constexpr qr_state step(const qr_state& s) const {
    constexpr Inner k{};
    constexpr other p{};
    const value gram = dot(s.q, rename(s.q, k, p), rows);
    const value diagonal = on_diagonal(gram, k, p);
    const value identity = select(diagonal, 1.0, zeros_like(gram));
    const value off = gram - identity, distance = sum(off * off, k, p);
    const value shift = select(distance < near, zeros_like(distance), s.shift * sum(gram * identity, k, p));
    const value factor = cholesky(gram + shift * identity, k, p);
    const value found = sum(factor * identity, k, p);
    const value apart = max(distance);
    // A factor that does not exist is not a number. Then q stays, and the next shift is larger.
    const value kept = select(found == found, factor, identity);
    const value failed = select((s.left < 1.5) & !(distance < near), std::numeric_limits<double>::quiet_NaN(),
                                zeros_like(distance));
    const value used = kept + failed * identity;
    const value q = triangular_solve(used, s.q, k, p);
    return {rename(q, p, k), rename(dot(used, s.r, k), p, k), select(found == found, s.shift, 100.0 * s.shift), apart,
            s.left - 1.0};
  }

  constexpr std::tuple<value, value> factored(value a) const {
    constexpr Inner k{};
    const value q = rename(a, columns, k);
    const value number = extent_of(a, columns);
    const value zero = zeros_like(number);
    const value r = select(on_diagonal(a, k, columns), 1.0, zeros_like(dot(q, a, rows)));
    const value of_each = zeros_like(sum(a, rows, columns));
    const qr_state first{q, r, of_each + (4.0 * number + 16.0) * unit_roundoff(a), zero + 1.0, zero + most};
    const qr_state last = repeat_until(
        first, [&](const qr_state& s) { return step(s); }, [&](const qr_state& s) { return s.apart < near; },
        operand(most));
    return {last.q, last.r};
  }

  /// The squared distance from the identity below which one more factorization is exact to rounding.
  static constexpr double near = 0.25;
  static constexpr double most = 16;
};

// Without state, so that a second derivative sees the derivatives of the operations of the first one.
template <class Rows, class Columns, class Inner>
struct qr_forward {
  constexpr auto operator()(const value& a) const {
    const std::tuple<value, value> factors = cholesky_qr<Inner>{Rows::ref, Columns::ref}.factored(a);
    return std::pair(factors, factors);
  }
};
/// Walter and Lehmann 2010, section 3: with M = R gR^T - gQ^T Q and S = M on and below its diagonal, mirrored above it,
/// the cotangent of a is (gQ + Q S) R^-T.
template <class Rows, class Columns, class Inner>
struct qr_backward {
  template <class Kept>
  constexpr auto operator()(const Kept& kept, const std::tuple<value, value>& cotangent) const {
    using other = other_dim<Inner>;
    constexpr Columns c{};
    constexpr Inner k{};
    constexpr other p{};
    const auto& [q, r] = kept;
    const auto& [by_q, by_r] = cotangent;
    const value m = dot(r, rename(by_r, k, p), c) - dot(by_q, rename(q, k, p), Rows::ref);
    const value from = broadcast(iota(m, k), k, p), to = iota(m, p);
    const value lower = select(from >= to, m, 0.0), strictly = select(from > to, m, 0.0);
    const value s = lower + rename(rename(rename(strictly, k, c), p, k), c, p);
    const value sum = by_q + rename(dot(q, s, k), p, k);
    return std::tuple(value(triangular_solve<triangle::upper>(r, sum, k, c)));
  }
};

/// Reports the fault of the operand, if it has one.
constexpr bool tall(const operand& a, dim_ref rows, dim_ref columns, dim_ref inner) {
  constexpr std::string_view what = "tall_qr";
  recorder& in = *a.from.in;
  if (!a.from.ok()) return false;
  if (!takes(in.at(a.from).type.element)) return in.fail(fault::no_function_for_element, what, a.where).ok();
  if (rows.name == columns.name) return in.fail(fault::dim_used_twice, what, a.where, rows.name).ok();
  for (const dim_ref& d : {rows, columns})
    if (!has(in, a.from, d)) return in.fail(fault::dim_missing, what, a.where, d.name).ok();
  if (has(in, a.from, inner)) return in.fail(fault::dim_used_twice, what, a.where, inner.name).ok();
  return true;
}

} // namespace detail

/// The QR factors of matrices with at least as many rows as columns, as a tuple: q with orthonormal columns and upper
/// triangular r with a positive diagonal, so that dot(q, r, inner) is a.
///
/// Shapes: a has `rows` and `columns`, and any other dims, which are batch dims. In q, `inner` takes the position of
/// `columns`, and in r that of `rows`; it has their extent. Elements: float, double. Layouts and communication: rows
/// and batch dims may be sharded in any way. Each iteration reduces the products of columns over the devices of the
/// rows, and r is replicated along them.
///
/// A column of zeros and fewer rows than columns give NaN. Where columns depend on each other up to rounding, q is
/// orthonormal all the same, and r has small numbers on its diagonal. There is NaN where squares of elements overflow
/// or underflow, and, in double, where columns differ in length by more than a factor of about 1e100. Faults:
/// no_function_for_element, dim_missing, dim_used_twice. Algorithm: shifted Cholesky QR (Fukaya, Kannan, Nakatsukasa,
/// Yamamoto and Yanagisawa 2020), repeated until the columns are orthonormal to rounding: twice for well-conditioned
/// matrices, up to five times where their lengths are alike, and at most 16 times; derivative: Walter and Lehmann 2010.
template <Dim Rows, Dim Columns, Dim Inner>
constexpr std::tuple<value, value> tall_qr(operand a, const Rows& rows, const Columns& columns, const Inner& inner) {
  if (!detail::tall(a, rows, columns, inner)) return {value{a.from.in, no_node}, value{a.from.in, no_node}};
  const called_at user(a);
  return custom_vjp(detail::qr_forward<Rows, Columns, Inner>{},
                    detail::qr_backward<Rows, Columns, Inner>{})(detail::named(a));
}
CLEAVE_LIFT(tall_qr)

}}} // namespace cleave::v0::linalg
