// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/solve/iteration.hpp>

namespace cleave { inline namespace v0 { namespace solve {

/// The bounds of the eigenvalues of an operator: literals, or rank-0 values of the function.
struct spectrum {
  /// Not above the lowest eigenvalue, and positive.
  operand lowest;
  /// Not below the highest eigenvalue.
  operand highest;
};

namespace detail {

template <class Loop>
struct chebyshev_state {
  value x, r, d, rho;
  typename Loop::state loop;
};

/// The recurrence of Saad's algorithm 12.1, multiplied by the radius of the spectrum, which may be 0.
template <class Loop, class A, class M>
constexpr auto chebyshev_step(const Loop& loop, const A& a, const M& m, const value& centre, const value& radius,
                              const chebyshev_state<Loop>& s) {
  const value q = loop.applied(a, s.d);
  const value r = [&] {
    const called_at user(loop.b);
    return s.r - q;
  }();
  const value z = loop.applied(m, r);
  const called_at user(loop.b);
  const value residual = norm(r), fine = loop.finite(residual);
  const value weight = 1 / (2 * centre - s.rho * radius);
  const value rho = weight * radius;
  return chebyshev_state<Loop>{select(fine, s.x + s.d, s.x), r, rho * s.rho * s.d + 2 * weight * z, rho,
                               loop.next(s.loop, select(fine, residual, s.loop.residual), fine)};
}

template <class A, class M, class... History>
constexpr auto chebyshev_of(const A& a, operand b, const spectrum& between, const options& when, const M& m,
                            const History&... history) {
  using loop_type = iteration<sizeof...(History)>;
  using state = chebyshev_state<loop_type>;
  const bool possible = is_floating_vector(b, "chebyshev"); // before the norm of b, which would name itself
  const loop_type loop(b, when, {dim_ref(history)...});
  if (!possible) return loop.refused();
  const auto bounds = [&] {
    const called_at user(b);
    const value low = loop.given(between.lowest), high = loop.given(between.highest);
    return two_values{(high + low) / 2, (high - low) / 2};
  }();
  const value x = loop.start();
  const value r = loop.starts() ? loop.residual_of(loop.applied(a, x)) : b.from;
  const value z = loop.applied(m, r);
  const state first = [&] {
    const called_at user(b);
    return state{x, r, z / bounds.first, bounds.second / bounds.first, loop.first(norm(r))};
  }();
  const state last = repeat_until(
      first, [&](const state& s) { return chebyshev_step(loop, a, m, bounds.first, bounds.second, s); },
      [&](const state& s) { return loop.stops(s.loop); }, loop.most(first.loop));
  return loop.outcome(last.x, last.loop);
}
template <class A, class M, class... History>
constexpr auto chebyshev_statement(const A& a, operand b, operand low, operand high, operand tolerance, operand most,
                                   const M& m, const History&... history) {
  return chebyshev_of(a, b, {low, high}, {tolerance, most}, m, history...);
}
CLEAVE_LIFT(chebyshev_statement)

} // namespace detail

/// Chebyshev iteration (Golub and Varga 1961; Saad 2003, algorithm 12.1): the solution of A x = b for a symmetric
/// positive definite operator whose eigenvalues lie between two numbers. With a preconditioner they are those of M A.
/// The arguments are otherwise those of `cg`.
///
/// `b` has any dims and any layout; its element type is float or double. Communication in each iteration: that of `a`
/// and of `m`, and one all-reduce of a number, for the test alone. It breaks down when the residual is not finite, as
/// it grows if eigenvalues are above the highest. There is no derivative. Faults: not_floating, not_a_count,
/// operator_changes_type.
template <class A, class M = identity, Dim... History>
constexpr auto chebyshev(const A& a, operand b, const spectrum& between, const options& when = {}, const M& m = {},
                         const History&... history) {
  return detail::chebyshev_of(a, b, between, when, m, history...);
}
/// The same as a statement, as for `cg`.
template <class A, Statement B, class M = identity, Dim... History>
constexpr auto chebyshev(const A& a, const B& b, const spectrum& between, const options& when = {}, const M& m = {},
                         const History&... history) {
  return detail::chebyshev_statement(a, b, between.lowest.literal, between.highest.literal, when.tolerance.literal,
                                     when.literal_iterations(), m, history...);
}

}}} // namespace cleave::v0::solve
