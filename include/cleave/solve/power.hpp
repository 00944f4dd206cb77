// SPDX-FileCopyrightText: The Cleave authors
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cleave/solve/iteration.hpp>

namespace cleave { inline namespace v0 { namespace solve {

/// The result of power iteration: the fields of `result` with an eigenvalue after the vector. The residual is |A v -
/// lambda v| / |lambda| for a vector of length 1.
struct eigenpair {
  /// The eigenvector, of length 1, and the eigenvalue: a rank-0 value of the element type of the vector.
  value vector, eigenvalue;
  /// As in `result`.
  value residual, iterations, ended;
};
/// The same with the convergence history.
struct eigenpair_with_history {
  /// As in `eigenpair`.
  value vector, eigenvalue, residual, iterations, ended;
  /// As in `result_with_history`.
  value history;
};

namespace detail {

/// The values that power iteration carries; the image of v is divided by the eigenvalue.
template <class Loop>
struct power_state {
  value v, image, eigenvalue;
  typename Loop::state loop;
};

template <class A, class... History>
constexpr auto power_of(const A& a, operand start, const options& when, const History&... history) {
  using loop_type = iteration<sizeof...(History)>;
  using state = power_state<loop_type>;
  using pair = std::conditional_t<sizeof...(History) == 0, eigenpair, eigenpair_with_history>;
  const loop_type loop(start, when, {dim_ref(history)...}, 1);
  const auto pair_of = [](const auto& s, const state& last) {
    if constexpr (sizeof...(History) == 0) return pair{s.solution, last.eigenvalue, s.residual, s.iterations, s.ended};
    else return pair{s.solution, last.eigenvalue, s.residual, s.iterations, s.ended, s.history};
  };
  if (!is_floating_vector(start, "power_iteration")) {
    const auto none = loop.refused();
    return pair_of(none, {none.solution, none.solution, none.residual, {}});
  }
  const auto direction = [&](const value& x) {
    const called_at user(start);
    return value(x / norm(x));
  };
  // The eigenvalue of a direction and its residual.
  const auto measured = [&](const value& v, const value& image, const auto& counted) {
    const called_at user(start);
    const value eigenvalue = inner(v, image);
    // Divided first, so that squares of small and of large images are numbers.
    const value scaled = image / eigenvalue;
    return state{v, scaled, eigenvalue, counted(norm(scaled - v))};
  };
  const value v = direction(start.from);
  const state first = measured(v, loop.applied(a, v), [&](const value& residual) { return loop.first(residual); });
  const state last = repeat_until(
      first,
      [&](const state& s) {
        const value next = direction(s.image);
        const state made = measured(next, loop.applied(a, next), [&](const value& residual) {
          return loop.next(s.loop, residual, loop.finite(residual));
        });
        const called_at user(start);
        const value taken = made.loop.sound;
        return state{select(taken, made.v, s.v), made.image, select(taken, made.eigenvalue, s.eigenvalue), made.loop};
      },
      [&](const state& s) { return loop.stops(s.loop); }, loop.most(first.loop));
  return pair_of(loop.outcome(last.v, last.loop), last);
}
template <class A, class... History>
constexpr auto power_statement(const A& a, operand start, operand tolerance, operand most, const History&... history) {
  return power_of(a, start, {tolerance, most}, history...);
}
CLEAVE_LIFT(power_statement)

} // namespace detail

/// Power iteration (von Mises and Pollaczek-Geiringer 1929; Golub and Van Loan, 7.3.1) with Rayleigh quotients: the
/// eigenvalue of largest magnitude of a linear operator, and its eigenvector. `a` is as for `cg`. It converges by the
/// quotient of the two largest magnitudes if the operator is symmetric or can be diagonalised, and if `start` has a
/// part in the direction of the eigenvector.
///
/// It has converged when |A v - lambda v| is at most the tolerance times |lambda|. `options::start` is not read.
/// `start` has any dims and any layout; its element type is float or double. Communication in each iteration: that of
/// `a`, and three all-reduces of a number. It breaks down if v . A v is 0 or A v is not finite. There is no derivative.
/// Faults: not_floating, not_a_count, operator_changes_type.
template <class A, Dim... History>
constexpr auto power_iteration(const A& a, operand start, const options& when = {}, const History&... history) {
  return detail::power_of(a, start, when, history...);
}
/// The same as a statement, as for `cg`: `power_iteration(a, start).into(v, eigenvalue, residual, iterations, ended)`.
template <class A, Statement B, Dim... History>
constexpr auto power_iteration(const A& a, const B& start, const options& when = {}, const History&... history) {
  return detail::power_statement(a, start, when.tolerance.literal, when.literal_iterations(), history...);
}

}}} // namespace cleave::v0::solve
