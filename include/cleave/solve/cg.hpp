// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/solve/iteration.hpp>

namespace cleave { inline namespace v0 { namespace solve {

namespace detail {

/// The values that conjugate gradients carry from one iteration to the next; z is the preconditioned residual.
template <class Loop>
struct cg_state {
  value x, r, p, rz;
  typename Loop::state loop;
};

template <class Loop, class A, class M>
constexpr auto cg_step(const Loop& loop, const A& a, const M& m, const cg_state<Loop>& s) {
  const value q = loop.applied(a, s.p);
  // If the method breaks down, nothing moves any more.
  const auto moved = [&] {
    const called_at user(loop.b);
    const value pq = inner(s.p, q), sound = (pq > 0) & loop.finite(pq), alpha = s.rz / pq;
    return std::array<value, 3>{select(sound, s.r - alpha * q, s.r), alpha, sound};
  }();
  const auto& [r, alpha, sound] = moved;
  const value z = loop.applied(m, r);
  const called_at user(loop.b);
  const value rz = inner(r, z), residual = preconditions<M> ? norm(r) : sqrt(rz), fine = sound & loop.finite(residual);
  return cg_state<Loop>{select(fine, s.x + alpha * s.p, s.x), r, z + quotient(rz, s.rz) * s.p, rz,
                        loop.next(s.loop, select(fine, residual, s.loop.residual), fine)};
}

template <class A, class M, class... History>
constexpr auto cg_of(const A& a, operand b, const options& when, const M& m, const History&... history) {
  using loop_type = iteration<sizeof...(History)>;
  using state = cg_state<loop_type>;
  const bool possible = is_floating_vector(b, "cg"); // before the norm of b, which would name itself
  const loop_type loop(b, when, {dim_ref(history)...});
  if (!possible) return loop.refused();
  const value x = loop.start();
  const value r = loop.starts() ? loop.residual_of(loop.applied(a, x)) : b.from;
  const value z = loop.applied(m, r);
  const state first = [&] {
    const called_at user(b);
    const value rz = inner(r, z);
    return state{x, r, z, rz, loop.first(preconditions<M> ? norm(r) : sqrt(rz))};
  }();
  const state last = repeat_until(
      first, [&](const state& s) { return cg_step(loop, a, m, s); }, [&](const state& s) { return loop.stops(s.loop); },
      loop.most(first.loop));
  return loop.outcome(last.x, last.loop);
}

} // namespace detail

/// Conjugate gradients (Hestenes and Stiefel 1952, algorithm 10.2 with a preconditioner: Saad 2003, algorithm 9.1): the
/// solution of A x = b for a symmetric positive definite operator. `a` is any function of a value: a function, a lambda
/// that may capture values, or a sparse matrix. It keeps the dims. `m` approximates the inverse of A, and is symmetric
/// positive definite as well.
///
/// `b` has any dims and any layout; its element type is float or double. Communication in each iteration: that of `a`
/// and of `m`, and two all-reduces of a number (with a preconditioner the second has two numbers). The method breaks
/// down if p . A p is not positive: A is not positive definite, or not finite. With a dim as the last argument, of
/// fixed extent, the result has the convergence history. There is no derivative. Faults: not_floating, not_a_count,
/// operator_changes_type.
template <class A, class M = identity, Dim... History>
constexpr auto cg(const A& a, operand b, const options& when = {}, const M& m = {}, const History&... history) {
  return detail::cg_of(a, b, when, m, history...);
}

namespace detail {
template <class A, class M, class... History>
constexpr auto cg_statement(const A& a, operand b, operand tolerance, operand most, const M& m,
                            const History&... history) {
  return cg_of(a, b, {tolerance, most}, m, history...);
}
CLEAVE_LIFT(cg_statement)
} // namespace detail

/// The same as a statement: `cg(laplacian, b, {.tolerance = 1e-10}).into(x, residual, iterations, ended)`. The operator
/// and the preconditioner have no state. The solve starts from zeros. Collective over the devices.
template <class A, Statement B, class M = identity, Dim... History>
constexpr auto cg(const A& a, const B& b, const options& when = {}, const M& m = {}, const History&... history) {
  return detail::cg_statement(a, b, when.tolerance.literal, when.literal_iterations(), m, history...);
}

}}} // namespace cleave::v0::solve
