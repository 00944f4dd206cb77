// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/solve/iteration.hpp>

namespace cleave { inline namespace v0 { namespace solve {

namespace detail {

template <class Loop>
struct bicgstab_state {
  value x, r, p, rho;
  typename Loop::state loop;
};

template <class Loop, class A, class M>
constexpr auto bicgstab_step(const Loop& loop, const A& a, const M& m, const value& shadow,
                             const bicgstab_state<Loop>& old) {
  const value y = loop.applied(m, old.p);
  const value v = loop.applied(a, y);
  const auto half = [&] {
    const called_at user(loop.b);
    const value alpha = quotient(old.rho, inner(shadow, v));
    return two_values{alpha, old.r - alpha * v};
  }();
  const auto& [alpha, s] = half;
  const value z = loop.applied(m, s);
  const value t = loop.applied(a, z);
  const called_at user(loop.b);
  const value ts = inner(t, s), tt = inner(t, t);
  const value omega = quotient(ts, tt);
  const value r = s - omega * t;
  const value rho = inner(shadow, r), residual = norm(r);
  const value fine = loop.finite(residual);
  // A step to a residual that is not finite is not taken.
  const value x = select(fine, old.x + alpha * y + omega * z, old.x);
  const value beta = quotient(rho * alpha, old.rho * omega);
  const value sound = fine & (alpha != 0) & (omega != 0) & (rho != 0);
  return bicgstab_state<Loop>{x, r, r + beta * (old.p - omega * v), rho,
                              loop.next(old.loop, select(fine, residual, old.loop.residual), sound)};
}

template <class A, class M, class... History>
constexpr auto bicgstab_of(const A& a, operand b, const options& when, const M& m, const History&... history) {
  using loop_type = iteration<sizeof...(History)>;
  using state = bicgstab_state<loop_type>;
  const bool possible = is_floating_vector(b, "bicgstab"); // before the norm of b, which would name itself
  const loop_type loop(b, when, {dim_ref(history)...});
  if (!possible) return loop.refused();
  const value x = loop.start();
  const value r = loop.starts() ? loop.residual_of(loop.applied(a, x)) : b.from;
  const state first = [&] {
    const called_at user(b);
    const value rho = inner(r, r);
    return state{x, r, r, rho, loop.first(sqrt(rho))};
  }();
  const state last = repeat_until(
      first, [&](const state& s) { return bicgstab_step(loop, a, m, r, s); },
      [&](const state& s) { return loop.stops(s.loop); }, loop.most(first.loop));
  return loop.outcome(last.x, last.loop);
}
template <class A, class M, class... History>
constexpr auto bicgstab_statement(const A& a, operand b, operand tolerance, operand most, const M& m,
                                  const History&... history) {
  return bicgstab_of(a, b, {tolerance, most}, m, history...);
}
CLEAVE_LIFT(bicgstab_statement)

} // namespace detail

/// BiCGStab (van der Vorst 1992, with a preconditioner on the right): the solution of A x = b for an operator that need
/// not be symmetric. The arguments are those of `cg`; neither `a` nor `m` need be symmetric.
///
/// `b` has any dims and any layout; its element type is float or double. An iteration applies `a` and `m` twice.
/// Communication in each: theirs, and three all-reduces, of one number, of two and of two. The method breaks down if a
/// coefficient is 0 or not finite: then start again from the solution, or use `gmres`. There is no derivative. Faults:
/// not_floating, not_a_count, operator_changes_type.
template <class A, class M = identity, Dim... History>
constexpr auto bicgstab(const A& a, operand b, const options& when = {}, const M& m = {}, const History&... history) {
  return detail::bicgstab_of(a, b, when, m, history...);
}
/// The same as a statement, as for `cg`.
template <class A, Statement B, class M = identity, Dim... History>
constexpr auto bicgstab(const A& a, const B& b, const options& when = {}, const M& m = {}, const History&... history) {
  return detail::bicgstab_statement(a, b, when.tolerance.literal, when.literal_iterations(), m, history...);
}

}}} // namespace cleave::v0::solve
